"""What a question may see of a shelf: the filters of ``filters`` on arrays instead of in SQL."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Line
from memoriale.domain.memory import Status
from memoriale.projections.recall.filters import recalled_kinds
from memoriale.projections.recall.partition import Partition
from memoriale.projections.recall.query import RecallQuery
from memoriale.projections.recall.shelf import Shelf, moment

EVERYTHING: Final = Partition()


def partitions(scope: AccessScope) -> list[Partition]:
    """
    Partitions that hold, each by one indexed column, all rows that a scope may see; a row may
    be in several.
    """
    if scope.everything:
        return [EVERYTHING]
    found = [owned(owner) for owner in sorted(scope.owners)]
    found.append(Partition.of(visibility=scope.shared.value))
    if scope.user is not None:
        found.append(Partition.of(visibility="user", principal_user=scope.user.hex))
    if scope.agent is not None:
        found.append(Partition.of(visibility="agent", principal_agent=scope.agent.hex))
    if scope.teams:
        teams = tuple(sorted(team.hex for team in scope.teams))
        found.append(Partition((("visibility", ("team",)), ("principal_team", teams))))
    return found


def owned(owner: UUID) -> Partition:
    """The rows of an owner."""
    return Partition.of(owner=owner.hex)


def visible(
    shelf: Shelf,
    partition: Partition,
    query: RecallQuery,
    lines: Sequence[tuple[Line, AccessScope]],
) -> Any:
    """
    Which rows of a shelf a question may find, as a mask.

    Args:
        shelf: The rows of a partition.
        partition: Which one: it tells whose rows they are.
        query: The question's filters.
        lines: The lineage, nearest first, each line with its limit and scope.
    """
    import numpy

    seen = numpy.zeros(len(shelf), dtype=bool)
    hidden = numpy.zeros(len(shelf.texts("overridden")) + 1, dtype=bool)
    branch, memory = shelf.array("branch"), shelf.array("overridden")
    begin, end = shelf.array("key"), shelf.array("recorded_until")
    for line, scope in lines:
        here = (branch == shelf.code("branch", line.branch.hex)) & (begin <= line.limit)
        if partition in partitions(scope):
            shown = here & (end > line.limit)
            if hidden.any():
                shown &= ~hidden[memory]
            seen |= shown & _own(shelf, partition, scope.user)
        hidden[memory[here & shelf.array("continues")]] = True
    return seen & _wanted(shelf, query)


def _own(shelf: Shelf, partition: Partition, user: UUID | None) -> Any:
    """A session's memories that were recorded for a user are not another's."""
    if not any(column == "owner" for column, _ in partition.among):
        return True
    recorded_for = shelf.array("principal_user")
    mine = shelf.code("principal_user", None if user is None else user.hex)
    in_session = shelf.array("owner_type") == shelf.code("owner_type", "session")
    return ~in_session | (recorded_for == 0) | ((recorded_for == mine) & (mine > 0))


def _wanted(shelf: Shelf, query: RecallQuery) -> Any:
    now, valid_at = moment(query.now), moment(query.valid_at)
    mask = shelf.array("status") == shelf.code("status", Status.CURRENT.value)
    mask &= shelf.array("expires_at") > now
    mask &= (shelf.array("valid_from") <= valid_at) & (shelf.array("valid_until") > valid_at)
    mask &= _among(shelf, "kind", query.kinds or recalled_kinds())
    if query.namespaces is not None:
        mask &= _among(shelf, "namespace", ("", *query.namespaces))
    for tag in query.tags:
        mask &= shelf.tagged(tag)
    for column, value in (("owner", query.owner), ("principal_agent", query.agent)):
        if value is not None:
            mask &= _among(shelf, column, (value.hex,))
    return mask


def _among(shelf: Shelf, column: str, texts: Sequence[str]) -> Any:
    import numpy

    wanted = numpy.zeros(len(shelf.texts(column)) + 1, dtype=bool)
    wanted[[code for code in (shelf.code(column, text) for text in texts) if code >= 0]] = True
    return wanted[shelf.array(column)]
