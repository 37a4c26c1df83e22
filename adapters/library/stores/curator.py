"""``Curator``: maintenance over the stores. Whatever it ends stays in history."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.adapters.extraction.prompting import prompt
from memoriale.adapters.extraction.replies import read_reply
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.curated import CuratorStores, reconcile_recall
from memoriale.domain.chat import ChatMessage, ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.events import SourceTier
from memoriale.domain.fields import choice
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Slice
from memoriale.domain.stores.configs import ConsolidateOptions, PruneOptions
from memoriale.domain.stores.curation import (
    KINDS_OF,
    MERGE_FROM,
    PRUNED_TIERS,
    Curated,
    CurationReport,
    Merge,
    clear,
    common_subject,
    consolidate,
    deduplicate,
    prune,
    similar_groups,
)
from memoriale.domain.stores.facts import FACT
from memoriale.domain.values import check_unit, check_whole

if TYPE_CHECKING:
    from memoriale.projections.reconcile import ReconcileReport

_TIERS: Final = tuple(tier.value for tier in SourceTier)
_PRUNED: Final = tuple(tier.value for tier in SourceTier if tier in PRUNED_TIERS)
_MOST_DAYS: Final = 36_500
_VERSION: Final = 1


class _Merges(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    merges: tuple[Merge, ...] = ()


class Curator(Store):
    """
    Prunes, deduplicates, merges and clears what users, agents and sessions own.

    Each call is one append for each owner; what is under legal hold is left and reported. With
    ``dry_run`` nothing is stored and the report says what would be.

    Taken from ``Curator`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its user, agent and session are meant where none is given.
        stores: The stores to look after; default: every kind of memory.

    Raises:
        InputError: A store of another tenant.
    """

    def __init__(self, storage: Memory, stores: CuratorStores | None = None) -> None:
        super().__init__(storage)
        self.kinds = None if stores is None else stores.kinds(storage)

    def reconcile(self, *, dry_run: bool = False) -> "ReconcileReport":
        """
        Repairs what searches look into, the recall view, from the ledger.

        Args:
            dry_run: Only say what would be done.

        Returns:
            What was missing, orphaned, stale or doubled, for all stores of the tenant together:
            they share the view. Right: ``operate``.
        """
        return reconcile_recall(self.storage, repair=not dry_run)

    def prune(
        self,
        max_age_days: int | PruneOptions,
        user_id: str | None = None,
        agent_name: str | None = None,
        session_id: str | None = None,
        *,
        sources: Sequence[str] = _PRUNED,
        dry_run: bool = False,
    ) -> CurationReport:
        """
        Ends, as ``pruned``, what is older than an age, of every kind that the owners have.

        Args:
            max_age_days: Days of 24 hours since the memory last changed, 0..36,500; or options
                that say whose, too.
            user_id, agent_name, session_id: Whose; default: the handle's.
            sources: Tiers that may go; by default what models wrote, never what people said.
            dry_run: Only say what would be done.
        """
        if isinstance(max_age_days, PruneOptions):
            user_id = user_id or max_age_days.user_id
            agent_name = agent_name or max_age_days.agent_name
            max_age_days = max_age_days.max_age_days
        days = check_whole("max_age_days", max_age_days, 0, _MOST_DAYS)
        tiers = frozenset(
            SourceTier(choice("sources", source, _TIERS) or "manual") for source in sources
        )
        return self._over_owners(
            "curate.prune",
            self._as(user=user_id, agent=agent_name, session=session_id),
            {"max_age_days": days, "sources": sorted(sources)},
            lambda seen: prune(seen, days, tiers),
            dry_run,
        )

    def deduplicate(self, user_id: str | None = None, *, dry_run: bool = False) -> CurationReport:
        """
        Ends current facts of a user that say the same as another one, as ``superseded`` by it.

        Args:
            user_id: Whose; default: the handle's user.
            dry_run: Only say what would be done.
        """
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        if not self._looks_after(FACT):
            return CurationReport()
        return self._one(memory, owner, (FACT,), "curate.deduplicate", {}, deduplicate, dry_run)

    def consolidate(
        self,
        model: ModelProvider | ConsolidateOptions,
        user_id: str | None = None,
        similarity_threshold: float | None = None,
        *,
        dry_run: bool = False,
    ) -> CurationReport:
        """
        Merges facts of a user that say the same in different words, as a model proposes.

        The originals end as ``consolidated`` and stay in history. Only facts of one tier are
        merged, and only those that a chain of pairs of at least the similarity connects.

        Args:
            model: The language model that proposes; or options that say the rest, too.
            user_id: Whose; default: the handle's user.
            similarity_threshold: Least cosine of two facts, 0..1, by the ledger's embedder;
                default: 0.8.
            dry_run: Only say what would be done; the model is asked all the same.

        Raises:
            BadReplyError: The model's reply cannot be used; nothing was stored.
            UnavailableError: Model or embedder cannot be reached; nothing was stored.
        """
        least = similarity_threshold
        if isinstance(model, ConsolidateOptions):
            user_id = user_id or model.user_id
            least = model.similarity_threshold if least is None else least
            model = model.model
        threshold = check_unit("similarity_threshold", MERGE_FROM if least is None else least)
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        if not self._looks_after(FACT):
            return CurationReport()
        seen = self._read(memory, owner, (FACT,), "curate.consolidate")
        facts = [] if seen is None else [s for s in seen.current(FACT) if s.payload is not None]
        groups = self._similar(memory, facts, threshold)
        if not groups:
            return CurationReport(checked=len(facts))
        asked = prompt("consolidate", _VERSION)
        merges = self._proposed(model, asked.filled(groups=_as_json(facts, groups)))

        def merged(merge: Merge, originals: Sequence[MemoryState]) -> Remember:
            return self._merged(memory, merge, originals, model.model_id, asked.code)

        return self._one(
            memory,
            owner,
            (FACT,),
            "curate.consolidate",
            {"merges": [merge.model_dump(mode="json") for merge in merges]},
            lambda current: consolidate(current, merges, groups, merged),
            dry_run,
        )

    def clear_all(
        self,
        user_id: str | None = None,
        agent_name: str | None = None,
        session_id: str | None = None,
        *,
        dry_run: bool = False,
    ) -> CurationReport:
        """
        Ends everything of the owners, of every kind, as ``retracted``; only ``erase`` destroys.

        Args:
            user_id, agent_name, session_id: Whose; default: the handle's.
            dry_run: Only say what would be done.
        """
        memory = self._as(user=user_id, agent=agent_name, session=session_id)
        return self._over_owners("curate.clear", memory, {}, clear, dry_run)

    def _over_owners(
        self,
        command: str,
        memory: Memory,
        arguments: Mapping[str, Any],
        work: Callable[[Slice], Curated],
        dry_run: bool,
    ) -> CurationReport:
        owners = [(memory.principal.identity(type_), kinds) for type_, kinds in KINDS_OF.items()]
        known = [(owner, kinds) for owner, kinds in owners if owner is not None]
        if not known:
            raise InputError(
                "user_id is missing: neither the call nor the handle names a user, an agent or a "
                "session.",
                code="no_owner",
                field="user_id",
                allowed=["user_id", "agent_name", "session_id"],
            )
        report = CurationReport()
        for owner, kinds in known:
            chosen = tuple(kind for kind in kinds if self._looks_after(kind))
            if chosen:
                report += self._one(memory, owner, chosen, command, arguments, work, dry_run)
        return report

    def _looks_after(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def _one(
        self,
        memory: Memory,
        owner: Subject,
        kinds: Sequence[str],
        command: str,
        arguments: Mapping[str, Any],
        work: Callable[[Slice], Curated],
        dry_run: bool,
    ) -> CurationReport:
        if dry_run:
            seen = self._read(memory, owner, kinds, command)
            return CurationReport() if seen is None else work(seen).report
        done = CurationReport()

        def decision(seen: Slice) -> Sequence[Any]:
            nonlocal done
            curated = work(seen)
            done = curated.report
            return curated.steps

        self._decide(memory, owner, kinds, decision, command, arguments)
        return done

    def _similar(
        self, memory: Memory, facts: Sequence[MemoryState], threshold: float
    ) -> list[frozenset[UUID]]:
        if len(facts) < 2:
            return []
        import numpy

        from memoriale.adapters.application.posting import configured_embedder
        from memoriale.projections.embedding import embed_passages

        texts = [state.payload.content for state in facts if state.payload is not None]
        vectors = embed_passages(configured_embedder(memory.settings), texts)
        lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
        units = vectors / numpy.where(lengths == 0, 1, lengths)
        cosines = units @ units.T
        ids = [state.memory_id for state in facts]
        return similar_groups(ids, lambda one, other: float(cosines[one, other]), threshold)

    def _proposed(self, model: ModelProvider, text: str) -> tuple[Merge, ...]:
        asked = [ChatMessage(role="user", content=text)]
        reply = model.generate(asked, schema=_Merges.model_json_schema(), max_tokens=2_000)
        return read_reply(reply.text, _Merges).merges

    def _merged(
        self,
        memory: Memory,
        merge: Merge,
        originals: Sequence[MemoryState],
        model: str,
        prompt_version: str,
    ) -> Remember:
        known = [s.importance for s in originals if s.importance is not None]
        topics = dict.fromkeys(tag for state in originals for tag in state.tags)
        return self._command(
            memory,
            merge.merged,
            kind=FACT,
            subject=common_subject(originals),
            importance=max(known) / 1000 if known else None,
            tags=list(topics),
            source_tier=originals[0].source_tier,
            model=model,
            prompt_version=prompt_version,
        )


def _as_json(facts: Sequence[MemoryState], groups: Sequence[frozenset[UUID]]) -> str:
    texts = {s.memory_id: s.payload.content for s in facts if s.payload is not None}
    told = [
        [{"id": str(id_), "fact": texts[id_]} for id_ in texts if id_ in group] for group in groups
    ]
    return json.dumps(told, ensure_ascii=False, indent=1)
