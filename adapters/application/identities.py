"""From outside names to pseudonyms and keys, for one tenant."""

from collections.abc import Iterable, Sequence
from uuid import UUID, uuid4

from memoriale.domain.access import AccessScope
from memoriale.domain.decisions import Stamp
from memoriale.domain.errors import InputError
from memoriale.domain.keys import KeyStore, PersonKey, Subject
from memoriale.domain.principal import OWNER_TYPES, Principal


class Identities:
    """
    Looks names up in the key store.

    Writes make the keys they need, durably, before the event that uses them. Reads never make
    one: a name that the tenant has not seen matches nothing.
    """

    def __init__(self, store: KeyStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def tenant(self) -> PersonKey:
        """The tenant's own key, under which namespaces and streams are tagged."""
        return self.keys([Subject("tenant", self._tenant)])[0]

    def keys(self, subjects: Sequence[Subject]) -> list[PersonKey]:
        """Keys of names, made where they do not exist."""
        return self._store.get_or_create(self._tenant, subjects)

    def key(self, subject: Subject) -> PersonKey:
        """The key of one name, made if it does not exist."""
        return self.keys([subject])[0]

    def find(self, subject: Subject | None) -> PersonKey | None:
        """The key of a name that is known, else None."""
        return None if subject is None else self._store.find(self._tenant, subject)

    def names(self, pseudonyms: Iterable[UUID | None]) -> dict[UUID, Subject]:
        """Outside names by pseudonym; erased ones are absent."""
        wanted = list({p for p in pseudonyms if p is not None})
        return self._store.names(self._tenant, wanted)

    def by_pseudonyms(self, pseudonyms: Sequence[UUID]) -> tuple[PersonKey, ...]:
        """
        Keys of persons who stand in the log.

        Raises:
            InputError: One of them was erased, so nothing can be sealed for them any more.
        """
        names = self.names(pseudonyms)
        if len(names) < len(set(pseudonyms)):
            raise InputError(
                "the memory's owner or a person it is about was erased; it can no longer change.",
                code="erased",
                field="memory_id",
            )
        return tuple(self.keys([names[p] for p in pseudonyms]))

    def stamp(
        self, principal: Principal, correlation_id: UUID | None, causation_id: UUID | None
    ) -> Stamp:
        """Who is acting, as it is recorded on every event of an append."""
        actor = principal.acting()
        behalf = principal.on_behalf_of
        parts: dict[str, Subject | None] = {
            **{f"principal_{t}": principal.identity(t) for t in OWNER_TYPES},
            "actor": actor,
            "on_behalf_of": None if behalf is None else Subject("user", behalf),
        }
        named = {name: subject for name, subject in parts.items() if subject is not None}
        keys = dict(zip(named, self.keys(list(named.values())), strict=True))
        return Stamp(
            **{name: key.pseudonym for name, key in keys.items()},
            actor_kind=actor.type,
            authentication=principal.authentication,
            purpose=principal.purpose,
            correlation_id=correlation_id or uuid4(),
            causation_id=causation_id,
        )

    def scope(self, principal: Principal, *, everything: bool = False) -> AccessScope:
        """What a principal may see."""
        found = {s: self.find(s) for s in principal.identities()}
        known = {s: key.pseudonym for s, key in found.items() if key is not None}
        user, agent = principal.identity("user"), principal.identity("agent")
        return AccessScope(
            owners=frozenset(known.values()),
            user=known.get(user) if user else None,
            agent=known.get(agent) if agent else None,
            teams=frozenset(p for s, p in known.items() if s.type == "team"),
            everything=everything,
        )
