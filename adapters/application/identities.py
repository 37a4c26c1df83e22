"""From outside names to pseudonyms and keys, for one tenant."""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final
from uuid import UUID, uuid4

from memoriale.adapters.keys.tags import TagKey, tag_key
from memoriale.domain.access import AccessScope
from memoriale.domain.decisions import Stamp
from memoriale.domain.errors import InputError
from memoriale.domain.keys import KeyStore, PersonKey, Subject
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.principal import Principal

MOST_KEPT: Final = 4_096
"""Keys of names kept in memory."""


class Identities:
    """
    Looks names up in the key store.

    Writes make the keys they need, durably, before the event that uses them. Reads never make
    one: a name that the tenant has not seen matches nothing.
    """

    def __init__(self, store: KeyStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._lock = Lock()
        self._generation = store.generation()
        self._keys: dict[Subject, PersonKey] = {}
        self._tag_keys: dict[bytes, TagKey] = {}

    def tenant(self) -> PersonKey:
        """The tenant's own key, under which namespaces and streams are tagged."""
        return self.key(Subject("tenant", self._tenant))

    def keys(self, subjects: Sequence[Subject]) -> list[PersonKey]:
        """Keys of names, made where they do not exist."""
        known = self._remembered()
        missing = [s for s in dict.fromkeys(subjects) if s not in known]
        if missing:
            made = self._store.get_or_create(self._tenant, missing)
            known = {**known, **dict(zip(missing, made, strict=True))}
            self._remember(dict(zip(missing, made, strict=True)))
        return [known[subject] for subject in subjects]

    def tag_key(self, person: PersonKey) -> TagKey:
        """The key of a person's tags."""
        self._remembered()
        found = self._tag_keys.get(person.key_id)
        if found is None:
            found = tag_key(person.key)
            self._tag_keys[person.key_id] = found
        return found

    def key(self, subject: Subject) -> PersonKey:
        """The key of one name, made if it does not exist."""
        return self.keys([subject])[0]

    def find(self, subject: Subject | None) -> PersonKey | None:
        """The key of a name that is known, else None."""
        if subject is None:
            return None
        return self._remembered().get(subject) or self._store.find(self._tenant, subject)

    def generation(self) -> int:
        """A number that changes with every key destroyed; see ``KeyStore.generation``."""
        return self._store.generation()

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

    def _remembered(self) -> dict[Subject, PersonKey]:
        """
        Keys kept in memory; none once the store has destroyed one, by whatever process. A key
        that is destroyed right after this cannot seal: the sealer asks the store once more.
        """
        with self._lock:
            generation = self._store.generation()
            if generation != self._generation or len(self._keys) > MOST_KEPT:
                self._generation, self._keys, self._tag_keys = generation, {}, {}
            return self._keys

    def _remember(self, keys: dict[Subject, PersonKey]) -> None:
        with self._lock:
            if self._store.generation() == self._generation:
                self._keys = {**self._keys, **keys}

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
