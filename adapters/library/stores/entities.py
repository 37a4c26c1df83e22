"""``EntityMemory``: companies, persons, projects and things that a user knows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Decided
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.entity_reading import EntityReading
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.domain.chat import ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.errors import ConflictError
from memoriale.domain.events import SourceTier
from memoriale.domain.fields import choice, optional_time, parse_id
from memoriale.domain.steps import Decision
from memoriale.domain.stores.entities import (
    ENTITY_KINDS,
    Entity,
    NewEntity,
    NewEntityEvent,
    NewEntityFact,
    NewRelationship,
    Time,
    name_key,
)
from memoriale.domain.stores.entity_changes import (
    AddStatement,
    CommandOf,
    NewStatement,
    UpsertEntities,
    end_entities,
    end_entity,
    end_statement,
)
from memoriale.domain.stores.entity_context import told
from memoriale.domain.text import check_outside_id, check_text
from memoriale.domain.tools import ToolDef, object_schema
from memoriale.domain.values import check_metadata

_MOST: Final = 100_000
_TOLD: Final = 20
"""Statements of each sort that the tool tells of an entity."""
_TIERS: Final = {"manual": SourceTier.MANUAL, "auto": SourceTier.LLM_EXTRACTED}


class EntityMemory(EntityReading):
    """
    Entities with their facts, events and relations. What is kept at a path is seen from it and
    from below it; what this store makes and ends lies at its own path.

    Taken from ``EntityMemory`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its user is meant where ``user_id`` is not given.
        namespace: Path that entities are kept at; default: the handle's.
    """

    def upsert_entity(
        self,
        user_id: str | None = None,
        entity: NewEntity | Mapping[str, Any] | None = None,
        *,
        source: str = "manual",
        model: str | None = None,
        prompt_version: str | None = None,
        source_run: str | None = None,
    ) -> Entity:
        """
        Makes an entity or adds to it, in one append; see ``UpsertEntities``.

        Args:
            user_id: Whose; default: the handle's user.
            entity: ``name`` and ``entity_type``, and what else ``NewEntity`` has.
            source, model, prompt_version, source_run: As for ``upsert_entities``.

        Returns:
            The entity after it.
        """
        return self.upsert_entities(
            user_id,
            [parsed("entity", NewEntity, entity)],
            source=source,
            model=model,
            prompt_version=prompt_version,
            source_run=source_run,
        )[0]

    def upsert_entities(
        self,
        user_id: str | None = None,
        entities: Sequence[NewEntity | Mapping[str, Any]] = (),
        *,
        source: str = "manual",
        model: str | None = None,
        prompt_version: str | None = None,
        source_run: str | None = None,
        idempotency_key: str | None = None,
    ) -> list[Entity]:
        """
        Makes several entities or adds to them, in one append. Relations may lead from one to
        another.

        Args:
            user_id: Whose; default: the handle's user.
            entities: As for ``upsert_entity``.
            source: ``manual``: somebody said so; ``auto``: a model extracted them.
            model, prompt_version, source_run: What extracted them.
            idempotency_key: A repeated call with it changes nothing, and answers the entities
                that the first one changed.

        Raises:
            InputError: A wrong field, or a relation to an entity that does not exist; then
                nothing is stored.
        """
        memory = self._as(user=user_id)
        asked = [_checked(f"entities[{n}]", one) for n, one in enumerate(entities)]
        shared = {
            "source_tier": _TIERS[choice("source", source, _TIERS) or "manual"],
            "model": model,
            "prompt_version": prompt_version,
            "source_run": source_run,
        }
        decision = UpsertEntities(asked, self.namespace, self._maker(memory, shared))
        arguments = {"entities": [one.model_dump(mode="json") for one in asked]}
        decided = self._change(memory, decision, "entity.upsert", arguments, idempotency_key)
        # As of the append itself: a caller that deletes meanwhile takes nothing from the answer.
        owner = self._owner(memory, "user")
        seen = self._read(memory, owner, ENTITY_KINDS, "entity.show", decided.index)
        if not decided.created:
            changed = {*decided.made()}
            before = self._known(seen, None)
            again = [one for one in before if changed & {state.memory_id for state in one.states}]
            return self._handed(memory, "entity.show", again, seen, decided.index)
        known = {
            one.entity.entity_id: one for one in self._known(seen, None, only=decision.entities)
        }
        found = [known[entity_id] for entity_id in decision.entities if entity_id in known]
        if len(found) < len(decision.entities):
            raise ConflictError("an entity was deleted in this moment; try again.")
        return self._handed(memory, "entity.show", found, seen, decided.index)

    def add_fact(
        self,
        user_id: str | None = None,
        entity_id: str = "",
        fact: str = "",
        *,
        importance: float | None = None,
        valid_from: Time = None,
        valid_until: Time = None,
    ) -> UUID:
        """
        Adds a fact to an entity; one that is known already changes nothing.

        Args:
            user_id: Whose; default: the handle's user.
            entity_id: Of which entity.
            fact: What is true of it.
            importance: 0..1.
            valid_from, valid_until: When it is true in the world; None is open.

        Returns:
            The id of the fact.

        Raises:
            InputError: There is no such entity, or a wrong value; nothing was stored.
        """
        new = NewEntityFact(
            fact=check_text("fact", fact),
            importance=importance,
            valid_from=valid_from,
            valid_until=valid_until,
        )
        return self._add(user_id, entity_id, new, "entity.add_fact")

    def add_event(
        self,
        user_id: str | None = None,
        entity_id: str = "",
        event: str = "",
        date: str | None = None,
        *,
        importance: float | None = None,
        valid_from: Time = None,
        valid_until: Time = None,
    ) -> UUID:
        """
        Adds an event to an entity; arguments as for ``add_fact``.

        Args:
            date: When it happened, as it was told; events of two dates are two.
        """
        new = NewEntityEvent(
            event=check_text("event", event),
            date=None if date is None else check_text("date", date),
            importance=importance,
            valid_from=valid_from,
            valid_until=valid_until,
        )
        return self._add(user_id, entity_id, new, "entity.add_event")

    def add_relationship(
        self,
        user_id: str | None = None,
        entity_id: str = "",
        target_entity_id: str = "",
        type: str = "",
        description: str | None = None,
        *,
        valid_from: Time = None,
        valid_until: Time = None,
    ) -> UUID:
        """
        Adds a relation of an entity to another one that exists; arguments as for ``add_fact``.
        """
        new = NewRelationship(
            target_entity_id=check_outside_id("target_entity_id", target_entity_id),
            type=check_text("type", type),
            description=None if description is None else check_text("description", description),
            valid_from=valid_from,
            valid_until=valid_until,
        )
        return self._add(user_id, entity_id, new, "entity.add_relationship")

    def invalidate(
        self, user_id: str | None = None, statement_id: UUID | str = "", *, since: Time = None
    ) -> bool:
        """
        A fact, event or relation of an entity no longer holds; history keeps it.

        Args:
            user_id: Whose; default: the handle's user.
            statement_id: Its id.
            since: From when on in the world: the end of its valid span. None: it is taken back.

        Returns:
            Whether anything changed.

        Raises:
            InputError: There is none that is current, or the span would end before it begins.
        """
        memory = self._as(user=user_id)
        found = parse_id("statement_id", statement_id)
        end = optional_time("since", {"since": since})
        decided = self._change(
            memory,
            lambda seen: end_statement(seen, found, self.namespace, end),
            "entity.invalidate",
            {"statement_id": str(found), "since": None if end is None else end.isoformat()},
        )
        return bool(decided.events)

    def extract_entities(
        self,
        user_id: str | None = None,
        messages: Messages = (),
        model: ModelProvider | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Entities from a conversation; see ``extract_now``."""
        return extract_now(
            "entities", self._as(user=user_id), messages, model, timezone, namespace=self.namespace
        )

    def delete_entity(self, user_id: str | None = None, entity_id: str = "") -> int:
        """
        Ends an entity as ``retracted``, with its facts, events and relations, also those of
        others that lead to it, in one append. Only ``erase`` destroys.

        Returns:
            How many memories ended; 0 when there is no such entity.

        Raises:
            InputError: It is kept at a path above this store's.
        """
        wanted = check_outside_id("entity_id", entity_id)
        decided = self._change(
            self._as(user=user_id),
            lambda seen: end_entity(seen, wanted, self.namespace),
            "entity.delete",
            {"entity_id": wanted},
        )
        return len(decided.ended())

    def clear(self, user_id: str | None = None) -> int:
        """
        Ends all entities at this store's path and below it as ``retracted``, with all that was
        said of them; only ``erase`` destroys.

        Returns:
            How many memories ended.
        """
        memory = self._as(user=user_id)
        decided = self._change(
            memory, lambda seen: end_entities(seen, self.namespace), "entity.clear", {}
        )
        return len(decided.ended())

    def get_tools(self) -> list[ToolDef]:
        """``search_entities`` and ``create_entity`` for the handle's user."""
        text = {"type": "string"}
        return [
            ToolDef(
                name="search_entities",
                description=(
                    "Finds companies, persons, projects and things that the user knows, with "
                    "facts, events and relations. Without a query it lists them."
                ),
                parameters=object_schema(
                    {"query": text, "entity_type": text, "as_of": text, "valid_at": text}
                ),
                handler=self._found_told,
            ),
            ToolDef(
                name="create_entity",
                description=(
                    "Remembers a company, person, project or thing, or adds to what is known of "
                    "it. Answers it."
                ),
                parameters=object_schema(
                    {
                        "name": text,
                        "entity_type": text,
                        "description": text,
                        "facts": {"type": "array", "items": text},
                    },
                    "name",
                    "entity_type",
                ),
                handler=lambda given: told(self.upsert_entity(None, given), _TOLD)[0],
            ),
        ]

    def _found_told(self, given: Mapping[str, Any]) -> str:
        found = self.search_entities(
            query=given.get("query"),
            entity_type=given.get("entity_type"),
            as_of=given.get("as_of"),
            valid_at=given.get("valid_at"),
        )
        return "\n".join(told(one, _TOLD)[0] for one in found) or "No entity is known."

    def _add(
        self, user_id: str | None, entity_id: str, statement: NewStatement, command: str
    ) -> UUID:
        memory = self._as(user=user_id)
        wanted = check_outside_id("entity_id", entity_id)
        decision = AddStatement(wanted, statement, self.namespace, self._maker(memory, {}))
        arguments = {"entity_id": wanted, **statement.model_dump(mode="json")}
        self._change(memory, decision, command, arguments)
        assert decision.memory_id is not None
        return decision.memory_id

    def _change(
        self,
        memory: Memory,
        decision: Decision,
        command: str,
        arguments: Mapping[str, Any],
        idempotency_key: str | None = None,
    ) -> Decided:
        owner = self._owner(memory, "user")
        return self._decide(
            memory, owner, ENTITY_KINDS, decision, command, arguments, idempotency_key
        )

    def _maker(self, memory: Memory, shared: Mapping[str, Any]) -> CommandOf:
        def made(
            kind: str, content: str, details: Mapping[str, Any], more: Mapping[str, Any]
        ) -> Remember:
            given = {**shared, **more, "namespace": self.namespace}
            return self._command(memory, content, kind=kind, details=dict(details), **given)

        return made


def _checked(field: str, entity: NewEntity | Mapping[str, Any]) -> NewEntity:
    """An entity whose ids and texts can be stored; the error names the place."""
    new = parsed(field, NewEntity, entity)
    check_text(f"{field}.name", new.name)
    check_text(f"{field}.entity_type", new.entity_type)
    check_outside_id(f"{field}.entity_id", new.entity_id or name_key(new.name))
    if new.description is not None:
        check_text(f"{field}.description", new.description)
    check_metadata(f"{field}.properties", new.properties)
    for n, fact in enumerate(new.facts):
        check_text(f"{field}.facts[{n}]", fact.fact)
    for n, event in enumerate(new.events):
        check_text(f"{field}.events[{n}]", event.event)
        check_text(f"{field}.events[{n}].date", event.date or "-")
    for n, relation in enumerate(new.relationships):
        check_text(f"{field}.relationships[{n}].type", relation.type)
        check_text(f"{field}.relationships[{n}].description", relation.description or "-")
        check_outside_id(f"{field}.relationships[{n}].target_entity_id", relation.target_entity_id)
    return new
