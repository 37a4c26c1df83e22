"""
The memories of one owner, kept so that neither a read nor a rule has to look at all of them.

Both classes never change: what is new makes another one, which takes over what was worked out.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.domain.access import AccessScope
from memoriale.domain.memory import MemoryState, Status

KeyOf = Callable[[MemoryState], Hashable]
"""What a memory is looked for by; None for one that is not. Must be a function of a module."""
Groups = Mapping[Hashable, tuple[MemoryState, ...]]

MOST_SCOPES: Final = 8
"""Callers whose view of an owner's memories is kept."""


class Holding(Mapping[UUID, MemoryState]):
    """
    What one owner has of one kind, by id, in the order in which it was made.

    Args:
        states: The memories, oldest first.
    """

    __slots__ = ("_groups", "_open", "_scopes", "_spanned", "_states")

    def __init__(self, states: Mapping[UUID, MemoryState] | None = None) -> None:
        self._states = dict(states or {})
        self._open = {i: s for i, s in self._states.items() if s.status is Status.CURRENT}
        self._spanned = frozenset(i for i, s in self._open.items() if _has_span(s))
        self._groups: dict[KeyOf, dict[Hashable, tuple[MemoryState, ...]]] = {}
        self._scopes: dict[AccessScope, Holding] = {}

    def __getitem__(self, memory_id: UUID) -> MemoryState:
        return self._states[memory_id]

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def all(self) -> list[MemoryState]:
        """Every memory, current or not."""
        return list(self._states.values())

    def current(self, now: datetime) -> list[MemoryState]:
        """The memories that are current, neither expired nor outdated."""
        if not self._spanned:
            return list(self._open.values())
        return [
            state
            for memory_id, state in self._open.items()
            if memory_id not in self._spanned or (state.is_current(now) and state.is_valid(now))
        ]

    def grouped(self, key: KeyOf) -> Groups:
        """The memories by a key, each group oldest first; worked out once and then followed."""
        found = self._groups.get(key)
        if found is None:
            lists: dict[Hashable, list[MemoryState]] = {}
            for state in self._states.values():
                if (value := key(state)) is not None:
                    lists.setdefault(value, []).append(state)
            found = {value: tuple(states) for value, states in lists.items()}
            self._groups[key] = found
        return found

    def visible(self, scope: AccessScope) -> "Holding":
        """What a caller may see of it; itself when that is everything."""
        found = self._scopes.get(scope)
        if found is None:
            allowed = {i: s for i, s in self._states.items() if scope.allows(s.columns)}
            found = self if len(allowed) == len(self._states) else Holding(allowed)
            if len(self._scopes) < MOST_SCOPES:
                self._scopes[scope] = found
        return found

    def changed(self, states: Mapping[UUID, MemoryState]) -> "Holding":
        """
        The same with other states of some memories, and with new memories.

        Args:
            states: The states by id; new memories are later than all others.
        """
        after = self._followed(states)
        for scope, seen in list(self._scopes.items()):
            # What became visible, or ceased to be, is worked out again when it is asked for.
            same = all(
                scope.allows(s.columns) and (i in seen or i not in self) for i, s in states.items()
            )
            if same:
                after._scopes[scope] = after if seen is self else seen.changed(states)
        return after

    def _followed(self, states: Mapping[UUID, MemoryState]) -> "Holding":
        after = Holding()
        after._states = {**self._states, **states}
        after._open = self._still_open(states, after._states)
        spanned = {i for i, s in states.items() if s.status is Status.CURRENT and _has_span(s)}
        after._spanned = (self._spanned - states.keys()) | spanned
        for key, groups in list(self._groups.items()):
            after._groups[key] = _regrouped(groups, key, self._states, states)
        return after

    def _still_open(
        self, states: Mapping[UUID, MemoryState], all_: Mapping[UUID, MemoryState]
    ) -> dict[UUID, MemoryState]:
        revived = any(
            i in self._states and i not in self._open and s.status is Status.CURRENT
            for i, s in states.items()
        )
        if revived:
            return {i: s for i, s in all_.items() if s.status is Status.CURRENT}
        found = dict(self._open)
        for memory_id, state in states.items():
            if state.status is Status.CURRENT:
                found[memory_id] = state
            else:
                found.pop(memory_id, None)
        return found


NOTHING: Final = Holding()


class Holdings(Mapping[UUID, MemoryState]):
    """
    What one owner has of some kinds, oldest first.

    Args:
        by_kind: What it has of each.
    """

    __slots__ = ("_by_kind", "_states")

    def __init__(self, by_kind: Mapping[str, Holding]) -> None:
        self._by_kind = dict(by_kind)
        self._states: dict[UUID, MemoryState] | None = None

    def __getitem__(self, memory_id: UUID) -> MemoryState:
        for holding in self._by_kind.values():
            if (state := holding.get(memory_id)) is not None:
                return state
        raise KeyError(memory_id)

    def __contains__(self, memory_id: object) -> bool:
        return any(memory_id in holding for holding in self._by_kind.values())

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._merged())

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))

    def of_kind(self, kind: str) -> Holding:
        """What there is of one kind."""
        return self._by_kind.get(kind, NOTHING)

    def all(self) -> list[MemoryState]:
        """Every memory, current or not."""
        return _oldest_first([holding.all() for holding in self._by_kind.values()])

    def current(self, now: datetime) -> list[MemoryState]:
        """The memories that are current, neither expired nor outdated."""
        return _oldest_first([holding.current(now) for holding in self._by_kind.values()])

    def visible(self, scope: AccessScope) -> "Holdings":
        """What a caller may see of it."""
        return Holdings({kind: holding.visible(scope) for kind, holding in self._by_kind.items()})

    def _merged(self) -> dict[UUID, MemoryState]:
        if self._states is None:
            self._states = {state.memory_id: state for state in self.all()}
        return self._states


def _oldest_first(lists: list[list[MemoryState]]) -> list[MemoryState]:
    filled = [states for states in lists if states]
    if len(filled) == 1:
        return filled[0]
    return sorted((s for states in filled for s in states), key=lambda state: state.first_index)


def _has_span(state: MemoryState) -> bool:
    columns = state.columns
    spans = columns.expires_at, columns.valid_from, columns.valid_until
    return any(end is not None for end in spans)


def _regrouped(
    groups: Mapping[Hashable, tuple[MemoryState, ...]],
    key: KeyOf,
    before: Mapping[UUID, MemoryState],
    states: Mapping[UUID, MemoryState],
) -> dict[Hashable, tuple[MemoryState, ...]]:
    found = dict(groups)
    for memory_id, state in states.items():
        former = before.get(memory_id)
        if former is not None and (value := key(former)) is not None:
            rest = tuple(s for s in found[value] if s.memory_id != memory_id)
            if rest:
                found[value] = rest
            else:
                del found[value]
        if (value := key(state)) is not None:
            joined = (*found.get(value, ()), state)
            found[value] = tuple(sorted(joined, key=lambda s: s.first_index))
    return found
