"""Receipts: proof that an event is in a log, in a file that others can check without us."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.notes.checkpoint import Checkpoint, SignedCheckpoint
from memoriale.adapters.notes.tlog_proof import TlogProof
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.proving.tiles import require_whole_tiles
from memoriale.adapters.sealing.log_tree import LogTree, origin_of
from memoriale.adapters.sealing.sealing import Sealing, target_of
from memoriale.domain.errors import IncompleteError, InputError, MemorialeError, ViolationError
from memoriale.domain.leaf import leaf_data, leaf_fields
from memoriale.domain.receipt import Receipt, UnsealedError
from memoriale.domain.values import check_whole
from memoriale.projections.proofs.inclusion import inclusion_proof

_SHOWN: Final = ("tenant", "log_id", "index", "event_id", "topic", "recorded_at")

Verifiers = Callable[[str], Sequence[VerifierKey]]
"""The public keys that are trusted, under the name of a log."""


@dataclass(frozen=True, slots=True)
class ProvedEvent:
    """
    An event that is proved to be in a log.

    Args:
        tenant: Whose log.
        log_id: Which.
        index: The event's place.
        event_id: The event.
        topic: What happened.
        recorded_at: When.
        leaf_hash: Hash of its leaf, 64 hexadecimal digits.
        origin: Name of the log in the checkpoint.
        size: Events that the checkpoint covers.
        root: Root over them, hexadecimal.
        proof: The proof file: path, checkpoint, and the leaf's data.
    """

    tenant: str
    log_id: UUID
    index: int
    event_id: UUID
    topic: str
    recorded_at: datetime
    leaf_hash: str
    origin: str
    size: int
    root: str
    proof: str

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "log_id": str(self.log_id),
            "event_id": str(self.event_id),
            "recorded_at": self.recorded_at.isoformat(),
        }


def prove(log: TenantLog, sealing: Sealing, index: int) -> ProvedEvent:
    """
    The proof that an event is under the last checkpoint of its log.

    Args:
        log: The log.
        sealing: What sealed it.
        index: The event's place.

    Raises:
        InputError: The log has no such index.
        IncompleteError: ``not_sealed``: no checkpoint covers it yet.
        ViolationError: The event is not the one that was sealed.
    """
    target = target_of(log)
    stand = sealing.sealer.leaves(target).stand()
    check_whole("index", index, 0, stand.head - 1)
    tree = sealing.sealer.tree(target, stand.incarnation)
    last = tree.last()
    if last is None or last.checkpoint.size <= index:
        sealed = 0 if last is None else last.checkpoint.size
        raise IncompleteError(
            f"Event {index} is not sealed yet; {sealed} events are. Seal with 'memoriale "
            "checkpoint', and ask again.",
            code="not_sealed",
            field="index",
            value=index,
            allowed=f"below {sealed}",
        )
    return _proved(log, tree, last, index)


def with_proof(receipt: Receipt, log: TenantLog, sealing: Sealing) -> Receipt:
    """
    Seals the log and returns the receipt of a write with its proof.

    Raises:
        UnsealedError: The write is durable; why it is not sealed. Its ``receipt`` is the one
            that was given.
    """
    try:
        (answer, *_) = sealing.seal([target_of(log)])
        if isinstance(answer, MemorialeError):
            raise answer
        return replace(receipt, proof=prove(log, sealing, receipt.index).proof)
    except MemorialeError as error:
        unsealed = UnsealedError(
            f"It is stored at index {receipt.index}, and not sealed: {error.message}",
            field="receipt",
            value=error.code,
        )
        unsealed.receipt = receipt
        raise unsealed from error


def check(text: str | bytes, verifiers: Verifiers) -> ProvedEvent:
    """
    Checks a proof file by itself: signature, path, and that the leaf is what it says.

    Args:
        text: The file.
        verifiers: Keys that are trusted.

    Raises:
        InputError: It is no proof file, or has no leaf in it.
        ViolationError: It does not hold; the code says what.
    """
    proof = TlogProof.parse(text)
    leaf_hash = proof.hash_of_extra()
    if leaf_hash is None or proof.extra is None:
        raise InputError(
            "The proof has no leaf data in it, so it cannot be told which event it is about.",
            code="no_leaf_data",
            field="proof",
        )
    signed = proof.check(leaf_hash, verifiers(_origin(proof)))
    return _described(proof, leaf_hash, signed.checkpoint)


def _proved(log: TenantLog, tree: LogTree, last: SignedCheckpoint, index: int) -> ProvedEvent:
    (row,) = log.reader.rows(after=index - 1, stop=index + 1)
    size = last.checkpoint.size
    path = inclusion_proof(tree.reader(size).node, index, size)
    proof = TlogProof(index, tuple(path), str(last.note), leaf_data(row))
    leaf_hash = proof.hash_of_extra()
    assert leaf_hash is not None
    try:
        proof.check(leaf_hash, [one.key for one in last.verified.good], tree.origin)
    except ViolationError:
        require_whole_tiles(tree)
        raise
    return _described(proof, leaf_hash, last.checkpoint)


def _described(proof: TlogProof, leaf_hash: bytes, checkpoint: Checkpoint) -> ProvedEvent:
    try:
        fields = leaf_fields(proof.extra or b"")
    except ValueError as error:
        raise InputError(
            f"The leaf in the proof cannot be read: {error}.", code="bad_leaf", field="proof"
        ) from None
    incarnation = checkpoint.origin.rpartition("/")[2]
    origin = f"{origin_of(fields['log_id'], 0)[:-1]}{incarnation}"
    if fields["index"] != proof.index or origin != checkpoint.origin:
        raise ViolationError(
            f"The leaf is event {fields['index']} of log {fields['log_id']}, and was put into "
            f"{checkpoint.origin} at {proof.index}.",
            code="misplaced_leaf",
            field="proof",
            value=proof.index,
            allowed=fields["index"],
        )
    return ProvedEvent(
        **{name: fields[name] for name in _SHOWN},
        leaf_hash=leaf_hash.hex(),
        origin=checkpoint.origin,
        size=checkpoint.size,
        root=checkpoint.root.hex(),
        proof=str(proof),
    )


def _origin(proof: TlogProof) -> str:
    return proof.checkpoint.partition("\n")[0]
