"""What every store is made of: a handle, the callers that it speaks for, and one way to decide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Decided, Request
from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.domain import commands
from memoriale.domain.errors import InputError
from memoriale.domain.guards import Guard
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.steps import Decision, Slice
from memoriale.domain.stores.context import Section, shared_of
from memoriale.domain.stores.scopes import GLOBAL_OWNER

_WHO: Final = {"user": "user_id", "agent": "agent_name", "session": "session_id"}


class Store:
    """
    A store on a memory handle.

    The handle says tenant, branch, rights and caller. A method that is told another user, agent
    or session than the handle's acts for that one: this takes the right ``operate``, which is
    recorded once for each of them.

    Args:
        storage: The handle.
    """

    def __init__(self, storage: Memory) -> None:
        if not isinstance(storage, Memory):
            raise InputError(
                "storage must be a memory handle, as ledger.memory(tenant=...) returns it.",
                code="bad_value",
                field="storage",
                value=type(storage).__name__,
                allowed="a memory handle",
            )
        self.storage = storage
        self._acted_for: set[tuple[str, str]] = set()

    def _as(self, **who: str | None) -> Memory:
        """The handle as somebody: ``user``, ``agent`` or ``session``; None leaves the handle's."""
        principal = self.storage.principal
        named = {f: v for f, v in who.items() if v is not None and v != getattr(principal, f)}
        if not named:
            return self.storage
        for field, value in named.items():
            if (field, value) not in self._acted_for:
                self.storage.allow("act_for", Right.OPERATE)
                self._acted_for.add((field, value))
        changed: dict[str, Any] = dict(named)
        return self.storage.rebound(replace(principal, **changed))

    def _owner(self, memory: Memory, type_: str) -> Subject:
        """Whose memories a handle's caller means."""
        owner = memory.principal.identity(type_)
        if owner is None:
            field = _WHO.get(type_, type_)
            raise InputError(
                f"{field} is missing: neither the call nor the handle names a {type_}.",
                code="no_owner",
                field=field,
                allowed="a text",
            )
        return owner

    def _decide(
        self,
        memory: Memory,
        owner: Subject,
        kinds: Sequence[str],
        decision: Decision,
        command: str,
        arguments: Mapping[str, Any],
        idempotency_key: str | None = None,
        others: Sequence[UUID] = (),
        *,
        inherits: bool = False,
        guards: Sequence[Guard] = (),
    ) -> Decided:
        """Changes an owner's memories by a rule; see ``Deciding.decide``."""
        memory.allow(command, Right.USE)
        request = Request(
            command=command,
            arguments=dict(arguments),
            idempotency_key=idempotency_key,
            others=tuple(others),
            inherits=inherits,
            guards=tuple(guards),
            job=memory.job,
        )
        branch = memory.branch_view()
        if owner == GLOBAL_OWNER:
            memory.allow(command, Right.ADMIN)
            return memory.for_all.decide(memory.principal, branch, kinds, decision, request)
        return memory.services.deciding.decide(
            memory.principal, branch, owner, kinds, decision, request
        )

    def _read(
        self,
        memory: Memory,
        owner: Subject,
        kinds: Sequence[str],
        command: str,
        as_of: AsOf = None,
        *,
        inherits: bool = False,
    ) -> Slice | None:
        """What an owner has of some kinds; None when the tenant never saw the owner."""
        memory.allow(command, Right.USE)
        branch = memory.branch_view()
        deciding = memory.services.deciding
        if owner == GLOBAL_OWNER:
            return memory.for_all.read(kinds, as_of)
        if as_of is None:
            return deciding.read(memory.principal, branch, owner, kinds, inherits=inherits)
        pin = memory.services.reading.pin(as_of)
        return deciding.read(
            memory.principal, branch, owner, kinds, pin.limit, pin.now, inherits=inherits
        )

    def _told(
        self,
        memory: Memory,
        command: str,
        states: Iterable[MemoryState],
        seen: Slice | None,
        as_of: AsOf = None,
    ) -> None:
        """Puts on record which memories the caller is about to be given; see ``Bound.given``."""
        if seen is None:
            return
        versions = [(state.memory_id, state.index) for state in states]
        memory.given(command, versions, index=seen.index, as_of=as_of)

    def _shown(self, memory: Memory, command: str, section: Section, as_of: AsOf = None) -> str:
        """A section as the text of ``get_context_string``, put on record."""
        if section.lines:
            pin = memory.services.reading.pin(as_of)
            memory.given(
                command,
                section.memories(),
                index=pin.index,
                as_of=as_of,
                global_index=pin.global_index,
                shared=shared_of(section.lines),
            )
        return section.text()

    def _command(self, memory: Memory, content: str, **given: Any) -> commands.Remember:
        """A checked command for ``Make`` and ``Replace``; None counts as not given."""
        return memory.remember_command(content, given)
