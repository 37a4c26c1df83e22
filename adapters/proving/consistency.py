"""Consistency: a later checkpoint covers all that an earlier one did, unchanged."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from memoriale.adapters.notes.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.proving.tiles import require_whole_tiles
from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.adapters.sealing.sealing import Sealing
from memoriale.domain.errors import InputError, UnavailableError, ViolationError
from memoriale.projections.proofs.inclusion import consistency_holds, consistency_proof

Verifiers = Callable[[str], Sequence[VerifierKey]]


@dataclass(frozen=True, slots=True)
class Consistency:
    """
    Two checkpoints of which the later one covers the earlier one.

    Args:
        origin: Of both.
        old_size: Events under the earlier one.
        old_root: Root over them, hexadecimal.
        new_size: Events under the later one.
        new_root: Root over them, hexadecimal.
        proof: The hashes that show it (RFC 6962), base64.
    """

    origin: str
    old_size: int
    old_root: str
    new_size: int
    new_root: str
    proof: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def compare(
    old: str | bytes, new: str | bytes, sealing: Sealing, verifiers: Verifiers
) -> Consistency:
    """
    Proves that the log only grew between two checkpoints.

    Args:
        old: The earlier one, a signed note.
        new: The later one.
        sealing: Has the tiles from which the proof is made.
        verifiers: Keys that are trusted.

    Raises:
        InputError: They are no checkpoints, or not in this order.
        ViolationError: A signature does not hold (``bad_signature`` and others), they are of
            different logs (``foreign_origin``), have one size and two roots (``two_roots``), or
            the one does not continue the other (``inconsistent``).
        UnavailableError: This machine has not the tiles for it, or damaged ones.
    """
    first = signed_by_log(old, verifiers).checkpoint
    second = signed_by_log(new, verifiers, first.origin).checkpoint
    if first.size > second.size:
        raise InputError(
            f"The first checkpoint covers {first.size} events, the second one {second.size}; name "
            "the earlier one first.",
            code="wrong_order",
            field="new",
        )
    proof = [] if first.size in (0, second.size) else _proof(first, second, sealing)
    if not consistency_holds(first.size, first.root, second.size, second.root, proof):
        if proof:
            require_whole_tiles(_tree(first.origin, sealing))
        raise _violation(first, second)
    return Consistency(
        first.origin,
        first.size,
        first.root.hex(),
        second.size,
        second.root.hex(),
        tuple(b64encode(node).decode() for node in proof),
    )


def signed_by_log(
    note: str | bytes, verifiers: Verifiers, origin: str | None = None
) -> SignedCheckpoint:
    """A checkpoint whose signature holds; see ``open_checkpoint``."""
    text = note.decode("utf-8", "replace") if isinstance(note, bytes) else note
    claimed = text.partition("\n")[0]
    return open_checkpoint(note, verifiers(origin or claimed), origin)


def _proof(first: Checkpoint, second: Checkpoint, sealing: Sealing) -> list[bytes]:
    tree = _tree(first.origin, sealing)
    last = tree.last()
    if last is None or last.checkpoint.size < second.size:
        known = 0 if last is None else last.checkpoint.size
        raise UnavailableError(
            f"This machine has the tree of {first.origin} up to {known} events, not {second.size}.",
            code="no_tiles",
            value=known,
        )
    return consistency_proof(tree.reader(last.checkpoint.size).node, first.size, second.size)


def _violation(first: Checkpoint, second: Checkpoint) -> ViolationError:
    same = first.size == second.size
    return ViolationError(
        f"Two roots were signed over the first {first.size} events of {first.origin}: keep "
        "both checkpoints, they prove it."
        if same
        else f"What {first.origin} has under {second.size} events does not begin with what was "
        f"signed over the first {first.size}: history was rewritten.",
        code="two_roots" if same else "inconsistent",
        value=second.size,
    )


def _tree(origin: str, sealing: Sealing) -> LogTree:
    try:
        _, log_id, incarnation = origin.split("/")
        return LogTree(sealing.tiles, UUID(log_id), int(incarnation), sealing.key)
    except ValueError:
        raise InputError(
            f"{origin[:100]!r} is not the origin of a log of memoriale.",
            code="foreign_origin",
            field="old",
            allowed="memoriale/<log id>/<incarnation>",
        ) from None
