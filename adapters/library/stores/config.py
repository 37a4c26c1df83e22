"""``UnifiedMemoryConfig``: which stores a manager has, and how they work."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.stores.configs import (
    ContextBudgetConfig,
    CorrectionsConfig,
    DecisionConfig,
    EventBus,
    FileMemoryConfig,
    LearningsConfig,
    UserFactsConfig,
    UserProfileConfig,
)
from memoriale.domain.stores.entities import EntityConfig
from memoriale.domain.stores.graph import GraphMemoryFeatureConfig
from memoriale.domain.stores.procedures import ProceduresConfig
from memoriale.domain.stores.sessions import MAX_MESSAGES
from memoriale.domain.stores.summaries import SummaryConfig
from memoriale.domain.text import shown
from memoriale.domain.tokens import TokenCounter

C = TypeVar("C", bound=BaseModel)


class UnifiedMemoryConfig(BaseModel):
    """
    What a ``MemoryManager`` remembers. A part that is False or None is off, True is its default.

    Args:
        storage: A memory handle: tenant, rights and branch of everything. One without a user
            serves every user that the calls name.
        max_messages: Messages of a session's history at most.
        max_tokens: Tokens of a session's history at most; None for no limit.
        summaries: Summaries of what falls out of the history; on by default.
        user_facts, user_profile, entities, decisions, learnings, corrections, graph, procedures,
            file_memory: The other stores; off by default.
        context_budget: Tokens and weights of the prompt.
        model: Language model of extraction and summaries; None takes the one that a call brings.
        timezone: IANA name; dates in conversations are read there. None for UTC.
        tenant_id: Checked against the handle's tenant, when given.
        event_bus: Told what happened.
        token_counter: Counts tokens; default: a tokenizer that is installed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    storage: Memory
    max_messages: int = Field(default=MAX_MESSAGES, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    summaries: bool | SummaryConfig = True
    user_facts: bool | UserFactsConfig = False
    user_profile: bool | UserProfileConfig = False
    entities: bool | EntityConfig = False
    decisions: bool | DecisionConfig = False
    learnings: bool | LearningsConfig | None = None
    corrections: bool | CorrectionsConfig | None = None
    graph: bool | GraphMemoryFeatureConfig | None = None
    procedures: bool | ProceduresConfig = False
    file_memory: bool | FileMemoryConfig = False
    context_budget: ContextBudgetConfig = Field(default_factory=ContextBudgetConfig)
    model: ModelProvider | None = None
    timezone: str | None = None
    tenant_id: str | None = None
    event_bus: EventBus | None = None
    token_counter: TokenCounter | None = None


def part(given: "bool | C | None", default: type[C]) -> C | None:
    """A part of a configuration: its default for True, None when it is off."""
    if isinstance(given, BaseModel):
        return given
    return default() if given else None


def parse_config(given: object) -> UnifiedMemoryConfig:
    """
    A configuration from a mapping of its fields.

    Raises:
        InputError: The first field that is wrong.
    """
    if isinstance(given, UnifiedMemoryConfig):
        return given
    try:
        return UnifiedMemoryConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(["config", *(str(part) for part in first["loc"])])
        raise InputError(
            f"{field}: {first['msg']}.",
            code="bad_value",
            field=field,
            value=shown(type(first.get("input")).__name__),
            allowed=first["msg"],
        ) from None
