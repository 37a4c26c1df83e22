"""What is merged reaches every view and every fold, however it is posted."""

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import RefusedError
from tests.fixtures.holds import hold


def posted(ledger: Ledger, tenant: str, memory: Memory) -> None:
    """Catches both views up with the log."""
    head = memory.services.log.head()
    for view in ("recall", "stats"):
        ledger.wait(head - 1, view=view, tenant=tenant, timeout=60)


def test_a_batch_that_merges_and_goes_on_changing_the_branch_is_posted_right(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A memory is taken over and then corrected on its branch in one batch: its version on the
    branch is closed, and the live views equal their rebuild."""
    side = alice.fork("side")
    made = side.remember("new").memory_id
    posted(shared_ledger, tenant, alice)
    alice.merge("side")
    side.correct(made, "newer on the branch")
    posted(shared_ledger, tenant, alice)
    assert [h.content for h in side.recall("newer", top_k=10)] == ["newer on the branch"]
    assert [h.content for h in alice.recall("new", top_k=10)] == ["new"]
    reports = shared_ledger.replay(tenant=tenant, verify=True)
    assert {report.view: report.equal for report in reports} == {
        "recall": True,
        "stats": True,
        "proofs": True,
    }


@pytest.mark.parametrize("parent", ["main", "one"])
def test_stores_see_what_was_merged(alice: Memory, parent: str) -> None:
    """What a store had folded before is brought up to date, on ``main`` and on a branch."""
    one = alice.fork("one")
    above = alice if parent == "main" else one
    side = above.fork("side")
    above.facts.add_facts(facts=[{"fact": "Likes tea", "subject": "tea"}])
    assert len(above.facts.get_active_facts()) == 1
    side.facts.add_facts(facts=[{"fact": "Lives in Oslo", "subject": "home"}])
    side.profile.update_profile(patch={"role": "nurse"})
    above.profile.get_profile()
    above.merge("side")
    facts = [fact.fact for fact in above.facts.get_active_facts()]
    assert sorted(facts) == ["Likes tea", "Lives in Oslo"]
    profile = above.profile.get_profile()
    assert profile is not None
    assert profile.role == "nurse"
    above.facts.add_facts(facts=[{"fact": "Lives in Rome", "subject": "home"}])
    facts = [fact.fact for fact in above.facts.get_active_facts()]
    assert sorted(facts) == ["Likes tea", "Lives in Rome"]


def test_the_parents_field_of_a_profile_clashes(alice: Memory) -> None:
    """The same field on both sides is a conflict, which names it."""
    side = alice.fork("side")
    for handle, role in ((side, "nurse"), (alice, "doctor")):
        handle.profile.update_profile(patch={"role": role, "custom": {role: "x"}})
    (conflict,) = alice.merge("side").conflicts
    assert (conflict.kind, conflict.subject) == ("profile_field", "role")


def test_statistics_count_merges_and_ends(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """The mart has the new topics, and versions of what was taken over on both branches."""
    side = alice.fork("side")
    side.remember("new")
    alice.merge("side")
    alice.discard("side")
    query = "SELECT topic, count(*) FROM events WHERE topic LIKE 'branch.%' GROUP BY 1 ORDER BY 1"
    found = shared_ledger.sql(query, tenant=tenant, fresh=True)
    assert [tuple(row.values()) for row in found.rows] == [
        ("branch.discarded", 1),
        ("branch.forked", 1),
        ("branch.merged", 1),
    ]
    query = "SELECT count(*), count(DISTINCT branch) FROM memory_versions"
    found = shared_ledger.sql(query, tenant=tenant, fresh=True)
    assert [tuple(row.values()) for row in found.rows] == [(2, 2)]
    found = shared_ledger.sql("SELECT memories FROM owners", tenant=tenant, fresh=True)
    assert sorted(row["memories"] for row in found.rows) == [1]


def test_what_a_hold_keeps_is_not_ended_by_a_merge(alice: Memory) -> None:
    """Pruned on a branch before the hold was placed: the merge is refused and stores nothing."""
    memory_id = alice.remember("evidence").memory_id
    alice.fork("side").invalidate(memory_id, because="pruned")
    hold(alice)
    before = alice.services.log.head()
    with pytest.raises(RefusedError) as refused:
        alice.merge("side")
    assert (refused.value.code, alice.services.log.head()) == ("held", before)
