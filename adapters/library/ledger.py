"""``Ledger``: an open installation, and the operator's and auditor's calls on it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Unpack
from uuid import UUID

from memoriale.adapters.application.stream import LoggedEvent, Streaming
from memoriale.adapters.composition import VIEW_NAMES, Tenant
from memoriale.adapters.library.access import LedgerAccess
from memoriale.adapters.library.anchoring import Anchoring
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.proving import Progress, named
from memoriale.adapters.library.subscriptions import CallerFields, subscribed
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import BehindError, InputError
from memoriale.domain.fields import several
from memoriale.domain.principal import Principal, Right, parse_rights
from memoriale.domain.receipt import Receipt
from memoriale.domain.values import check_seconds, check_whole

if TYPE_CHECKING:
    from memoriale.adapters.application.subscribing import Interrupted, Subscription
    from memoriale.adapters.library.jobs import LedgerJobs
    from memoriale.projections.reconcile import ReconcileReport
    from memoriale.projections.replay import ReplayReport

PROOFS: Final = "proofs"
"""The view that is files of hashes: rebuilt by ``replay``, asked by ``receipt``."""


PERSONS: Final = "persons"
"""The table by which events are found by whom they are about: compared by ``reconcile``."""


class Ledger(Anchoring):
    """
    An open ledger. Made by ``memoriale.open``; close it, or use it as a context.

    The calls of this class act on one ``tenant``; None means every tenant for which this ledger
    has handed out a memory. They are made with the rights given to ``memoriale.open``; each use
    is recorded in the tenant's access log.
    """

    def memory(
        self,
        *,
        tenant: str,
        user: str | None = None,
        agent: str | None = None,
        resource: str | None = None,
        team: str | None = None,
        session: str | None = None,
        teams: Sequence[str] = (),
        rights: Iterable[Right | str] | None = None,
        actor: str | None = None,
        actor_kind: str = "user",
        on_behalf_of: str | None = None,
        purpose: str | None = None,
        namespace: str | None = None,
        branch: str = "main",
    ) -> Memory:
        """
        A handle on the memory of one principal; see ``Principal`` for the arguments.

        Args:
            rights: Rights that the caller asserts for it; default: those of this ledger.
            branch: The branch to act on.

        Raises:
            InputError: A name that cannot be used.
        """
        principal = Principal(
            tenant=tenant,
            user=user,
            agent=agent,
            resource=resource,
            team=team,
            session=session,
            teams=several("teams", teams),
            rights=self.rights if rights is None else parse_rights(rights),
            actor=actor,
            actor_kind=actor_kind,
            on_behalf_of=on_behalf_of,
            purpose=purpose,
            namespace=namespace,
        )
        memory = Memory(self.tenant(tenant), self.settings, principal)
        return memory if branch == "main" else memory.branch(branch)

    @property
    def jobs(self) -> "LedgerJobs":
        """Background work, to be looked at and worked on."""
        from memoriale.adapters.language_models.factory import make_model
        from memoriale.adapters.library.jobs import LedgerJobs

        return LedgerJobs(
            self.tenant,
            lambda tenant: Principal(tenant=tenant, rights=self.rights),
            lambda principal, branch: Memory(
                self.tenant(principal.tenant), self.settings, principal, branch
            ),
            lambda: make_model(self.settings.model, self.settings.openai_endpoint),
        )

    @property
    def access(self) -> LedgerAccess:
        """Who was given which memory: the auditor's questions to the access log."""
        return LedgerAccess(self.asked)

    def replay(
        self,
        view: str = "all",
        *,
        tenant: str | None = None,
        shared: bool = False,
        verify: bool = False,
        progress: Progress | None = None,
    ) -> "list[ReplayReport]":
        """
        Rebuilds views from the log beside the live ones, compares both, and swaps.

        Args:
            view: ``recall``, ``stats``, ``proofs`` or ``all``.
            tenant: Whose; None: of all that were used, and of the global memories.
            shared: The views of the global memories alone.
            verify: Compare vectors too; a difference is then a finding (``equal`` is False).
            progress: Called while it works.

        Returns:
            A report for each view, with both digests. Right: ``operate``.
        """
        from memoriale.projections.replay import replay

        reports = []
        for services in self._for_all_tenants() if shared else self._chosen(tenant, shared=True):
            self._allow(services, "replay", Right.OPERATE)
            names = _view_names(view, (*VIEW_NAMES, PROOFS))
            for name in (name for name in names if name != PROOFS):
                reports.append(
                    replay(
                        services.view(name),
                        services.log,
                        verify=verify,
                        progress=named(progress, name),
                    )
                )
            if PROOFS in names:
                from memoriale.adapters.proving.replaying import replay_proofs

                logs = (services.log, services.access)
                reports.append(replay_proofs(logs, self._sealing, named(progress, PROOFS)))
        return reports

    def reconcile(
        self,
        view: str = "all",
        *,
        tenant: str | None = None,
        shared: bool = False,
        repair: bool = False,
        progress: Progress | None = None,
    ) -> "list[ReconcileReport]":
        """
        Compares views with the log row by row: what is missing, orphaned, stale or duplicated,
        and which vectors are not those of the text.

        Args:
            view: ``recall``, ``stats``, ``persons`` (whom each event is about), ``owner-snapshots``
                (a wrong one is removed) or ``all``.
            tenant: Whose; None: of all that were used, and of the global memories.
            shared: The views of the global memories alone.
            repair: Put right what is found.
            progress: Called while it works.

        Returns:
            A report for each view. Right: ``operate``.
        """
        from memoriale.adapters.application.snapshot_checking import SNAPSHOTS, SnapshotChecking
        from memoriale.projections.reconcile import reconcile

        reports = []
        for services in self._for_all_tenants() if shared else self._chosen(tenant, shared=True):
            self._allow(services, "reconcile", Right.OPERATE)
            names = _view_names(view, (*VIEW_NAMES, PERSONS, SNAPSHOTS))
            for name in (name for name in names if name in VIEW_NAMES):
                reports.append(
                    reconcile(
                        services.view(name),
                        services.log,
                        repair=repair,
                        progress=named(progress, name),
                    )
                )
            if PERSONS in names:
                reports.append(self._reconciled_persons(services, repair))
            if SNAPSHOTS in names:
                shown = named(progress, SNAPSHOTS)
                checking = SnapshotChecking(services.log, services.snapshots)
                reports.append(checking.reconcile(repair=repair, progress=shown))
        return reports

    def _reconciled_persons(self, services: Tenant, repair: bool) -> "ReconcileReport":
        from memoriale.adapters.postgres.persons import reconcile_persons

        shared = self.infrastructure
        admin_url = shared.logins.admin or shared.logins.first
        return reconcile_persons(shared.datastore, services.log.log, admin_url, repair=repair)

    def position(self, view: str, *, tenant: str) -> int:
        """How many events a view has applied. Right: ``use``."""
        services = self.tenant(tenant)
        self._allow(services, "position", Right.USE)
        return services.view(_known_view(view)).position()

    def wait(
        self,
        receipt: Receipt | int,
        *,
        view: str = "recall",
        timeout: float = 5.0,
        tenant: str | None = None,
    ) -> int:
        """
        Catches a view up until it has applied a write.

        Args:
            receipt: A receipt, or an index of ``tenant``.
            view: ``recall`` or ``stats``.
            timeout: Seconds.

        Returns:
            The view's position. Right: ``use``.

        Raises:
            BehindError: It did not get there in time.
            InputError: The log has no such index.
            UnavailableError: The view's disk takes no more.
        """
        name = receipt.tenant if isinstance(receipt, Receipt) else tenant
        if name is None:
            raise InputError("an index needs a tenant.", code="missing", field="tenant")
        index = receipt.index if isinstance(receipt, Receipt) else receipt
        check_seconds("timeout", timeout)
        of_all = isinstance(receipt, Receipt) and name == GLOBAL_TENANT
        services = self.shared.make() if of_all else self.tenant(name)
        self._allow(services, "wait", Right.USE)
        check_whole("index", index, 0, services.log.head() - 1)
        with services.view(_known_view(view)).read(at_least=index + 1, wait=timeout) as reading:
            if reading.position <= index:
                if reading.failure is not None:
                    raise reading.failure
                raise BehindError(
                    f"view {view} stands at {reading.position} after {timeout} s.",
                    field="timeout",
                    value=timeout,
                )
            return reading.position

    def events(
        self,
        *,
        tenant: str,
        after: int = -1,
        limit: int | None = None,
        content: bool = False,
    ) -> Iterator[LoggedEvent]:
        """
        The memory log as stored, oldest first.

        Args:
            tenant: Whose.
            after: Begin after this index.
            limit: At most so many events.
            content: Open the sealed bodies too (right ``content``). Right: ``audit``.
        """
        check_whole("after", after, -1, NO_LIMIT)
        services = self._audited(tenant, content)
        return Streaming(services.log).read(after=after, limit=limit, content=content)

    def subscribe(
        self,
        *,
        tenant: str,
        after: int = -1,
        topics: Collection[str] = (),
        kinds: Collection[str] = (),
        owner: str | tuple[str, str] | None = None,
        keys: Collection[UUID | str] = (),
        filter: Callable[[LoggedEvent], bool] | None = None,
        content: bool = False,
        on_interruption: "Interrupted | None" = None,
        **caller: Unpack[CallerFields],
    ) -> "Subscription":
        """
        The memory log from an index on, and then each event as it is recorded; it ends by itself
        on a ``branch`` that is discarded. Arguments and answer as for ``Memory.subscribe``.

        Args:
            tenant: Whose log.
            content: Without a caller: open the sealed bodies too (right ``content``).
            **caller: ``user``, ``agent`` and so on as for ``memory``: then only what that
                principal may see, with its content; right ``use``. Without one it is every event
                as ``events`` gives it; right ``audit``.
        """
        return subscribed(
            self,
            self.memory,
            caller,
            tenant=tenant,
            after=after,
            content=content,
            filter=filter,
            on_interruption=on_interruption,
            topics=topics,
            kinds=kinds,
            owner=owner,
            keys=keys,
        )

    def ahead(self, *, tenant: str) -> timedelta:
        """How far the log's last recorded time is ahead of the database clock. Right: ``use``."""
        services = self.tenant(tenant)
        self._allow(services, "ahead", Right.USE)
        return services.log.reader.ahead()

    def _audited(self, tenant: str, content: bool) -> Tenant:
        services = self.tenant(tenant)
        rights = (Right.AUDIT, Right.CONTENT) if content else (Right.AUDIT,)
        self._allow(services, "log", *rights)
        if content:
            services.log.require_its_keys()
        return services


def _view_names(view: str, names: Sequence[str] = VIEW_NAMES) -> Sequence[str]:
    return names if view == "all" else (_known_view(view, names),)


def _known_view(view: str, names: Sequence[str] = VIEW_NAMES) -> str:
    if view not in names:
        raise InputError(
            f"unknown view {view!r}; there are {', '.join(names)}.",
            code="unknown_view",
            field="view",
            value=str(view)[:80],
            allowed=[*names],
        )
    return view
