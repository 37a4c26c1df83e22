"""``LedgerSemanticMemory``: facts of resources on the ledger."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Request
from memoriale.adapters.application.questions import Question
from memoriale.adapters.application.verifying import Verifying
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.resources.fact_history import fact_history, parsed_ids
from memoriale.adapters.library.resources.places import Place, Places
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.record import MAX_ID_LIST
from memoriale.domain.resources.facts import FactVersion, MemoryFact, RememberedFact, SourceRef
from memoriale.domain.resources.limits import (
    MAX_TOP_K,
    PAGE,
    TOP_K,
    check_fact,
    check_facts,
    check_ids,
    check_page,
    check_top_k,
)
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.steps import Slice
from memoriale.domain.stores.semantic import SEMANTIC, ReplaceFacts, details_of, fact_of

_PAGE: Final = 2 * MAX_TOP_K
"""Facts that are looked through at once for those that answer nothing."""


class LedgerSemanticMemory:
    """
    Facts of resources on the ledger (kind ``semantic``). They are found by the ledger's recall;
    what replaces or forgets them is an event, and their source is looked up at each read.

    Args:
        ledger: An open ledger, or what opens it when it is first needed.
        tenant: Whose resources they are.
        **who: ``rights``, ``actor``, ``actor_kind``, ``on_behalf_of`` and ``purpose``, as for
            ``Ledger.memory``.
    """

    has_vector_index = True
    """The ledger's recall compares vectors, in whatever process."""

    def __init__(self, ledger: Ledger | Callable[[], Ledger], *, tenant: str, **who: Any) -> None:
        self._places = Places(ledger, tenant, who)

    @property
    def tenant(self) -> str:
        """Whose resources they are."""
        return self._places.tenant

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        """Stores a fact."""
        return self.remember_many(ref, [check_fact(fact)])[0]

    def remember_many(
        self, ref: ResourceRef, facts: Sequence[MemoryFact]
    ) -> Sequence[RememberedFact]:
        """Stores all facts in one append, or none when one of them cannot be stored."""
        given = check_facts(facts)
        return self._changed(ref, _Change("semantic.remember", given))[1] if given else []

    def recall(
        self, ref: ResourceRef, query: str, *, top_k: int = TOP_K
    ) -> Sequence[RememberedFact]:
        """
        The facts that answer best, best first, at most ``top_k`` (1..100). When fewer answer,
        others of the resource follow with the score 0, the oldest first.
        """
        check_top_k(top_k)
        place = self._places.of(ref)
        memory, owners = place.memory, self._owners(place)
        found = memory.recall(query, kinds=(SEMANTIC,), top_k=top_k)
        scores = {hit.memory_id: hit.score for hit in found}
        folded = memory.services.reading.folded(list(scores), memory.branch_view(), found.index)
        states = [s for i in scores if (s := folded.get(i)) and s.columns.owner in owners]
        states += self._others(memory, owners, {s.memory_id for s in states}, top_k - len(states))
        facts = self._verified(place, states)
        return [replace(fact, score=scores.get(UUID(fact.id), 0.0)) for fact in facts]

    def list_all(self, ref: ResourceRef) -> Sequence[RememberedFact]:
        """Every fact, oldest first."""
        place = self._places.of(ref)
        memory = place.memory
        memory.allow("semantic.list", Right.USE)
        seen = self._seen(place)
        if seen is None:
            return []
        inherited = (h.of_kind(SEMANTIC).current(seen.now) for h in seen.inherited)
        states = [*seen.current(SEMANTIC), *(state for states in inherited for state in states)]
        states.sort(key=lambda state: state.first_index)
        return self._listed(place, states, seen.index)

    def list_recent(self, ref: ResourceRef, limit: int = PAGE) -> Sequence[RememberedFact]:
        """The newest facts, newest first, at most ``limit`` (1..1,000)."""
        count = check_page(limit)
        place = self._places.of(ref)
        memory = place.memory
        memory.allow("semantic.list", Right.USE)
        states, index = memory.services.deciding.newest(
            memory.principal, memory.branch_view(), place.owner, SEMANTIC, count
        )
        return self._listed(place, states, index)

    def forget(self, ref: ResourceRef, ids: Sequence[str]) -> int:
        """Forgets facts; how many were there. History keeps them."""
        wanted = check_ids(ids)
        forgetting = _Change("semantic.forget", ids=wanted, because=ReasonCode.FORGOTTEN)
        return self._changed(ref, forgetting)[0] if wanted else 0

    def replace(
        self,
        ref: ResourceRef,
        ids: Sequence[str],
        facts: Sequence[MemoryFact],
        *,
        because: ReasonCode = ReasonCode.COMPACTED,
        reason: str | None = None,
    ) -> tuple[int, Sequence[RememberedFact]]:
        """
        Ends facts and stores those that take their place, in one append; these name those.

        Args:
            ref: The resource.
            ids: The facts that end; none of them only stores.
            facts: What takes their place.
            because: Why they end: ``compacted`` (refused under a legal hold), or ``superseded``.
            reason: Why, in words; sealed.

        Raises:
            ConflictError: One of the facts is not there any more; nothing was changed.
            RefusedError: The resource is under a legal hold.
        """
        given, ending = check_facts(facts), check_ids(ids)
        if not given and not ending:
            return 0, []
        change = _Change("semantic.replace", given, ending, because, reason, all_of_them=True)
        return self._changed(ref, change)

    def correct(
        self,
        ref: ResourceRef,
        id: str,
        content: str,
        *,
        source_ref: SourceRef | None = None,
        evidence: str | None = None,
        reason: str | None = None,
    ) -> RememberedFact:
        """
        Puts a better fact in the place of one; the source of the old one does not speak for it.

        Args:
            ref: The resource.
            id: The fact.
            content: What it should say.
            source_ref, evidence: What the better one rests on.
            reason: Why; sealed.

        Raises:
            ConflictError: The fact is not there any more.
        """
        better = MemoryFact(content=content, source_ref=source_ref, evidence=evidence)
        because = ReasonCode.SUPERSEDED
        return self.replace(ref, [id], [better], because=because, reason=reason)[1][0]

    def history(self, ref: ResourceRef, id: str) -> Sequence[FactVersion]:
        """
        What became of a fact, with those that it stood in for and the one in its place; oldest
        first.

        Args:
            ref: The resource.
            id: The fact.

        Raises:
            InputError: ``not_found``: the resource never had it.
        """
        place = self._places.of(ref)
        place.memory.allow("history", Right.USE)
        return fact_history(place.memory, self._owners(place), id)

    def standing(self, ref: ResourceRef) -> tuple[datetime, bool]:
        """The database's time, and whether the resource is under a legal hold."""
        place = self._places.of(ref)
        place.memory.allow("semantic.list", Right.USE)
        seen = self._seen(place)
        if seen is None:
            return place.memory.services.log.clock(), False
        return seen.now, seen.held()

    @property
    def forked_with(self) -> Hashable:
        """The log: facts and working memory in it are forked by one call."""
        return self._places.identity

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """Forks facts and working memory alike; see ``Places.fork``."""
        self._places.fork(parent, child)

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many facts the child has as it got them from the parent; counted at the call."""
        return self._places.inherited(parent, child, SEMANTIC)

    def _others(
        self, memory: Memory, owners: Collection[UUID], known: Collection[UUID], count: int
    ) -> list[MemoryState]:
        """The oldest facts besides the known ones."""
        found: list[MemoryState] = []
        after: int | None = -1
        asked = Question(
            query="every fact", kinds=(SEMANTIC,), top_k=_PAGE, wait=memory.settings.wait
        )
        while len(found) < count and after is not None:
            page = memory.services.recalling.page(
                memory.principal, memory.branch_view(), asked, after
            )
            new = (state for state in page.states if state.memory_id not in known)
            found += [state for state in new if state.columns.owner in owners]
            after = page.next
        given = found[: max(count, 0)]
        if given:
            told = [(state.memory_id, state.index) for state in given]
            memory.given("recall", told, index=page.index)
        return given

    def _changed(self, ref: ResourceRef, change: "_Change") -> tuple[int, list[RememberedFact]]:
        return self._places.change(
            ref, change.command, lambda place: self._change_at(place, change)
        )

    def _change_at(self, place: Place, change: "_Change") -> tuple[int, list[RememberedFact]]:
        memory = place.memory
        ids = parsed_ids(change.ids)
        # The events of those that end name the first of several, too.
        few = len(ids) <= MAX_ID_LIST
        decision = ReplaceFacts(
            ids=ids,
            asked=len(change.ids),
            commands=[
                self._command(memory, fact, ids if few or n == 0 else ())
                for n, fact in enumerate(change.facts)
            ],
            because=change.because,
            parents=memory.branch_view().parent_owners(),
            reason=change.reason,
            all_of_them=change.all_of_them,
        )
        memory.allow(change.command, Right.USE)
        request = Request(
            command=change.command,
            others=tuple(ids),
            arguments=change.arguments(),
            guards=place.guards,
        )
        decided = memory.services.deciding.decide(
            memory.principal, memory.branch_view(), place.owner, (), decision, request
        )
        if decided.recorded_at is None:
            return 0, []
        made = decided.made()[: len(change.facts)]
        stored = [
            RememberedFact(
                id=str(memory_id),
                content=fact.content,
                source_ref=fact.source_ref,
                evidence=fact.evidence,
                remembered_at=decided.recorded_at,
            )
            for memory_id, fact in zip(made, change.facts, strict=True)
        ]
        return len(decided.ended()), self._checked(memory, stored)

    def _command(self, memory: Memory, fact: MemoryFact, replaces: Sequence[UUID]) -> Remember:
        given = {"kind": SEMANTIC, "owner": "resource", "details": details_of(fact)}
        command = memory.remember_command(fact.content, given)
        if not replaces:
            return command
        # Past the limit of details, which is for what callers give.
        named = {"replaces": [str(memory_id) for memory_id in replaces]}
        return replace(command, details=command.details | named)

    def _listed(
        self, place: Place, states: Sequence[MemoryState], index: int
    ) -> list[RememberedFact]:
        told = [(state.memory_id, state.index) for state in states]
        if index >= 0:
            place.memory.given("semantic.list", told, index=index)
        return self._verified(place, states)

    def _seen(self, place: Place) -> Slice | None:
        memory = place.memory
        return memory.services.deciding.read(
            memory.principal, memory.branch_view(), place.owner, (SEMANTIC,), inherits=True
        )

    def _verified(self, place: Place, states: Iterable[MemoryState]) -> list[RememberedFact]:
        owners = self._owners(place)
        own = (state for state in states if state.columns.owner in owners)
        facts = [fact for state in own if (fact := fact_of(state)) is not None]
        return self._checked(place.memory, facts)

    def _checked(self, memory: Memory, facts: Sequence[RememberedFact]) -> list[RememberedFact]:
        if all(fact.source_ref is None for fact in facts):
            return list(facts)
        found = Verifying(memory.services.log).check(memory.principal, memory.branch_view(), facts)
        return [replace(f, verification=v) for f, v in zip(facts, found, strict=True)]

    def _owners(self, place: Place) -> frozenset[UUID]:
        key = place.memory.services.log.identities.find(place.owner)
        parents = place.memory.branch_view().parent_owners()
        return frozenset(parents if key is None else (key.pseudonym, *parents))


@dataclass(frozen=True, slots=True)
class _Change:
    command: str
    facts: Sequence[MemoryFact] = ()
    ids: Sequence[str] = ()
    because: ReasonCode = ReasonCode.FORGOTTEN
    reason: str | None = None
    all_of_them: bool = False

    def arguments(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "facts": [details_of(f) | {"content": f.content} for f in self.facts],
            "ids": [*self.ids],
        }
