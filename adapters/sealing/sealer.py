"""Sealing a log: its tree grows by the new leaves, and the new root is signed."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.notes.checkpoint import Checkpoint, SignedCheckpoint
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.leaves import HASH_BYTES, Leaves, Stand
from memoriale.adapters.sealing.deployment import KnownLog
from memoriale.adapters.sealing.log_tree import REBUILT, LogTree
from memoriale.adapters.sealing.signing_key import SigningKey
from memoriale.domain.errors import CorruptViewError, ViolationError
from memoriale.projections.proofs.merkle import EMPTY_ROOT
from memoriale.projections.proofs.writing import TileWriter

_log = logging.getLogger("memoriale.sealing")

Keys = Sequence[Ed25519PrivateKey]
Known = Callable[[UUID], KnownLog | None]


@dataclass(frozen=True, slots=True)
class Target:
    """
    A log to seal.

    Args:
        tenant: Whose.
        kind: Which of the tenant's logs.
        log_id: Its id.
        incarnation: In which it was when it was opened.
    """

    tenant: str
    kind: str
    log_id: UUID
    incarnation: int = 1


@dataclass(frozen=True, slots=True)
class Sealed:
    """
    A log whose events are all sealed.

    Args:
        target: Which.
        incarnation: Of the log.
        signed: The checkpoint that covers them.
        fresh: Whether this sealing made it.
    """

    target: Target
    incarnation: int
    signed: SignedCheckpoint
    fresh: bool

    @property
    def checkpoint(self) -> Checkpoint:
        """What it says."""
        return self.signed.checkpoint


class Sealer:
    """
    Seals single logs, under a lock for each that holds between processes.

    Killed at any moment it leaves what the next sealing goes on from: tiles beyond the last
    checkpoint are written again, equal, and nothing counts that was not signed.

    Args:
        datastore: The database.
        key: Who signs.
        tiles: Folder of all trees.
        known: What the deployment log knows of a log, asked when its checkpoint is not on disk.
    """

    def __init__(self, datastore: Datastore, key: SigningKey, tiles: Path, known: Known) -> None:
        self._datastore, self._key, self._tiles, self._known = datastore, key, tiles, known

    def leaves(self, target: Target) -> Leaves:
        """The leaf hashes of a log."""
        return Leaves(self._datastore, target.tenant, target.log_id)

    def tree(self, target: Target, incarnation: int) -> LogTree:
        """The tree of a log on this machine."""
        return LogTree(self._tiles, target.log_id, incarnation, self._key)

    def seal(self, target: Target, keys: Keys | None = None) -> Sealed:
        """
        Signs a checkpoint over all events that a log has now, unless there is one.

        Args:
            target: The log.
            keys: Who signs; default: the signing key.

        Raises:
            ViolationError: What was sealed before is not in the log any more (``log_shrank``) or
                is something else there (``log_changed``); nothing is signed.
            UnavailableError: The signing key, the database or the disk cannot be used.
        """
        leaves, incarnation = self.leaves(target), target.incarnation
        while True:
            tree = self.tree(target, incarnation)
            with tree.locked():
                stand = leaves.stand()
                if stand.incarnation == incarnation:
                    return self._seal(target, tree, leaves, stand, keys)
            # It came back from a backup since the log was opened.
            incarnation = stand.incarnation

    def rebuild(self, tree: LogTree, leaves: Leaves, checkpoint: Checkpoint) -> None:
        """
        Builds the tiles again from the log and swaps them in; the caller holds the lock.

        Raises:
            ViolationError: ``log_changed``: the log does not give the root that was signed; the
                live tiles are left as they are.
        """
        if build(tree, leaves, checkpoint.size) != checkpoint.root:
            tree.discard()
            raise log_changed(checkpoint)
        tree.swap()

    def _seal(
        self, target: Target, tree: LogTree, leaves: Leaves, stand: Stand, keys: Keys | None
    ) -> Sealed:
        last = self._last(target, tree, stand)
        if last is not None:
            tree.complete(last)
        before = Checkpoint(tree.origin, 0, EMPTY_ROOT) if last is None else last.checkpoint
        if keys is None:
            self._key.load()
        checkpoint = self._extended(tree, leaves, before, stand.head)
        if last is not None and checkpoint.size == before.size:
            return Sealed(target, stand.incarnation, last, fresh=False)
        return Sealed(target, stand.incarnation, tree.sign(checkpoint, keys), fresh=True)

    def _last(self, target: Target, tree: LogTree, stand: Stand) -> SignedCheckpoint | None:
        last = tree.last()
        size = 0 if last is None else last.checkpoint.size
        if last is None:
            known = self._known(target.log_id)
            if known is not None and known.root and known.incarnation == stand.incarnation:
                last = self._signed_again(target, tree, stand, known)
                size = known.size
        if size > stand.head:
            raise log_shrank(target, stand.head, size)
        return last

    def _signed_again(
        self, target: Target, tree: LogTree, stand: Stand, known: KnownLog
    ) -> SignedCheckpoint | None:
        """The checkpoint that the deployment log knows of, when this machine has lost it."""
        if known.size > stand.head:
            return None
        checkpoint = Checkpoint(tree.origin, known.size, bytes.fromhex(known.root or ""))
        self._key.load()
        self.rebuild(tree, self.leaves(target), checkpoint)
        return tree.sign(checkpoint)

    def _extended(self, tree: LogTree, leaves: Leaves, before: Checkpoint, head: int) -> Checkpoint:
        try:
            return self._grown(tree, leaves, before, head)
        except CorruptViewError as damage:
            # Tiles are a view: the log gives them again, as far as they were signed the same.
            _log.warning("tiles of %s are built again: %s", tree.origin, damage.message)
            self.rebuild(tree, leaves, before)
            return self._grown(tree, leaves, before, head)

    def _grown(self, tree: LogTree, leaves: Leaves, before: Checkpoint, head: int) -> Checkpoint:
        writer = TileWriter(tree.folder, before.size, durable=False)
        if writer.root() != before.root:
            raise CorruptViewError("their root is not the one that was signed.", code="bad_root")
        # The last sealed leaf is read again: cheap, and it shows a log that was rolled back and
        # went on differently.
        hashes = _split(leaves.hashes(_place(before), head))
        if before.size:
            self._require_leaf(tree, before, next(hashes))
        writer.append(hashes)
        writer.sync()
        return Checkpoint(tree.origin, head, writer.root())

    def _require_leaf(self, tree: LogTree, before: Checkpoint, leaf_hash: bytes) -> None:
        if b"".join(tree.reader(before.size).leaf_hashes(_place(before))) != leaf_hash:
            raise log_changed(before)


def build(
    tree: LogTree,
    leaves: Leaves,
    size: int,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """
    Builds the tiles of a log beside the live ones, which ``tree.swap`` or ``tree.discard`` ends.

    Args:
        tree: Whose lock the caller holds.
        leaves: The log.
        size: How many leaves.
        progress: Told how many are done, and ``size``.

    Returns:
        The root.
    """
    tree.discard()
    writer = TileWriter(tree.folder / REBUILT, durable=False)
    for piece in leaves.hashes(0, size):
        writer.append(_split(iter([piece])))
        if progress is not None:
            progress(writer.size, size)
    writer.sync()
    return writer.root()


def _place(checkpoint: Checkpoint) -> int:
    """Where the last leaf under a checkpoint stands; 0 when there is none."""
    return max(0, checkpoint.size - 1)


def log_shrank(target: Target, head: int, sealed: int) -> ViolationError:
    """A log holds fewer events than were sealed."""
    return ViolationError(
        f"{sealed} events of the {target.kind} log of tenant {target.tenant!r} were sealed and it "
        f"holds {head}: {sealed - head} are gone. Run 'memoriale verify'; after a restore from a "
        "backup declare it with 'memoriale restored'.",
        code="log_shrank",
        value=head,
        allowed=f"at least {sealed}",
    )


def log_changed(checkpoint: Checkpoint) -> ViolationError:
    """The log is not the one whose root was signed."""
    return ViolationError(
        f"The log of {checkpoint.origin} does not give the root that was signed over its first "
        f"{checkpoint.size} events: events were changed, or a backup was restored. Run 'memoriale "
        "verify'; declare a restore with 'memoriale restored'.",
        code="log_changed",
        value=checkpoint.origin,
    )


def _split(pieces: Iterator[bytes]) -> Iterator[bytes]:
    return chain.from_iterable(
        (piece[at : at + HASH_BYTES] for at in range(0, len(piece), HASH_BYTES)) for piece in pieces
    )
