"""Which entities a text is about, and how they are told to a language model."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from memoriale.domain.rendering import in_words, quoted
from memoriale.domain.stores.context import Line
from memoriale.domain.stores.entities import ENTITY, Entity, EntityRelationship, Known, name_key
from memoriale.domain.stores.matching import Named, Words, best_named

SHOWN_ENTITIES: Final = 10
SHOWN_STATEMENTS: Final = 3
"""Facts, events and relations of one entity in a prompt, of each."""


def relevant(known: Sequence[Known], query: str, words: Words) -> list[Known]:
    """
    Those that share a word with a text, best first: in what is known of them, and above all in
    their names. An entity whose name or id is the whole text comes before all others.
    """
    among = [
        Named(
            frozenset((name_key(one.entity.entity_id), name_key(one.entity.name))),
            one.entity.name,
            _all_words(one.entity),
        )
        for one in known
    ]
    return [known[place] for place in best_named(query, among, words, name_key)]


def newest(known: Sequence[Known]) -> list[Known]:
    """The entities of which something changed last, first."""
    return sorted(known, key=lambda one: one.entity.updated_at, reverse=True)


def line_of(known: Known, most: int = SHOWN_STATEMENTS) -> Line:
    """An entity as a line of a prompt, with the memories that it tells; see ``told``."""
    text, statements = told(known.entity, most)
    of_line = [
        (state.memory_id, state.index)
        for state in known.states
        if state.kind == ENTITY or state.memory_id in statements
    ]
    return Line(text, tuple(of_line))


def told(entity: Entity, most: int) -> tuple[str, set[UUID]]:
    """
    An entity in one line, quoted, and the ids of the statements that it tells.

    Args:
        entity: Which.
        most: Facts, events and relations at most, of each the newest; the line says how many
            more there are.
    """
    head = f"{quoted(entity.name)} ({quoted(entity.entity_type)}, id {quoted(entity.entity_id)})"
    sorts: tuple[list[tuple[UUID, str]], ...] = (
        [(one.id, one.fact) for one in entity.facts],
        [(one.id, f"{one.date}: {one.event}" if one.date else one.event) for one in entity.events],
        [(one.id, _relation(one)) for one in entity.relationships],
    )
    shown = [statement for sort in sorts for statement in sort[::-1][:most]]
    parts = [
        *([] if entity.description is None else [entity.description]),
        *(f"{name}: {in_words(value)}" for name, value in entity.properties.items()),
        *(text for _, text in shown),
    ]
    more = sum(map(len, sorts)) - len(shown)
    words = [quoted(part) for part in parts]
    if more:
        words.append(f"({more} more; search_entities lists them)")
    line = f"- {head}: {' | '.join(words)}" if words else f"- {head}"
    return line, {memory_id for memory_id, _ in shown}


def _relation(relation: EntityRelationship) -> str:
    words = f"{relation.type} → {relation.target_entity_id}"
    return words if relation.description is None else f"{words}: {relation.description}"


def _all_words(entity: Entity) -> str:
    told = (
        entity.name,
        entity.entity_type,
        entity.description,
        *(f"{name} {in_words(value)}" for name, value in entity.properties.items()),
        *(fact.fact for fact in entity.facts),
        *(event.event for event in entity.events),
        *(f"{r.type} {r.description or ''}" for r in entity.relationships),
    )
    return "\n".join(text for text in told if text)
