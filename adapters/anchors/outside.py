"""What anchors hold of a log, read back and checked: roots that a log is compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memoriale.adapters.anchors.anchor import Archive, Held, log_of
from memoriale.adapters.anchors.opening import ARCHIVES, Anchors
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.notes.checkpoint import Checkpoint, open_checkpoint
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError, ViolationError
from memoriale.projections.proofs.verify import Expected

Verifiers = Callable[[str], Sequence[VerifierKey]]
"""The keys that may have signed for an origin."""


@dataclass(frozen=True, slots=True)
class Outside:
    """
    What was found outside.

    Args:
        expected: Roots that the log must have, smallest size first; also what is at an anchor and
            cannot be believed.
        unreached: By anchor, why it could not be asked.
    """

    expected: list[Expected]
    unreached: dict[str, str]


class OutsideReader:
    """
    Reads back what anchors hold.

    Args:
        anchors: The anchors; witnesses and time stamps cannot be read back.
        verifiers: The keys of this installation.
    """

    def __init__(self, anchors: Anchors, verifiers: Verifiers) -> None:
        self._anchors, self._verifiers = anchors, verifiers
        self._places = [place for place in anchors.places.places if place.kind in ARCHIVES]

    def of(self, log: str, survivors: Mapping[int, int | None]) -> Outside:
        """
        Everything that anchors hold of a log.

        Args:
            log: ``memoriale/<log id>``.
            survivors: By incarnation how many of its events are still in the log: None for all,
                a number where a restore was declared.
        """
        expected: list[Expected] = []
        unreached: dict[str, str] = {}
        for place in self._places:
            try:
                archive = self._anchors.archive(place)
                expected += self._expected(place, archive, log, survivors)
            except UnavailableError as error:
                unreached[place.shown] = error.message
            except ViolationError as error:
                expected.append(Expected(0, None, place.shown, error.message))
        return Outside(sorted(expected, key=lambda one: one.size), unreached)

    def newest(self) -> tuple[list[Checkpoint], dict[str, str]]:
        """
        For each origin the largest checkpoint at any anchor that this installation signed; and
        by anchor why it could not be asked.
        """
        found: dict[str, Checkpoint] = {}
        unreached: dict[str, str] = {}
        for place in self._places:
            try:
                archive = self._anchors.archive(place)
                for one in (one for log in archive.logs() for one in self._ours(archive, log)):
                    if one.origin not in found or found[one.origin].size < one.size:
                        found[one.origin] = one
            except MemorialeError as error:
                unreached[place.shown] = error.message
        return list(found.values()), unreached

    def _expected(
        self, place: Place, archive: Archive, log: str, survivors: Mapping[int, int | None]
    ) -> Iterator[Expected]:
        for held in archive.held(log):
            judged = self._judged(place, held)
            number = _incarnation(held.origin)
            kept = survivors.get(number, 0)
            if judged.root is not None and number not in survivors:
                problem = f"{judged.source}: nobody declared that the log left {held.origin}"
                yield Expected(held.size, None, judged.source, problem)
            # What a declared restore lost is on record, and is no finding.
            elif kept is None or held.size <= kept:
                yield judged

    def _judged(self, place: Place, held: Held) -> Expected:
        source = f"{place.shown}, {held.path}"
        try:
            stated = self._opened(held)
        except MemorialeError as error:
            return Expected(held.size, None, source, f"{source}: {error.message}")
        if stated.size != held.size:
            problem = f"{source}: the checkpoint there is of {stated.size} events"
            return Expected(held.size, None, source, problem)
        return Expected(stated.size, stated.root, source, keeper=place.shown)

    def _opened(self, held: Held) -> Checkpoint:
        return open_checkpoint(held.note, self._verifiers(held.origin), held.origin).checkpoint

    def _ours(self, archive: Archive, log: str) -> Iterator[Checkpoint]:
        """The largest of each origin; several installations may share an anchor."""
        done: set[str] = set()
        for held in sorted(archive.held(log), key=lambda one: -one.size):
            if held.origin in done:
                continue
            try:
                yield self._opened(held)
            except (InputError, ViolationError):
                continue
            done.add(held.origin)


def _incarnation(origin: str) -> int:
    number = origin.removeprefix(log_of(origin) + "/")
    return int(number) if number.isdecimal() else 0
