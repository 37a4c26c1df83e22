"""Reading entities: one, all, those that a question is about, and as lines for a prompt."""

from collections.abc import Collection, Iterable
from typing import Final

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.fields import Limits, optional_namespace, optional_time
from memoriale.domain.steps import Slice
from memoriale.domain.stores.context import Section
from memoriale.domain.stores.entities import (
    ENTITY_KINDS,
    Entity,
    Known,
    Time,
    entities_of,
    name_key,
)
from memoriale.domain.stores.entity_context import (
    SHOWN_ENTITIES,
    line_of,
    newest,
    relevant,
)
from memoriale.domain.text import check_outside_id, check_query, check_text
from memoriale.domain.values import check_whole

_MOST: Final = 100_000


class EntityReading(Store):
    """What ``EntityMemory`` tells; arguments as there."""

    def __init__(self, storage: Memory, *, namespace: str | None = None) -> None:
        super().__init__(storage)
        own = optional_namespace(Limits(), namespace)
        self.namespace = own or storage.principal.namespace

    def get_entity(
        self,
        user_id: str | None = None,
        entity_id: str = "",
        *,
        include_ended: bool = False,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> Entity | None:
        """
        An entity with what is known of it; None when there is none of that id.

        Args:
            user_id: Whose; default: the handle's user.
            entity_id: Which; compared as it is.
            include_ended: Also statements that ended or are not true at ``valid_at``.
            as_of: As then: an index or a time.
            valid_at: Statements that are true in the world at this time; default: the time of
                the read.
        """
        wanted = check_outside_id("entity_id", entity_id)
        memory, seen = self._seen(user_id, "entity.show", as_of)
        found = self._known(seen, valid_at, include_ended, only=(wanted,))
        return next(iter(self._handed(memory, "entity.show", found, seen, as_of)), None)

    def list_entities(
        self,
        user_id: str | None = None,
        *,
        include_ended: bool = False,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> list[Entity]:
        """All entities, by when they were made; arguments as for ``get_entity``."""
        memory, seen = self._seen(user_id, "entity.list", as_of)
        known = self._known(seen, valid_at, include_ended)
        return self._handed(memory, "entity.list", known, seen, as_of)

    def search_entities(
        self,
        user_id: str | None = None,
        query: str | None = None,
        entity_type: str | None = None,
        limit: int = SHOWN_ENTITIES,
        *,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> list[Entity]:
        """
        Entities that share a word with a question, best first.

        Args:
            user_id: Whose; default: the handle's user.
            query: The question; None for all, of which something changed last first.
            entity_type: Only those of this type, without regard to case.
            limit: How many at most, 1..100,000.
            as_of, valid_at: As for ``get_entity``.
        """
        check_whole("limit", limit, 1, _MOST)
        memory, seen = self._seen(user_id, "entity.search", as_of)
        known = self._known(seen, valid_at)
        if entity_type is not None:
            key = name_key(check_text("entity_type", entity_type))
            known = [one for one in known if name_key(one.entity.entity_type) == key]
        found = _ranked(known, query)[:limit]
        return self._handed(memory, "entity.search", found, seen, as_of)

    def get_context_string(
        self,
        user_id: str | None = None,
        current_input: str | None = None,
        *,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> str:
        """
        At most ten entities as lines for a prompt, each with its newest statements.

        Args:
            user_id: Whose; default: the handle's user.
            current_input: Only entities that share a word with it, best first; without it those
                of which something changed last.
            as_of, valid_at: As for ``get_entity``.
        """
        section = self.context_section(user_id, current_input, as_of=as_of, valid_at=valid_at)
        return self._shown(self._as(user=user_id), "entity.context", section, as_of)

    def context_section(
        self,
        user_id: str | None = None,
        current_input: str | None = None,
        *,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        _, seen = self._seen(user_id, "entity.context", as_of)
        found = _ranked(self._known(seen, valid_at), current_input)[:SHOWN_ENTITIES]
        lines = [line_of(one) for one in found]
        return Section(name="entities", visible_to="user", lines=lines)

    def _seen(self, user_id: str | None, command: str, as_of: AsOf) -> tuple[Memory, Slice | None]:
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        return memory, self._read(memory, owner, ENTITY_KINDS, command, as_of)

    def _known(
        self,
        seen: Slice | None,
        valid_at: Time,
        include_ended: bool = False,
        only: Collection[str] | None = None,
    ) -> list[Known]:
        at = optional_time("valid_at", {"valid_at": valid_at})
        return entities_of(seen, self.namespace, at, include_ended=include_ended, only=only)

    def _handed(
        self,
        memory: Memory,
        command: str,
        known: Iterable[Known],
        seen: Slice | None,
        as_of: AsOf,
    ) -> list[Entity]:
        found = list(known)
        self._told(memory, command, [s for one in found for s in one.states], seen, as_of)
        return [one.entity for one in found]


def _ranked(known: list[Known], query: str | None) -> list[Known]:
    from memoriale.projections.recall.words import words

    return newest(known) if query is None else relevant(known, check_query(query), words)
