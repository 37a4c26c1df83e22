"""The cost of a call when nothing is new: round trips to the database and reads of LanceDB."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import pq

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.projections.recall.shelf import Shelf
from memoriale.projections.recall.table import VersionTable

NOTES = 30
RECORDING = ("memoriale-access-log", "memoriale-committer-access")
"""Threads that write the access log off the caller's path."""


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """
    Counts round trips, whole pipelines as one, reads of LanceDB, and how often a shelf was asked
    for its size. All of them are done as ever.
    """
    counts = Counter[str]()

    def in_a_call(_: object) -> bool:
        return threading.current_thread().name not in RECORDING

    def alone(connection: psycopg.Connection) -> bool:
        in_pipeline = connection.pgconn.pipeline_status != pq.PipelineStatus.OFF
        return in_a_call(connection) and not in_pipeline

    with pytest.MonkeyPatch.context() as patch:

        def count(owner: type, name: str, what: str, counts_now: Callable[[Any], bool]) -> None:
            original = getattr(owner, name)

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                counts[what] += counts_now(self)
                return original(self, *args, **kwargs)

            patch.setattr(owner, name, call)

        count(psycopg.Connection, "execute", "round trips", alone)
        count(psycopg.Connection, "pipeline", "round trips", in_a_call)
        for name in ("read", "keyword_search", "vector_search", "count"):
            count(VersionTable, name, "LanceDB", in_a_call)
        size = vars(Shelf)["nbytes"].fget

        def nbytes(shelf: Shelf) -> int:
            counts["sizes"] += 1
            return int(size(shelf))

        patch.setattr(Shelf, "nbytes", property(nbytes))
        yield counts


@pytest.fixture
def filled(alice: Memory) -> Memory:
    """The memory of a user with notes, which recall has seen."""
    alice.remember_many([{"content": f"note {number} of the harbour"} for number in range(NOTES)])
    alice.recall("harbour")
    # What is written meanwhile may take the connection that was open.
    alice.services.recorder.flush()
    return alice


def spent(call: Callable[[int], object], times: int = 12) -> dict[str, int]:
    """What a call costs each time, once connections are open and statements prepared."""
    for number in range(8):
        call(number)
    with counting() as counts:
        for number in range(times):
            call(100 + number)
    assert all(count % times == 0 for count in counts.values())
    return {what: count // times for what, count in counts.items() if count}


def test_a_recall_with_nothing_new_asks_for_the_head_and_nothing_else(filled: Memory) -> None:
    """Head and clock come in one round trip; LanceDB is not read and no shelf is measured."""
    cost = spent(lambda n: filled.recall(f"harbour {n}", top_k=10))
    assert cost == {"round trips": 1}


def test_a_recall_of_somebody_without_memories_costs_no_more(
    filled: Memory, as_user: Callable[[str], Memory]
) -> None:
    """Partitions that are empty are not looked up again either."""
    bob = as_user("bob")
    bob.remember("the only one of Bob")
    cost = spent(lambda n: bob.recall(f"harbour {n}", kinds=["fact"]))
    assert cost == {"round trips": 1}


def test_what_the_process_posted_itself_is_not_read_again(filled: Memory) -> None:
    """A new memory is found without a read of LanceDB; its shelf is measured."""
    with counting() as counts:
        filled.remember("a xylophone")
        assert filled.recall("xylophone", top_k=1)[0].content == "a xylophone"
    assert counts["LanceDB"] == 0
    assert counts["sizes"] > 0


def test_a_view_that_is_opened_anew_is_read(filled: Memory) -> None:
    """What the counter counts: here rows are read and found."""
    filled.services.view("recall").forget()
    with counting() as counts:
        assert filled.recall("harbour", top_k=1)[0].content is not None
    assert counts["LanceDB"] > 0


@pytest.mark.parametrize("limit", [1, NOTES])
def test_a_page_takes_two_round_trips_however_long_it_is(filled: Memory, limit: int) -> None:
    """One for the head, one for all memories of the page."""
    assert len(filled.list(limit=limit).memories) == limit
    cost = spent(lambda n: filled.list(limit=limit))
    assert cost == {"round trips": 2}


def test_one_memory_takes_two_round_trips(filled: Memory) -> None:
    """One for the head, one for its events."""
    memory_id = filled.recall("harbour")[0].memory_id
    assert spent(lambda n: filled.show(memory_id)) == {"round trips": 2}


def test_remembering_takes_one_round_trip(filled: Memory) -> None:
    """A plain note rests on nothing that would have to be read."""
    assert spent(lambda n: filled.remember(f"note {n}")) == {"round trips": 1}


def test_setting_a_key_takes_two_round_trips(shared_ledger: Ledger, tenant: str) -> None:
    """One for the head, one for the append: what was just appended is not read again."""
    working = shared_ledger.memory(tenant=tenant, resource="bot").working
    assert spent(lambda n: working.set("step", n)) == {"round trips": 2}


def test_facts_with_nothing_new_take_one_round_trip(filled: Memory) -> None:
    """What was folded is kept; head and clock tell that it is all there is."""
    facts = UserFacts(filled)
    facts.add_facts(facts=[f"likes number {number}" for number in range(NOTES)])
    assert len(facts.get_facts()) == NOTES
    assert spent(lambda n: facts.get_facts()) == {"round trips": 1}
