"""The cache of embeddings under damage, full disks, threads, other processes and kills."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from memoriale.adapters.embeddings.cache import EmbeddingCache
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.projections.embedding import embed_owned
from tests.fixtures.embedding_cache import Make, Owner


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is no database at all " * 200)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def scramble(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4_096:12_288] = os.urandom(8_192)
    path.write_bytes(whole)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_other_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE vectors (other INTEGER)")
        file.execute("PRAGMA user_version = 1")
    file.close()


def of_another_format(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


@pytest.mark.parametrize(
    "damage",
    [
        damage_header,
        cut,
        scramble,
        empty,
        Path.unlink,
        replace_by_other_database,
        of_another_format,
    ],
)
def test_a_damaged_file_begins_anew(
    make: Make,
    cache: EmbeddingCache,
    owner: Owner,
    damage: Callable[[Path], None],
) -> None:
    """Damage costs computing; reads go on, and soon everything is kept again."""
    alice = owner("alice")
    texts = [f"text {number}" for number in range(20)]
    expected = embed_owned(make(), [alice] * 20, texts)
    damage(cache.path)
    for _ in range(3):
        assert numpy.array_equal(embed_owned(make(), [alice] * 20, texts), expected)
    last = make()
    assert numpy.array_equal(embed_owned(last, [alice] * 20, texts), expected)
    assert last.computed == 0


def test_changed_values_are_not_believed(make: Make, cache: EmbeddingCache, owner: Owner) -> None:
    """A value that was changed, cut, or put under another key is computed anew."""
    alice = owner("alice")
    texts = ["one", "two", "three", "four"]
    expected = embed_owned(make(), [alice] * 4, texts)
    with sqlite3.connect(cache.path) as file:
        rows = file.execute("SELECT key, value FROM vectors").fetchall()
        wrong = [rows[0][1][:-1] + bytes([rows[0][1][-1] ^ 1]), rows[2][1], b"", rows[3][1][:9]]
        for (key, _), value in zip(rows, wrong, strict=True):
            file.execute("UPDATE vectors SET value = ? WHERE key = ?", (value, key))
    file.close()
    embedder = make()
    assert numpy.array_equal(embed_owned(embedder, [alice] * 4, texts), expected)
    assert (embedder.computed, embedder.hits) == (4, 0)
    again = make()
    assert numpy.array_equal(embed_owned(again, [alice] * 4, texts), expected)
    assert again.computed == 0


def test_a_disk_that_cannot_be_written_is_no_error(
    cache: EmbeddingCache, make: Make, owner: Owner
) -> None:
    """A folder that cannot be made, or a full disk, means that nothing is kept."""
    cache.path.parent.write_text("a file where the folder should be")
    embedder = make()
    assert embed_owned(embedder, [owner("alice")], ["one"]).any()
    assert embedder.computed == 1


def test_a_full_disk_is_no_error(make: Make, cache: EmbeddingCache, owner: Owner) -> None:
    """A file that cannot grow keeps what it has."""
    alice = owner("alice")
    embed_owned(make(), [alice], ["one"])
    code = (
        "import resource, sys\n"
        "from memoriale.adapters.embeddings.cache import EmbeddingCache, Entry\n"
        "from pathlib import Path; from uuid import uuid4; import os, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "path = Path(sys.argv[1]); size = path.stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "cache = EmbeddingCache(path)\n"
        "cache.put([Entry(os.urandom(32), uuid4(), os.urandom(5000)) for _ in range(50)])\n"
        "print(cache.count())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(cache.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout == "1\n"
    embedder = make()
    embed_owned(embedder, [alice], ["one"])
    assert embedder.computed == 0


def test_threads_share_a_cache(make: Make, owner: Owner) -> None:
    """Many threads embed overlapping texts at once, each rightly."""
    alice = owner("alice")
    wrong: list[str] = []

    def work(start: int) -> None:
        texts = [f"text {number}" for number in range(start, start + 40)]
        for _ in range(5):
            if not numpy.array_equal(
                embed_owned(make(), [alice] * 40, texts), HashEmbedder().embed_passages(texts)
            ):
                wrong.append(f"from {start}")

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 80, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    last = make()
    embed_owned(last, [alice] * 110, [f"text {number}" for number in range(110)])
    assert last.computed == 0


WORKER = """
import sys
from pathlib import Path
from memoriale.adapters.application.identities import Identities
from memoriale.adapters.embeddings.cache import EmbeddingCache
from memoriale.adapters.embeddings.cached import CachedEmbedder
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import Subject
keys, path, first, last, size = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
with FileKeyStore(keys) as store:
    identities = Identities(store, "acme")
    alice = identities.key(Subject("user", "alice")).pseudonym
    embedder = CachedEmbedder(HashEmbedder(), EmbeddingCache(path), identities)
    for start in range(first, last, size):
        texts = [f"text {number}" for number in range(start, start + size)]
        embedder.embed_owned([alice] * size, texts)
        print(start + size, embedder.computed, flush=True)
"""


def worker(
    tmp_path: Path, cache: EmbeddingCache, first: int, last: int, size: int
) -> subprocess.Popen[str]:
    arguments = [tmp_path / "keys", cache.path, first, last, size]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def test_another_process_uses_it(
    tmp_path: Path, make: Make, cache: EmbeddingCache, owner: Owner
) -> None:
    """What one process has kept, another one need not compute."""
    alice = owner("alice")
    embed_owned(make(), [alice] * 50, [f"text {number}" for number in range(50)])
    with worker(tmp_path, cache, 0, 100, 50) as other:
        out, _ = other.communicate(timeout=60)
    assert out.split("\n")[:2] == ["50 0", "100 50"]
    embedder = make()
    embed_owned(embedder, [alice] * 100, [f"text {number}" for number in range(100)])
    assert embedder.computed == 0


def test_a_child_after_fork_uses_it(make: Make, owner: Owner) -> None:
    """A forked child shares nothing with its parent but the file."""
    alice = owner("alice")
    embedder = make()
    embed_owned(embedder, [alice], ["one"])
    child = os.fork()
    if not child:
        code = 1
        try:
            embed_owned(embedder, [alice], ["two"])
            code = 0 if embedder.computed == 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    embed_owned(embedder, [alice] * 2, ["one", "two"])
    assert embedder.computed == 1


def test_kills_while_writing_leave_a_usable_file(
    tmp_path: Path, make: Make, cache: EmbeddingCache, owner: Owner
) -> None:
    """After 12 kills in the middle of writing, the file is whole and what was kept is there."""
    alice = owner("alice")
    reached = 0
    for round_ in range(12):
        first = round_ * 100_000
        with worker(tmp_path, cache, first, first + 100_000, 200) as killed:
            assert killed.stdout is not None
            reached = int(killed.stdout.readline().split()[0])
            time.sleep(0.003 * round_)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        with sqlite3.connect(cache.path) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        file.close()
        embedder = make()
        texts = [f"text {number}" for number in range(reached - 200, reached)]
        vectors = embed_owned(embedder, [alice] * 200, texts)
        assert embedder.computed == 0
        assert numpy.array_equal(vectors, HashEmbedder().embed_passages(texts))
