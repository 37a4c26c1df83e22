"""Another model is configured: the old view answers until the new one is built, never a mixture."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import memoriale
from memoriale.adapters.application.former_views import open_former_recall
from memoriale.adapters.application.recalling import Recall
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.runner.runner import Runner
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, Reading, ViewKind
from memoriale.projections.recall.view import VERSION, RecallView
from memoriale.projections.replay import replay
from memoriale.projections.view import Batch
from tests.fixtures.embedders import GATE, GATED, NARROW, WIDE
from tests.fixtures.ledger import HASHING
from tests.integration.test_posted_views import Log, summary
from tests.integration.test_reconcile_recall import recall_kind
from tests.integration.test_stats_view import mixed_history

SECONDS: Final = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    GATE.clear()
    yield GATE
    GATE.set()


@pytest.fixture
def opened(shared_url: str, ledger_home: Path) -> Iterator[Callable[[str], Ledger]]:
    """Opens the shared home with an embedder."""
    ledgers = list[Ledger]()

    def open_with(embedder: str) -> Ledger:
        url = shared_url
        ledgers.append(memoriale.open(home=ledger_home, database_url=url, embedder=embedder))
        return ledgers[-1]

    yield open_with
    GATE.set()
    for ledger in ledgers:
        ledger.close()


def until_settled(memory: Memory, question: str) -> Recall:
    deadline = time.monotonic() + SECONDS
    while (found := memory.recall(question, wait=5)).degraded:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def models(ledger: Ledger, tenant: str) -> set[str | None]:
    """The models of all vectors in the live view."""
    with ledger.tenant(tenant).view("recall").read(wait=30) as reading:
        return {model for _, model, vector in reading.view.vectors() if vector is not None}


@pytest.mark.parametrize(("former", "by_meaning"), [(HASHING, True), (NARROW, False)])
def test_old_view_serves_meanwhile(
    opened: Callable[[str], Ledger],
    gate: threading.Event,
    tenant: str,
    former: str,
    by_meaning: bool,
) -> None:
    """While the new view is built the old one answers, by keyword and, if its model comes with
    the package, by meaning; it takes new memories; then the new one answers alone."""
    old = opened(former).memory(tenant=tenant, user="alice")
    for text in ("the red kite", "a blue boat", "green tea"):
        old.remember(text)
    assert old.recall("red kite", wait=30).degraded == ()

    ledger = opened(GATED)
    new = ledger.memory(tenant=tenant, user="alice")
    found = new.recall("red kite", wait=0.3)
    assert found.degraded == ("rebuilding",)
    assert found[0].content == "the red kite"
    assert (found[0].similarity is not None) == by_meaning
    with pytest.raises(memoriale.UnavailableError) as caught:
        new.recall("red kite", wait=30, strict=True)
    assert caught.value.code == "rebuilding"
    new.remember("a yellow kite")
    found = new.recall("yellow kite", wait=30)
    assert (found.degraded, found.behind) == (("rebuilding",), 0)
    assert found[0].content == "a yellow kite"
    assert not any(name.startswith("hashing-96") for name in models(ledger, tenant) if name)

    gate.set()
    found = until_settled(new, "yellow kite")
    assert found[0].content == "a yellow kite"
    assert found[0].similarity is not None
    assert models(ledger, tenant) == {"hashing-96/1"}
    [report] = ledger.replay("recall", tenant=tenant, verify=True)
    assert report.equal


def test_first_read_waits_for_a_small_log(opened: Callable[[str], Ledger], tenant: str) -> None:
    """When the new view is built within the wait, the first answer comes from it already."""
    opened(HASHING).memory(tenant=tenant, user="alice").remember("the red kite")
    assert opened(HASHING).memory(tenant=tenant, user="alice").recall("kite", wait=30)
    found = opened(WIDE).memory(tenant=tenant, user="alice").recall("kite", wait=30)
    assert found.degraded == ()
    assert [hit.content for hit in found] == ["the red kite"]


def test_runner_builds_the_new_view(opened: Callable[[str], Ledger], tenant: str) -> None:
    """A background runner builds the new view though nobody reads."""
    opened(HASHING).memory(tenant=tenant, user="alice").remember("the red kite")
    opened(HASHING).memory(tenant=tenant, user="alice").recall("kite", wait=30)
    ledger = opened(WIDE)
    view = ledger.tenant(tenant).view("recall")
    deadline = time.monotonic() + SECONDS
    with Runner(ledger, tenants=[tenant], views=["recall"]):
        while (live := view.generations.current()) is None or "hashing-128" not in live.fingerprint:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert models(ledger, tenant) == {"hashing-128/1"}


def changed_kind(width: int = 128) -> ViewKind[RecallView]:
    return replace(
        recall_kind(HashEmbedder(width)),
        fingerprint=f"recall/{VERSION}/hashing-{width}/1/{width}",
        open_former=open_former_recall,
        batch=5,
    )


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def held(log: Log) -> Iterator[threading.Semaphore]:
    """Successors are built batch by batch, as this is released; others post as they like."""
    steps = threading.Semaphore(0)
    over = threading.Event()

    def before(batch: Batch) -> None:
        if threading.current_thread().name.startswith("memoriale-successor"):
            while not over.is_set() and not steps.acquire(timeout=0.05):
                pass

    log.before = before
    yield steps
    over.set()


def rebuilding(reading: Reading[RecallView]) -> tuple[int, int, bool]:
    return reading.position, reading.behind, reading.rebuilding


def test_view_of_another_version(tmp_path: Path, log: Log, held: threading.Semaphore) -> None:
    """A view of another version of the rows is read as it is, and not posted into."""
    generations = Generations(tmp_path / "recall")
    older = replace(changed_kind(64), fingerprint="recall/0/hashing-64/1/64")
    PostedView(older, generations, log).run(summary, wait=60)
    log.history.denied()
    newer = PostedView(changed_kind(64), generations, log)
    assert newer.run(rebuilding, wait=0.1) == (50, 1, True)
    assert newer.run(rebuilding, wait=30) == (50, 1, True)
    held.release(1000)
    assert poll(lambda: newer.run(rebuilding, wait=5)) == (51, 0, False)


def test_unreadable_view_of_another_version(tmp_path: Path, log: Log) -> None:
    """One that this version cannot read is rebuilt before it is read."""
    generations = Generations(tmp_path / "recall")
    older = replace(changed_kind(64), fingerprint="something else")
    PostedView(older, generations, log).run(summary, wait=60)
    assert PostedView(changed_kind(64), generations, log).run(summary, wait=0) == (50, 0, True)


def poll(read: Callable[[], tuple[int, int, bool]]) -> tuple[int, int, bool]:
    deadline = time.monotonic() + SECONDS
    while (found := read())[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_what_was_built_is_gone_on_with(
    tmp_path: Path, log: Log, held: threading.Semaphore
) -> None:
    """A process that ends leaves what it has built; the next one builds only the rest."""
    generations = Generations(tmp_path / "recall")
    PostedView(changed_kind(64), generations, log).run(summary, wait=60)
    first = PostedView(changed_kind(), generations, log)
    held.release(5)
    assert first.run(rebuilding, wait=0.5)[2]
    # It waits before its sixth batch; stopping lets that one pass.
    held.release(1)
    first.close()
    log.posted = 0
    held.release(1000)
    second = PostedView(changed_kind(), generations, log)
    assert poll(lambda: second.run(rebuilding, wait=5)) == (50, 0, False)
    assert 0 < log.posted <= 30
    assert replay(second, log).equal


def test_one_builder_at_a_time(tmp_path: Path, log: Log, held: threading.Semaphore) -> None:
    """Of several users of a view one builds the successor, and all go over to it."""
    generations = Generations(tmp_path / "recall")
    PostedView(changed_kind(64), generations, log).run(summary, wait=60)
    users = [PostedView(changed_kind(), generations, log) for _ in range(3)]
    log.posted = 0
    assert all(user.run(rebuilding, wait=0.1)[2] for user in users)
    held.release(1000)
    for user in users:
        assert poll(lambda user=user: user.run(rebuilding, wait=5)) == (50, 0, False)  # type: ignore[misc]
    assert log.posted == 50
