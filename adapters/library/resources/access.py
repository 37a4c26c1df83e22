"""Providers behind a team's door: who is not let in reads and stores nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from memoriale.domain.errors import InputError
from memoriale.domain.resources.providers import SemanticMemoryProvider, WorkingMemoryProvider
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.resources.teams import TeamAccessChecker, check_team_access

_OPEN: Final = frozenset({"close"})
"""Methods that are about no resource."""
_TOLD: Final = frozenset({"tenant", "has_vector_index", "forked_with"})
"""Properties that tell nothing of any resource; others are not handed out."""


class _Gated:
    """A provider whose every call asks about the resources that it names."""

    def __init__(self, inner: object, checker: TeamAccessChecker) -> None:
        self._inner, self._checker = inner, checker


def with_team_access_control(
    provider: WorkingMemoryProvider, checker: TeamAccessChecker
) -> WorkingMemoryProvider:
    """
    Working memory of the teams that a checker lets in (reference system C,
    ``withTeamAccessControl``).

    Every call is asked about, also those of a resource without a team, where the checker is
    given None. Whatever else the provider can do is there too, asked about in the same way; a
    method that names no resource is refused, but ``close``.

    Args:
        provider: Keeps keys and values.
        checker: Says who is let in: True and nothing else.

    Raises:
        InputError: Something else than a provider and a checker.
        MemoryAccessDeniedError: From the calls of what is returned; ``team_id`` names the team.
    """
    gated: WorkingMemoryProvider = _checked_gate(provider, checker, WorkingMemoryProvider)
    return gated


def with_team_access_control_semantic(
    provider: SemanticMemoryProvider, checker: TeamAccessChecker
) -> SemanticMemoryProvider:
    """
    The same for semantic memory: also what lists, forgets, replaces, forks and tells history
    (reference system C, ``withTeamAccessControlSemantic``).
    """
    gated: SemanticMemoryProvider = _checked_gate(provider, checker, SemanticMemoryProvider)
    return gated


def _checked_gate(provider: Any, checker: Any, port: Any) -> Any:
    for field, value, wanted in (
        ("provider", provider, port),
        ("checker", checker, TeamAccessChecker),
    ):
        if not isinstance(value, wanted):
            raise InputError(
                f"{field} is no {wanted.__name__}.",
                code="bad_value",
                field=field,
                value=type(value).__name__,
                allowed=wanted.__name__,
            )
    return _gate(provider, checker)


def _gate(provider: object, checker: TeamAccessChecker) -> Any:
    # A class of its own, so that a check for a port finds what the provider has and no more.
    members: dict[str, Any] = {}
    for name in dir(provider):
        if name in _TOLD:
            members[name] = property(_reading(name))
        elif not name.startswith("_") and _is_method(provider, name):
            members[name] = _passing(name)
    if hasattr(provider, "__exit__"):
        members |= {"__enter__": lambda self: self, "__exit__": _leaving}
    return type("TeamGated", (_Gated,), members)(provider, checker)


def _leaving(self: _Gated, *error: Any) -> Any:
    leave: Any = self._inner
    return leave.__exit__(*error)


def _is_method(provider: object, name: str) -> bool:
    of_class = getattr(type(provider), name, None)
    return not isinstance(of_class, property) and callable(getattr(provider, name))


def _reading(name: str) -> Callable[[Any], Any]:
    def read(self: _Gated) -> Any:
        return getattr(self._inner, name)

    return read


def _passing(name: str) -> Callable[..., Any]:
    def call(self: _Gated, *args: Any, **kwargs: Any) -> Any:
        refs = list(_named(args, kwargs))
        if name not in _OPEN and not refs:
            raise InputError(
                f"{name} names no ResourceRef, so nobody can be asked about it.",
                code="no_resource",
                field="ref",
                allowed="a ResourceRef",
            )
        for ref in refs:
            check_team_access(self._checker, ref)
        return getattr(self._inner, name)(*args, **kwargs)

    return call


def _named(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[ResourceRef]:
    """Every resource among the arguments, also in lists of them."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, ResourceRef):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, ResourceRef))
