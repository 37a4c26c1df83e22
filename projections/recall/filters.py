"""SQL conditions on the table ``versions``: who may see a row, on which lines, and when."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from memoriale.domain.access import AccessScope, Visibility
from memoriale.domain.branches import Line
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import Status
from memoriale.projections.recall.query import RecallQuery

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NONE: Final = "FALSE"
_SHARED: Final = tuple(f"'{v.value}'" for v in Visibility if v is not Visibility.OWNER)

ScopedLine = tuple[Line, AccessScope]


def text_literal(value: str) -> str:
    """A text as SQL: only the quote has a meaning there, and is doubled."""
    return "'" + value.replace("'", "''") + "'"


def uuid_literal(value: UUID) -> str:
    """A uuid as the table holds it: 32 hexadecimal digits."""
    return f"'{value.hex}'"


def time_literal(value: datetime) -> str:
    """
    An aware time as SQL, to the microsecond. A timestamp literal would be read with nanoseconds,
    which end in the year 2262.
    """
    count = (value - _EPOCH) // _MICROSECOND
    return f"arrow_cast({count}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def any_of(conditions: Iterable[str]) -> str:
    """True if one of them is; false for none."""
    return "(" + (" OR ".join(conditions) or _NONE) + ")"


def all_of(conditions: Iterable[str]) -> str:
    """True if each of them is."""
    return " AND ".join(conditions)


def one_of(column: str, literals: Sequence[str]) -> str:
    """Whether a column has one of some values; false for no values."""
    return f"{column} IN ({', '.join(literals)})" if literals else _NONE


def access_condition(scope: AccessScope) -> str:
    """``AccessScope.allows`` as SQL over the columns of a row."""
    if scope.everything:
        return "TRUE"
    own = one_of("owner", _uuids(scope.owners))
    same_user = _equals("principal_user", scope.user)
    in_session = any_of(("owner_type <> 'session'", "principal_user IS NULL", same_user))
    named = any_of(
        (
            f"visibility = 'user' AND {same_user}",
            f"visibility = 'agent' AND {_equals('principal_agent', scope.agent)}",
            f"visibility = 'team' AND {one_of('principal_team', _uuids(scope.teams))}",
        )
    )
    return any_of((f"visibility = '{scope.shared.value}'", f"({own} AND {in_session})", named))


def override_condition(lines: Sequence[ScopedLine]) -> str:
    """
    Rows that hide inherited ones: the first version of a memory on a branch that inherited it.

    Args:
        lines: A lineage, nearest first; the farthest line hides nothing.
    """
    nearer = any_of(
        f"(branch = {uuid_literal(line.branch)} AND recorded_from <= {line.limit})"
        for line, _ in lines[:-1]
    )
    readable = any_of(dict.fromkeys(access_condition(scope) for _, scope in lines[1:]))
    return all_of(("continues IS NOT NULL", nearer, readable))


def visible_condition(lines: Sequence[ScopedLine], hidden: Sequence[Iterable[str]]) -> str:
    """
    The versions that a lineage shows: on each line those whose recorded span holds its limit,
    that the caller may see there, and that no nearer line overrides.

    Args:
        lines: A lineage, nearest first.
        hidden: For each line the memory ids (32 hexadecimal digits) that are overridden.
    """
    shown = any_of(
        _line_condition(line, scope, sorted(ids))
        for (line, scope), ids in zip(lines, hidden, strict=True)
    )
    return all_of((_indexed_condition([scope for _, scope in lines]), shown))


def recalled_kinds() -> tuple[str, ...]:
    """Kinds that are found when none is asked for by name; one that is named is always found."""
    return tuple(name for name in KINDS.names() if KINDS.require(name).recalled)


def query_condition(query: RecallQuery) -> str:
    """
    What else a hit must be: current, not expired, valid, and of the kinds and tags asked.

    A row without text needs no condition: its words and its vector are null, and no search
    finds it.
    """
    now, valid_at = time_literal(query.now), time_literal(query.valid_at)
    conditions = [
        f"status = '{Status.CURRENT.value}'",
        f"(expires_at IS NULL OR expires_at > {now})",
        f"(valid_from IS NULL OR valid_from <= {valid_at})",
        f"(valid_until IS NULL OR valid_until > {valid_at})",
    ]
    kinds = query.kinds or recalled_kinds()
    conditions.append(one_of("kind", [text_literal(kind) for kind in kinds]))
    if query.namespaces is not None:
        names = [text_literal(name) for name in ("", *query.namespaces)]
        conditions.append(one_of("namespace", names))
    conditions.extend(f"array_has(tags, {text_literal(tag)})" for tag in query.tags)
    for column, value in (("owner", query.owner), ("principal_agent", query.agent)):
        if value is not None:
            conditions.append(f"{column} = {uuid_literal(value)}")
    return all_of(conditions)


def _indexed_condition(scopes: Sequence[AccessScope]) -> str:
    """
    Follows from the access conditions, and the indexes of both columns answer it: with them no
    row of other owners is read.
    """
    if any(scope.everything for scope in scopes):
        return "TRUE"
    owners = _uuids(frozenset().union(*(scope.owners for scope in scopes)))
    return any_of((one_of("owner", owners), one_of("visibility", _SHARED)))


def _line_condition(line: Line, scope: AccessScope, hidden: Sequence[str]) -> str:
    conditions = [
        f"branch = {uuid_literal(line.branch)}",
        f"recorded_from <= {line.limit}",
        f"recorded_until > {line.limit}",
        access_condition(scope),
    ]
    if hidden:
        conditions.append(f"NOT {one_of('memory_id', [text_literal(id_) for id_ in hidden])}")
    return f"({all_of(conditions)})"


def _equals(column: str, value: UUID | None) -> str:
    return _NONE if value is None else f"{column} = {uuid_literal(value)}"


def _uuids(values: Iterable[UUID]) -> list[str]:
    return sorted(uuid_literal(value) for value in values)
