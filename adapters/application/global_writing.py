"""Writing and reading for all tenants as a caller of one of them, who has the right ``admin``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.deciding import Decided, Request
from memoriale.adapters.application.global_memories import (
    GlobalMemories,
    as_global,
    author,
    idempotency_for_all,
    main_of,
    require_main,
)
from memoriale.adapters.application.reading import AsOf, Pin
from memoriale.adapters.application.writing import Change
from memoriale.domain.access import GLOBAL_SCOPE
from memoriale.domain.commands import Remember
from memoriale.domain.errors import MemorialeError
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import GlobalPrincipal, Principal
from memoriale.domain.receipt import Receipt
from memoriale.domain.steps import Decision, Slice
from memoriale.domain.stores.scopes import GLOBAL_OWNER

if TYPE_CHECKING:
    from memoriale.adapters.composition import Tenant


class GlobalWriting:
    """
    Changes of global memories. Whoever calls has asked for the right ``admin``.

    Args:
        services: Of the caller's tenant.
    """

    def __init__(self, services: "Tenant") -> None:
        self._services = services

    @property
    def _shared(self) -> GlobalMemories:
        assert self._services.shared is not None
        return self._services.shared

    def remember(self, principal: Principal, branch: BranchView, command: Remember) -> Receipt:
        """
        Makes a global memory; see ``Writing.remember``.

        Raises:
            InputError: From a branch, or with what a memory for all tenants cannot have.
        """
        require_main(branch)
        asked = as_global(command, principal.tenant)
        services = self._shared.make()
        return services.writing.remember(self._author(principal), main_of(services), asked)

    def remember_many(
        self, principals: Sequence[Principal], branch: BranchView, commands: Sequence[Remember]
    ) -> list[Receipt | MemorialeError]:
        """Makes many, each by itself; an answer for each."""
        answers: list[Receipt | MemorialeError] = []
        for principal, command in zip(principals, commands, strict=True):
            try:
                answers.append(self.remember(principal, branch, command))
            except MemorialeError as error:
                answers.append(error)
        return answers

    def has(self, memory_id: UUID) -> bool:
        """Whether there is a global memory of an id."""
        services = self._shared.find()
        if services is None:
            return False
        state = services.reading.folded([memory_id], main_of(services)).get(memory_id)
        return state is not None and GLOBAL_SCOPE.allows(state.columns)

    def folded(self, memory_ids: Sequence[UUID], pin: Pin) -> dict[UUID, MemoryState]:
        """Global memories as of a point, those that there are."""
        services = None if pin.global_index is None else self._shared.find()
        if services is None:
            return {}
        found = services.reading.folded(list(memory_ids), main_of(services), pin.global_limit)
        return {i: state for i, state in found.items() if GLOBAL_SCOPE.allows(state.columns)}

    def change(self, principal: Principal, branch: BranchView, command: Change) -> Receipt:
        """Changes a global memory; see ``Writing.change``."""
        require_main(branch)
        services = self._shared.make()
        asked = as_global(command, principal.tenant)
        return services.writing.change(self._author(principal), main_of(services), asked)

    def decide(
        self,
        principal: Principal,
        branch: BranchView,
        kinds: Sequence[str],
        decision: Decision,
        request: Request,
    ) -> Decided:
        """Changes global memories by the rule of a store; see ``Deciding.decide``."""
        require_main(branch)
        services = self._shared.make()
        asked = idempotency_for_all(request, principal.tenant)
        return services.deciding.decide(
            self._author(principal), main_of(services), GLOBAL_OWNER, kinds, decision, asked
        )

    def read(self, kinds: Sequence[str], as_of: AsOf) -> Slice | None:
        """The global memories of some kinds as of a point; None when it is without."""
        services = self._shared.find()
        if services is None:
            return None
        pin = self._services.reading.pin(as_of)
        if pin.global_index is None:
            return None
        limit, now = (pin.global_index, pin.now) if pin.pinned else (None, None)
        return services.deciding.read(
            GlobalPrincipal(), main_of(services), GLOBAL_OWNER, kinds, limit, now
        )

    def _author(self, principal: Principal) -> GlobalPrincipal:
        return author(principal, self._services.log.identities)
