"""``FileMemory``: two small notebooks that are always shown, the agent's and the user's."""

from collections.abc import Mapping
from typing import Any

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.fields import choice
from memoriale.domain.rendering import quoted
from memoriale.domain.stores.files import (
    FILE_ENTRY,
    MEMORY_CHARACTERS,
    TARGETS,
    USER_CHARACTERS,
    ChangeFile,
    FileReply,
    entries_of,
    texts_of,
)
from memoriale.domain.tools import ToolDef
from memoriale.domain.values import check_whole

_MOST_CHARACTERS = 1_000_000
_MARK = "§ "


class FileMemory(Store):
    """
    Notebooks with hard limits: ``memory`` belongs to an agent, ``user`` to a user.

    Taken from ``FileMemory`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its agent and user are meant where ``owner`` is not given.
        memory_char_limit: Characters of ``memory`` at most.
        user_char_limit: Characters of ``user`` at most.
    """

    def __init__(
        self,
        storage: Memory,
        *,
        memory_char_limit: int = MEMORY_CHARACTERS,
        user_char_limit: int = USER_CHARACTERS,
    ) -> None:
        super().__init__(storage)
        self.limits = {
            "memory": check_whole("memory_char_limit", memory_char_limit, 1, _MOST_CHARACTERS),
            "user": check_whole("user_char_limit", user_char_limit, 1, _MOST_CHARACTERS),
        }

    def get_entries(
        self, target: str = "memory", owner: str | None = None, *, as_of: AsOf = None
    ) -> list[str]:
        """
        The entries of a notebook, oldest first.

        Args:
            target: ``memory`` or ``user``.
            owner: The agent's name or the user's id; default: the handle's.
            as_of: As then: an index or a time.
        """
        memory, type_ = self._of(target, owner)
        subject = self._owner(memory, type_)
        seen = self._read(memory, subject, (FILE_ENTRY,), "file.show", as_of)
        entries = entries_of(seen, target)
        self._told(memory, "file.show", entries, seen, as_of)
        return texts_of(entries)

    def add(self, target: str, owner: str | None, content: str) -> FileReply:
        """
        Adds an entry; one that is there already changes nothing.

        Args:
            target: ``memory`` or ``user``.
            owner: The agent's name or the user's id; None: the handle's.
            content: The entry.

        Returns:
            Whether it was stored; when it does not fit, what there is and what to do.
        """
        return self._change(target, owner, "file.add", content=content)

    def replace(self, target: str, owner: str | None, old_text: str, content: str) -> FileReply:
        """
        Replaces the one entry that contains ``old_text``; else as ``add``.

        Args:
            target, owner: As for ``add``.
            old_text: Part of exactly one entry.
            content: What stands in its place.
        """
        return self._change(target, owner, "file.replace", content=content, old_text=old_text)

    def remove(self, target: str, owner: str | None, old_text: str) -> FileReply:
        """Removes the one entry that contains ``old_text``; history keeps it."""
        return self._change(target, owner, "file.remove", old_text=old_text)

    def get_context_string(
        self,
        user_id: str | None = None,
        agent_name: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """
        Both notebooks as text for a prompt, each with how full it is; empty ones are left out.

        Args:
            user_id: Whose ``user``; default: the handle's user. None of both: no ``user``.
            agent_name: Whose ``memory``; default: the handle's agent. None of both: no ``memory``.
            as_of: As then.
        """
        principal, parts = self.storage.principal, []
        for target, owner in (
            ("memory", agent_name or principal.agent),
            ("user", user_id or principal.user),
        ):
            entries = [] if owner is None else self.get_entries(target, owner, as_of=as_of)
            if entries:
                parts.append(self._section(target, entries))
        return "\n\n".join(parts)

    def get_tools(self) -> list[ToolDef]:
        """The tool ``memory``: adds, replaces and removes entries of the handle's notebooks."""
        text = {"type": "string"}
        return [
            ToolDef(
                name="memory",
                description=(
                    "Keeps short notes that are always shown: target memory for what you learnt, "
                    "user for what you know about the user. replace and remove name the entry by "
                    "a part of it, old_text."
                ),
                parameters={
                    "type": "object",
                    "properties": {
                        "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                        "target": {"type": "string", "enum": [*TARGETS], "default": "memory"},
                        "content": text,
                        "old_text": text,
                    },
                    "required": ["action"],
                    "additionalProperties": False,
                },
                handler=self._called,
            )
        ]

    def _of(self, target: str, owner: str | None) -> tuple[Memory, str]:
        choice("target", target, TARGETS)
        if target == "user":
            return self._as(user=owner), "user"
        return self._as(agent=owner), "agent"

    def _change(
        self,
        target: str,
        owner: str | None,
        command: str,
        content: str | None = None,
        old_text: str | None = None,
    ) -> FileReply:
        memory, type_ = self._of(target, owner)
        entry = None
        if content is not None:
            details = {"target": target}
            entry = self._command(memory, content, kind=FILE_ENTRY, owner=type_, details=details)
        decision = ChangeFile(target, self.limits[target], entry, old_text)
        arguments = {"target": target, "content": content, "old_text": old_text}
        subject = self._owner(memory, type_)
        self._decide(memory, subject, (FILE_ENTRY,), decision, command, arguments)
        return decision.reply

    def _called(self, given: Mapping[str, Any]) -> dict[str, Any]:
        action = choice("action", given.get("action"), ("add", "replace", "remove"))
        target = given.get("target") or "memory"
        if action == "add":
            reply = self.add(target, None, given.get("content", ""))
        elif action == "replace":
            old, content = given.get("old_text", ""), given.get("content", "")
            reply = self.replace(target, None, old, content)
        else:
            reply = self.remove(target, None, given.get("old_text", ""))
        return reply.model_dump(mode="json", exclude_none=True)

    def _section(self, target: str, entries: list[str]) -> str:
        used, limit = sum(map(len, entries)), self.limits[target]
        title = f"{target} ({used * 100 // limit} % of {limit} characters used)"
        return "\n".join((title, *(f"{_MARK}{quoted(entry)}" for entry in entries)))
