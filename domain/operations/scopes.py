"""The scope of an operation: whose items are meant, and with which tags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from memoriale.domain.errors import InputError
from memoriale.domain.fields import Limits, tag_list
from memoriale.domain.keys import Subject
from memoriale.domain.text import check_outside_id, shown

FIELDS: Final = ("user_id", "agent_id", "tags")


class Scope(TypedDict, total=False):
    """A scope as callers write it."""

    user_id: str | None
    agent_id: str | None
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class OperationScope:
    """
    Whose items an operation means: those that fit *every* field that is given.

    The owner is the user, else the agent, else, for tags alone, the tenant itself, whose items
    everybody in the tenant sees. User and agent are kept apart from tags, so no tag can stand
    for one of them, and what a model calls its tags is kept elsewhere.

    Args:
        user_id: The user.
        agent_id: The agent that the items were added through.
        tags: Tags that the items must all have.
    """

    user_id: str | None = None
    agent_id: str | None = None
    tags: tuple[str, ...] = ()

    def owner(self, tenant: str) -> Subject:
        """Whose the items are."""
        if self.user_id is not None:
            return Subject("user", self.user_id)
        if self.agent_id is not None:
            return Subject("agent", self.agent_id)
        return Subject("tenant", tenant)

    def event_tags(self) -> tuple[str, ...]:
        """How it is written in events: user, agent and tags each with a word of their own."""
        named = (("user", self.user_id), ("agent", self.agent_id))
        who = [f"scope:{word}:{name}" for word, name in named if name is not None]
        return (*who, *(f"scope:tag:{tag}" for tag in self.tags))

    def as_dict(self) -> dict[str, Any]:
        """The fields that are given, as JSON values."""
        found: dict[str, Any] = {}
        if self.user_id is not None:
            found["user_id"] = self.user_id
        if self.agent_id is not None:
            found["agent_id"] = self.agent_id
        if self.tags:
            found["tags"] = list(self.tags)
        return found


def parse_scope(scope: object, limits: Limits) -> OperationScope:
    """
    A checked scope.

    Args:
        scope: A mapping with ``user_id``, ``agent_id`` and ``tags``, or an ``OperationScope``.
        limits: How long tags may be.

    Raises:
        InputError: Nothing is given, an unknown field, or a name that cannot be used.
    """
    if isinstance(scope, OperationScope):
        scope = scope.as_dict()
    if not isinstance(scope, Mapping):
        raise _none_given("nothing" if scope is None else type(scope).__name__)
    for name in scope:
        if name not in FIELDS:
            raise InputError(
                f"scope has no field {shown(name)!r}; known are {', '.join(FIELDS)}.",
                code="unknown_field",
                field="scope",
                value=shown(name),
                allowed=list(FIELDS),
            )
    given = {name: scope[name] for name in FIELDS if scope.get(name) is not None}
    for name in ("user_id", "agent_id"):
        if name in given:
            check_outside_id(f"scope.{name}", given[name])
    tags = tuple(sorted(set(tag_list(limits, {"tags": given.get("tags", ())}))))
    found = OperationScope(given.get("user_id"), given.get("agent_id"), tags)
    if not found.as_dict():
        raise _none_given("nothing")
    return found


def _none_given(value: str) -> InputError:
    return InputError(
        f"scope says {value}; name user_id, agent_id or tags: nothing never means everything.",
        code="no_scope",
        field="scope",
        value=value,
        allowed=list(FIELDS),
    )
