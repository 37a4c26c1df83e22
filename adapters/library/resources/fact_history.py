"""What became of a fact of a resource, read from the log."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.events import Corrected, Invalidated, RecordedEvent, Reinstated, Remembered
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads.resources import Semantic
from memoriale.domain.resources.facts import FactVersion
from memoriale.domain.slices import on_lineage
from memoriale.domain.stores.semantic import SEMANTIC
from memoriale.domain.text import shown

MOST: Final = 1_000
"""Facts whose histories are put together."""


def fact_history(memory: Memory, owners: Collection[UUID], id: str) -> list[FactVersion]:
    """
    The versions of a fact, of those that it stood in for and of those in its place; of at most
    ``MOST`` facts, the nearest ones.

    Args:
        memory: A handle where the resource's memory lies.
        owners: The resource, and those of whom it inherits.
        id: The fact.

    Raises:
        InputError: ``not_found``.
    """
    branch = memory.branch_view()
    reading, log = memory.services.reading, memory.services.log
    waiting, states = parsed_ids([id]), dict[UUID, MemoryState]()
    while waiting and len(states) < MOST:
        folded = reading.folded(waiting, branch)
        found = {
            i: s for i, s in folded.items() if s.kind == SEMANTIC and s.columns.owner in owners
        }
        states |= found
        linked = (i for state in found.values() for i in _linked(state))
        waiting = [i for i in dict.fromkeys(linked) if i not in states][: MOST - len(states)]
    if not states:
        raise InputError(
            f"there is no fact {shown(id)} of this resource.",
            code="not_found",
            field="id",
            value=shown(id),
        )
    events: dict[UUID | None, list[RecordedEvent]] = defaultdict(list)
    for recorded in log.mapper.decode(log.reader.memories(list(states))):
        events[recorded.columns.memory_id].append(recorded)
    versions = []
    for memory_id in states:
        seen = on_lineage(events[memory_id], branch.lineage())
        versions += [v for e in seen if (v := _version(memory_id, e)) is not None]
    told = [(i, state.index) for i, state in states.items()]
    memory.given("history", told, index=max(index for _, index in told))
    return sorted(versions, key=lambda version: version.index or 0)


def parsed_ids(ids: Sequence[str]) -> list[UUID]:
    """Ids as the ledger has them; what is none is no fact's."""
    found = []
    for text in ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def _linked(state: MemoryState) -> list[UUID]:
    replaced = state.payload.replaces if isinstance(state.payload, Semantic) else ()
    return [*replaced, *([] if state.replaced_by is None else [state.replaced_by])]


def _version(memory_id: UUID, recorded: RecordedEvent) -> FactVersion | None:
    event, body = recorded.event, recorded.event.body
    content = body.payload.content if body is not None and hasattr(body, "payload") else None
    if isinstance(event, Remembered | Reinstated):
        name = "remembered"
    elif isinstance(event, Corrected):
        name = "replaced"
    elif isinstance(event, Invalidated):
        name = "forgotten" if event.header.replaced_by is None else "replaced"
    else:
        return None
    return FactVersion(
        id=str(memory_id),
        event=name,
        at=recorded.recorded.recorded_at,
        content=content,
        index=recorded.index,
        reason=getattr(body, "reason", None),
    )
