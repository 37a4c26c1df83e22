"""Keeping memory in order: pruning, removing doubles, merging, clearing. Nothing is destroyed."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Fact
from memoriale.domain.steps import End, Make, Slice, Step
from memoriale.domain.stores.entities import ENTITY, ENTITY_EVENT, ENTITY_FACT, RELATIONSHIP
from memoriale.domain.stores.entity_changes import entities_named
from memoriale.domain.stores.facts import FACT, by_weight, canonical_fact
from memoriale.domain.stores.graph import EDGE, NODE
from memoriale.domain.stores.graph_changes import nodes_named

PRUNED_TIERS: Final = frozenset({SourceTier.LLM_EXTRACTED, SourceTier.SUMMARY})
"""What pruning takes by default: what models wrote. What people said stays."""
MERGE_FROM: Final = 0.8
"""Least similarity of facts that may be merged, where none is given."""
_TRUST: Final = {
    SourceTier.HUMAN_CORRECTION: 4,
    SourceTier.MANUAL: 3,
    SourceTier.IMPORTED: 2,
    SourceTier.LLM_EXTRACTED: 1,
    SourceTier.SUMMARY: 0,
}

OF_USER: Final = (
    "fact",
    "profile_field",
    "entity",
    "entity_fact",
    "entity_event",
    "relationship",
    "node",
    "edge",
    "learning",
    "correction",
    "procedure",
    "file_entry",
)
OF_AGENT: Final = ("decision", "learning", "correction", "procedure", "file_entry")
OF_SESSION: Final = ("summary", "message")
_CARRYING: Final = frozenset({ENTITY, NODE})
_RESTING: Final = (ENTITY_FACT, ENTITY_EVENT, RELATIONSHIP, EDGE)
KINDS_OF: Final = {"user": OF_USER, "agent": OF_AGENT, "session": OF_SESSION}
"""Which kinds a user, an agent and a session own."""


class Skipped(BaseModel):
    """A memory that was left as it is, and why."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    reason: str


class CurationReport(BaseModel):
    """What maintenance looked at, changed and left; the counts add up."""

    model_config = ConfigDict(frozen=True)

    checked: int = 0
    changed: int = 0
    skipped: tuple[Skipped, ...] = ()

    def __add__(self, other: "CurationReport") -> "CurationReport":
        return CurationReport(
            checked=self.checked + other.checked,
            changed=self.changed + other.changed,
            skipped=self.skipped + other.skipped,
        )


@dataclass(frozen=True, slots=True)
class Curated:
    """The steps of a piece of maintenance, and the report for when they are stored."""

    steps: tuple[Step, ...]
    report: CurationReport


def prune(seen: Slice, max_age_days: float, tiers: frozenset[SourceTier] = PRUNED_TIERS) -> Curated:
    """
    The end, as ``pruned``, of what is older than an age and of a tier that may go. An entity
    stays while anything that is said of it stays, and a node while an edge of it does.

    Args:
        seen: What an owner has.
        max_age_days: Age in days of 24 hours since it last changed, strictly more.
        tiers: Tiers that may go.
    """
    since = seen.now - timedelta(days=max_age_days)
    current = seen.current()
    old = [state for state in current if state.changed_at < since]
    going = {state.memory_id: state for state in old if state.source_tier in tiers}
    kept = [_skipped(s, "said by people") for s in old if s.memory_id not in going]
    if going and seen.held():
        return _report(current, [], kept + [_skipped(s, "legal hold") for s in going.values()])
    for state in _carrying(seen, going):
        kept.append(_skipped(state, "what stays rests on it"))
        del going[state.memory_id]
    return _report(current, [_end(s, ReasonCode.PRUNED) for s in going.values()], kept)


def _carrying(seen: Slice, going: Mapping[UUID, MemoryState]) -> list[MemoryState]:
    """Those of some memories that others, which do not go, are about or lead to."""
    needed: set[tuple[str, str]] = set()
    # One that is outdated is not pruned, and still read as valid at an earlier time.
    for kind in _RESTING:
        for state in seen.states.of_kind(kind).all():
            if state.is_current(seen.now) and state.memory_id not in going:
                needed.update(_named(state))
    return [s for s in going.values() if s.kind in _CARRYING and not needed.isdisjoint(_named(s))]


def _named(state: MemoryState) -> list[tuple[str, str]]:
    entities = [(ENTITY, entity_id) for entity_id in entities_named(state.payload)]
    return [*entities, *((NODE, node_id) for node_id in nodes_named(state))]


def deduplicate(seen: Slice) -> Curated:
    """
    The end, as ``superseded``, of current facts that say the same as another. The one that
    stays is the most trusted, then the most important, then the oldest.
    """
    groups: dict[str, list[MemoryState]] = defaultdict(list)
    current = seen.current(FACT)
    for state in current:
        if state.payload is not None:
            groups[canonical_fact(state.payload.content)].append(state)
    steps: list[Step] = []
    for group in groups.values():
        kept, *doubles = sorted(group, key=_best_first)
        steps += [_end(double, ReasonCode.SUPERSEDED, kept.memory_id) for double in doubles]
    return _report(current, steps, [])


class Merge(BaseModel):
    """Facts that a model proposes to say in one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    merged: str
    original_ids: tuple[UUID, ...]


def consolidate(
    seen: Slice,
    merges: Sequence[Merge],
    allowed: Sequence[frozenset[UUID]],
    command_of: Callable[[Merge, Sequence[MemoryState]], Remember],
) -> Curated:
    """
    The merged facts, and the end of what they say as ``consolidated``: history keeps it.

    A proposal is taken only for two or more current facts that are similar enough and of one
    tier, so that trust neither falls nor rises; each fact is merged once; none under a hold.

    Args:
        seen: What the user has.
        merges: The proposals.
        allowed: Groups of facts that are similar enough.
        command_of: A checked command from a proposal and its originals.
    """
    current = {state.memory_id: state for state in seen.current(FACT)}
    taken: set[UUID] = set()
    steps: list[Step] = []
    skipped: list[Skipped] = []
    held = bool(merges) and seen.held()
    for merge in merges:
        ids = tuple(dict.fromkeys(merge.original_ids))
        originals = [current[i] for i in ids if i in current and i not in taken]
        why = "legal hold" if held else _unfit(ids, originals, allowed)
        if why is not None:
            skipped += [Skipped(id=i, reason=why) for i in ids]
            continue
        taken.update(ids)
        made = Make(command=command_of(merge, originals))
        steps.append(made)
        steps += [_end(s, ReasonCode.CONSOLIDATED, made.memory_id) for s in originals]
    report = CurationReport(checked=len(current), changed=len(taken), skipped=tuple(skipped))
    return Curated(tuple(steps), report)


def clear(seen: Slice) -> Curated:
    """The end, as ``retracted``, of all that is not ended yet."""
    open_ = [s for s in seen.states.values() if s.status.value == "current"]
    return _report(open_, [_end(state, ReasonCode.RETRACTED) for state in open_], [])


def similar_groups(
    ids: Sequence[UUID], similarity: Callable[[int, int], float], threshold: float
) -> list[frozenset[UUID]]:
    """
    Groups of two or more that are chained by pairs of at least a similarity.

    Args:
        ids: What is grouped.
        similarity: Of two places in ``ids``, 0..1.
        threshold: Least similarity.
    """
    group = list(range(len(ids)))

    def root(place: int) -> int:
        while group[place] != place:
            group[place] = group[group[place]]
            place = group[place]
        return place

    for one in range(len(ids)):
        for other in range(one):
            if root(one) != root(other) and similarity(one, other) >= threshold:
                group[root(one)] = root(other)
    found: dict[int, set[UUID]] = defaultdict(set)
    for place, id_ in enumerate(ids):
        found[root(place)].add(id_)
    return [frozenset(members) for members in found.values() if len(members) > 1]


def common_subject(originals: Sequence[MemoryState]) -> str | None:
    """The subject that all of some facts have, if there is one."""
    subjects = {s.payload.subject for s in originals if isinstance(s.payload, Fact)}
    return subjects.pop() if len(subjects) == 1 else None


def _unfit(
    ids: Sequence[UUID], originals: Sequence[MemoryState], allowed: Sequence[frozenset[UUID]]
) -> str | None:
    if len(ids) < 2 or len(originals) < len(ids):
        return "not two or more current facts, or merged already"
    if len({state.source_tier for state in originals}) > 1:
        return "not equally trusted"
    if not any(set(ids) <= group for group in allowed):
        return "not similar enough"
    return None


def _best_first(state: MemoryState) -> tuple[int, int, int]:
    trust = 0 if state.source_tier is None else _TRUST[state.source_tier]
    return -trust, -by_weight(state)[0], state.first_index


def _end(state: MemoryState, because: ReasonCode, by: UUID | None = None) -> End:
    return End(memory_id=state.memory_id, because=because, replaced_by=by)


def _skipped(state: MemoryState, reason: str) -> Skipped:
    return Skipped(id=state.memory_id, reason=reason)


def _report(
    looked_at: Sequence[MemoryState], steps: Sequence[Step], skipped: list[Skipped]
) -> Curated:
    report = CurationReport(checked=len(looked_at), changed=len(steps), skipped=tuple(skipped))
    return Curated(tuple(steps), report)
