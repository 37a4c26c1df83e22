"""Reads while the embedder is down, slow or back again: nothing is lost, and answers say so."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import UnavailableError
from tests.fixtures.embedding_server import EmbeddingServer, changed, status, well

SECONDS = 60
Open = Callable[..., Ledger]


@pytest.fixture
def open_ledger(
    tmp_path: Path, shared_url: str, embedding_server: EmbeddingServer
) -> Iterator[Open]:
    """Opens ledgers on one home whose embedder is the test's endpoint; closes them."""
    opened: list[Ledger] = []

    def open_one(**given: Any) -> Ledger:
        settings: dict[str, Any] = {
            "home": tmp_path / "home",
            "database_url": shared_url,
            "embedder": "openai:small",
            "openai_base_url": embedding_server.url,
            "wait": 30,
            **given,
        }
        opened.append(memoriale.open(**settings))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Open) -> Ledger:
    return open_ledger()


@pytest.fixture
def memory(ledger: Ledger, tenant: str) -> Memory:
    return ledger.memory(tenant=tenant, user="alice")


def recovered(memory: Memory, question: str) -> Any:
    """The first answer that is not degraded."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = memory.recall(question)
        if not found.degraded or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def texts(found: Any) -> set[str]:
    return {hit.content for hit in found}


def test_all_is_well(memory: Memory) -> None:
    """With the embedder there, answers have similarities and nothing is degraded."""
    memory.remember("the cat sat on the mat")
    found = memory.recall("cat on a mat")
    assert (found.degraded, found.behind) == ((), 0)
    assert found[0].similarity is not None


def test_down_at_question_time(memory: Memory, embedding_server: EmbeddingServer) -> None:
    """Memories with vectors are found by keyword; similarity is null, and the answer says why."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    found = memory.recall("cat on a mat")
    assert found.degraded == ("embedder",)
    assert [(hit.content, hit.similarity) for hit in found] == [("the cat sat on the mat", None)]
    assert found[0].keyword > 0


def test_down_while_memories_are_written(memory: Memory, embedding_server: EmbeddingServer) -> None:
    """What is written while the embedder is down is found by keyword at once."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    receipt = memory.remember("a dog slept on the mat")
    found = memory.recall("who was on the mat?")
    assert texts(found) == {"the cat sat on the mat", "a dog slept on the mat"}
    assert (found.degraded, found.behind, found.index) == (("embedder",), 0, receipt.index)
    assert {hit.similarity for hit in found} == {None}


def test_down_from_the_beginning(
    open_ledger: Open, tenant: str, embedding_server: EmbeddingServer
) -> None:
    """A view that does not exist yet is made without vectors, if their width was learnt before."""
    open_ledger().memory(tenant=f"{tenant}-before", user="x").recall("learn the width")
    memory = open_ledger().memory(tenant=tenant, user="alice")
    memory.remember("the cat sat on the mat")
    embedding_server.stop()
    found = memory.recall("cat")
    assert (texts(found), found.degraded) == ({"the cat sat on the mat"}, ("embedder",))


def test_a_width_never_learnt(
    open_ledger: Open, tenant: str, embedding_server: EmbeddingServer
) -> None:
    """Before the embedder was ever reached, recall is unavailable, and writing is not."""
    embedding_server.stop()
    memory = open_ledger().memory(tenant=tenant, user="alice")
    receipt = memory.remember("the cat sat on the mat")
    with pytest.raises(UnavailableError) as raised:
        memory.recall("cat")
    assert raised.value.code == "embedder_failed"
    assert memory.show(receipt.memory_id).content == "the cat sat on the mat"
    embedding_server.start()
    assert texts(memory.recall("cat")) == {"the cat sat on the mat"}


def test_vectors_are_made_up_for(
    memory: Memory, ledger: Ledger, tenant: str, embedding_server: EmbeddingServer
) -> None:
    """Once the embedder is back, rows get their vectors, and the view equals a rebuild."""
    first = memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    memory.remember("a dog slept on the mat")
    memory.amend(first.memory_id, importance=0.7, reason="it matters")
    again = memory.remember("a bird sang")
    assert memory.recall("dog").degraded == ("embedder",)
    memory.correct(again.memory_id, "a bird sang in a tree", reason="seen")
    memory.remember("a long tale. " * 200)
    assert memory.recall("bird tree").degraded == ("embedder",)
    embedding_server.start()
    found = recovered(memory, "who was on the mat?")
    assert found.degraded == ()
    similar = {hit.content: hit.similarity for hit in memory.recall("a dog slept", top_k=10)}
    assert None not in similar.values()
    assert (similar["a dog slept on the mat"] or 0) > 0.5
    (report,) = ledger.replay(tenant=tenant, view="recall")
    assert (report.equal, report.differences, report.vectors_recomputed) == (True, [], 0)


def test_other_processes_see_vectors_that_were_made_up_for(
    open_ledger: Open, tenant: str, embedding_server: EmbeddingServer
) -> None:
    """A handle that read rows without vectors reads them anew when somebody has filled them."""
    one, two = (open_ledger().memory(tenant=tenant, user="alice") for _ in range(2))
    one.remember("the cat sat on the mat")
    one.recall("cat")
    embedding_server.stop()
    one.remember("a dog slept on the mat")
    assert {m.recall("dog").degraded for m in (one, two)} == {("embedder",)}
    embedding_server.start()
    assert recovered(one, "dog").degraded == ()
    hit = recovered(two, "a dog slept on the mat")[0]
    assert (hit.content, hit.similarity) == ("a dog slept on the mat", pytest.approx(1, abs=1e-3))


def test_strict(memory: Memory, embedding_server: EmbeddingServer) -> None:
    """``strict`` makes an error of it, for the question as for memories without vectors."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    with pytest.raises(UnavailableError) as raised:
        memory.recall("cat", strict=True, wait=1)
    assert raised.value.code in ("embedder_failed", "embedder_timeout")
    memory.remember("a dog slept on the mat")
    with pytest.raises(UnavailableError) as raised:
        memory.recall("cat", strict=True, wait=1)
    assert raised.value.code in ("embedder_failed", "embedder_timeout")
    assert texts(memory.recall("mat")) == {"the cat sat on the mat", "a dog slept on the mat"}
    embedding_server.start()
    assert recovered(memory, "mat").degraded == ()
    assert len(memory.recall("mat", strict=True)) == 2


def test_the_vector_leg_alone_cannot_be_degraded(
    memory: Memory, embedding_server: EmbeddingServer
) -> None:
    """Asked for vectors alone, recall fails without an embedder; for words alone, it needs none."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    with pytest.raises(UnavailableError):
        memory.recall("cat", legs="vector")
    found = memory.recall("cat", legs="keyword")
    assert (texts(found), found.degraded) == ({"the cat sat on the mat"}, ())


def test_waiting_and_maintenance(
    memory: Memory, ledger: Ledger, tenant: str, embedding_server: EmbeddingServer
) -> None:
    """Waiting for a write needs no embedder; maintenance makes up for what it posted without."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    receipt = memory.remember("a dog slept on the mat")
    assert ledger.wait(receipt, timeout=SECONDS) == receipt.index + 1
    embedding_server.start()
    view = ledger.tenant(tenant).view("recall")
    deadline = time.monotonic() + SECONDS
    while view.run(lambda reading: reading.view.lacking) and time.monotonic() < deadline:
        assert view.maintain()
        time.sleep(0.1)
    found = memory.recall("mat", strict=True)
    assert [found.degraded, {hit.similarity is None for hit in found}] == [(), {False}]


def test_listing_needs_no_embedder(memory: Memory, embedding_server: EmbeddingServer) -> None:
    """A list catches the view up without vectors."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    memory.remember("a dog slept on the mat")
    assert len(memory.list().memories) == 2


@pytest.mark.parametrize(
    "failure",
    [
        status(500),
        status(401, "invalid_api_key"),
        changed(lambda vectors: [vector[:-1] for vector in vectors]),
        changed(lambda vectors: [[float("nan")] * 32 for _ in vectors]),
    ],
)
def test_every_failure_degrades(
    memory: Memory, embedding_server: EmbeddingServer, failure: Any
) -> None:
    """Errors of the endpoint and vectors that are none degrade an answer, and are put right."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.always = failure
    memory.remember("a dog slept on the mat")
    found = memory.recall("mat", wait=1)
    assert (len(found), found.degraded) == (2, ("embedder",))
    embedding_server.always = well
    assert recovered(memory, "mat").degraded == ()


def test_a_stuck_embedder_holds_nobody_up(
    memory: Memory, embedding_server: EmbeddingServer
) -> None:
    """An endpoint that never answers costs the wait once; then reads answer by keyword."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.always = embedding_server.stuck
    memory.remember("a dog slept on the mat")
    for question in ("dog", "cat", "mat"):
        found = memory.recall(question, wait=0.5)
        assert found.degraded == ("embedder",)
        assert len(found) >= 1
    embedding_server.always = well
    embedding_server.release()
    assert recovered(memory, "mat").degraded == ()


def test_a_replay_does_not_do_without(
    memory: Memory,
    ledger: Ledger,
    tenant: str,
    embedding_server: EmbeddingServer,
) -> None:
    """A replay that lacks vectors fails and leaves the live view; with a full cache it needs no
    model at all."""
    memory.remember("the cat sat on the mat")
    memory.recall("cat")
    embedding_server.stop()
    (report,) = ledger.replay(tenant=tenant, view="recall")
    assert (report.equal, report.vectors_recomputed) == (True, 0)
    services = ledger.tenant(tenant)
    services.embedding_cache.path.unlink()
    with pytest.raises(UnavailableError) as raised:
        ledger.replay(tenant=tenant, view="recall")
    assert raised.value.code == "embedder_failed"
    found = memory.recall("cat")
    assert (len(found), found.rebuilt) == (1, False)
