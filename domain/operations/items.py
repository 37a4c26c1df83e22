"""Items of one owner: what an add makes, and what it says again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.commands import Remember
from memoriale.domain.events import SourceTier
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Item
from memoriale.domain.steps import Make, Restate, Slice, Step
from memoriale.domain.text import canonical_text_v1

ITEM: Final = "item"
DEDUP_THRESHOLD: Final = 0.85
MOST_LABELS: Final = 64
_PEOPLE: Final = frozenset({SourceTier.MANUAL, SourceTier.HUMAN_CORRECTION})


class ExtractedFact(BaseModel):
    """
    What a model took from messages. ``tags`` are the model's own words for it; they are kept as
    labels and never count as tags of a scope. Importance is in 0..1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    content: str
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    category: str | None = None
    input: str | None = None


class Neighbours(Protocol):
    """Finds texts of nearly the same meaning."""

    def nearest(self, text: str, among: Mapping[UUID, str]) -> tuple[UUID, float] | None:
        """The memory whose text is nearest to a text, with their cosine; None for none."""


@dataclass(slots=True)
class AddItems:
    """
    The decision to add items, one after the other, each seeing those before it.

    1. An item that is current with the same text, but for case and white space, is restated.
    2. So is the nearest one in meaning, from the threshold up; an item whose words people chose
       is restated by the same text alone, so that no model overwrites them.
    3. Everything else is a new item. With threshold 0 everything is.

    Only items of the slice's owner that were added through the same agent are looked at. What is
    restated has the new words, the greater importance, and the tags and labels of both.

    Args:
        commands: What to add.
        agent: Pseudonym of the agent that adds; None for none.
        threshold: Least cosine of what counts as the same, 0..1.
        near: Finds the nearest text.
    """

    commands: Sequence[Remember]
    agent: UUID | None
    threshold: float
    near: Neighbours
    _steps: list[Step] = field(default_factory=list)
    _texts: dict[UUID, str] = field(default_factory=dict)
    _by_text: dict[str, UUID] = field(default_factory=dict)
    _now: dict[UUID, Remember] = field(default_factory=dict)
    """What this decision makes of memories."""

    def __call__(self, seen: Slice) -> Sequence[Step]:
        self._steps, self._now, self._texts, self._by_text = [], {}, {}, {}
        known = {}
        for state in seen.current(ITEM) if self.threshold > 0 else ():
            if state.payload is not None and state.columns.principal_agent == self.agent:
                known[state.memory_id] = state
                self._by_text[canonical_text_v1(state.payload.content)] = state.memory_id
                if state.source_tier not in _PEOPLE:
                    self._texts[state.memory_id] = state.payload.content
        for command in self.commands:
            self._add(command, known)
        return self._steps

    def _add(self, command: Remember, known: Mapping[UUID, MemoryState]) -> None:
        found = self._same(command.content)
        if found is None:
            step = Make(command=command)
            self._steps.append(step)
            self._became(step.memory_id, command)
            return
        memory_id, similarity = found
        earlier = self._now.get(memory_id)
        whole = _merged(command, known[memory_id]) if earlier is None else _both(command, earlier)
        self._steps.append(Restate(memory_id=memory_id, command=whole, similarity=similarity))
        self._became(memory_id, whole)

    def _same(self, text: str) -> tuple[UUID, float | None] | None:
        if self.threshold <= 0:
            return None
        exact = self._by_text.get(canonical_text_v1(text))
        if exact is not None:
            return exact, None
        found = self.near.nearest(text, self._texts) if self._texts else None
        return found if found is not None and found[1] >= self.threshold else None

    def _became(self, memory_id: UUID, command: Remember) -> None:
        self._now[memory_id] = command
        self._texts[memory_id] = command.content
        self._by_text[canonical_text_v1(command.content)] = memory_id


def _merged(command: Remember, state: MemoryState) -> Remember:
    payload = state.payload
    labels = payload.labels if isinstance(payload, Item) else ()
    category = payload.category if isinstance(payload, Item) else None
    importance = None if state.importance is None else state.importance / 1000
    if state.source_tier in _PEOPLE:
        command = replace(command, source_tier=state.source_tier)
    return _joined(command, state.tags, importance, labels, category)


def _both(command: Remember, earlier: Remember) -> Remember:
    details = earlier.details
    return _joined(
        command,
        earlier.tags,
        earlier.importance,
        tuple(details.get("labels", ())),
        details.get("category"),
    )


def _joined(
    command: Remember,
    tags: Sequence[str],
    importance: float | None,
    labels: Sequence[str],
    category: str | None,
) -> Remember:
    details = dict(command.details)
    details["labels"] = [*dict.fromkeys([*labels, *details.get("labels", ())])][:MOST_LABELS]
    if details.get("category") is None and category is not None:
        details["category"] = category
    values = [value for value in (importance, command.importance) if value is not None]
    return replace(
        command,
        tags=tuple(dict.fromkeys([*tags, *command.tags])),
        importance=max(values) if values else None,
        details=details,
    )
