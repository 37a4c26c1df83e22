"""Scopes of learnings, corrections and procedures: who may see one, and so who owns it."""

from collections.abc import Iterable
from typing import Final, Literal

from memoriale.domain.access import Visibility
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Principal

LearningScope = Literal["user", "agent", "tenant", "global"]
ProcedureScope = LearningScope
SCOPES: Final = ("user", "agent", "tenant")
_WHO: Final = {"user": "user_id", "agent": "agent_name"}


def owner_of_scope(principal: Principal, scope: str) -> Subject:
    """
    Who owns what is kept at a scope: the user, the agent within the tenant, or the tenant.

    Raises:
        InputError: The principal has no user or agent, or the scope is not known.
    """
    if scope not in SCOPES:
        raise InputError(
            f"scope is {scope!r}; allowed are {', '.join(SCOPES)}.",
            code="bad_value",
            field="scope",
            value=str(scope)[:80],
            allowed=list(SCOPES),
        )
    owner = principal.identity(scope)
    if owner is None:
        raise InputError(
            f"scope {scope} needs {_WHO[scope]}: neither the call nor the handle names one.",
            code="no_owner",
            field=_WHO[scope],
            allowed="a text",
        )
    return owner


def visibility_of_scope(scope: str) -> Visibility:
    """Who besides the owner may see what is kept at a scope."""
    return Visibility.TENANT if scope == "tenant" else Visibility.OWNER


def scopes_of(states: Iterable[MemoryState]) -> str:
    """The scopes that occur among memories, for the mark of a section; ``user`` for none."""
    found = {getattr(state.payload, "scope", None) for state in states}
    return " ".join(scope for scope in SCOPES if scope in found) or "user"
