"""Which stores a ``Curator`` looks after, and the repair of what they are searched by."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.errors import InputError
from memoriale.domain.principal import Right

if TYPE_CHECKING:
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
    from memoriale.projections.reconcile import ReconcileReport

KINDS_OF_STORE: Final = {
    "user_facts": ("fact",),
    "user_profile": ("profile_field",),
    "entity_memory": ("entity", "entity_fact", "entity_event", "relationship"),
    "decision_log": ("decision",),
    "learned_knowledge": ("learning",),
    "correction_store": ("correction",),
    "graph_memory": ("node", "edge"),
    "procedure_memory": ("procedure",),
    "summaries": ("summary",),
    "file_memory": ("file_entry",),
    "session_manager": ("message",),
}
"""The kinds of memory that each store keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratorStores:
    """The stores that a ``Curator`` looks after; it leaves what the others keep."""

    user_facts: "UserFacts | None" = None
    user_profile: "UserProfile | None" = None
    entity_memory: "EntityMemory | None" = None
    decision_log: "DecisionLog | None" = None
    learned_knowledge: "LearnedKnowledge | None" = None
    correction_store: "CorrectionStore | None" = None
    graph_memory: "GraphMemory | None" = None
    procedure_memory: "ProcedureMemory | None" = None
    summaries: "Summaries | None" = None
    file_memory: "FileMemory | None" = None
    session_manager: "SessionManager | None" = None

    def kinds(self, memory: Memory) -> frozenset[str]:
        """
        The kinds that these stores keep.

        Args:
            memory: The curator's handle.

        Raises:
            InputError: What is no store, or one of another tenant.
        """
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        stores = {name: store for name, store in given.items() if store is not None}
        for name, store in stores.items():
            tenant = memory.principal.tenant
            if not isinstance(store, Store) or store.storage.principal.tenant != tenant:
                raise InputError(
                    f"stores.{name} must be a store on a handle of tenant {tenant!r}.",
                    code="bad_value",
                    field=f"stores.{name}",
                    value=type(store).__name__,
                    allowed=f"a store of tenant {tenant!r}",
                )
        return frozenset(kind for name in stores for kind in KINDS_OF_STORE[name])


def reconcile_recall(memory: Memory, *, repair: bool) -> "ReconcileReport":
    """Compares the recall view with the ledger, see ``Ledger.reconcile``. Right: ``operate``."""
    from memoriale.projections.reconcile import reconcile

    memory.allow("reconcile", Right.OPERATE)
    return reconcile(memory.services.view("recall"), memory.services.log, repair=repair)
