"""LanceDB takes a bounded part of the memory."""

import os
from pathlib import Path

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
