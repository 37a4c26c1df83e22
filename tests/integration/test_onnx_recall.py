"""Recall with an ONNX model: by meaning while it is well, by keyword while it is damaged."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from tests.fixtures.onnx_models import TinyModel

SECONDS = 60
Open = Callable[[], Ledger]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return TinyModel().write(tmp_path / "tiny")


@pytest.fixture
def open_ledger(tmp_path: Path, shared_url: str, folder: Path) -> Iterator[Open]:
    """Opens the home as another process would, and closes the one before."""
    opened: list[Ledger] = []

    def open_one() -> Ledger:
        if opened:
            opened.pop().close()
        home, spec = tmp_path / "home", f"onnx:{folder}"
        opened.append(memoriale.open(home=home, database_url=shared_url, embedder=spec, wait=30))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


def until_well(memory: Memory, question: str) -> Any:
    """The first answer that is not degraded."""
    deadline = time.monotonic() + SECONDS
    while (found := memory.recall(question)).degraded:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def models(ledger: Ledger, tenant: str) -> set[str | None]:
    """The models of all vectors in the live view."""
    with ledger.tenant(tenant).view("recall").read(wait=30) as reading:
        return {model for _, model, vector in reading.view.vectors() if vector is not None}


def test_recall_by_meaning(open_ledger: Open, tenant: str) -> None:
    """Memories and questions get vectors of the model, whose name stands with them."""
    ledger = open_ledger()
    memory = ledger.memory(tenant=tenant, user="alice")
    memory.remember("the cat sat on the mat")
    found = memory.recall("a cat on a mat")
    assert (found.degraded, found[0].similarity is not None) == ((), True)
    [model] = models(ledger, tenant)
    assert model is not None
    assert model.startswith("onnx/tiny/")


def test_a_damaged_model(open_ledger: Open, tenant: str, folder: Path) -> None:
    """While the model's file is damaged, new memories are found by keyword and the answer says
    so; when it is mended, they get their vectors, and nothing is built anew."""
    ledger = open_ledger()
    ledger.memory(tenant=tenant, user="alice").remember("the cat sat on the mat")
    assert until_well(ledger.memory(tenant=tenant, user="alice"), "cat")
    [before] = models(ledger, tenant)
    path = folder / "model.onnx"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    ledger = open_ledger()
    memory = ledger.memory(tenant=tenant, user="alice")
    memory.remember("a dog slept on the mat")
    found = memory.recall("mat")
    assert (found.degraded, found.behind, found.rebuilt) == (("embedder",), 0, False)
    assert {hit.content for hit in found} == {"the cat sat on the mat", "a dog slept on the mat"}
    assert {hit.similarity for hit in found} == {None}
    with pytest.raises(memoriale.UnavailableError) as failure:
        memory.recall("mat", strict=True)
    assert failure.value.code == "embedder_failed"

    path.write_bytes(whole)
    found = until_well(memory, "mat")
    assert all(hit.similarity is not None for hit in found)
    assert models(ledger, tenant) == {before}


def test_another_model_is_another_generation(open_ledger: Open, tenant: str, folder: Path) -> None:
    """Other weights in the same folder: the view is built anew, and holds vectors of one model."""
    ledger = open_ledger()
    ledger.memory(tenant=tenant, user="alice").remember("the cat sat on the mat")
    assert until_well(ledger.memory(tenant=tenant, user="alice"), "cat")
    before = models(ledger, tenant)
    TinyModel(seed=2).write(folder)
    ledger = open_ledger()
    found = until_well(ledger.memory(tenant=tenant, user="alice"), "cat on a mat")
    assert found[0].similarity is not None
    assert len(models(ledger, tenant)) == 1
    assert models(ledger, tenant).isdisjoint(before)
