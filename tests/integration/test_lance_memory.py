"""LanceDB takes a bounded part of the memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memoriale.projections.recall.lance_memory import give_back, shared_session
from tests.fixtures.events import History
from tests.integration.test_recall_search import ask
from tests.integration.test_recall_view import posted


def test_tables_share_one_bounded_cache(tmp_path: Path) -> None:
    """However many tables a process has open, they fill the same cache, and reading ahead is
    bounded unless the environment says otherwise."""
    for name in ("one", "two"):
        history = History()
        history.remembered("red kite")
        folder = tmp_path / name
        folder.mkdir()
        view = posted(folder, history)
        view.table.read("key IN (0)", ("text",))
        assert len(ask(view, history, "kite")) == 1
        assert shared_session().approx_num_items > 0
        assert shared_session().size_bytes <= 256 * 2**20
        view.close()
    assert int(os.environ["LANCE_DEFAULT_IO_BUFFER_SIZE"]) <= 2**30


def test_memory_is_given_back_after_compaction(tmp_path: Path) -> None:
    """Giving memory back changes nothing of what the table holds."""
    history = History()
    for number in range(50):
        history.remembered(f"red kite {number}")
    view = posted(tmp_path, history)
    before = view.digest()
    view.table.optimize()
    give_back()
    assert view.digest() == before
    view.close()


@pytest.mark.parametrize(
    ("wanted", "pool"),
    [(None, "system"), ("mimalloc", "mimalloc")],
    ids=["by default", "another named"],
)
def test_arrow_allocates_where_others_may_free(wanted: str | None, pool: str) -> None:
    """With malloc, unless the environment names another allocator."""
    code = (
        "import pyarrow; from memoriale.projections.recall.lance_memory import lancedb; "
        "lancedb(); print(pyarrow.default_memory_pool().backend_name)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if wanted is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = wanted
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout.strip() == pool
