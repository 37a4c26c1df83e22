"""``Summaries``: what sessions were about, beyond the history that they look back on."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import ask
from memoriale.adapters.extraction.prompting import prompt
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.entering import Entered, SessionStore
from memoriale.adapters.library.stores.parsing import parsed_messages
from memoriale.adapters.tokens import default_counter
from memoriale.domain.chat import ChatMessage, ModelProvider, model_code
from memoriale.domain.commands import Remember
from memoriale.domain.errors import UnavailableError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.memory import MemoryState
from memoriale.domain.rendering import bullet
from memoriale.domain.steps import Ask, Slice
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.ending import end_all
from memoriale.domain.stores.summaries import (
    LEAST_TOKENS,
    MAX_SUMMARIES,
    MAX_SUMMARY_TOKENS,
    SUMMARIZE_JOB,
    SUMMARY,
    AddSummary,
    SummaryEntry,
    chosen,
    entry_of,
    summaries_of,
    unabsorbed,
)
from memoriale.domain.text import MAX_QUERY_CHARACTERS
from memoriale.domain.tokens import TokenCounter
from memoriale.domain.values import check_whole

_MOST: Final = 1_000
_HEADER: Final = "Summaries of the conversation so far, newest first:"
_log = logging.getLogger(__name__)

Turns = Sequence[ChatMessage | Mapping[str, Any]]


class SummaryReply(BaseModel):
    """What a model answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str = Field(min_length=1)


class Summaries(SessionStore):
    """
    Summaries of sessions. Each new one is made from the earlier ones and what was said since, so
    it knows what they knew. It is for the session's user alone.

    Taken from ``Summaries`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its session and user are meant where none is given.
        model: Writes the summaries; without one they are excerpts.
        max_count: Current summaries of a session at most; the oldest end as ``compacted``.
        max_tokens: Tokens in a prompt at most; one summary has at most half of it.
        counter: Counts them; default: a tokenizer that is installed, see ``default_counter``.
    """

    def __init__(
        self,
        storage: Memory,
        *,
        model: ModelProvider | None = None,
        max_count: int = MAX_SUMMARIES,
        max_tokens: int = MAX_SUMMARY_TOKENS,
        counter: TokenCounter | None = None,
    ) -> None:
        super().__init__(storage)
        self.model = model
        self.max_count = check_whole("max_count", max_count, 1, _MOST)
        self.max_tokens = check_whole("max_tokens", max_tokens, LEAST_TOKENS, 10**9)
        self._counter = counter

    def summarize(
        self,
        session_id: str | None = None,
        messages: Turns = (),
        model: ModelProvider | None = None,
        user_id: str | None = None,
        *,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> SummaryEntry | None:
        """
        Adds a summary of the earlier summaries and of messages.

        Args:
            session_id: Of which session; default: the handle's.
            messages: What was said since the last summary.
            model: Writes it where the store has no model of its own.
            user_id: The caller; default: the handle's user.
            strict: Raise what a model raises, instead of storing excerpts.
            idempotency_key: A repeated call with it stores nothing.

        Returns:
            The summary; None without messages.

        Raises:
            InputError: There is no such session for the caller, or a wrong message.
            UnavailableError: The model failed, where ``strict``.
        """
        entered = self._required(self._named(session_id, user_id), "summary.add", None)
        turns = _turns(messages)
        if not turns:
            return None
        memory = entered.memory
        session = self._owner(memory, "session")
        written = self._written(entered, turns, self.model or model, strict)

        def command(text: str, made_from: tuple[UUID, ...], excerpts: bool) -> Remember:
            return self._command_of(memory, text, made_from, excerpts, written)

        decided = self._decide(
            memory,
            session,
            (SUMMARY,),
            AddSummary(written.text, written.shown, turns, self._fits, command, self.max_count),
            "summary.add",
            {"messages": [turn.model_dump(mode="json") for turn in turns]},
            idempotency_key,
        )
        (memory_id,) = decided.made()
        states = memory.services.reading.folded([memory_id], memory.branch_view())
        return entry_of(states[memory_id])

    def request_summary(
        self, session_id: str | None = None, messages: Turns = (), user_id: str | None = None
    ) -> UUID | None:
        """
        Asks for a summary as a job, which holds the messages: no failure of a model loses any.
        Arguments as for ``summarize``.

        Returns:
            Id of the job; None without messages.
        """
        entered = self._required(self._named(session_id, user_id), "summary.request", None)
        turns = _turns(messages)
        if not turns:
            return None
        memory = entered.memory
        told = [turn.model_dump(mode="json", exclude_defaults=True) for turn in turns]
        config = {"max_count": self.max_count, "max_tokens": self.max_tokens}
        ask_for = Ask(type=SUMMARIZE_JOB, arguments={"messages": told, "config": config})
        # The user's where there is one: then erasing the user erases what the job holds.
        owner = memory.principal.identity("user") or self._owner(memory, "session")
        decided = self._decide(
            memory, owner, (), lambda seen: [ask_for], "summary.request", {"messages": told}
        )
        return decided.jobs()[0]

    def get_summaries(
        self, session_id: str | None = None, user_id: str | None = None, *, as_of: AsOf = None
    ) -> list[str]:
        """The texts of ``list_summaries``, with the same arguments."""
        return [entry.summary for entry in self.list_summaries(session_id, user_id, as_of=as_of)]

    def list_summaries(
        self, session_id: str | None = None, user_id: str | None = None, *, as_of: AsOf = None
    ) -> list[SummaryEntry]:
        """
        The current summaries of exactly this session, oldest first; none when there is no such
        session for the caller.

        Args:
            session_id: Of which session; default: the handle's.
            user_id: The caller; default: the handle's user.
            as_of: As then: an index or a time.
        """
        memory, seen, states = self._found(session_id, user_id, as_of)
        self._told(memory, "summary.list", states, seen, as_of)
        entries = (entry_of(state) for state in states)
        return [entry for entry in entries if entry is not None]

    def get_context_string(
        self,
        session_id: str | None = None,
        current_input: str | None = None,
        user_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """
        Summaries as lines for a prompt, newest first, within ``max_tokens``; empty when there is
        none. Those that share words with the input are preferred; one that does not fit is
        passed over.

        Args:
            session_id: Of which session; default: the handle's.
            current_input: What was asked.
            user_id: The caller; default: the handle's user.
            as_of: As then: an index or a time.
        """
        section = self.context_section(session_id, current_input, user_id, as_of=as_of)
        memory = self._named(session_id, user_id)
        text = self._shown(memory, "summary.context", section, as_of)
        return f"{_HEADER}\n{text}" if text else ""

    def context_section(
        self,
        session_id: str | None = None,
        current_input: str | None = None,
        user_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        from memoriale.projections.recall.words import words

        asked = set(words((current_input or "")[:MAX_QUERY_CHARACTERS]))
        states = chosen(
            self._found(session_id, user_id, as_of).states,
            lambda text: len(asked & set(words(text))) if asked else 0,
            lambda text: self._count(bullet(text) + "\n"),
            self.max_tokens - self._count(_HEADER + "\n"),
        )
        told = [(state, entry_of(state)) for state in states]
        lines = [line_of(state, bullet(entry.summary)) for state, entry in told if entry]
        return Section(name="summaries", visible_to="session", lines=lines)

    def clear(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """
        Ends all summaries of a session as ``retracted``; only ``erase`` destroys.

        Returns:
            How many ended.

        Raises:
            InputError: There is no such session for the caller.
        """
        entered = self._required(self._named(session_id, user_id), "summary.clear", None)
        decided = self._decide(
            entered.memory,
            self._owner(entered.memory, "session"),
            (SUMMARY,),
            lambda seen: end_all(seen, SUMMARY, ReasonCode.RETRACTED),
            "summary.clear",
            {},
        )
        return len(decided.ended())

    def _found(self, session_id: str | None, user_id: str | None, as_of: AsOf) -> "_Found":
        memory = self._named(session_id, user_id)
        entered = self._entered(memory, "summary.list", as_of)
        if entered is None:
            return _Found(memory, None, [])
        session = self._owner(entered.memory, "session")
        seen = self._read(entered.memory, session, (SUMMARY,), "summary.list", as_of)
        return _Found(entered.memory, seen, summaries_of(seen))

    def _written(
        self,
        entered: Entered,
        turns: Sequence[ChatMessage],
        model: ModelProvider | None,
        strict: bool,
    ) -> "_Written":
        """What a model makes of the earlier summaries and the messages; nothing when it fails."""
        if model is None:
            return _Written()
        memory = entered.memory
        session = self._owner(memory, "session")
        seen = self._read(memory, session, (SUMMARY,), "summary.add")
        earlier = unabsorbed(summaries_of(seen))
        texts = [state.payload.content for state in earlier if state.payload is not None]
        try:
            answer = ask(
                model,
                prompt("summary", 1),
                SummaryReply,
                turns,
                earlier=json.dumps(texts, ensure_ascii=False),
            )
        except UnavailableError as error:
            if strict:
                raise
            _log.warning("a summary is made of excerpts, because the model failed: %s", error)
            return _Written()
        shown = frozenset(state.memory_id for state in earlier)
        return _Written(answer.value.summary, shown, answer.model, answer.prompt)

    def _command_of(
        self,
        memory: Memory,
        text: str,
        made_from: tuple[UUID, ...],
        excerpts: bool,
        written: "_Written",
    ) -> Remember:
        user = memory.principal.user
        details: dict[str, Any] = {"made_from": [str(memory_id) for memory_id in made_from]}
        return self._command(
            memory,
            text,
            kind=SUMMARY,
            owner="session",
            about=None if user is None else [user],
            source_tier=SourceTier.SUMMARY,
            model=None if written.model is None else model_code(written.model),
            prompt_version=written.prompt,
            details={**details, "excerpts": True} if excerpts else details,
        )

    def _fits(self, text: str) -> bool:
        return self._count(text) <= self.max_tokens // 2

    def _count(self, text: str) -> int:
        return (self._counter or default_counter()).count(text)


class _Found(NamedTuple):
    memory: Memory
    seen: Slice | None
    states: list[MemoryState]


class _Written(NamedTuple):
    """What a model wrote from the earlier summaries that it was shown; nothing without one."""

    text: str | None = None
    shown: frozenset[UUID] = frozenset()
    model: str | None = None
    prompt: str | None = None


def _turns(messages: Turns) -> list[ChatMessage]:
    return parsed_messages(messages)
