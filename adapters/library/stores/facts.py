"""``UserFacts``: what is known about a user."""

from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.domain.chat import ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import choice, parse_id
from memoriale.domain.memory import MemoryState
from memoriale.domain.rendering import bullet
from memoriale.domain.stores.context import Line, Section, line_of
from memoriale.domain.stores.ending import end_all, end_one
from memoriale.domain.stores.facts import (
    FACT,
    HUMAN,
    MAX_FACTS,
    SHOWN_FACTS,
    AddFacts,
    NewFact,
    UserFact,
    by_weight,
    fact_of,
    forget_texts,
    parse_facts,
)
from memoriale.domain.tools import ToolDef
from memoriale.domain.values import check_whole

_TIERS: Final = {"manual": SourceTier.MANUAL, "auto": SourceTier.LLM_EXTRACTED}


class UserFacts(Store):
    """
    Facts about users: one is current for each subject, and every change is kept.

    Taken from ``UserFacts`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its user is meant where ``user_id`` is not given.
        max_facts: Current facts of one user at most, 1..100,000; the least important go first.
    """

    def __init__(self, storage: Memory, *, max_facts: int = MAX_FACTS) -> None:
        super().__init__(storage)
        self.max_facts = check_whole("max_facts", max_facts, 1, 100_000)

    def get_facts(self, user_id: str | None = None, *, as_of: AsOf = None) -> list[UserFact]:
        """
        Every fact, also those that are no longer current, in the order in which they were made.

        Args:
            user_id: Whose; default: the handle's user.
            as_of: As then: an index or a time.
        """
        memory = self._as(user=user_id)
        seen = self._read(memory, self._owner(memory, "user"), (FACT,), "facts.list", as_of)
        states = [] if seen is None else [*seen.states.values()]
        self._told(memory, "facts.list", states, seen, as_of)
        return [fact for state in states if (fact := fact_of(state)) is not None]

    def get_active_facts(self, user_id: str | None = None, *, as_of: AsOf = None) -> list[UserFact]:
        """The current facts; arguments as for ``get_facts``."""
        memory = self._as(user=user_id)
        seen = self._read(memory, self._owner(memory, "user"), (FACT,), "facts.list", as_of)
        states = [] if seen is None else seen.current(FACT)
        self._told(memory, "facts.list", states, seen, as_of)
        return [fact for state in states if (fact := fact_of(state)) is not None]

    def add_facts(
        self,
        user_id: str | None = None,
        facts: Sequence[NewFact | Mapping[str, Any] | str] = (),
        source: str = "manual",
        input: str | None = None,
        *,
        model: str | None = None,
        prompt_version: str | None = None,
        source_run: str | None = None,
        idempotency_key: str | None = None,
    ) -> list[UUID]:
        """
        Adds facts in one append; what they replace is ``superseded``. See ``AddFacts``.

        Args:
            user_id: Whose; default: the handle's user.
            facts: Texts, or mappings with ``fact``, ``subject``, ``topics``, ``importance``
                (0..1) and ``supersedes`` (the text of the fact that it replaces).
            source: ``manual``: somebody said so; ``auto``: a model extracted it.
            input: The message that they were taken from.
            model, prompt_version, source_run: What extracted them.
            idempotency_key: A repeated call with it changes nothing.

        Returns:
            Ids of the facts that were made or made current again.

        Raises:
            InputError: A fact that cannot be stored; then none is.
        """
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        tier = _TIERS[choice("source", source, _TIERS) or "manual"]
        asked = parse_facts(facts)
        shared = {
            "source_tier": tier,
            "model": model,
            "prompt_version": prompt_version,
            "source_run": source_run,
        }
        commands = {id(new): self._fact(memory, new, input, shared) for new in asked}
        decision = AddFacts(
            facts=asked,
            command_of=lambda new: commands[id(new)],
            source="auto" if source == "auto" else "manual",
            most=self.max_facts,
        )
        arguments = {"facts": [f.model_dump(mode="json") for f in asked], "source": source}
        decided = self._decide(
            memory, owner, (FACT,), decision, "facts.add", arguments, idempotency_key
        )
        return decided.made()

    def remove_fact(self, user_id: str | None = None, fact_id: UUID | str = "") -> bool:
        """
        Ends a fact as ``retracted``: it may be learnt again, and history keeps it.

        Returns:
            Whether there was a current fact of that id.
        """
        memory = self._as(user=user_id)
        found = parse_id("fact_id", fact_id)
        decided = self._decide(
            memory,
            self._owner(memory, "user"),
            (FACT,),
            lambda seen: end_one(seen, found, ReasonCode.RETRACTED),
            "facts.remove",
            {"fact_id": str(found)},
        )
        return bool(decided.events)

    def forget_by_text(self, user_id: str | None = None, fact_texts: Sequence[str] = ()) -> int:
        """
        Ends every current fact that has one of the texts, as ``forgotten``: it is never shown
        again, sent to no model, and not learnt again from what a model extracts.

        Args:
            user_id: Whose; default: the handle's user.
            fact_texts: Compared without regard to case, white space and the end mark.

        Returns:
            How many facts ended.
        """
        memory = self._as(user=user_id)
        texts = [fact_texts] if isinstance(fact_texts, str) else list(fact_texts)
        decided = self._decide(
            memory,
            self._owner(memory, "user"),
            (FACT,),
            lambda seen: forget_texts(seen, texts),
            "facts.forget",
            {"texts": texts},
        )
        return len(decided.ended())

    def extract_and_store(
        self,
        user_id: str | None = None,
        messages: Messages = (),
        model: ModelProvider | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Facts from a conversation, and what to forget; see ``extract_now``."""
        return extract_now(
            "facts", self._as(user=user_id), messages, model, timezone, max_facts=self.max_facts
        )

    def clear(self, user_id: str | None = None) -> int:
        """
        Ends all facts of a user as ``retracted``; only ``erase`` destroys.

        Returns:
            How many facts ended.
        """
        memory = self._as(user=user_id)
        decided = self._decide(
            memory,
            self._owner(memory, "user"),
            (FACT,),
            lambda seen: end_all(seen, FACT, ReasonCode.RETRACTED),
            "facts.clear",
            {},
        )
        return len(decided.ended())

    def get_context_string(
        self, user_id: str | None = None, max_facts: int = SHOWN_FACTS, *, as_of: AsOf = None
    ) -> str:
        """
        The most important current facts as lines for a prompt; empty when there are none.

        Args:
            user_id: Whose; default: the handle's user.
            max_facts: How many at most; a line says how many more there are.
            as_of: As then.
        """
        section = self.context_section(user_id, max_facts, as_of=as_of)
        return self._shown(self._as(user=user_id), "facts.context", section, as_of)

    def context_section(
        self, user_id: str | None = None, max_facts: int = SHOWN_FACTS, *, as_of: AsOf = None
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        check_whole("max_facts", max_facts, 0, 100_000)
        memory = self._as(user=user_id)
        seen = self._read(memory, self._owner(memory, "user"), (FACT,), "facts.list", as_of)
        current = [] if seen is None else seen.current(FACT)
        ranked = nlargest(max_facts, current, key=by_weight)
        more = len(current) - max_facts
        return Section(
            name="user_facts",
            visible_to="user",
            lines=[_line(state) for state in ranked if state.payload is not None],
            notes=(f"({more} more; recall_user_facts lists them)",) if more > 0 else (),
        )

    def as_tool(self, name: str = "recall_user_facts", description: str | None = None) -> ToolDef:
        """
        The current facts of the handle's user as a tool for a language model.

        Args:
            name: Of the tool.
            description: For the model; default: what it answers.
        """
        told = description or "Answers everything that is known about the user, as a list."
        return ToolDef(
            name=name,
            description=told,
            parameters={
                "type": "object",
                "properties": {
                    "as_of": {
                        "type": "string",
                        "description": "An index of the log, or a time with its offset.",
                    }
                },
                "additionalProperties": False,
            },
            handler=lambda given: (
                self.get_context_string(max_facts=self.max_facts, as_of=given.get("as_of"))
                or "Nothing is known about the user."
            ),
        )

    def get_tools(self) -> list[ToolDef]:
        """The tools of this store."""
        return [self.as_tool()]

    def _fact(
        self, memory: Memory, new: NewFact, input: str | None, shared: Mapping[str, Any]
    ) -> Remember:
        return self._command(
            memory,
            new.fact,
            kind=FACT,
            subject=new.subject,
            tags=list(new.topics),
            importance=new.importance,
            details=None if input is None else {"input": input},
            **shared,
        )


def _line(state: MemoryState) -> Line:
    assert state.payload is not None
    said = "said" if state.source_tier in HUMAN else "inferred"
    return line_of(state, bullet(state.payload.content, said))
