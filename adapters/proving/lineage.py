"""The incarnations of a log: which checkpoints of earlier ones still bind it."""

from collections.abc import Iterator, Mapping, Sequence

from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.sealing.deployment import KnownLog
from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.domain.errors import MemorialeError
from memoriale.domain.governance import LedgerRestoredHeader
from memoriale.projections.proofs.verify import Expected, Problem

HERE = "the checkpoint of this machine"
NOTED = "the deployment log"


class Survivors(Mapping[int, int | None]):
    """
    By incarnation how many of its events are still in the log: None for all. What nobody
    declared as lost must be there, also when the database says that an incarnation began.

    Args:
        incarnation: The present one.
        restored: Every declared restore of the log.
    """

    def __init__(self, incarnation: int, restored: Sequence[LedgerRestoredHeader]) -> None:
        self._last = incarnation
        self._restored = [one for one in restored if 1 < one.incarnation <= incarnation]

    def __getitem__(self, number: int) -> int | None:
        if not 1 <= number <= self._last:
            raise KeyError(number)
        later = [one.sealed - one.lost for one in self._restored if one.incarnation > number]
        return min(later, default=None)

    def __iter__(self) -> Iterator[int]:
        return iter(range(1, self._last + 1))

    def __len__(self) -> int:
        return self._last

    def still_there(self, number: int, size: int) -> bool:
        """Whether the log must have what a checkpoint of an incarnation covers."""
        kept = self[number]
        return kept is None or size <= kept

    def undeclared(self, head: int) -> list[Problem]:
        """Of incarnations that began without a word; the index is the end of the log."""
        missing = self._last - 1 - len({one.incarnation for one in self._restored})
        if not missing:
            return []
        detail = f"it is in incarnation {self._last}, and {missing} of them nobody declared"
        return [Problem(head, "undeclared_restore", detail)]


def trees_of(tree: LogTree, incarnation: int) -> list[tuple[int, LogTree]]:
    """The trees on this machine of a log up to its incarnation, with theirs, the last first."""
    numbers = [number for number in _incarnations(tree) if number < incarnation]
    earlier = [(number, tree.of_incarnation(number)) for number in sorted(numbers, reverse=True)]
    return [(incarnation, tree), *earlier]


def rolled_back(tree: LogTree, incarnation: int, head: int) -> list[Problem]:
    """Where this machine sealed a later incarnation than the database is in."""
    later = [number for number in _incarnations(tree) if number > incarnation]
    if not later:
        return []
    detail = f"this machine sealed it in incarnation {max(later)}, it is in {incarnation}"
    return [Problem(head, "rolled_back", detail)]


def stored(tree: LogTree, number: int, survivors: Survivors) -> Iterator[Expected]:
    """The checkpoints on disk that bind the log, smallest first, each read when it is its turn."""
    sizes = [size for size in tree.sizes() if survivors.still_there(number, size)]
    last = None
    try:
        last = tree.last()
    except MemorialeError as error:
        yield Expected(sizes[-1] if sizes else 0, None, HERE, error.message)
    for size in sizes:
        try:
            signed = tree.at(size)
        except MemorialeError as error:
            yield Expected(size, None, HERE, error.message)
            continue
        if signed is None or signed.checkpoint.size != size:
            yield Expected(size, None, HERE, f"the file of size {size} holds another checkpoint")
        else:
            yield Expected(size, signed.checkpoint.root, HERE)
    if last is not None and _binds(last.checkpoint, number, survivors, sizes):
        yield Expected(last.checkpoint.size, last.checkpoint.root, HERE)


def noted(
    notes: Iterator[KnownLog],
    last: tuple[int, int],
    trees: Sequence[tuple[int, LogTree]],
    survivors: Survivors,
) -> list[Expected]:
    """
    What the deployment log noted and this machine has no checkpoint of any more; and what it
    noted last, which this machine could contradict.
    """
    here = {(number, size) for number, tree in trees for size in tree.sizes()}
    here.discard(last)
    missing = {
        (note.size, note.root)
        for note in notes
        if note.root is not None
        and note.incarnation in survivors
        and (note.incarnation, note.size) not in here
        and survivors.still_there(note.incarnation, note.size)
    }
    return [Expected(size, bytes.fromhex(root), NOTED) for size, root in sorted(missing)]


def _binds(checkpoint: Checkpoint, number: int, survivors: Survivors, sizes: Sequence[int]) -> bool:
    return checkpoint.size not in sizes and survivors.still_there(number, checkpoint.size)


def _incarnations(tree: LogTree) -> list[int]:
    folders = tree.folder.parent.glob("*")
    return [int(folder.name) for folder in folders if folder.name.isdecimal()]
