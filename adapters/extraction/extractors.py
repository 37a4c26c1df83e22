"""The extractors: for each store the prompt, what a reply must be, and what is done with it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.adapters.extraction.asking import ask, date_in
from memoriale.adapters.extraction.prompting import prompt
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.domain.chat import ChatMessage, ModelProvider, model_code
from memoriale.domain.stores.facts import NewFact
from memoriale.domain.stores.learnings import grounded

Key = Callable[[str], str | None]
"""The idempotency key of an effect by its name; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """
    What is extracted from, and for whom.

    Args:
        messages: The conversation.
        now: When it was, for relative dates; aware.
        timezone: The user's, an IANA name; None for UTC.
        key: Keys that make a repetition harmless.
    """

    messages: Sequence[ChatMessage]
    now: datetime
    timezone: str | None = None
    key: Key = lambda effect: None

    @property
    def today(self) -> str:
        """The date where the user is."""
        return date_in(self.timezone, self.now)


class FactsReply(BaseModel):
    """Facts to add and texts of facts to forget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    add: tuple[NewFact, ...] = ()
    forget: tuple[str, ...] = ()


class ProfileReply(BaseModel):
    """Fields that change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    preferred_name: str | None = None
    role: str | None = None
    company: str | None = None
    location: str | None = None
    timezone: str | None = None
    language: str | None = None
    custom: dict[str, JsonValue] = Field(default_factory=dict)


class LearningReply(BaseModel):
    """One insight with its evidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    content: str
    context: str = ""
    tags: tuple[str, ...] = ()
    evidence: str


class LearningsReply(BaseModel):
    """Insights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learnings: tuple[LearningReply, ...] = ()


Extractor = Callable[[Memory, ModelProvider, Conversation, Mapping[str, Any]], dict[str, Any]]
"""Asks a model and stores what it answers; returns the provenance and what was stored."""


def facts(
    memory: Memory, model: ModelProvider, said: Conversation, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Facts of the user: first what is to be forgotten, then what is new."""
    store = UserFacts(memory, **config)
    known = [fact.fact for fact in store.get_active_facts()]
    answer = ask(
        model,
        prompt("facts", 1),
        FactsReply,
        said.messages,
        today=said.today,
        known=json.dumps(known, ensure_ascii=False),
    )
    forgotten = store.forget_by_text(fact_texts=answer.value.forget) if answer.value.forget else 0
    added = store.add_facts(
        facts=answer.value.add,
        source="auto",
        input=_last_of_user(said.messages),
        model=model_code(answer.model),
        prompt_version=answer.prompt,
        idempotency_key=said.key("facts"),
    )
    stored = [str(memory_id) for memory_id in added]
    return {**answer.provenance(), "stored": stored, "forgotten": forgotten}


def profile(
    memory: Memory, model: ModelProvider, said: Conversation, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of the user's profile; those that the store does not know are left out."""
    store = UserProfile(memory, **config)
    before = store.get_profile()
    known = {} if before is None else before.model_dump(mode="json", exclude_none=True)
    answer = ask(
        model,
        prompt("profile", 1),
        ProfileReply,
        said.messages,
        today=said.today,
        known=json.dumps(known, ensure_ascii=False),
        custom=", ".join(store.custom_fields) or "none",
    )
    patch = answer.value.model_dump(include=answer.value.model_fields_set)
    custom = {n: v for n, v in patch.pop("custom", {}).items() if n in store.custom_fields}
    after = store.update_profile(
        patch={**patch, "custom": custom},
        source="auto",
        model=model_code(answer.model),
        prompt_version=answer.prompt,
    )
    stored = sorted(patch) + sorted(custom)
    return {**answer.provenance(), "stored": [] if after == before else stored}


def learnings(
    memory: Memory, model: ModelProvider, said: Conversation, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Insights of the user's scope; one without evidence in the conversation is left out."""
    store = LearnedKnowledge(memory)
    answer = ask(model, prompt("learnings", 1), LearningsReply, said.messages, today=said.today)
    stored, ungrounded = [], 0
    for place, learning in enumerate(answer.value.learnings):
        if not grounded(learning.evidence, said.messages):
            ungrounded += 1
            continue
        saved = store.save_learning(
            {**learning.model_dump(), "source": "llm-extracted"},
            model=model_code(answer.model),
            prompt_version=answer.prompt,
            idempotency_key=said.key(f"learning-{place}"),
        )
        stored.append(str(saved.id))
    return {**answer.provenance(), "stored": stored, "ungrounded": ungrounded}


EXTRACTORS: Final[dict[str, Extractor]] = {
    "facts": facts,
    "profile": profile,
    "learnings": learnings,
}
"""The extractors by the name of their job."""


def _last_of_user(messages: Sequence[ChatMessage]) -> str | None:
    texts = [m.text() for m in messages if m.role == "user" and m.text().strip()]
    return texts[-1] if texts else None
