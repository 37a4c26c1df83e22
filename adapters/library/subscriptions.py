"""``subscribe``: following the memory log from an index on."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

from memoriale.adapters.application.branching import branch_scope
from memoriale.adapters.library.bound import Bound
from memoriale.adapters.library.opened import Opened
from memoriale.domain.branches import MAIN, NO_LIMIT
from memoriale.domain.principal import Right
from memoriale.domain.subscriptions import Selection, select
from memoriale.domain.values import check_whole

if TYPE_CHECKING:
    from memoriale.adapters.application.branching import BranchView
    from memoriale.adapters.application.stream import LoggedEvent
    from memoriale.adapters.application.subscribing import (
        Interrupted,
        Lines,
        Sight,
        Subscription,
    )
    from memoriale.adapters.composition import Tenant
    from memoriale.adapters.library.memory import Memory
    from memoriale.domain.record import Row


class CallerFields(TypedDict, total=False):
    """As whom ``Ledger.subscribe`` follows; see ``Ledger.memory``."""

    user: str | None
    agent: str | None
    resource: str | None
    team: str | None
    session: str | None
    teams: Sequence[str]
    actor: str | None
    on_behalf_of: str | None
    purpose: str | None
    branch: str


class Subscribing(Bound):
    """The part of ``Memory`` that follows the log."""

    def subscribe(
        self,
        *,
        after: int = -1,
        topics: Collection[str] = (),
        kinds: Collection[str] = (),
        owner: str | tuple[str, str] | None = None,
        keys: Collection[UUID | str] = (),
        filter: "Callable[[LoggedEvent], bool] | None" = None,
        all_owners: bool = False,
        on_interruption: "Interrupted | None" = None,
    ) -> "Subscription":
        """
        The events that this principal may see, from an index on, and then each one as it is
        recorded, in the order of the log.

        It gives events of memories, branches, sessions and jobs. On a handle of ``main`` they are
        those of all branches and it never ends by itself; else those that the branch sees, and it
        ends when it has given what there was up to the branch's discard. What it gives is on
        record as for ``recall``. Global memories are in another log.

        Args:
            after: Begin after this index; ``position`` of an earlier subscription goes on there.
            topics: Only these topics, such as ``memory.remembered``.
            kinds: Only these kinds of memory.
            owner: Only what an owner of this type has, or (type, id) for one owner.
            keys: Only events of these memories.
            filter: Only events for which this is true; asked last.
            all_owners: Every such event, whoever's, as stored; right ``audit``, and the bodies only
                with ``content`` too.
            on_interruption: Called with the error and the seconds until the next attempt each
                time that the database cannot be used.

        Returns:
            An iterator and context with ``position`` and ``stop``. Right: ``use``.
        """
        content = all_owners and Right.CONTENT in self.principal.rights
        auditing = (Right.AUDIT, Right.CONTENT) if content else (Right.AUDIT,)
        wanted = _checked(after, topics, kinds, owner, keys)
        self.allow("subscribe", *(auditing if all_owners else (Right.USE,)))
        services = self.services
        branch = self._resolved()
        sight = (
            _audited(services, wanted, branch, content)
            if all_owners
            else self._owned(wanted, branch)
        )
        return _started(services, sight, after, filter, on_interruption)

    def _owned(self, wanted: Selection, branch: "BranchView") -> "Sight":
        from memoriale.adapters.application.subscribing import Owning

        log = self.services.log
        log.require_its_keys()
        identities = log.identities

        def given(rows: "Sequence[Row]") -> None:
            told = [(row.columns.memory_id, row.recorded.index) for row in rows]
            memories = [(memory_id, index) for memory_id, index in told if memory_id is not None]
            if memories:
                self.given("subscribe", memories, index=memories[-1][1], branch=branch)

        return Owning(
            log,
            wanted,
            lambda: branch_scope(identities.scope(self.principal), branch),
            _lines(self.services, branch),
            given,
        )


def subscribed(
    ledger: Opened,
    handle: "Callable[..., Memory]",
    who: CallerFields,
    *,
    tenant: str,
    after: int,
    content: bool,
    filter: "Callable[[LoggedEvent], bool] | None",
    on_interruption: "Interrupted | None",
    **wanted: Any,
) -> "Subscription":
    """``Ledger.subscribe``: as a caller if one is named, else as an auditor of the tenant."""
    memory = handle(tenant=tenant, **who)
    if any(value for name, value in who.items() if name != "branch"):
        following = partial(memory.subscribe, after=after, filter=filter)
        return following(on_interruption=on_interruption, **wanted)
    selection = _checked(after, **wanted)
    rights = (Right.AUDIT, Right.CONTENT) if content else (Right.AUDIT,)
    ledger.asked(tenant, "log", *rights)
    sight = _audited(memory.services, selection, memory.branch_view(), content)
    return _started(memory.services, sight, after, filter, on_interruption)


def _started(
    services: "Tenant",
    sight: "Sight",
    after: int,
    filter: "Callable[[LoggedEvent], bool] | None",
    on_interruption: "Interrupted | None",
) -> "Subscription":
    from memoriale.adapters.application.subscribing import Subscription

    return Subscription(
        services.log, sight, after=after, filter=filter, interrupted=on_interruption
    )


def _audited(services: "Tenant", wanted: Selection, branch: "BranchView", content: bool) -> "Sight":
    from memoriale.adapters.application.subscribing import Auditing

    if content:
        services.log.require_its_keys()
    return Auditing(services.log, wanted, _lines(services, branch), content=content)


def _lines(services: "Tenant", branch: "BranchView") -> "Lines":
    from memoriale.adapters.application.subscribing import Lines

    return Lines(services.log, None if branch.branch.name == MAIN else branch)


def _checked(
    after: int,
    topics: Collection[str],
    kinds: Collection[str],
    owner: str | tuple[str, str] | None,
    keys: Collection[UUID | str],
) -> Selection:
    check_whole("after", after, -1, NO_LIMIT)
    return select(topics, kinds, owner, keys)
