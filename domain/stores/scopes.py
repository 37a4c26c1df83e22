"""Scopes of learnings, corrections and procedures: who may see one, and so who owns it."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from memoriale.domain.access import GLOBAL_TENANT, Visibility
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Principal

LearningScope = Literal["user", "agent", "tenant", "global"]
ProcedureScope = LearningScope
SCOPES: Final = ("user", "agent", "tenant")
SHARED_SCOPES: Final = (*SCOPES, "global")
"""Of learnings and procedures."""
GLOBAL_OWNER: Final = Subject("tenant", GLOBAL_TENANT)
"""Who owns what all tenants see. No caller is it."""
_WHO: Final = {"user": "user_id", "agent": "agent_name"}


def owner_of_scope(principal: Principal, scope: str, allowed: Sequence[str] = SCOPES) -> Subject:
    """
    Who owns what is kept at a scope: the user, the agent within the tenant, the tenant, or for
    all tenants ``_global``.

    Raises:
        InputError: The principal has no user or agent, or the scope is not allowed.
    """
    if scope not in allowed:
        raise InputError(
            f"scope is {scope!r}; allowed are {', '.join(allowed)}.",
            code="bad_value",
            field="scope",
            value=str(scope)[:80],
            allowed=list(allowed),
        )
    if scope == "global":
        return GLOBAL_OWNER
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
    return Visibility(scope) if scope in ("tenant", "global") else Visibility.OWNER


def is_global(state: MemoryState) -> bool:
    """Whether a memory is one of all tenants."""
    return state.columns.visibility == Visibility.GLOBAL


def scopes_of(states: Iterable[MemoryState]) -> str:
    """The scopes that occur among memories, for the mark of a section; ``user`` for none."""
    found = {getattr(state.payload, "scope", None) for state in states}
    return " ".join(scope for scope in SHARED_SCOPES if scope in found) or "user"


def refuse_extracted(scope: str, source: str | None) -> None:
    """
    Refuses to show all tenants what a model said; a person may save it as their own words.

    Raises:
        InputError: Names the scope.
    """
    if scope == "global" and source == "llm-extracted":
        raise InputError(
            "what a model extracted is not kept for all tenants; save it with another source "
            "when somebody has checked it.",
            code="not_for_all",
            field="scope",
            value=scope,
            allowed=list(SCOPES),
        )
