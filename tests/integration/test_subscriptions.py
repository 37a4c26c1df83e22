"""Following the memory log: who is shown what, from where on, and what a broken line changes."""

import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from memoriale.adapters.application.subscribing import Subscription
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.principal import Right
from tests.fixtures.embedded import eventually

WAITING = 1.5
"""Seconds that outlast the longest pause between two looks at the log."""


def taken(subscription: Subscription, count: int) -> list[Any]:
    """The contents of the next events."""
    return [content(event) for event in islice(subscription, count)]


def content(event: Any) -> Any:
    """What an event says."""
    return (event.body or {}).get("payload", {}).get("content")


def rest(subscription: Subscription, last: int) -> list[Any]:
    """What comes until the subscription has passed an index, and then no more."""
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.extend(subscription))
    reading.start()
    assert eventually(lambda: subscription.position >= last)
    subscription.stop()
    reading.join(30)
    return [content(event) for event in found]


def test_a_subscriber_gets_what_was_and_what_comes(alice: Memory) -> None:
    """Old events come first, then each new one, with index, topic and content."""
    first = alice.remember("one")
    with alice.subscribe() as events:
        old = next(events)
        assert (old.index, old.row.columns.topic) == (first.index, "memory.remembered")
        assert content(old) == "one"
        timer = threading.Timer(0.05, alice.correct, [first.memory_id, "uno"])
        timer.start()
        new = next(events)
        timer.join()
        assert (new.row.columns.topic, content(new)) == ("memory.corrected", "uno")


def topics(subscription: Subscription) -> list[str]:
    """What happened, until the subscription ends by itself."""
    return [event.row.columns.topic for event in subscription]


def test_a_subscription_of_a_discarded_branch_tells_all_and_ends(alice: Memory) -> None:
    """All events that the branch saw up to its discard, whatever came after it elsewhere, and
    nothing behind the discard; also from a later point on, and filtered."""
    alice.remember("before the fork")
    side = alice.fork("side")
    alice.remember("main's own")
    side.remember("there")
    end = alice.discard("side").discarded
    assert end is not None
    alice.remember("after the end")
    whole = ["memory.remembered", "branch.forked", "memory.remembered", "branch.discarded"]
    for everybody in (False, True):
        assert topics(side.subscribe(all_owners=everybody)) == whole
        assert topics(side.subscribe(after=end - 1, all_owners=everybody)) == whole[-1:]
        assert topics(side.subscribe(topics=["memory.corrected"], all_owners=everybody)) == []
        for behind in (end, end + 1, end + 10):
            assert topics(side.subscribe(after=behind, all_owners=everybody)) == []
    with side.subscribe() as events:
        list(events)
        assert events.position >= end


@pytest.mark.parametrize("everybody", [False, True])
def test_a_discard_ends_a_subscription_that_waits(alice: Memory, everybody: bool) -> None:
    """Whoever waits on the branch is let go, after the last event; who waits on another is not."""
    side, other = alice.fork("side"), alice.fork("other")
    found: list[str] = []
    with side.subscribe(all_owners=everybody) as events, other.subscribe() as others:
        reading = threading.Thread(target=lambda: found.extend(topics(events)))
        reading.start()
        assert next(others).row.columns.topic == "branch.forked"
        last = side.remember("last")
        assert eventually(lambda: events.position >= last.index)
        alice.discard("side")
        reading.join(30)
        assert not reading.is_alive()
        assert found == ["branch.forked", "memory.remembered", "branch.discarded"]
        other.remember("goes on")
        assert content(next(others)) == "goes on"


def test_a_branch_of_all_is_followed_to_its_end(shared_ledger: Ledger, tenant: str) -> None:
    """``Ledger.subscribe`` of a branch of the whole tenant ends with it; of an unknown one it is
    refused, and of ``main`` it goes on."""
    everybody = shared_ledger.memory(tenant=tenant)
    everybody.fork("plan")
    shared_ledger.memory(tenant=tenant, user="alice", branch="plan").remember("hers")
    shared_ledger.memory(tenant=tenant, user="bob").remember("not on the plan")
    last = everybody.discard("plan").discarded
    given = [event.index for event in shared_ledger.subscribe(tenant=tenant, branch="plan")]
    assert given == [0, 1, last]
    with pytest.raises(InputError) as unknown:
        shared_ledger.subscribe(tenant=tenant, branch="plane")
    assert unknown.value.code == "unknown_branch"


def test_another_owner_sees_nothing(as_user: Callable[[str], Memory]) -> None:
    """Of events of other owners nothing is shown but that indices are taken."""
    alice, bob = as_user("alice"), as_user("bob")
    for number in range(3):
        alice.remember(f"secret {number}")
        last = bob.remember(f"own {number}")
    assert rest(bob.subscribe(), last.index) == ["own 0", "own 1", "own 2"]


def test_another_tenant_sees_nothing(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """A subscription is of one tenant: the same user's of another one has another log."""
    alice.remember("secret")
    other = shared_ledger.memory(tenant=f"{tenant}-x", user="alice")
    last = other.remember("own")
    assert rest(other.subscribe(), last.index) == ["own"]


def test_what_the_tenant_may_see_is_shown_to_all(as_user: Callable[[str], Memory]) -> None:
    """Visibility decides as for recall, from the first event of a memory to its last."""
    alice, bob = as_user("alice"), as_user("bob")
    shared = alice.remember("for all", visibility="tenant")
    alice.remember("for alice")
    alice.correct(shared.memory_id, "for all of us")
    last = alice.invalidate(shared.memory_id)
    assert rest(bob.subscribe(), last.index) == ["for all", "for all of us", None]


def test_a_name_that_is_new_is_known_from_its_first_memory_on(
    as_user: Callable[[str], Memory],
) -> None:
    """Who subscribes before the tenant ever heard of it misses nothing."""
    as_user("bob").remember("not carol's")
    carol = as_user("carol")
    with carol.subscribe() as events:
        timer = threading.Timer(0.1, carol.remember, ["hers"])
        timer.start()
        assert content(next(events)) == "hers"
        timer.join()


def test_a_replacement_that_may_not_be_seen_is_not_named(as_user: Callable[[str], Memory]) -> None:
    """As history: of what replaced a memory nothing is said to whom may not see it."""
    alice, bob = as_user("alice"), as_user("bob")
    old = alice.remember("likes tea", kind="fact", subject="drink", visibility="tenant")
    new = alice.remember("likes coffee", kind="fact", subject="drink")
    for reader, named in ((alice, True), (bob, False)):
        with reader.subscribe(topics=["memory.invalidated"]) as events:
            ended = next(events)
        assert ended.row.columns.memory_id == old.memory_id
        assert (str(new.memory_id) in ended.row.header) is named
        assert ("replaced_by" in ended.as_dict()["header"]) is named


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"topics": ["memory.corrected"]}, ["uno"]),
        ({"kinds": ["fact"]}, ["a fact"]),
        ({"owner": "agent"}, ["an agent note"]),
        ({"owner": ("user", "alice"), "kinds": ["note"]}, ["one", "uno"]),
        ({"owner": ("user", "nobody")}, []),
        ({"filter": lambda event: content(event).startswith("a ")}, ["a fact"]),
        ({"after": 1}, ["uno", "an agent note"]),
    ],
    ids=["topics", "kinds", "owner type", "owner", "unknown owner", "filter", "after"],
)
def test_only_what_is_wanted_comes(
    shared_ledger: Ledger, tenant: str, wanted: dict[str, Any], expected: list[str]
) -> None:
    """Topics, kinds, owners, a predicate and the index to begin after all narrow it."""
    desk = shared_ledger.memory(tenant=tenant, user="alice", agent="desk")
    one = desk.remember("one")
    desk.remember("a fact", kind="fact")
    desk.correct(one.memory_id, "uno")
    last = desk.remember("an agent note", kind="note", owner="agent")
    assert rest(desk.subscribe(**wanted), last.index) == expected


def test_events_of_one_memory_are_found_by_its_id(alice: Memory) -> None:
    """``keys`` names memories."""
    one, two = alice.remember("one"), alice.remember("two")
    last = alice.correct(two.memory_id, "due")
    assert rest(alice.subscribe(keys=[two.memory_id]), last.index) == ["two", "due"]
    assert rest(alice.subscribe(keys=[str(one.memory_id)]), last.index) == ["one"]


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"topics": ["memory.rememberd"]}, "unknown_topic", "topics"),
        ({"topics": "memory.remembered"}, "bad_value", "topics"),
        ({"kinds": ["nonsense"]}, "unknown_kind", "kinds"),
        ({"owner": "person"}, "bad_value", "owner"),
        ({"owner": ("user", "")}, "empty", "owner"),
        ({"keys": ["x"]}, "bad_id", "keys"),
        ({"after": -2}, "out_of_range", "after"),
        ({"after": True}, "out_of_range", "after"),
    ],
)
def test_what_nothing_can_match_is_refused(
    alice: Memory, wrong: dict[str, Any], code: str, field: str
) -> None:
    """A slip in a filter is an error, not a subscription that stays silent for ever."""
    with pytest.raises(InputError) as refused:
        alice.subscribe(**wrong)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_an_auditor_sees_all_and_reads_with_content_alone(
    shared_ledger: Ledger, as_user: Callable[[str], Memory], tenant: str
) -> None:
    """Without a caller, and with ``all_owners``, every event comes as stored; bodies are opened
    only with the right for it."""
    as_user("alice").remember("alice's")
    last = as_user("bob").remember("bob's").index
    assert rest(shared_ledger.subscribe(tenant=tenant), last) == [None, None]
    opened = shared_ledger.subscribe(tenant=tenant, content=True)
    assert rest(opened, last) == ["alice's", "bob's"]
    for rights, seen in (
        ({Right.AUDIT}, [None, None]),
        ({Right.AUDIT, Right.CONTENT}, ["alice's", "bob's"]),
    ):
        auditor = shared_ledger.memory(tenant=tenant, user="eve", rights=rights)
        assert rest(auditor.subscribe(all_owners=True), last) == seen


def test_what_a_subscriber_was_given_is_on_record(
    shared_ledger: Ledger, as_user: Callable[[str], Memory], tenant: str
) -> None:
    """Who saw a memory is told of subscribers too, and of nobody whom it was kept from."""
    alice, bob = as_user("alice"), as_user("bob")
    told = alice.remember("for all", visibility="tenant")
    kept = alice.remember("for alice")
    rest(bob.subscribe(), kept.index)
    seen = [*shared_ledger.access.who_saw(told.memory_id, tenant=tenant)]
    assert [entry.command for entry in seen] == ["subscribe"]
    assert [*shared_ledger.access.who_saw(kept.memory_id, tenant=tenant)] == []


def test_a_branch_is_followed_along_its_line(alice: Memory) -> None:
    """On a branch it is what the branch sees; on main every branch of the caller's."""
    alice.remember("before")
    branch = alice.fork("what-if")
    alice.remember("after on main")
    last = branch.remember("on the branch")
    assert rest(branch.subscribe(kinds=["note"]), last.index) == ["before", "on the branch"]
    everything = rest(alice.subscribe(kinds=["note"]), last.index)
    assert everything == ["before", "after on main", "on the branch"]


def test_a_position_goes_on_where_it_was(alice: Memory) -> None:
    """From ``position`` on another subscription neither skips nor doubles, wherever one ended."""
    for number in range(30):
        alice.remember(f"{number}", kind="fact" if number % 3 else "note")
    seen: list[Any] = []
    after = -1
    for count in (1, 4, 2, 7, 6):
        with alice.subscribe(after=after, kinds=["fact"]) as events:
            seen += taken(events, count)
            after = events.position
    assert seen == [str(number) for number in range(30) if number % 3]


def test_a_filter_that_fails_loses_no_event(alice: Memory) -> None:
    """The error is the consumer's to see; the event is still there afterwards."""
    alice.remember("one")
    failing = [True]

    def wanted(event: Any) -> bool:
        if failing.pop():
            failing.append(False)
            raise ValueError("not now")
        return True

    with alice.subscribe(filter=wanted) as events:
        with pytest.raises(ValueError, match="not now"):
            next(events)
        assert (events.position, content(next(events)), events.position) == (-1, "one", 0)


def test_stopping_ends_a_consumer_that_waits(alice: Memory) -> None:
    """``stop`` works from any thread and twice; afterwards nothing comes any more."""
    alice.remember("one")
    events = alice.subscribe()
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.extend(events))
    reading.start()
    assert eventually(lambda: len(found) == 1)
    events.stop()
    events.stop()
    reading.join(30)
    assert not reading.is_alive()
    alice.remember("two")
    assert list(events) == []
