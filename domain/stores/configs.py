"""How the stores of a manager work: the parts of ``UnifiedMemoryConfig``; defaults as in A."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from memoriale.domain.chat import ModelProvider
from memoriale.domain.stores.curation import MERGE_FROM
from memoriale.domain.stores.decisions import SHOWN_DECISIONS
from memoriale.domain.stores.facts import MAX_FACTS
from memoriale.domain.stores.files import MEMORY_CHARACTERS, USER_CHARACTERS
from memoriale.domain.stores.learnings import CONTRADICTION


class Config(BaseModel):
    """Base of the parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class UserFactsConfig(Config):
    """Facts: at most so many current ones of a user."""

    max_facts: int = Field(default=MAX_FACTS, ge=1)


class UserProfileConfig(Config):
    """Profiles: further fields that the tool offers and extraction looks for."""

    custom_fields: tuple[str, ...] = ()


class DecisionConfig(Config):
    """Decisions: at most so many in a prompt."""

    max_context_decisions: int = Field(default=SHOWN_DECISIONS, ge=1)


class LearningsConfig(Config):
    """Learnings: at most so many in a prompt, of at least a similarity (0..1; None: any)."""

    top_k: int = Field(default=3, ge=1)
    min_score: float | None = Field(default=None, ge=0, le=1)


class CorrectionsConfig(LearningsConfig):
    """
    Corrections: as learnings, and whether one retires the unverified learnings that it
    contradicts, from which similarity on (0..1).
    """

    invalidate_contradicted: bool = True
    contradiction_threshold: float = Field(default=CONTRADICTION, ge=0, le=1)


class FileMemoryConfig(Config):
    """Notebooks: their limits in characters."""

    memory_char_limit: int = Field(default=MEMORY_CHARACTERS, ge=1)
    user_char_limit: int = Field(default=USER_CHARACTERS, ge=1)


class ContextBudgetConfig(Config):
    """Prompts: the most tokens (None: no limit), and weights of sections over the defaults."""

    max_tokens: int | None = Field(default=None, ge=1)
    priorities: dict[str, float] = Field(default_factory=dict)


class PruneOptions(Config):
    """What ``Curator.prune`` ends: what is older than days, of a user, of an agent."""

    max_age_days: int = Field(ge=0)
    user_id: str | None = None
    agent_name: str | None = None


class ConsolidateOptions(Config):
    """With which model ``Curator.consolidate`` merges whose facts, from which similarity (0..1)."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    model: ModelProvider
    user_id: str | None = None
    similarity_threshold: float = Field(default=MERGE_FROM, ge=0, le=1)


@runtime_checkable
class EventBus(Protocol):
    """Where a manager tells what happened, after it is durable."""

    def emit(self, name: str, payload: Mapping[str, Any]) -> None:
        """
        Tells one thing.

        Args:
            name: ``memory.error``, ``memory.extract``, ``memory.correction.recorded`` or
                ``memory.learning.invalidated``.
            payload: Ids and codes; no text of a memory.
        """
