"""Global memories: written with ``admin`` alone, seen by every tenant, pinned by a second index."""

from pathlib import Path
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.adapters.postgres.logs import find_log
from memoriale.adapters.runner.runner import Runner
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import Right
from memoriale.projections.embedding import embed_query
from memoriale.projections.recall.shelf import READ
from tests.fixtures.embedded import eventually
from tests.fixtures.global_memories import QUESTION, for_all, opened
from tests.fixtures.plain_ranking import plain_scores
from tests.fixtures.postgres import Database


def test_a_global_memory_is_found_by_every_tenant_beside_its_own(ann: Memory, bob: Memory) -> None:
    """Recall, list and show give the caller's memories and the global ones together."""
    receipt = for_all(ann, "harbour lantern regulations changed in May")
    own = bob.remember("bob trims the harbour lantern")
    found = bob.recall(QUESTION)
    assert receipt.tenant == GLOBAL_TENANT
    assert [(hit.memory_id, hit.is_global) for hit in found] == [
        (receipt.memory_id, True),
        (own.memory_id, False),
    ]
    page = bob.list()
    assert [m.memory_id for m in page.memories] == [own.memory_id, receipt.memory_id]
    assert [m.visibility for m in page.memories] == ["owner", "global"]
    assert bob.show(receipt.memory_id).content == "harbour lantern regulations changed in May"
    assert (found.index, found.global_index, found.pin) == (0, 0, "0@0")


def test_reading_makes_no_global_log(ledger_of_all: Ledger, ann: Memory, bob: Memory) -> None:
    """Without a global memory answers have no global index, and no log of ``_global`` comes up."""
    ann.remember("a note of ann's")
    found = ann.recall("note")
    assert (found.global_index, found.pin) == (None, "0")
    bob.list()
    with pytest.raises(InputError, match="no memory"):
        bob.show(found[0].memory_id)
    LearnedKnowledge(ann).search_learnings("note")
    ProcedureMemory(ann).suggest_procedure("note")
    datastore = ledger_of_all.infrastructure.datastore
    assert [find_log(datastore, GLOBAL_TENANT, kind) for kind in ("memory", "access")] == [None] * 2


def test_global_memories_added_later_change_no_pinned_answer(ann: Memory, bob: Memory) -> None:
    """A bare index leaves global rows out, a pair sees those up to it, a time what was there."""
    for n in range(4):
        bob.remember(f"harbour lantern note {n}")
    before = bob.recall(QUESTION, explain=True)
    bare = bob.recall(QUESTION, explain=True, as_of=before.index)
    first = for_all(ann, "harbour lantern regulations, first edition")
    pair = bob.recall(QUESTION, explain=True)
    pinned = bob.recall(QUESTION, explain=True, as_of=pair.pin)
    then = pair.now
    for n in range(3):
        for_all(ann, f"harbour lantern regulations, edition {n + 2}")
    bob.remember("harbour lantern regulations as bob sees them")

    assert (before.pin, pair.pin) == ("3", "3@0")
    assert bob.recall(QUESTION, explain=True, as_of=before.pin) == bare
    assert bob.recall(QUESTION, explain=True, as_of=3).hits == bare.hits
    assert bob.recall(QUESTION, explain=True, as_of=pair.pin) == pinned
    assert first.memory_id in [hit.memory_id for hit in pinned]
    assert [h.memory_id for h in pinned] == [h.memory_id for h in pair]
    at_time = bob.recall(QUESTION, as_of=then)
    assert at_time.pin == "3@0"
    assert [h.memory_id for h in at_time] == [h.memory_id for h in pair]


def test_a_pin_rounds_both_indices_up_to_whole_appends(ann: Memory, bob: Memory) -> None:
    """An index inside an append means the append, in the log of global memories too."""
    for_all(ann, "the quay opens at six", kind="fact", subject="quay")
    for_all(ann, "the quay opens at seven", kind="fact", subject="quay")
    bob.remember("bob's own")
    assert bob.recall("quay", as_of="0@1").pin == "0@2"
    assert bob.recall("quay", as_of="0@1")[0].content == "the quay opens at seven"
    assert bob.recall("quay", as_of="0@0")[0].content == "the quay opens at six"


def test_a_tenant_that_wrote_nothing_pins_global_memories(ann: Memory, bob: Memory) -> None:
    """An answer of an empty tenant has a pin that gives it again."""
    for_all(ann, "harbour lantern regulations")
    found = bob.recall(QUESTION)
    assert found.pin == "-1@0"
    for_all(ann, "harbour lantern regulations, again")
    again = bob.recall(QUESTION, as_of=found.pin)
    assert [h.memory_id for h in again] == [h.memory_id for h in found]


@pytest.mark.parametrize("as_of", ["0@7", "7@0", "0@", "@0", "0@-1", "0@0@0", "-2@0", "0@x"])
def test_a_pair_that_names_no_point_is_refused(ann: Memory, as_of: str) -> None:
    """Bad pairs are input errors that name ``as_of``."""
    for_all(ann, "something")
    ann.remember("something else")
    with pytest.raises(InputError) as refused:
        ann.recall("something", as_of=as_of)
    assert refused.value.field == "as_of"


def test_a_pair_without_global_memories_is_refused(ann: Memory) -> None:
    """There is no second index before the first global memory."""
    ann.remember("something")
    with pytest.raises(InputError) as refused:
        ann.recall("something", as_of="0@0")
    assert refused.value.field == "as_of"


def test_ranking_is_that_of_all_rows_that_the_caller_sees(
    ledger_of_all: Ledger, ann: Memory, bob: Memory
) -> None:
    """Scores are those reckoned by hand over own and global rows, though indices are equal."""
    texts = ["harbour lantern", "lantern regulations of the pier", "pier", "an old harbour"]
    for n in range(12):
        for_all(ann, f"{texts[n % 4]} {n * 7919 % 31}")
        bob.remember(f"{texts[(n + 1) % 4]} of bob {n * 104729 % 29}")
    ann.remember("harbour lantern regulations that are ann's alone")
    found = bob.recall(QUESTION, top_k=100)

    rows, names = [], {}
    for tenant, mine in (("beta", True), (GLOBAL_TENANT, False)):
        services = ledger_of_all._tenants.get(tenant)
        with services.view("recall").read() as reading:
            table = reading.view.table.read("key >= 0", READ)
            for row in table.sort_by("key").to_pylist():
                # Apart from each other, and in the order in which ties are told.
                place = 2 * row["key"] + (not mine)
                names[place] = row["memory_id"]
                rows.append({**row, "key": place})
            vector = embed_query(reading.view.embedder, QUESTION)
    scores = plain_scores(rows, QUESTION, vector)
    expected = {names[place]: score for place, score in scores.items()}
    assert {hit.memory_id.hex: hit.score for hit in found} == pytest.approx(expected)
    order = [(-hit.score, hit.index, hit.is_global) for hit in found]
    assert order == sorted(order)
    assert {hit.is_global for hit in found} == {True, False}


def test_pages_meet_each_memory_once(ann: Memory, bob: Memory) -> None:
    """A walk in pages of any size gives own memories, then global ones, each once."""
    made = [for_all(ann, f"for all {n}").memory_id for n in range(5)]
    own = [bob.remember(f"of bob {n}").memory_id for n in range(4)]
    for size in (1, 2, 3, 4, 9, 20):
        met: list[UUID] = []
        after: int | None = -1
        while after is not None:
            page = bob.list(limit=size, after=after)
            met += [m.memory_id for m in page.memories]
            after = page.next
        assert met == own + made
    assert [m.memory_id for m in bob.list(as_of=3).memories] == own
    assert [m.memory_id for m in bob.list(as_of="3@1").memories] == own + made[:2]


def test_learnings_and_procedures_of_all_tenants(
    ledger_of_all: Ledger, ann: Memory, bob: Memory
) -> None:
    """Scope ``global`` is found, shown and suggested in every tenant and ends with ``admin``."""
    learning = LearnedKnowledge(ann).save_learning(
        {"title": "Lanterns", "content": "trim the harbour lantern daily", "scope": "global"}
    )
    steps = [{"tool_name": "trim", "args_snapshot": {}, "result_summary": "done"}]
    procedure = ProcedureMemory(ann).save_procedure(
        {"trigger": "trim lantern", "description": "how", "steps": steps, "scope": "global"}
    )
    found = LearnedKnowledge(bob).search_learnings("harbour lantern")
    assert [(one.id, one.scope) for one in found] == [(learning.id, "global")]
    assert "trim the harbour lantern daily" in LearnedKnowledge(bob).get_context_string("lantern")
    suggested = ProcedureMemory(bob).suggest_procedure("trim the lantern")
    assert suggested is not None
    assert suggested.id == procedure.id
    with pytest.raises(MissingRightError):
        LearnedKnowledge(bob).delete_learning(learning.id)
    assert LearnedKnowledge(ann).delete_learning(learning.id)
    assert not LearnedKnowledge(bob).search_learnings("harbour lantern")
    assert ProcedureMemory(ann).clear("global") == 1
    assert ProcedureMemory(bob).suggest_procedure("trim the lantern") is None


def test_views_and_proofs_of_global_memories(fresh_database: Database, tmp_path: Path) -> None:
    """Replay, reconcile, sealing and verify cover the log of ``_global``."""
    with opened(fresh_database, tmp_path) as ledger:
        ann = ledger.memory(tenant="acme", user="ann")
        receipt = for_all(ann, "harbour lantern regulations", receipt="sealed")
        assert receipt.proof is not None
        assert ledger.wait(receipt) == 1
        ann.recall(QUESTION)
        assert [r.equal for r in ledger.replay("recall", shared=True, verify=True)] == [True]
        assert len(ledger.replay("recall")) == 2
        assert all(r.settled for r in ledger.reconcile(shared=True))
        reports = ledger.verify(all_tenants=True)
        assert all(r.ok for r in reports)
        assert GLOBAL_TENANT in {r.tenant for r in reports}
        assert [hit.is_global for hit in ann.recall(QUESTION)] == [True]


def test_a_namespace_filters_global_memories_too(ann: Memory, bob: Memory) -> None:
    """A global memory at a path is seen from it and below, in every tenant."""
    made = for_all(ann, "harbour lantern regulations", namespace="north").memory_id
    assert [h.memory_id for h in bob.recall(QUESTION, namespace="north/pier")] == [made]
    assert not bob.recall(QUESTION, namespace="south").hits


def test_another_process_sees_the_first_global_memory(
    fresh_database: Database, tmp_path: Path, ann: Memory
) -> None:
    """A process that has found none so far sees the first one at its next read."""
    with opened(fresh_database, tmp_path) as other:
        eve = other.memory(tenant="delta", user="eve", rights=[Right.USE])
        assert eve.recall(QUESTION).global_index is None
        made = for_all(ann, "harbour lantern regulations").memory_id
        assert [h.memory_id for h in eve.recall(QUESTION)] == [made]


def test_import_lines_for_all(ann: Memory, bob: Memory) -> None:
    """A line of visibility ``global`` goes to all tenants, once however often it is imported."""
    lines = ['{"content": "harbour lantern regulations", "visibility": "global"}']
    assert ann.import_lines(lines).remembered == 1
    assert ann.import_lines(lines).remembered == 0
    assert [h.is_global for h in bob.recall(QUESTION)] == [True]


def test_without_global_memories_the_database_is_not_asked_for_them(
    ledger_of_all: Ledger, ann: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That there is none is known from the key store, so no read takes a round trip more."""

    def asked() -> bool:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(ledger_of_all.shared, "_exists", asked)
    ann.remember("a note of ann's")
    assert len(ann.recall("note")) == 1
    assert len(ann.list().memories) == 1
    assert not LearnedKnowledge(ann).search_learnings("note")
    assert ProcedureMemory(ann).suggest_procedure("note") is None


def test_a_runner_looks_after_global_memories(
    fresh_database: Database, tmp_path: Path, ledger_of_all: Ledger, ann: Memory
) -> None:
    """A runner that was started before the first global memory posts and seals it too."""
    ann.remember("a note of ann's")
    with Runner(ledger_of_all, tenants=["acme"], views=["recall"]) as runner:
        for_all(ann, "harbour lantern regulations")
        assert eventually(
            lambda: any(h.tenant == GLOBAL_TENANT and h.position == 1 for h in runner.health())
        )
    reports = ledger_of_all.verify()
    sealed = {r.tenant: r.unsealed for r in reports if r.log == "memory"}
    assert all(r.ok for r in reports)
    assert sealed == {"acme": 0, GLOBAL_TENANT: 0}
