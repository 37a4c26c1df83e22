"""Facts of a resource: what ends, what takes its place, and what bears a fact out."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memoriale.domain.commands import Remember
from memoriale.domain.errors import ConflictError
from memoriale.domain.events import Event, ReasonCode
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Payload
from memoriale.domain.payloads.resources import Semantic
from memoriale.domain.resources.facts import MemoryFact, RememberedFact, SourceRef
from memoriale.domain.steps import End, Make, Slice, Step
from memoriale.domain.text import canonical_text_v1

SEMANTIC = "semantic"


@dataclass(slots=True)
class ReplaceFacts:
    """
    The decision that facts end and others take their place, all in one step.

    Args:
        ids: The facts that end: of the slice's owner, or inherited by the branch.
        asked: How many the caller named, also those whose ids are none.
        commands: What takes their place.
        because: Why they end.
        parents: Whose facts the branch inherits.
        reason: Why, in words.
        all_of_them: Whether one that is not there any more is a conflict; else it is left out.
    """

    ids: Sequence[UUID]
    asked: int
    commands: Sequence[Remember]
    because: ReasonCode
    parents: Collection[UUID] = ()
    reason: str | None = None
    all_of_them: bool = True

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        ending = [memory_id for memory_id in self.ids if self._is_there(seen, memory_id)]
        if self.all_of_them and len(ending) < self.asked:
            raise ConflictError(
                "one of the facts to be replaced is not there any more; list them again.",
                code="gone",
                field="ids",
            )
        made = [Make(command=command) for command in self.commands]
        by = made[0].memory_id if made else None
        ends = [
            End(memory_id=i, because=self.because, replaced_by=by, reason=self.reason)
            for i in ending
        ]
        return [*made, *ends]

    def _is_there(self, seen: Slice, memory_id: UUID) -> bool:
        state = seen.others.get(memory_id)
        if state is None or state.kind != SEMANTIC or not seen.is_current(state):
            return False
        return state.columns.owner == seen.owner or state.columns.owner in self.parents


def details_of(fact: MemoryFact) -> dict[str, Any]:
    """What is stored of a fact besides its content, and besides what it replaces."""
    source = fact.source_ref
    given = {
        "sandbox_id": None if source is None else source.sandbox_id,
        "entry_index": None if source is None else source.entry_index,
        "quote": fact.evidence,
    }
    return {name: value for name, value in given.items() if value is not None}


def fact_of(state: MemoryState) -> RememberedFact | None:
    """A fact as folded, its source not looked up yet; None when it was erased."""
    payload = state.payload
    if not isinstance(payload, Semantic):
        return None
    source = None
    if payload.sandbox_id is not None and payload.entry_index is not None:
        source = SourceRef(payload.sandbox_id, payload.entry_index)
    return RememberedFact(
        id=str(state.memory_id),
        content=payload.content,
        source_ref=source,
        evidence=payload.quote,
        remembered_at=state.created_at,
    )


def bears_out(event: Event, evidence: str) -> bool:
    """Whether an entry says the evidence, compared in canonical form."""
    wanted = canonical_text_v1(evidence)
    return any(wanted in canonical_text_v1(text) for text in _texts(event))


def _texts(event: Event) -> Iterable[str]:
    """What an entry says: the content of a memory, else every text of its body."""
    payload = getattr(event.body, "payload", None)
    if isinstance(payload, Payload):
        return [payload.content]
    return [] if event.body is None else _within(event.body.model_dump(mode="json"))


def _within(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _within(item)
    elif isinstance(value, list):
        for item in value:
            yield from _within(item)
