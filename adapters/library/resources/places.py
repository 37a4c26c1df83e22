"""Where a resource's memory lies in the ledger: on main, or on its own branch once forked."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import ConflictError, InputError, RefusedError
from memoriale.domain.fields import choice
from memoriale.domain.guards import Guard, NothingNew, StreamAt
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.resources.limits import check_ref, is_bookkeeping
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.stores.semantic import SEMANTIC
from memoriale.domain.stores.working import WORKING, working_key
from memoriale.domain.text import check_tenant

FORKED: Final = "__forked"
"""Name of the branch that a resource's memory lies on once it was forked from another's."""
KINDS: Final = (WORKING, SEMANTIC)
WHO: Final = ("rights", "actor", "actor_kind", "on_behalf_of", "purpose")
"""What may be said of the caller: it acts as the resource and nobody else."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where one resource's memory lies.

    Args:
        memory: A handle there.
        guards: Under which a change may be stored there: on main, that the resource was not
            forked meanwhile.
    """

    memory: Memory
    guards: tuple[Guard, ...] = ()

    @property
    def owner(self) -> Subject:
        """The resource with its team."""
        owner = self.memory.principal.identity("resource")
        assert owner is not None
        return owner


class Places:
    """
    Finds resources' memory in the ledger, by one look-up by key each time until it was forked.

    Args:
        ledger: The ledger, or what gives it when it is first needed.
        tenant: Whose.
        who: Further fields of the principal, as for ``Ledger.memory``: those of ``WHO``.

    Raises:
        InputError: A tenant that cannot be one, or another field.
    """

    def __init__(
        self, ledger: Ledger | Callable[[], Ledger], tenant: str, who: dict[str, Any]
    ) -> None:
        self.tenant = check_tenant(tenant)
        for field in who:
            choice("who", field, WHO)
        self._ledger, self._who = ledger, who
        self._forked: set[UUID] = set()
        self._forked_from: set[ResourceRef] = set()

    @property
    def ledger(self) -> Ledger:
        """The ledger, opened."""
        return self._ledger if isinstance(self._ledger, Ledger) else self._ledger()

    @property
    def identity(self) -> Hashable:
        """Equal for two that lie in the same log."""
        return "ledger", self.ledger.tenant(self.tenant).log.log_id

    def of(self, ref: ResourceRef, *, writing: bool = False) -> Place:
        """
        Where a resource's memory lies.

        Args:
            ref: The resource.
            writing: Whether something is about to be stored there, so that it must be known.
        """
        memory = self._handle(ref)
        place = Place(memory)
        services = memory.services
        identities, branching = services.log.identities, services.branching
        key = identities.key(place.owner) if writing else identities.find(place.owner)
        if key is None:
            return place
        if key.pseudonym not in self._forked:
            if branching.named(key, FORKED) is None:
                return Place(memory, (StreamAt(branching.stream_of(key, FORKED), 0),))
            self._forked.add(key.pseudonym)
        return Place(Memory(services, memory.settings, memory.principal, FORKED))

    def change(self, ref: ResourceRef, command: str, change: Callable[[Place], T]) -> T:
        """
        Changes a resource's memory where it lies, also when it was forked meanwhile.

        Args:
            ref: The resource.
            command: What it is called where it is refused; right ``use``.
            change: What to do at a place; it stores under the place's guards.

        Raises:
            ConflictError: From the change.
        """
        self._handle(ref).allow(command, Right.USE)
        place = self.of(ref, writing=True)
        try:
            return change(place)
        except ConflictError:
            after = self.of(ref, writing=True)
            if after.memory.branch_name == place.memory.branch_name:
                raise
            return change(after)

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """
        Gives a resource without memories all that another has, in one append that copies
        nothing. Rights: ``use`` and ``operate``.

        Args:
            parent: Whose.
            child: Another resource of the same team.

        Raises:
            InputError: Both are the same.
            RefusedError: The child is of another team.
            ConflictError: The child has memories already.
        """
        check_ref(parent, "parent")
        check_ref(child, "child")
        if parent == child:
            raise InputError(
                f"{child.resource_id!r} cannot be forked from itself; name another resource.",
                code="same_resource",
                field="child",
                value=child.resource_id,
            )
        if parent.team_id != child.team_id:
            raise RefusedError(
                "a resource's memory is forked within its team alone.",
                code="another_team",
                field="child.team_id",
                value=child.team_id,
                allowed=parent.team_id,
            )
        self._allow_fork(parent)
        source = self.of(parent, writing=True)
        try:
            self._fork(source, child)
        except ConflictError:
            after = self.of(parent, writing=True)
            if after.memory.branch_name == source.memory.branch_name:
                raise
            # The parent was forked from another one meanwhile, and has its memory elsewhere.
            self._fork(after, child)

    def _fork(self, source: Place, child: ResourceRef) -> None:
        memory = source.memory
        at = memory.services.log.head() - 1
        owner, guards = self._empty(child)
        try:
            memory.services.branching.fork(
                memory.principal,
                FORKED,
                memory.branch_view(),
                at,
                child=owner,
                guards=(*guards, *source.guards),
            )
        except (ConflictError, InputError) as error:
            if error.code in ("taken", ConflictError.default_code):
                raise not_empty(child) from error
            raise

    def inherited(self, parent: ResourceRef, child: ResourceRef, kind: str) -> int:
        """How many memories of a kind the child has as its branch left the parent's."""
        place, source = self.of(child), self.of(parent)
        memory = place.memory
        memory.allow("inherited", Right.USE)
        branch = memory.branch_view()
        key = memory.services.log.identities.find(source.owner)
        if key is None or branch.branch.parent_owner != key.pseudonym:
            return 0
        seen = memory.services.deciding.read(
            memory.principal, branch, place.owner, (kind,), inherits=True
        )
        if seen is None:
            return 0
        current = [s for h in seen.inherited for s in h.of_kind(kind).current(seen.now)]
        return sum(s.index <= branch.branch.at and not _is_kept_back(s) for s in current)

    def _handle(self, ref: ResourceRef) -> Memory:
        check_ref(ref)
        return self.ledger.memory(
            tenant=self.tenant, resource=ref.resource_id, team=ref.team_id, **self._who
        )

    def _allow_fork(self, parent: ResourceRef) -> None:
        """Asks for the rights; the use of ``operate`` is on record once for each parent."""
        memory = self._handle(parent)
        if parent in self._forked_from:
            memory.allow("fork", Right.USE)
        else:
            memory.allow("fork", Right.USE, Right.OPERATE)
            self._forked_from.add(parent)

    def _empty(self, child: ResourceRef) -> tuple[Subject, tuple[Guard, ...]]:
        """The owner that a child will be, and as guards that it has no memories."""
        place = self.of(child)
        services = place.memory.services
        key, index = services.log.identities.find(place.owner), -1
        if key is not None:
            if place.memory.branch_name == FORKED:
                raise not_empty(child)
            branch = place.memory.branch_view()
            seen = services.deciding.read(place.memory.principal, branch, place.owner, KINDS)
            assert seen is not None
            current = [state for kind in KINDS for state in seen.current(kind)]
            if not all(map(_is_kept_back, current)):
                raise not_empty(child)
            index = seen.index
        pseudonym = services.log.identities.key(place.owner).pseudonym
        return place.owner, tuple(NothingNew(pseudonym, kind, index) for kind in KINDS)


def not_empty(child: ResourceRef) -> ConflictError:
    """The error of a fork to a resource that has something."""
    return ConflictError(
        f"the resource {child.resource_id!r} has memories already; fork to a new one.",
        code="not_empty",
        field="child",
        value=child.resource_id,
        allowed="a resource without memories",
    )


def _is_kept_back(state: MemoryState) -> bool:
    """Whether it is bookkeeping, which a fork leaves behind."""
    key = working_key(state)
    return key is not None and is_bookkeeping(key)
