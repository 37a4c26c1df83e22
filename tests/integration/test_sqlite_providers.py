"""Memory of resources in files of SQLite: restarts, missing extensions, other processes, faults."""

import os
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memoriale import (
    ForkedHandleError,
    InputError,
    MemoryFact,
    ResourceRef,
    SQLiteSemanticMemoryProvider,
    SQLiteWorkingMemoryProvider,
    UnavailableError,
)
from memoriale.adapters.providers.sqlite import file as sqlite_file
from memoriale.adapters.providers.sqlite.driver import DRIVER
from tests.fixtures.embeddings import NotingEmbeddings
from tests.fixtures.file_systems import file_system, fill

REF = ResourceRef("build-7")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "memory.db"


def facts(*texts: str) -> list[MemoryFact]:
    return [MemoryFact(content=text) for text in texts]


def opened(path: Path, *, index: bool = True, tenant: str = "acme") -> SQLiteSemanticMemoryProvider:
    return SQLiteSemanticMemoryProvider(path, NotingEmbeddings(), tenant=tenant, vector_index=index)


def contents(found: Any) -> list[str]:
    return [fact.content for fact in found]


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What the file answers, read through the driver that the providers use."""
    with closing(DRIVER.connect(path)) as connection:
        return [tuple(row) for row in connection.execute(sql).fetchall()]


def test_the_index_is_there_after_a_restart(path: Path) -> None:
    """A process that only reads asks the index too."""
    with opened(path) as provider:
        assert provider.has_vector_index is False
        provider.remember_many(REF, facts("the harbour", "a mooring"))
        assert provider.has_vector_index is True
    with opened(path) as provider:
        assert provider.has_vector_index is True
        assert contents(provider.recall(REF, "a mooring", top_k=1)) == ["a mooring"]
    with opened(path, index=False) as provider:
        assert provider.has_vector_index is False
        assert contents(provider.recall(REF, "a mooring", top_k=1)) == ["a mooring"]


def test_what_was_written_without_the_extension_enters_the_index_later(path: Path) -> None:
    """Facts that came and went meanwhile are found and not found, and take nobody's place."""
    with opened(path) as provider:
        made = provider.remember_many(REF, facts(*(f"the harbour {i}" for i in range(10))))
    with opened(path, index=False) as provider:
        provider.forget(REF, [fact.id for fact in made[:9]])
        provider.remember_many(REF, facts("a mooring", "a lighthouse"))
    with opened(path) as provider:
        assert provider.has_vector_index is True
        assert asked(path, "select count(*) from memoriale_vectors where state = 0") == [(0,)]
        assert asked(path, "select count(*) from memoriale_index_removals") == [(0,)]
        found = provider.recall(REF, "the harbour", top_k=3)
        assert contents(found)[0] == "the harbour 9"
        assert sorted(contents(found)) == ["a lighthouse", "a mooring", "the harbour 9"]


def test_both_ways_at_the_same_time(path: Path) -> None:
    """A process without the extension writes while one with it reads: nothing is missed."""
    with opened(path) as indexing, opened(path, index=False) as scanning:
        for number in range(5):
            [made] = scanning.remember_many(REF, facts(f"from there {number}"))
            assert contents(indexing.recall(REF, f"from there {number}", top_k=1)) == [made.content]
            [own] = indexing.remember_many(REF, facts(f"from here {number}"))
            assert contents(scanning.recall(REF, f"from here {number}", top_k=1)) == [own.content]
            assert scanning.forget(REF, [own.id]) == 1
            assert own.content not in contents(indexing.recall(REF, own.content, top_k=100))
        assert indexing.has_vector_index is True


def test_the_index_and_the_scan_answer_alike(path: Path) -> None:
    """For resources of any size among others, with equal facts and facts without words."""
    chosen = random.Random(7)
    words = ["harbour", "mooring", "ship", "crew", "storm", "light", "…", "chart", "tide"]
    refs = [ResourceRef(f"r{i}", team) for i in range(6) for team in (None, "red")]
    with opened(path) as indexing, opened(path, index=False) as scanning:
        for place, ref in enumerate(refs):
            texts = [" ".join(chosen.choices(words, k=4)) for _ in range(3 + 30 * place)]
            made = indexing.remember_many(ref, facts(*texts))
            indexing.forget(ref, [fact.id for fact in made[::5]])
        for ref in refs:
            for top_k in (1, 5, 100):
                query = " ".join(chosen.choices(words, k=3))
                found = indexing.recall(ref, query, top_k=top_k)
                expected = scanning.recall(ref, query, top_k=top_k)
                scores = [fact.score for fact in found]
                assert scores == pytest.approx([fact.score for fact in expected], abs=1e-5)
                assert len({fact.id for fact in found}) == len(expected)
                assert len(found) == min(top_k, len(scanning.list_all(ref)))


def steps(provider: Any, call: Callable[[], object]) -> int:
    """How many hundreds of instructions SQLite needs for a call."""
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    provider._file._connection.set_progress_handler(count, 100)
    call()
    provider._file._connection.set_progress_handler(None, 0)
    return counted[0]


@pytest.mark.parametrize("index", [True, False])
def test_a_large_resource_holds_up_no_small_one(path: Path, index: bool) -> None:
    """What storing, asking, forking and forgetting costs does not grow with the facts of others."""
    small, costs = ResourceRef("small"), []

    def work(provider: Any, child: ResourceRef) -> list[int]:
        newest = provider.list_recent(small, 1)[0].id
        return [
            steps(provider, lambda: provider.remember(small, facts("a tide")[0])),
            steps(provider, lambda: provider.recall(small, "a mooring")),
            steps(provider, lambda: provider.fork(small, child)),
            steps(provider, lambda: provider.forget(small, [newest])),
        ]

    with opened(path, index=index) as provider:
        provider.remember_many(small, facts("a mooring", "a lighthouse", "…"))
        for others in (100, 3_000):
            provider.remember_many(REF, facts(*(f"the harbour {i}" for i in range(others))))
            costs.append(work(provider, ResourceRef(f"child of {others}")))
    few, many = costs
    assert all(after <= before + 20 for before, after in zip(few, many, strict=True)), costs


_WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from memoriale import MemoryFact, ResourceRef, SQLiteSemanticMemoryProvider
from tests.fixtures.embeddings import NotingEmbeddings
path, ref = {path!r}, ResourceRef("build-7")
with SQLiteSemanticMemoryProvider(path, NotingEmbeddings(), tenant="acme") as provider:
    provider.remember(ref, MemoryFact(content="a mooring"))
    assert provider.has_vector_index is False
    found = [fact.content for fact in provider.recall(ref, "the harbour")]
    assert sorted(found) == ["a mooring", "the harbour"], found
    assert provider.forget(ref, [f.id for f in provider.list_all(ref)[:1]]) == 1
"""


@pytest.mark.parametrize("missing", [["sqlite_vec"], ["sqlite_vec", "pysqlite3"]])
def test_without_the_packages_everything_is_scanned(path: Path, missing: list[str]) -> None:
    """The file of one process with the index is read and written by one that has nothing."""
    with opened(path) as provider:
        provider.remember(REF, facts("the harbour")[0])
    run(_WITHOUT.format(missing=missing, path=str(path)))
    with opened(path) as provider:
        assert provider.has_vector_index is True
        assert contents(provider.recall(REF, "the harbour")) == ["a mooring"]


def run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


_WRITER = """
from memoriale import MemoryFact, ResourceRef, SQLiteSemanticMemoryProvider
from memoriale import SQLiteWorkingMemoryProvider
from tests.fixtures.embeddings import NotingEmbeddings
path, name, ref = {path!r}, {name!r}, ResourceRef("build-7")
keys = SQLiteWorkingMemoryProvider(path, tenant="acme")
facts = SQLiteSemanticMemoryProvider(path, NotingEmbeddings(), tenant="acme")
for number in range({count}):
    keys.set(ref, f"{{name}}-{{number:03}}", number)
    facts.remember_many(ref, [MemoryFact(content=f"{{name}} {{number}} {{i}}") for i in range(5)])
    print(number, flush=True)
keys.close()
facts.close()
"""


def writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    code = _WRITER.format(path=str(path), name=name, count=count)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_share_a_file(path: Path) -> None:
    """Three that write at the same time, from making the file on, lose nothing."""
    writers = [writer(path, name, 30) for name in ("a", "b", "c")]
    for process in writers:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    with SQLiteWorkingMemoryProvider(path, tenant="acme") as keys, opened(path) as provider:
        assert len(keys.list(REF, limit=1_000)) == 90
        assert len(provider.list_all(REF)) == 450
        for name in "abc":
            assert contents(provider.recall(REF, f"{name} 29 4", top_k=1)) == [f"{name} 29 4"]


def test_a_killed_process_leaves_all_or_nothing(path: Path) -> None:
    """After SIGKILL what it said was stored is there, and every fact has its vector."""
    process = writer(path, "a", 100_000)
    assert process.stdout is not None
    for _ in range(20):
        said = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    with SQLiteWorkingMemoryProvider(path, tenant="acme") as keys, opened(path) as provider:
        assert keys.get(REF, f"a-{said:03}") == said
        stored = provider.list_all(REF)
        assert len(stored) >= 5 * (said + 1)
        assert len(stored) % 5 == 0
        assert contents(provider.recall(REF, f"a {said} 4", top_k=1)) == [f"a {said} 4"]
    vectors = asked(path, "select count(*) from memoriale_vectors where state = 1")
    assert vectors == [(len(stored),)]
    assert asked(path, "pragma integrity_check") == [("ok",)]


def test_threads_share_a_provider(path: Path) -> None:
    """Calls from many threads are stored one after the other."""
    errors: list[Exception] = []
    with opened(path) as provider:

        def work(name: int) -> None:
            try:
                for number in range(20):
                    provider.remember(REF, MemoryFact(content=f"{name} {number}"))
                    provider.recall(REF, f"{name} {number}")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert len(provider.list_all(REF)) == 100


def test_a_forked_process_opens_its_own(path: Path) -> None:
    """A provider from before ``os.fork`` is refused in the child, and goes on in the parent."""
    keys = SQLiteWorkingMemoryProvider(path, tenant="acme")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            keys.get(REF, "a")
        except ForkedHandleError:
            keys.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    keys.set(REF, "a", 1)
    assert keys.get(REF, "a") == 1
    keys.close()


def test_tenants_of_one_file_are_apart(path: Path) -> None:
    """Neither keys nor facts of another tenant are read, listed, counted, forked or removed."""
    with (
        opened(path) as ours,
        opened(path, tenant="other") as theirs,
        SQLiteWorkingMemoryProvider(path, tenant="acme") as keys,
        SQLiteWorkingMemoryProvider(path, tenant="other") as their_keys,
    ):
        made = ours.remember_many(REF, facts(*(f"the harbour {i}" for i in range(200))))
        keys.set(REF, "a", 1)
        assert list(theirs.recall(REF, "the harbour")) == []
        [own] = theirs.remember_many(REF, facts("a mooring"))
        assert contents(theirs.recall(REF, "the harbour", top_k=100)) == ["a mooring"]
        assert theirs.forget(REF, [made[0].id]) == 0
        theirs.fork(REF, ResourceRef("child"))
        their_keys.fork(REF, ResourceRef("child"))
        assert contents(theirs.list_all(ResourceRef("child"))) == ["a mooring"]
        assert list(ours.list_all(ResourceRef("child"))) == []
        assert (dict(their_keys.list(REF)), their_keys.get(REF, "a")) == ({}, None)
        assert their_keys.delete(REF, "a") is False
        assert ours.forget(REF, [own.id]) == 0
        assert len(ours.list_all(REF)) == 200


def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Folder and files are made with no right for others, and other tables are left alone."""
    path = tmp_path / "new" / "memory.db"
    with SQLiteWorkingMemoryProvider(path, tenant="acme") as keys:
        keys.set(REF, "a", 1)
        for made in path.parent.iterdir():
            assert stat.S_IMODE(made.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_it_is_written_ahead_and_synced(path: Path) -> None:
    """The file is in WAL mode, beside tables of others."""
    with closing(DRIVER.connect(path)) as connection:
        connection.execute("create table mine (a)")
        connection.commit()
    with SQLiteWorkingMemoryProvider(path, tenant="acme") as keys:
        keys.set(REF, "a", 1)
    assert asked(path, "pragma journal_mode") == [("wal",)]
    assert asked(path, "select count(*) from mine") == [(0,)]


@pytest.mark.parametrize("make", [SQLiteWorkingMemoryProvider, opened], ids=["keys", "facts"])
def test_what_is_no_database_is_refused(tmp_path: Path, make: Any) -> None:
    """A folder, a text, a file of a later release and no path; nothing of them is changed."""
    text = tmp_path / "text.db"
    text.write_text("not a database, but a text that is long enough to be looked at\n" * 20)
    later = tmp_path / "later.db"
    with SQLiteWorkingMemoryProvider(later, tenant="acme"):
        pass
    with closing(DRIVER.connect(later)) as connection:
        connection.execute("update memoriale_schema set version = 2")
        connection.commit()
    for place, code in ((tmp_path, "file_unavailable"), (text, "damaged"), (later, "later_format")):
        with pytest.raises(UnavailableError) as refused:
            make(place, tenant="acme")
        assert refused.value.code == code
        assert refused.value.field == "path"
    assert text.read_text().startswith("not a database")
    with pytest.raises(InputError):
        make("", tenant="acme")
    with pytest.raises(InputError):
        make(tmp_path / "m.db", tenant="_global")


def test_a_closed_provider_is_refused(path: Path) -> None:
    """Closing twice is allowed."""
    provider, keys = opened(path), SQLiteWorkingMemoryProvider(path, tenant="acme")
    for each in (provider, keys):
        each.close()
        each.close()
    with pytest.raises(InputError, match="closed"):
        provider.remember(REF, facts("a")[0])
    with pytest.raises(InputError, match="closed"):
        keys.set(REF, "a", 1)


def test_a_file_that_stays_locked_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits for another; when it takes too long the error says so, and to try again."""
    monkeypatch.setattr(sqlite_file, "WAIT", 0.1)
    with SQLiteWorkingMemoryProvider(path, tenant="acme") as keys:
        keys.set(REF, "a", 1)
        with closing(DRIVER.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(UnavailableError) as refused:
                keys.set(REF, "a", 2)
            assert (refused.value.code, refused.value.retry) == ("busy", True)
            assert keys.get(REF, "a") == 1
            other.execute("rollback")
        keys.set(REF, "a", 2)
        assert keys.get(REF, "a") == 2


def set_many(keys: SQLiteWorkingMemoryProvider) -> None:
    for number in range(100):
        keys.set(REF, f"b{number}", "x" * 60_000)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of a few megabytes."""
    with file_system("size=4m") as place:
        yield place


def test_a_full_disk_stores_nothing(small_disk: Path) -> None:
    """The error names the file; what was there is read, and with room it goes on."""
    path = small_disk / "memory.db"
    with opened(path) as provider, SQLiteWorkingMemoryProvider(path, tenant="acme") as keys:
        provider.remember(REF, facts("the harbour")[0])
        keys.set(REF, "a", 1)
        fill(small_disk / "full")
        with pytest.raises(UnavailableError) as refused:
            provider.remember_many(REF, facts(*(f"{i} " + "x" * 60_000 for i in range(20))))
        assert refused.value.value == str(path)
        with pytest.raises(UnavailableError):
            set_many(keys)
        assert contents(provider.list_all(REF)) == ["the harbour"]
        (small_disk / "full").unlink()
        provider.remember(REF, facts("a mooring")[0])
        assert contents(provider.recall(REF, "a mooring", top_k=1)) == ["a mooring"]
        assert keys.get(REF, "a") == 1
