"""The stores of a manager, made from its configuration."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.config import UnifiedMemoryConfig, parse_config, part
from memoriale.adapters.library.stores.corrections import CorrectionStore
from memoriale.adapters.library.stores.decisions import DecisionLog
from memoriale.adapters.library.stores.entities import EntityMemory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.files import FileMemory
from memoriale.adapters.library.stores.graph import GraphMemory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.adapters.library.stores.sessions import SessionManager
from memoriale.adapters.library.stores.summaries import Summaries
from memoriale.adapters.tokens import default_counter
from memoriale.domain.chat import ModelProvider
from memoriale.domain.stores.configs import (
    CorrectionsConfig,
    DecisionConfig,
    FileMemoryConfig,
    LearningsConfig,
    UserFactsConfig,
    UserProfileConfig,
)
from memoriale.domain.stores.context import Context, Section, build_context
from memoriale.domain.stores.corrections import Correction
from memoriale.domain.stores.entities import EntityConfig
from memoriale.domain.stores.graph import GraphMemoryConfig, GraphMemoryFeatureConfig, GraphStore
from memoriale.domain.stores.procedures import ProceduresConfig
from memoriale.domain.stores.summaries import SummaryConfig

_SWITCHES: Final = frozenset(
    {
        "user_facts",
        "user_profile",
        "entities",
        "decisions",
        "learnings",
        "corrections",
        "graph",
        "procedures",
        "file_memory",
    }
)
"""The stores that are off unless a configuration switches them on."""


class Stores(Store):
    """
    Sessions, and each store that a configuration switches on.

    Args:
        config: The configuration.
        recorded: Told each correction after it was stored.
        retired: Told the learnings that a correction retired.
    """

    session_manager: SessionManager

    def __init__(
        self,
        config: UnifiedMemoryConfig,
        recorded: Callable[[Correction], None] | None = None,
        retired: Callable[[list[UUID], Correction], None] | None = None,
    ) -> None:
        super().__init__(config.storage)
        self.config = config
        storage, counter = config.storage, config.token_counter
        self.session_manager = SessionManager(
            storage,
            max_messages=config.max_messages,
            max_tokens=config.max_tokens,
            counter=counter,
        )
        self._on: dict[str, Any] = {}
        summaries = part(config.summaries, SummaryConfig)
        if summaries is not None:
            self._on["summaries"] = Summaries(
                storage, model=config.model, counter=counter, **summaries.model_dump()
            )
        self._switch("user_profile", part(config.user_profile, UserProfileConfig), UserProfile)
        self._switch("user_facts", part(config.user_facts, UserFactsConfig), UserFacts)
        self._switch("entities", part(config.entities, EntityConfig), EntityMemory)
        self._switch("decisions", part(config.decisions, DecisionConfig), DecisionLog)
        self._switch("learnings", part(config.learnings, LearningsConfig), LearnedKnowledge)
        corrections = part(config.corrections, CorrectionsConfig)
        if corrections is not None:
            self._on["corrections"] = CorrectionStore(
                storage, on_recorded=recorded, on_retired=retired, **corrections.model_dump()
            )
        graph = part(config.graph, GraphMemoryFeatureConfig)
        if graph is not None:
            self._on["graph"] = GraphMemory(storage, _graph_config(graph, config.model))
        self._switch("procedures", part(config.procedures, ProceduresConfig), ProcedureMemory)
        self._switch("file_memory", part(config.file_memory, FileMemoryConfig), FileMemory)

    def is_on(self, name: str) -> bool:
        """Whether a store is switched on."""
        return name in self._on

    def is_extracted(self, name: str) -> bool:
        """Whether conversations are looked through for a store."""
        graph = self.get_graph_memory()
        if name == "graph":
            return graph is not None and graph.config.auto_extract
        return self.is_on(name)

    def active(self) -> list[Any]:
        """The stores that are on and have tools."""
        return [store for store in self._on.values() if hasattr(store, "get_tools")]

    def sections(
        self,
        session_id: str | None,
        user_id: str | None,
        current_input: str | None,
        agent_name: str | None,
        as_of: AsOf,
    ) -> list[Section]:
        """What each store that is on has for a prompt; see ``MemoryManager.context``."""
        principal = self.storage.principal
        session = session_id or principal.session
        user, agent = user_id or principal.user, agent_name or principal.agent
        asked = current_input if current_input and current_input.strip() else None
        caller = {"user_id": user_id, "agent_name": agent_name}
        given: dict[str, dict[str, Any] | None] = {
            "summaries": {"session_id": session, "current_input": asked, "user_id": user_id}
            if session
            else None,
            "user_profile": {"user_id": user_id} if user else None,
            "user_facts": {"user_id": user_id} if user else None,
            "entities": {"user_id": user_id, "current_input": asked} if user else None,
            "graph": {"current_input": asked, "user_id": user_id} if user and asked else None,
            "decisions": {"agent_name": agent_name, "session_id": session_id} if agent else None,
            "learnings": {"current_input": asked, **caller} if asked else None,
            "corrections": {"current_input": asked, **caller} if asked else None,
            "procedures": {"current_input": asked, **caller} if asked else None,
        }
        return [
            self._on[name].context_section(**arguments, as_of=as_of)
            for name, arguments in given.items()
            if arguments is not None and name in self._on
        ]

    def build_context(
        self,
        session_id: str | None = None,
        user_id: str | None = None,
        current_input: str | None = None,
        agent_name: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """The text of ``context``."""
        found = self.context(session_id, user_id, current_input, agent_name, as_of=as_of)
        return found.text

    def context(
        self,
        session_id: str | None = None,
        user_id: str | None = None,
        current_input: str | None = None,
        agent_name: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> Context:
        """
        What a model is to know: one fenced block with a section for each store, within the budget.
        The access log keeps which memories it told.

        Args:
            session_id: Whose summaries; without one there are none.
            user_id: Whose facts, profile and so on; without one there are none.
            current_input: What the user says now; learnings, corrections, the graph and
                procedures need it.
            agent_name: Whose decisions; without one there are none.
            as_of: As then: an index or a time.
        """
        sections = self.sections(session_id, user_id, current_input, agent_name, as_of)
        budget = self.config.context_budget
        counter = self.config.token_counter or default_counter()
        found = build_context(
            sections,
            counter.count,
            max_tokens=budget.max_tokens,
            priorities=budget.priorities,
        )
        if found.memories:
            memory = self._acting(user_id, agent_name, session_id)
            pin = memory.services.reading.pin(as_of)
            memory.given(
                "context",
                found.memories,
                index=pin.index,
                as_of=as_of,
                global_index=pin.global_index,
                shared=found.shared,
            )
        return found

    def extractor_configs(self) -> dict[str, Mapping[str, Any]]:
        """Arguments of the stores that extraction makes, by extractor."""
        found: dict[str, Mapping[str, Any]] = {}
        facts, profile = self.get_user_facts(), self.get_user_profile()
        if facts is not None:
            found["facts"] = {"max_facts": facts.max_facts}
        if profile is not None:
            found["profile"] = {"custom_fields": [*profile.custom_fields]}
        entities, graph = self.get_entity_memory(), self.get_graph_memory()
        procedures = self.get_procedure_memory()
        if entities is not None:
            found["entities"] = {"namespace": entities.namespace}
        if graph is not None:
            found["graph"] = {"single_valued": [*graph.config.single_valued]}
        if procedures is not None:
            found["procedures"] = {"max_procedures": procedures.max_procedures}
        return found

    def own_graph(self) -> GraphStore | None:
        """The graph store of the program's own; None when there is none."""
        graph = self.get_graph_memory()
        return None if graph is None else graph.config.graph_store

    def get_user_facts(self) -> UserFacts | None:
        """The store of facts; None when it is off."""
        return self._on.get("user_facts")

    def get_user_profile(self) -> UserProfile | None:
        """The store of profiles; None when it is off."""
        return self._on.get("user_profile")

    def get_entity_memory(self) -> EntityMemory | None:
        """The store of entities; None when it is off."""
        return self._on.get("entities")

    def get_decision_log(self) -> DecisionLog | None:
        """The store of decisions; None when it is off."""
        return self._on.get("decisions")

    def get_learned_knowledge(self) -> LearnedKnowledge | None:
        """The store of learnings; None when it is off."""
        return self._on.get("learnings")

    def get_correction_store(self) -> CorrectionStore | None:
        """The store of corrections; None when it is off."""
        return self._on.get("corrections")

    def get_summaries(self) -> Summaries | None:
        """The store of summaries; None when it is off."""
        return self._on.get("summaries")

    def get_graph_memory(self) -> GraphMemory | None:
        """The graph; None when it is off."""
        return self._on.get("graph")

    def get_procedure_memory(self) -> ProcedureMemory | None:
        """The store of procedures; None when it is off."""
        return self._on.get("procedures")

    def get_file_memory(self) -> FileMemory | None:
        """The notebooks; None when they are off."""
        return self._on.get("file_memory")

    def _acting(
        self, user_id: str | None, agent_name: str | None, session_id: str | None
    ) -> Memory:
        return self._as(user=user_id, agent=agent_name, session=session_id)

    def _switch(self, name: str, config: BaseModel | None, store: Callable[..., Any]) -> None:
        if config is not None:
            given = {n: getattr(config, n) for n in type(config).model_fields}
            self._on[name] = store(self.storage, **given)


def every_store(storage: Memory, budget: Mapping[str, Any]) -> UnifiedMemoryConfig:
    """
    A configuration in which every store is on with its defaults.

    Args:
        storage: A memory handle.
        budget: Fields of ``ContextBudgetConfig``.

    Raises:
        InputError: The first field that is wrong.
    """
    on = dict.fromkeys(_SWITCHES, True)
    return parse_config({"storage": storage, "context_budget": budget, **on})


def _graph_config(
    graph: GraphMemoryFeatureConfig, model: ModelProvider | None
) -> GraphMemoryConfig:
    return GraphMemoryConfig(
        graph_store=graph.store,
        model=model,
        auto_extract=graph.auto_extract,
        max_context_nodes=graph.max_context_nodes,
        single_valued=graph.single_valued,
    )
