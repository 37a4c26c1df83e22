"""What conversations say that is worth keeping, as items of whoever they belong to."""

from typing import Annotated, Any, Final

from pydantic import Field

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.extractor import Config, Conversation, Extractor, Reply
from memoriale.adapters.library.memory import Memory
from memoriale.domain.operations.items import MOST_LABELS, ExtractedFact

MOST_FACTS: Final = 10_000

Label = Annotated[str, Field(min_length=1, max_length=256)]


class ItemReply(Reply):
    """One fact."""

    content: Annotated[str, Field(min_length=1)]
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    tags: Annotated[tuple[Label, ...], Field(max_length=MOST_LABELS)] = ()
    category: Annotated[str, Field(max_length=256)] | None = None
    input: str | None = None


class ItemsReply(Reply):
    """Facts."""

    facts: Annotated[tuple[ItemReply, ...], Field(max_length=MOST_FACTS)] = ()

    def extracted(self) -> list[ExtractedFact]:
        """The facts as operations tell them."""
        return [ExtractedFact(**fact.model_dump()) for fact in self.facts]


def _nothing_known(
    memory: Memory, said: Conversation, config: Config, as_of: AsOf
) -> dict[str, str]:
    return {}


def _store(
    memory: Memory, answer: Answer[ItemsReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """As items of the handle's user, with the defaults of ``agent_memory``."""
    # What stores items asks by this extractor, so it is asked for late.
    from memoriale.adapters.library.operations.storing import store_now

    return store_now(memory, answer)


ITEMS: Final = Extractor(
    name="items",
    version=1,
    reply=ItemsReply,
    asked=_nothing_known,
    store=_store,
)
