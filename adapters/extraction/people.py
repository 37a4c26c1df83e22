"""What conversations say of a user and whom the user knows: facts, profile, entities."""

import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field, JsonValue

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.extractor import Config, Conversation, Day, Extractor, Reply
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.entities import EntityMemory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.domain.chat import ChatMessage, model_code
from memoriale.domain.stores.entities import (
    Entity,
    NewEntity,
    NewEntityEvent,
    NewEntityFact,
    NewRelationship,
    name_key,
)
from memoriale.domain.stores.facts import NewFact


class FactsReply(Reply):
    """Facts to add and texts of facts to forget."""

    add: tuple[NewFact, ...] = ()
    forget: tuple[str, ...] = ()


class ProfileReply(Reply):
    """Fields that change."""

    name: str | None = None
    preferred_name: str | None = None
    role: str | None = None
    company: str | None = None
    location: str | None = None
    timezone: str | None = None
    language: str | None = None
    custom: dict[str, JsonValue] = Field(default_factory=dict)


class EntityFactReply(Reply):
    """What is true of an entity, from one day up to another."""

    fact: str
    valid_from: Day | None = None
    valid_until: Day | None = None


class EntityEventReply(Reply):
    """What happened to an entity, and the date as it was told."""

    event: str
    date: str | None = None


class RelationReply(Reply):
    """How an entity is related to another one, which is named."""

    target: str
    type: str
    description: str | None = None
    valid_from: Day | None = None
    valid_until: Day | None = None


class EntityReply(Reply):
    """A company, person, project or thing with what was said of it."""

    name: str
    entity_type: str
    description: str | None = None
    facts: tuple[EntityFactReply, ...] = ()
    events: tuple[EntityEventReply, ...] = ()
    relationships: tuple[RelationReply, ...] = ()


class EntitiesReply(Reply):
    """Entities."""

    entities: tuple[EntityReply, ...] = ()


def _known_facts(memory: Memory, said: Conversation, config: Config, as_of: AsOf) -> dict[str, str]:
    found = UserFacts(memory, **config).get_active_facts(as_of=as_of)
    return {"known": json.dumps([fact.fact for fact in found], ensure_ascii=False)}


def _store_facts(
    memory: Memory, answer: Answer[FactsReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """First what is to be forgotten, then what is new."""
    store, told = UserFacts(memory, **config), answer.value
    forgotten = store.forget_by_text(fact_texts=told.forget) if told.forget else 0
    added = store.add_facts(
        facts=told.add,
        source="auto",
        input=_last_of_user(said.messages),
        model=model_code(answer.model),
        prompt_version=answer.prompt,
        idempotency_key=said.key("facts"),
    )
    return {"stored": [str(memory_id) for memory_id in added], "forgotten": forgotten}


def _known_profile(
    memory: Memory, said: Conversation, config: Config, as_of: AsOf
) -> dict[str, str]:
    store = UserProfile(memory, **config)
    before = store.get_profile(as_of=as_of)
    known = {} if before is None else before.model_dump(mode="json", exclude_none=True)
    return {
        "known": json.dumps(known, ensure_ascii=False),
        "custom": ", ".join(store.custom_fields) or "none",
    }


def _store_profile(
    memory: Memory, answer: Answer[ProfileReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """Fields that the store does not know are left out."""
    store = UserProfile(memory, **config)
    before = store.get_profile()
    patch = answer.value.model_dump(include=answer.value.model_fields_set)
    custom = {n: v for n, v in patch.pop("custom", {}).items() if n in store.custom_fields}
    after = store.update_profile(
        patch={**patch, "custom": custom},
        source="auto",
        model=model_code(answer.model),
        prompt_version=answer.prompt,
    )
    return {"stored": [] if after == before else sorted(patch) + sorted(custom)}


def _known_entities(
    memory: Memory, said: Conversation, config: Config, as_of: AsOf
) -> dict[str, str]:
    found = EntityMemory(memory, **config).list_entities(as_of=as_of)
    known = [{"name": one.name, "entity_type": one.entity_type} for one in found]
    return {"known": json.dumps(known, ensure_ascii=False)}


def _store_entities(
    memory: Memory, answer: Answer[EntitiesReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """
    Who has the name of a known entity is it. A relation to something that is neither known nor
    in the reply is left out and counted.
    """
    store = EntityMemory(memory, **config)
    told = answer.value.entities
    if not told:
        return {"stored": [], "unrelated": 0}
    ids = _ids(store.list_entities(), told)
    entities = [_entity(one, ids, said) for one in told]
    made = store.upsert_entities(
        entities=entities,
        source="auto",
        model=model_code(answer.model),
        prompt_version=answer.prompt,
        idempotency_key=said.key("entities"),
    )
    related = sum(len(one.relationships) for one in entities)
    asked = sum(len(one.relationships) for one in told)
    return {"stored": [one.entity_id for one in made], "unrelated": asked - related}


def _ids(known: Sequence[Entity], told: Sequence[EntityReply]) -> dict[str, str]:
    """The id of each entity that is known or told, by the key of its name."""
    new = {name_key(one.name): name_key(one.name) for one in told}
    return {**new, **{name_key(one.name): one.entity_id for one in known}}


def _entity(told: EntityReply, ids: dict[str, str], said: Conversation) -> NewEntity:
    return NewEntity(
        entity_id=ids[name_key(told.name)],
        name=told.name,
        entity_type=told.entity_type,
        description=told.description,
        facts=tuple(
            NewEntityFact(
                fact=one.fact,
                valid_from=said.begin_of(one.valid_from),
                valid_until=said.begin_of(one.valid_until),
            )
            for one in told.facts
        ),
        events=tuple(NewEntityEvent(event=one.event, date=one.date) for one in told.events),
        relationships=tuple(
            NewRelationship(
                target_entity_id=ids[name_key(one.target)],
                type=one.type,
                description=one.description,
                valid_from=said.begin_of(one.valid_from),
                valid_until=said.begin_of(one.valid_until),
            )
            for one in told.relationships
            if name_key(one.target) in ids
        ),
    )


def _last_of_user(messages: Sequence[ChatMessage]) -> str | None:
    texts = [m.text() for m in messages if m.role == "user" and m.text().strip()]
    return texts[-1] if texts else None


FACTS: Final = Extractor(
    name="facts", version=1, reply=FactsReply, asked=_known_facts, store=_store_facts
)
PROFILE: Final = Extractor(
    name="profile", version=1, reply=ProfileReply, asked=_known_profile, store=_store_profile
)
ENTITIES: Final = Extractor(
    name="entities", version=1, reply=EntitiesReply, asked=_known_entities, store=_store_entities
)
