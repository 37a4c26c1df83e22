"""Episodes: what happened to a resource, in order, whole, and for nobody who may not know."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from memoriale import ResourceRef, episodic_recall, episodic_tree
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.episodes import Episodes, EpisodicSession
from memoriale.domain.errors import InputError, MemoryAccessDeniedError, RefusedError
from memoriale.domain.keys import Subject

AsResource = Callable[..., Memory]


@pytest.fixture
def acting(shared_ledger: Ledger, tenant: str) -> AsResource:
    def handle(resource: str | None = "r", **given: Any) -> Memory:
        return shared_ledger.memory(tenant=tenant, resource=resource, **given)

    return handle


def said(found: Episodes) -> list[str | None]:
    return [entry.content for entry in found]


def test_the_newest_entries_come_oldest_first(acting: AsResource) -> None:
    """A limit keeps the newest; every entry says what happened, where, when and by whom."""
    memory = acting()
    receipts = [memory.remember(f"note {n}") for n in range(5)]
    memory.correct(receipts[0].memory_id, "corrected", reason="because")
    found = memory.episodic(limit=2)
    assert said(found) == ["note 4", "corrected"]
    assert found.earlier == receipts[4].index
    last = found.entries[-1]
    assert (last.event, last.memory_id) == ("memory.corrected", receipts[0].memory_id)
    assert (last.branch, last.reason, last.kind) == ("main", "because", "note")
    assert last.actor is not None
    assert last.actor.id == "r"
    assert last.at.tzinfo is not None
    assert said(memory.episodic(limit=0)) == []
    assert len(memory.episodic()) == 6


def test_pages_meet_every_entry_once_in_both_directions(acting: AsResource) -> None:
    """Whether one walks forth by ``next`` or back by ``earlier``."""
    memory = acting()
    for n in range(10):
        memory.remember(f"note {n}")
    forth: list[str | None] = []
    after: int | None = -1
    while after is not None:
        page = memory.episodic(limit=3, after=after)
        forth += said(page)
        after = page.next
    back: list[str | None] = []
    page = memory.episodic(limit=3)
    back = said(page)
    while page.earlier is not None:
        page = memory.episodic(limit=3, before=page.earlier)
        back = said(page) + back
    assert forth == back == [f"note {n}" for n in range(10)]


def test_what_others_did_is_not_told(acting: AsResource, as_user: Callable[[str], Memory]) -> None:
    """Neither another resource's nor a user's; nor the same resource's of a team."""
    acting().remember("mine")
    acting("other").remember("another's")
    acting(team="t").remember("the team's")
    as_user("alice").remember("hers")
    assert said(acting().episodic()) == ["mine"]
    assert said(acting(team="t").episodic()) == ["the team's"]
    assert said(acting("other").episodic(ResourceRef("r"))) == []
    assert said(episodic_recall(acting(), ResourceRef("other"))) == []


def test_what_the_tenant_may_see_is_told_to_others(acting: AsResource) -> None:
    """An entry of another resource is told as far as its memory may be seen."""
    acting().remember("secret")
    shown = acting().remember("for all", visibility="tenant")
    acting().correct(shown.memory_id, "for all, corrected")
    assert said(acting("other").episodic(ResourceRef("r"))) == ["for all", "for all, corrected"]


def test_a_small_share_of_what_may_be_seen_is_found_in_full(acting: AsResource) -> None:
    """The caller gets its whole limit however much it may not see lies between."""
    memory = acting()
    memory.remember("first for all", visibility="tenant")
    memory.remember_many([f"secret {n}" for n in range(300)])
    memory.remember("last for all", visibility="tenant")
    found = acting("other").episodic(ResourceRef("r"), limit=2)
    assert said(found) == ["first for all", "last for all"]
    assert found.earlier is None


def test_sessions_of_the_resource_belong_to_it(acting: AsResource) -> None:
    """Its sessions' messages are its episodes; what a user said there is that user's."""
    in_session = acting(session="s-1")
    in_session.sessions.get_or_create_session()
    in_session.sessions.append_messages(messages=[{"role": "user", "content": "hello"}])
    acting(None, user="alice", session="s-1").remember("hers", owner="session")
    acting(None, session="stranger").remember("elsewhere", owner="session")
    found = acting().episodic()
    assert next((e.event, e.session) for e in found) == ("session.opened", "s-1")
    assert "hello" in said(found)
    assert not {"hers", "elsewhere"} & {*said(found)}
    assert "hers" in said(acting(user="alice").episodic())


def test_a_session_that_others_opened_first_stays_theirs(acting: AsResource) -> None:
    """Opening a known session as a resource gives it nothing of what was said before."""
    theirs = acting("other", session="s-1")
    theirs.sessions.get_or_create_session()
    theirs.sessions.append_messages(messages=[{"role": "user", "content": "secret"}])
    mine = acting(session="s-1")
    mine.sessions.get_or_create_session()
    assert "secret" not in said(acting().episodic())


def test_since_and_until_take_indices_and_times(acting: AsResource) -> None:
    """Both ends count; a point inside an append means the whole append."""
    memory = acting()
    one = memory.remember("one")
    time.sleep(0.001)
    two = memory.remember("two", kind="fact", subject="x", owner="resource")
    three = memory.remember("three", kind="fact", subject="x", owner="resource")
    inside = three.index + 1
    assert said(memory.episodic(since=two.index, until=two.index)) == ["two"]
    assert said(memory.episodic(since=inside)) == ["three", None]
    assert said(memory.episodic(until=three.index)) == ["one", "two", "three", None]
    at = two.recorded_at
    assert said(memory.episodic(since=at, until=at)) == ["two"]
    moment = timedelta(microseconds=1)
    assert said(memory.episodic(until=at - moment)) == ["one"]
    assert said(memory.episodic(since=at + moment))[0] == "three"
    assert said(memory.episodic(since=one.recorded_at - timedelta(days=1)))[0] == "one"
    assert said(memory.episodic(until=one.recorded_at - timedelta(days=1))) == []


def test_a_lineage_ends_each_resource_where_it_was_left(acting: AsResource) -> None:
    """Flat tells the child's own; lineage also what its ancestors did before each fork, and
    nothing that they did afterwards."""
    grandparent = acting("g")
    grandparent.remember("of g")
    parent = grandparent.fork("to-p", resource="p")
    grandparent.remember("of g, later")
    parent.remember("of p")
    child = parent.fork("to-c", resource="c")
    parent.remember("of p, later")
    child.remember("of c")
    flat = [e for e in child.episodic() if e.memory_id is not None]
    assert [e.content for e in flat] == ["of c"]
    lineage = [e for e in child.episodic(branch="lineage") if e.memory_id is not None]
    assert [e.content for e in lineage] == ["of g", "of p", "of c"]
    assert {e.owner.id for e in lineage if e.owner} == {"g", "p", "c"}
    assert "of c" not in said(grandparent.episodic(branch="lineage"))


def test_a_branch_of_ones_own_tells_what_was_before_it(acting: AsResource) -> None:
    """On a branch of the same resource its episodes go on from where it left."""
    memory = acting()
    memory.remember("before")
    side = memory.fork("side")
    memory.remember("after, on main")
    side.remember("on side")
    told = [(e.content, e.branch) for e in side.episodic() if e.memory_id is not None]
    assert told == [("before", "main"), ("on side", "side")]


def test_a_discarded_branch_tells_what_happened_until_then(acting: AsResource) -> None:
    """As of a point before its end it is history; as of now it is refused."""
    memory = acting()
    side = memory.fork("side")
    index = side.remember("on side").index
    memory.discard("side")
    assert said(side.episodic(until=index))[-1] == "on side"
    with pytest.raises(RefusedError):
        side.episodic()


def test_resolved_sessions_replace_those_of_the_log(acting: AsResource) -> None:
    """Only what happened in the named sessions counts; in a lineage also in their parents up to
    where they left; a ring of parents ends."""
    for session in ("s-1", "s-2", "s-3"):
        handle = acting(session=session)
        handle.sessions.get_or_create_session()
        handle.remember(f"in {session}")
    acting(session="s-1").remember("later in s-1")
    asked: list[ResourceRef] = []

    def resolve(ref: ResourceRef) -> list[str | EpisodicSession]:
        asked.append(ref)
        return [EpisodicSession(session="s-2", parent="s-1")]

    flat = acting().episodic(resolve_sessions=resolve)
    assert (said(flat)[1:], asked) == (["in s-2"], [ResourceRef("r")])
    lineage = acting().episodic(branch="lineage", resolve_sessions=resolve)
    assert [c for c in said(lineage) if c] == ["in s-1", "in s-2"]
    ring = [EpisodicSession(session=a, parent=b) for a, b in (("s-1", "s-2"), ("s-2", "s-1"))]
    both = acting().episodic(branch="lineage", resolve_sessions=lambda ref: ring)
    assert [c for c in said(both) if c] == ["in s-1", "in s-2", "later in s-1"]


def test_a_resolver_opens_no_door(acting: AsResource) -> None:
    """Naming a session of somebody else shows nothing of it."""
    theirs = acting("other", session="s-1")
    theirs.sessions.get_or_create_session()
    theirs.remember("secret", owner="session")
    assert said(acting().episodic(resolve_sessions=lambda ref: ["s-1"])) == []


def test_erased_content_is_no_entry(acting: AsResource, shared_ledger: Ledger) -> None:
    """What can no longer be read is left out; the rest stays."""
    memory = acting()
    memory.remember("about zoe", about=["zoe"])
    memory.remember("kept")
    zoe = memory.services.log.identities.key(Subject("user", "zoe"))
    assert shared_ledger.infrastructure.keys.destroy(zoe.key_id)
    assert said(memory.episodic()) == ["kept"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"branch": "deep"}, "branch"),
        ({"since": "yesterday"}, "since"),
        ({"until": datetime(2026, 1, 1)}, "until"),
        ({"until": 10**9}, "until"),
        ({"after": -2}, "after"),
        ({"before": -1}, "before"),
        ({"ref": "r"}, "ref"),
        ({"resolve_sessions": lambda ref: "s-1"}, "resolve_sessions"),
        ({"resolve_sessions": lambda ref: [1]}, "resolve_sessions"),
        ({"resolve_sessions": lambda ref: [""]}, "resolve_sessions"),
    ],
)
def test_bad_input_is_named(acting: AsResource, given: dict[str, Any], field: str) -> None:
    """A wrong argument says which it is."""
    acting().remember("x")
    with pytest.raises(InputError) as refused:
        acting().episodic(**given)
    assert refused.value.field == field
    assert "as_of" not in str(refused.value)


def test_without_a_resource_there_are_no_episodes(as_user: Callable[[str], Memory]) -> None:
    """A principal that is no resource has to name one."""
    with pytest.raises(InputError) as refused:
        as_user("alice").episodic()
    assert refused.value.code == "no_owner"


class Door:
    """Lets in one team, and remembers which it was asked about."""

    def __init__(self, team: str | None, answer: Any = True) -> None:
        self.team, self.answer, self.asked = team, answer, list[str | None]()

    def can_access(self, team_id: str | None) -> bool:
        self.asked.append(team_id)
        found: bool = self.answer if team_id == self.team else False
        return found


@pytest.mark.parametrize("read", [episodic_recall, episodic_tree])
def test_a_door_is_asked_about_episodes_too(acting: AsResource, read: Any) -> None:
    """The team of the resource must be let in, with True and nothing else; also no team at all."""
    for team in ("red", None):
        memory = acting(team=team)
        memory.remember("note")
        door = Door(team)
        assert read(memory, checker=door).index >= 0
        assert read(memory, ResourceRef("r", team), checker=door).index >= 0
        assert door.asked == [team, team]
        for closed in (Door("blue"), Door(team, "yes"), Door(team, None)):
            with pytest.raises(MemoryAccessDeniedError) as caught:
                read(memory, checker=closed)
            assert caught.value.team_id == team
