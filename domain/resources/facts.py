"""Semantic facts of a resource, what they rest on, and whether that was checked."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memoriale.domain.errors import InputError
from memoriale.domain.text import check_outside_id, check_text
from memoriale.domain.values import check_whole


class Verification(StrEnum):
    """What a check of a fact's source found, at the time of the read."""

    UNSOURCED = "unsourced"
    """The fact names no source."""
    UNCHECKED = "unchecked"
    """It names one, and this provider has no ledger to look it up in."""
    NOT_FOUND = "not_found"
    """There is no such entry, or none that the caller may see."""
    LINKED = "linked"
    """The entry is there; the fact has no evidence that could be looked for in it."""
    EVIDENCE_ABSENT = "evidence_absent"
    """The entry is there and does not contain the evidence."""
    VERIFIED = "verified"
    """The entry is there and contains the evidence."""


@dataclass(frozen=True, slots=True)
class SourceRef:
    """
    The ledger entry that a fact rests on.

    Args:
        sandbox_id: Outside id of the session that the entry belongs to.
        entry_index: The entry's index in the tenant's memory log.
    """

    sandbox_id: str
    entry_index: int

    def __post_init__(self) -> None:
        check_outside_id("sandbox_id", self.sandbox_id)
        check_whole("entry_index", self.entry_index, 0, 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFact:
    """
    A fact to be remembered (reference system C, ``MemoryFact``).

    Args:
        content: What is to be remembered; not blank.
        source_ref: The entry that it rests on.
        evidence: Words of that entry that bear it out; looked for at each read.
    """

    content: str
    source_ref: SourceRef | None = None
    evidence: str | None = None

    def __post_init__(self) -> None:
        check_text("content", self.content)
        if self.evidence is not None:
            check_text("evidence", self.evidence)
        if not isinstance(self.source_ref, SourceRef | None):
            raise InputError(
                f"source_ref is {type(self.source_ref).__name__}; give a SourceRef.",
                code="bad_value",
                field="source_ref",
                value=type(self.source_ref).__name__,
                allowed="a SourceRef",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFact(MemoryFact):
    """
    A fact as it is stored (reference system C, ``RememberedFact``).

    Args:
        id: Its id; a memory id where the ledger holds it.
        remembered_at: When it was stored; aware UTC.
        verification: What the check of its source found at this read.
        score: How well it answers the question of a recall, 0..1; None elsewhere.
    """

    id: str
    remembered_at: datetime
    verification: Verification = Verification.UNSOURCED
    score: float | None = None

    @property
    def verified(self) -> bool:
        """Whether its source was looked up and contains the evidence."""
        return self.verification is Verification.VERIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class FactVersion:
    """
    What happened to a fact once.

    Args:
        id: The fact.
        event: ``remembered``, ``replaced`` or ``forgotten``.
        at: When; aware UTC.
        content: What it said from then on; None when nothing more.
        index: The ledger's index of it, where there is one.
        reason: Why, where it was said.
    """

    id: str
    event: str
    at: datetime
    content: str | None = None
    index: int | None = None
    reason: str | None = None
