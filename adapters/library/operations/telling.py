"""What is told of items that changed, after it was stored."""

from collections.abc import Mapping
from uuid import UUID

from memoriale.adapters.application.deciding import Decided
from memoriale.domain.operations.items import ITEM
from memoriale.domain.operations.scopes import OperationScope
from memoriale.domain.subscriptions import MemoryEvent, origin_of, type_of


def memory_events(
    decided: Decided,
    contents: Mapping[int, str],
    scope: OperationScope,
    correlation_id: UUID | None,
) -> list[MemoryEvent]:
    """
    The changes of items that were stored in one append, in its order.

    Args:
        decided: What became of the request.
        contents: The words that an item has since, by the place of its event in the append.
        scope: Whose the items are.
        correlation_id: Of the append.
    """
    if decided.index is None or decided.recorded_at is None:
        return []
    first = decided.index - len(decided.events) + 1
    found = []
    for place, (memory_id, topic) in enumerate(decided.events):
        what = type_of(topic)
        if what is not None:
            found.append(
                MemoryEvent(
                    type=what,
                    id=memory_id,
                    content=contents.get(place),
                    scope_tags=scope.event_tags(),
                    timestamp=decided.recorded_at,
                    index=first + place,
                    event_id=decided.event_ids[place],
                    kind=ITEM,
                    origin=None if correlation_id is None else origin_of(correlation_id),
                )
            )
    return found
