"""What a write returns."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoriale.domain.errors import IncompleteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """
    Proof that a write is durable.

    Args:
        memory_id: The memory that was made or changed.
        event_id: The event that did it.
        tenant: Whose ledger.
        index: The event's place in the log, from 0.
        recorded_at: The database's time of the append; aware UTC.
        leaf_hash: SHA-256 over the event's leaf, 64 hexadecimal digits.
        created: False when an earlier call with the same idempotency key stored it.
        superseded: Memories that the same append invalidated because this one replaces them.
        proof: Where the call asked for it, a proof file that the event is in the log.
    """

    memory_id: UUID
    event_id: UUID
    tenant: str
    index: int
    recorded_at: datetime
    leaf_hash: str
    created: bool
    superseded: tuple[UUID, ...] = ()
    proof: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; ``proof`` only where there is one."""
        proof = {} if self.proof is None else {"proof": self.proof}
        return {
            "memory_id": str(self.memory_id),
            "event_id": str(self.event_id),
            "tenant": self.tenant,
            "index": self.index,
            "recorded_at": self.recorded_at.isoformat(),
            "leaf_hash": self.leaf_hash,
            "created": self.created,
            "superseded": [str(memory_id) for memory_id in self.superseded],
            **proof,
        }


class UnsealedError(IncompleteError):
    """A write is durable, and could not be sealed as it was asked for; ``receipt`` is its own."""

    default_code = "not_sealed"
    receipt: Receipt
