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


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
def test_large_buffers_are_returned_when_they_are_freed() -> None:
    """Also after larger ones were freed, by which glibc takes it that they belong on the heap."""
    code = """
import ctypes
import pytest

from memoriale.projections.recall.lance_memory import lancedb

lancedb()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in fields]
library.mallinfo2.restype = Info
library.free(library.malloc(24 * 2**20))
before = library.mallinfo2().hblkhd
buffer = library.malloc(8 * 2**20)
print((library.mallinfo2().hblkhd - before) // 2**20)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stdout.strip() == "8", told.stderr
