"""What an extractor is: a prompt, what a reply must be, and what is done with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import Answer, ask, date_in, zone_of
from memoriale.adapters.extraction.prompting import Prompt, prompt
from memoriale.adapters.extraction.replies import unusable
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage, ModelProvider
from memoriale.domain.errors import InputError

M = TypeVar("M", bound=BaseModel)
Key = Callable[[str], str | None]
"""The idempotency key of an effect by its name; None for none."""
Config = Mapping[str, Any]
"""Arguments of the store."""


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

    def begin_of(self, day: date | None) -> datetime | None:
        """The first moment of a day where the user is."""
        return None if day is None else datetime.combine(day, time(), zone_of(self.timezone))


class Reply(BaseModel):
    """Base of what models answer: nothing but the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


Day = Annotated[date, BeforeValidator(_day, json_schema_input_type=str)]
"""A date as a model writes it, such as 2026-11-30."""

Values = Mapping[str, str]
"""What a prompt's names are filled in with, beside ``today`` and ``conversation``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor(Generic[M]):
    """
    Takes something from conversations.

    Args:
        name: Of its prompt and its job.
        version: Of its prompt.
        reply: What an answer must be.
        asked: What the prompt tells of what is known, as of a point; None when there is nothing
            to ask about.
        store: Stores an answer; returns what came of it.
    """

    name: str
    version: int
    reply: type[M]
    asked: Callable[[Memory, Conversation, Config, AsOf], Values | None]
    store: Callable[[Memory, Answer[M], Conversation, Config], dict[str, Any]]

    def __call__(
        self,
        memory: Memory,
        model: ModelProvider,
        said: Conversation,
        config: Config,
        *,
        own: Prompt | None = None,
    ) -> dict[str, Any]:
        """
        Asks and stores; returns the provenance and what was stored. ``own`` is asked instead of
        the prompt of the extractor.

        Raises:
            BadReplyError: The answer cannot be used.
            InputError: There is no such user, time zone or setting of the store.
            UnavailableError: The model cannot be reached.
        """
        answer = self.ask(memory, model, said, config, own=own)
        if answer is None:
            return {"stored": []}
        try:
            return {**answer.provenance(), **self.store(memory, answer, said, config)}
        except InputError as error:
            raise unusable(error.message, answer.raw) from None

    def ask(
        self,
        memory: Memory,
        model: ModelProvider,
        said: Conversation,
        config: Config,
        *,
        version: int | None = None,
        as_of: AsOf = None,
        own: Prompt | None = None,
    ) -> Answer[M] | None:
        """
        Asks, and stores nothing; None when there is nothing to ask about.

        Args:
            version: Of the prompt; default: the extractor's.
            as_of: What is known then.
            own: A prompt to be asked instead.
        """
        values = self.asked(memory, said, config, as_of)
        if values is None:
            return None
        asked = own or prompt(self.name, version or self.version)
        return ask(model, asked, self.reply, said.messages, today=said.today, **values)
