"""``MemoryManager``: one surface over sessions and stores, for those who build agents."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoriale.adapters.extraction.graphs import GRAPH
from memoriale.adapters.extraction.handlers import able_handlers
from memoriale.adapters.extraction.jobs import OWN_GRAPH, request_extraction
from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.background import Background
from memoriale.adapters.library.stores.config import UnifiedMemoryConfig, parse_config
from memoriale.adapters.library.stores.corrections import told
from memoriale.adapters.library.stores.curator import Curator
from memoriale.adapters.library.stores.keeping import Keeping
from memoriale.adapters.library.stores.parsing import parsed_messages
from memoriale.domain.chat import ChatMessage, ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.jobs import Job, JobStatus
from memoriale.domain.principal import Principal
from memoriale.domain.stores.corrections import Correction
from memoriale.domain.stores.sessions import Session
from memoriale.domain.text import shown
from memoriale.domain.tools import ToolDef

_EXTRACTED: Final = {
    "user_facts": "facts",
    "user_profile": "profile",
    "entities": "entities",
    "learnings": "learnings",
    "graph": "graph",
    "procedures": "procedures",
}
"""The extractor of each store that has one."""


class Appended(NamedTuple):
    """What an append did: messages that fell out of the history, oldest first."""

    overflow: list[ChatMessage]


class MemoryManager(Keeping):
    """
    Sessions, the stores that are switched on, prompts, tools and background extraction.

    What it is told is durable when a call returns; extraction and summaries are jobs of the
    ledger, worked on in a thread, and taken up by whoever runs jobs when this process dies.

    Taken from ``MemoryManager`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        config: A ``UnifiedMemoryConfig``, or a mapping with its fields.
        **fields: Its fields, instead of ``config``.

    Raises:
        InputError: A field that is wrong.
    """

    curator: Curator

    def __init__(
        self, config: UnifiedMemoryConfig | Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        checked = parse_config(fields if config is None else config)
        tenant = checked.storage.principal.tenant
        if checked.tenant_id not in (None, tenant):
            raise InputError(
                f"config.tenant_id is {shown(checked.tenant_id)!r}; the handle's tenant is "
                f"{tenant!r}.",
                code="wrong_tenant",
                field="config.tenant_id",
                value=shown(checked.tenant_id),
                allowed=tenant,
            )
        super().__init__(checked, self._recorded, self._retired)
        self.curator = Curator(self.storage)
        self._model = self.config.model
        self._background = Background(
            lambda: self.storage.services.jobs,
            lambda: able_handlers(self._handle, self._language_model, self.own_graph())[0],
            self._concerns,
            self._ended,
        )

    def ensure_ready(self) -> None:
        """Makes what the stores need ready: the schema of an own graph store."""
        graph = self.get_graph_memory()
        if graph is not None:
            graph.initialize()

    def get_or_create_session(self, session_id: str, user_id: str | None = None) -> Session:
        """See ``SessionManager.get_or_create_session``."""
        return self.session_manager.get_or_create_session(session_id, user_id)

    def append_messages(
        self,
        session_id: str,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        agent_model: ModelProvider | None = None,
        user_id: str | None = None,
    ) -> Appended:
        """
        Adds messages to a session; what falls out of its history is summarised in the background.

        Args:
            session_id: Which session.
            messages: What was said.
            agent_model: Writes the summary where the configuration has no model.
            user_id: The session's user.
        """
        self._model = self._model or agent_model
        overflow = self.session_manager.append_messages(session_id, messages, user_id)
        summaries = self.get_summaries()
        if overflow and summaries is not None:
            job = summaries.request_summary(session_id, overflow, user_id)
            self._background.add([] if job is None else [job])
        return Appended(overflow)

    def get_history(
        self, session_id: str, limit: int | None = None, user_id: str | None = None
    ) -> list[ChatMessage]:
        """See ``SessionManager.get_history``."""
        return self.session_manager.get_history(session_id, limit, user_id)

    def update_state(
        self, session_id: str, patch: Mapping[str, Any], user_id: str | None = None
    ) -> None:
        """See ``SessionManager.update_state``."""
        self.session_manager.update_state(session_id, patch, user_id)

    def after_run(
        self,
        session_id: str | None,
        user_id: str | None,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        agent_model: ModelProvider | None = None,
        agent_name: str | None = None,
        timezone: str | None = None,
    ) -> list[UUID]:
        """
        Has what was said looked through by every extractor whose store is on, in the background.
        The messages are in the ledger when this returns.

        Args:
            session_id: Where it was said.
            user_id: By whom; without a user there is nothing to extract.
            messages: What was said.
            agent_model: Used where the configuration has no model.
            agent_name: To which agent.
            timezone: The user's, an IANA name; default: the configuration's, then UTC.

        Returns:
            Ids of the jobs; ``await_extractions`` waits for them.

        Raises:
            InputError: There is no model, neither here nor in ``MEMORIALE_MODEL``.
        """
        self._model = self._model or agent_model
        names = [name for store, name in _EXTRACTED.items() if self.is_extracted(store)]
        if self.own_graph() is not None:
            names = [OWN_GRAPH if name == GRAPH.name else name for name in names]
        memory = self._acting(user_id, agent_name, session_id)
        if not names or memory.principal.user is None or not messages:
            return []
        self._language_model()
        turns = parsed_messages(messages)
        jobs = request_extraction(
            memory,
            names,
            turns,
            timezone=timezone or self.config.timezone,
            configs=self.extractor_configs(),
        )
        self._background.add(jobs)
        return jobs

    def await_extractions(self, timeout: float = 60.0) -> list[Job]:
        """
        Waits until the extractions and summaries that were asked for here have ended or failed.

        Args:
            timeout: Seconds at most.

        Returns:
            The jobs that are still to be done: their next attempt waits.
        """
        return self._background.wait(timeout)

    def get_tools(self) -> list[ToolDef]:
        """The tools of every store that is on, for the handle's user, agent and session."""
        return [tool for store in self.active() for tool in store.get_tools()]

    def get_max_tokens(self) -> int | None:
        """Tokens of a history at most; None for no limit."""
        return self.config.max_tokens

    def get_max_messages(self) -> int:
        """Messages of a history at most."""
        return self.config.max_messages

    def _handle(self, principal: Principal, branch: str) -> Memory:
        return Memory(self.storage.services, self.storage.settings, principal, branch)

    def _language_model(self) -> ModelProvider:
        settings = self.storage.settings
        return self._model or make_model(settings.model, settings.openai_endpoint)

    def _concerns(self, job: Job) -> bool:
        identities = self.storage.services.log.identities
        return job.columns.owner in identities.scope(self.storage.principal).owners

    def _ended(self, job: Job) -> None:
        name = "memory.extract" if job.status is JobStatus.COMPLETED else "memory.error"
        self._emit(
            name,
            {
                "job_id": str(job.id),
                "type": job.type,
                "status": job.status.value,
                "error": job.error if name == "memory.error" else None,
                "attempts": job.attempts,
            },
        )

    def _recorded(self, correction: Correction) -> None:
        self._emit("memory.correction.recorded", {"correction_id": str(correction.id)})

    def _retired(self, learnings: list[UUID], correction: Correction) -> None:
        for learning in learnings:
            self._emit(
                "memory.learning.invalidated",
                {"learning_id": str(learning), "superseded_by": str(correction.id)},
            )

    def _emit(self, name: str, payload: Mapping[str, Any]) -> None:
        if self.config.event_bus is not None:
            told(self.config.event_bus.emit, name, payload)
