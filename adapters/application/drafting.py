"""From decided drafts to events: ids, pseudonyms, tags and sealing sets, from the key store."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags
from memoriale.adapters.postgres.slice_ends import oldest_rows
from memoriale.domain.access import GLOBAL_TENANT, Visibility
from memoriale.domain.commands import Command, Remember, as_given
from memoriale.domain.decisions import Birth, Draft
from memoriale.domain.errors import InputError, RefusedError
from memoriale.domain.events import NewEvent
from memoriale.domain.guards import Guard
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Principal
from memoriale.domain.sessions import SESSION_KIND
from memoriale.domain.values import JsonValue, canonical_json


@dataclass(frozen=True, slots=True)
class Planned:
    """
    The events of one append and its guards. The first event answers for the command; ``hidden``
    are the memories among the others that the caller may not see.
    """

    events: list[NewEvent]
    guards: tuple[Guard, ...] = ()
    hidden: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory to be made, and the persons it is about."""

    key: PersonKey
    about: tuple[PersonKey, ...] = ()

    @property
    def sealed_for(self) -> tuple[PersonKey, ...]:
        """Whose keys seal it."""
        return self.about or (self.key,)


class Drafting:
    """Makes the parts of events that only the key store can give, for one tenant's memory log."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log

    def owner(self, subject: Subject, about: tuple[str, ...] = ()) -> Owner:
        """
        The keys of an owner and of the persons that a memory is about, made where they do not
        exist.
        """
        persons = [Subject("user", name) for name in about]
        keys = self._log.identities.keys([subject, *persons])
        return Owner(keys[0], tuple(keys[1:]))

    def owner_of(self, state: MemoryState) -> Owner:
        """The same of a memory that exists."""
        columns = state.columns
        keys = self._log.identities.by_pseudonyms([columns.owner, *columns.about])
        return Owner(keys[0], keys[1:])

    def sealing_set(self, draft: Draft) -> tuple[PersonKey, ...]:
        """Whose keys seal an event of a memory that exists."""
        wanted = draft.columns.about or (draft.columns.owner,)
        return self._log.identities.by_pseudonyms(wanted)

    def birth(
        self, branch: BranchView, command: Remember, owner: Owner, memory_id: UUID | None = None
    ) -> Birth:
        """
        Ids and tags of a memory to be made.

        Args:
            branch: Where.
            command: What.
            owner: Whose.
            memory_id: Its id; None makes one, from the idempotency key where there is one.

        Raises:
            InputError: A global memory in a tenant's own log, or another one in that of
                ``_global``.
        """
        if (command.visibility is Visibility.GLOBAL) != (self._log.tenant == GLOBAL_TENANT):
            raise _not_here(command.visibility)
        identities = self._log.identities
        key, asked = identities.tag_key(owner.key), command.idempotency_key
        if memory_id is None:
            memory_id = uuid4() if asked is None else tags.memory_id(key, command.kind, asked)
        namespace, run = command.namespace, command.source_run
        return Birth(
            memory_id=memory_id,
            stream_id=self.stream(memory_id, branch),
            branch=branch.branch.id,
            owner=owner.key.pseudonym,
            owner_type=owner.key.subject.type,
            about=tuple(person.pseudonym for person in owner.about),
            namespace_tags=()
            if namespace is None
            else tuple(tags.namespace_tags(identities.tag_key(identities.tenant()), namespace)),
            aspect=self.aspect(owner.key, command),
            source_run=None if run is None else identities.key(Subject("run", run)).pseudonym,
        )

    def aspect(self, owner: PersonKey, command: Remember) -> str | None:
        """The tag of a command's subject under the owner's key, as hexadecimal text."""
        if command.subject is None:
            return None
        return tags.aspect_tag(self._log.identities.tag_key(owner), command.subject).hex()

    def content_tag(self, owner: PersonKey, text: str) -> bytes:
        """The tag of a text under the owner's key."""
        return tags.content_tag(self._log.identities.tag_key(owner), text)

    def stream(self, memory_id: UUID, branch: BranchView) -> UUID:
        """The id of a memory's stream on a branch."""
        identities = self._log.identities
        return tags.stream_id(identities.tag_key(identities.tenant()), memory_id, branch.branch.id)

    def require_branch(
        self, branch: BranchView, owner: UUID, owner_type: str | None, recorded_for: UUID | None
    ) -> None:
        """
        Refuses to store another owner's memory on a branch that holds one owner's alone. What is
        recorded for a user in a session that is no other user's counts as that user's.

        Args:
            branch: Where.
            owner: Whose memory, a pseudonym.
            owner_type: Of what type the owner is.
            recorded_for: Pseudonym of the user for whom it is recorded.

        Raises:
            RefusedError: Says what to do; also when the branch was discarded.
        """
        branch.branch.require_live()
        held = branch.branch.owner
        if held is None or owner == held or owner in branch.parent_owners():
            return
        if owner_type == "session" and branch.branch.owner_type == "user":
            users = {recorded_for, self._user_of_session(owner)} - {None}
            if users == {held}:
                return
        raise RefusedError(
            "this branch holds the memories of another owner alone; remember on that owner's "
            "behalf, or on another branch.",
            code="wrong_branch",
            field="branch",
            value=branch.branch.name,
        )

    def _user_of_session(self, session: UUID) -> UUID | None:
        """For whom a session was opened; None when it was not, or is anonymous."""
        opened = oldest_rows(self._log.reader, session, SESSION_KIND, after=-1, limit=1)
        return opened[0].columns.principal_user if opened else None


def _not_here(visibility: Visibility) -> InputError:
    return InputError(
        f"visibility {visibility.value} cannot be had by this call; remember it by itself.",
        code="not_for_all",
        field="visibility",
        value=visibility.value,
        allowed=[v.value for v in Visibility if v is not Visibility.GLOBAL],
    )


def owner_subject(principal: Principal, command: Remember) -> Subject:
    """
    Who owns a memory to be made.

    Raises:
        InputError: The principal has nobody of the type asked for, or of those of the kind.
    """
    types = (command.owner,) if command.owner else KINDS.require(command.kind).owners
    found = (principal.identity(type_) for type_ in types)
    owner = next((subject for subject in found if subject is not None), None)
    if owner is None:
        raise InputError(
            f"a memory of kind {command.kind} needs an owner; the principal has no "
            f"{' or '.join(types)}.",
            code="no_owner",
            field=types[0],
            allowed=list(types),
        )
    return owner


def require_viewers(principal: Principal, command: Remember) -> None:
    """A memory for the same user, agent or team says nothing unless the caller has one."""
    wanted = command.visibility.value
    if wanted in ("user", "agent", "team") and getattr(principal, wanted) is None:
        raise InputError(
            f"visibility {wanted} needs a principal with a {wanted}.",
            code="no_viewer",
            field="visibility",
            value=wanted,
            allowed=["owner", "tenant"],
        )


def request_of(
    principal: Principal, branch: BranchView, command: str, arguments: dict[str, JsonValue]
) -> bytes:
    """What a request tag is made from: command, arguments as given, principal and branch."""
    who: dict[str, JsonValue] = {
        name: getattr(principal, name)
        for name in ("user", "agent", "resource", "session", "team", "actor", "on_behalf_of")
    }
    return canonical_json(
        {
            "command": command,
            "arguments": arguments,
            "principal": {**who, "tenant": principal.tenant},
            "branch": str(branch.branch.id),
        }
    )


def request_of_command(principal: Principal, branch: BranchView, command: Command) -> bytes:
    """The same for a command of the domain."""
    return request_of(principal, branch, type(command).__name__.lower(), as_given(command))
