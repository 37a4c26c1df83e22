"""What counts as said again: within one owner, by its words or by its meaning, and as an event."""

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.domain.operations.scopes import Scope
from tests.fixtures.operations import ALICE, Make, Scripted, reply, said

NEAR = {
    "Alice lives in Turin": [1.0, 0.0, 0.0],
    "Alice lives in Torino": [0.96, 0.28, 0.0],
    "Alice plays chess": [0.0, 1.0, 0.0],
    "Alice is no player of chess": [0.0, 0.9, 0.43],
}


def near(text: str) -> list[float]:
    """Vectors by hand: which texts are near is known."""
    return NEAR.get(text, [0.0, 0.0, 1.0])


def contents(memory: AgentMemory, scope: Scope) -> list[str]:
    return [node.content for node in memory.get_all(scope)]


def test_the_same_text_is_restated(remembering: Make, shared_ledger: Ledger, tenant: str) -> None:
    """Case and white space aside, the same text is one item; its history has both versions."""
    memory = remembering(dedup_threshold=1)
    first = memory.add(said("Alice drinks tea"), ALICE).result(30).stored_ids
    scope: Scope = {"user_id": "alice", "tags": ["home"]}
    assert memory.add(said("alice  DRINKS tea"), scope).result(30).stored_ids == first
    (node,) = memory.get_all(ALICE)
    assert (node.content, node.tags) == ("alice  DRINKS tea", ("home",))
    history = shared_ledger.memory(tenant=tenant, user="alice").history(first[0])
    told = [(entry.event, entry.content) for entry in history]
    assert told == [
        ("memory.remembered", "Alice drinks tea"),
        ("memory.restated", "alice  DRINKS tea"),
    ]


def test_views_follow_a_restatement(remembering: Make, shared_ledger: Ledger, tenant: str) -> None:
    """Recall finds the new words, and as of before the former ones; a branch shows it as
    corrected; a rebuild and a comparison with the log find the same."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    memory = remembering(
        Scripted(reply("Alice drinks TEA"), reply("alice drinks tea")), dedup_threshold=1
    )
    memory.add(said("x"), ALICE).result(30)
    before = shared_ledger.tenant(tenant).log.head() - 1
    branch = alice.fork("before")
    memory.add(said("x"), ALICE).result(30)
    (now,), (then,) = (
        [hit.content for hit in alice.recall("tea", kinds=["item"], as_of=at)]
        for at in (None, before)
    )
    assert (now, then) == ("alice drinks tea", "Alice drinks TEA")
    assert [hit.content for hit in branch.recall("tea", kinds=["item"])] == ["Alice drinks TEA"]
    diff = alice.diff("before", "main")
    assert [(e.before, e.after) for e in diff.corrected] == [(then, now)]
    for report in shared_ledger.reconcile("all", tenant=tenant):
        assert report.ok, report
    for rebuilt in shared_ledger.replay("all", tenant=tenant, verify=True):
        assert rebuilt.equal, rebuilt


def test_what_is_near_in_meaning_is_restated(remembering: Make) -> None:
    """From the threshold up the nearest item has the new words, the greater importance, and the
    labels of both; below it a new item is made."""
    memory = remembering(
        Scripted(
            reply({"content": "Alice lives in Turin", "importance": 0.9, "tags": ["place"]}),
            reply({"content": "Alice lives in Torino", "importance": 0.2, "tags": ["city"]}),
            reply("Alice plays chess", "Alice is no player of chess"),
        ),
        embed=near,
        dimensions=3,
        dedup_threshold=0.95,
    )
    for _ in range(3):
        memory.add(said("x"), ALICE).result(30)
    first, *rest = memory.get_all(ALICE)
    assert (first.content, first.importance, first.labels) == (
        "Alice lives in Torino",
        0.9,
        ("place", "city"),
    )
    assert [node.content for node in rest] == ["Alice plays chess", "Alice is no player of chess"]


def test_threshold_nought_keeps_everything_apart(remembering: Make) -> None:
    """Even the same text twice is two items."""
    memory = remembering(dedup_threshold=0)
    for _ in range(2):
        memory.add(said("Alice drinks tea"), ALICE).result(30)
    assert contents(memory, ALICE) == ["Alice drinks tea", "Alice drinks tea"]


def test_words_that_a_person_chose_are_not_overwritten_by_a_near_text(remembering: Make) -> None:
    """What was updated is restated by the same text alone; a near one is an item of its own."""
    memory = remembering(embed=near, dimensions=3, dedup_threshold=0.9)
    (first,) = memory.add(said("Alice plays chess"), ALICE).result(30).stored_ids
    memory.update(first, "Alice lives in Turin")
    memory.add(said("Alice lives in Torino", "alice lives in TURIN"), ALICE).result(30)
    assert contents(memory, ALICE) == ["alice lives in TURIN", "Alice lives in Torino"]


def test_one_agent_does_not_restate_what_another_one_added(remembering: Make) -> None:
    """Of one user's items those of the same agent are compared: no agent learns another's words."""
    memory = remembering()
    for agent in ("desk", "phone", "desk"):
        memory.add(said("Alice drinks tea"), {"user_id": "alice", "agent_id": agent}).result(30)
    assert [node.agent_id for node in memory.get_all(ALICE)] == ["desk", "phone"]


def test_two_that_say_the_same_at_once_make_one_item(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """Memories that work side by side, as those of two processes do: whoever comes second finds
    the first one's item and restates it."""
    workers = [remembering(dedup_threshold=1) for _ in range(3)]
    adds = [one.add(said("Alice drinks tea"), ALICE) for _ in range(6) for one in workers]
    touched = {add.result(60).stored_ids for add in adds}
    assert len(touched) == 1
    assert contents(workers[0], ALICE) == ["Alice drinks tea"]
    history = shared_ledger.memory(tenant=tenant, user="alice").history(touched.pop()[0])
    assert [entry.event for entry in history] == [
        "memory.remembered",
        *["memory.restated"] * (len(adds) - 1),
    ]
