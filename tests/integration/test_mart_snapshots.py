"""Published snapshots: whole, stamped, private, kept while they are read, never half of one."""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import duckdb
import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.generations import POINTER
from memoriale.projections.proofs.merkle import root_of
from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.snapshots import KEEP, Snapshots
from tests.fixtures.events import History
from tests.integration.test_mart_star import opened, published, rows, view_of
from tests.integration.test_stats_view import mixed_history


def files(folder: Path) -> list[str]:
    """Names of the snapshots in a folder, oldest first."""
    return sorted(path.name for path in folder.glob("*.duckdb"))


def test_stamp(tmp_path: Path) -> None:
    """File and pointer say the log, the position and the root over the hashes of its events."""
    history = mixed_history()
    snapshot = published(tmp_path, history)
    root = root_of(row.recorded.leaf_hash for row in history.rows)
    assert (snapshot.log_id, snapshot.position, snapshot.index) == (history.log_id, 20, 19)
    assert snapshot.root == root.hex()
    assert rows(snapshot, "SELECT log_id, position, root FROM snapshot") == [
        (history.log_id, 20, root)
    ]
    assert Snapshots(snapshot.path.parent, history.log_id).current() == snapshot


def test_the_tables_are_those_of_the_view(tmp_path: Path) -> None:
    """Every row of every table of the live view is in the snapshot, unchanged."""
    history = mixed_history()
    snapshot = published(tmp_path, history)
    posted = view_of(tmp_path, history)
    with posted.read() as reading:
        for table in ("events", "memory_versions", "branches", "position"):
            live = reading.view.query(f"SELECT * FROM {table} ORDER BY ALL")
            assert rows(snapshot, f"SELECT * FROM {table} ORDER BY ALL") == live
    posted.close()


def test_older_versions_of_duckdb_can_open_it(tmp_path: Path) -> None:
    """The file is written in the storage format of DuckDB 1.2."""
    snapshot = published(tmp_path, mixed_history())
    with opened(snapshot) as connection:
        ((tags,),) = connection.execute(
            "SELECT tags FROM duckdb_databases() WHERE NOT internal"
        ).fetchall()
    assert tags["storage_version"].startswith("v1.2.0")


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """Folder 0700, files 0600, and nothing else is left in the folder."""
    snapshot = published(tmp_path, mixed_history())
    folder = snapshot.path.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {
        snapshot.path.name,
        POINTER,
        "publish.lock",
    }
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def test_the_same_events_are_published_once(tmp_path: Path) -> None:
    """Publishing again without new events hands out the snapshot that is there."""
    history = mixed_history()
    assert published(tmp_path, history) == published(tmp_path, history)
    history.remembered("more")
    assert published(tmp_path, history).position == 21


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    """Three snapshots stay; an older one stays too while it is read, and goes afterwards."""
    history, snapshots = History(), Snapshots(tmp_path / "snapshots", History().log_id)
    history.remembered("first")
    first = published(tmp_path, history)
    with snapshots.reading(first):
        for number in range(KEEP + 1):
            history.remembered(str(number))
            newest = published(tmp_path, history)
        assert len(files(snapshots.folder)) == KEEP + 1
        assert first.path.is_file()
    history.remembered("last")
    newest = published(tmp_path, history)
    assert files(snapshots.folder)[-1] == newest.path.name
    assert len(files(snapshots.folder)) == KEEP
    assert not first.path.exists()


def test_one_that_another_program_reads_is_kept(tmp_path: Path) -> None:
    """A snapshot that an analyst's own DuckDB has open is not removed."""
    history = mixed_history()
    first = published(tmp_path, history)
    code = (
        "import duckdb, sys\nwith duckdb.connect(sys.argv[1], read_only=True) as c:\n"
        "    print('open', flush=True)\n    sys.stdin.read()"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(first.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"open\n"
        for number in range(KEEP):
            history.remembered(str(number))
            published(tmp_path, history)
        assert first.path.is_file()
    finally:
        reader.communicate(timeout=60)
    history.remembered("last")
    published(tmp_path, history)
    assert not first.path.exists()


def test_a_reader_sees_one_state_while_others_are_published(tmp_path: Path) -> None:
    """An open snapshot keeps its rows although newer ones were published and it was removed."""
    history = mixed_history()
    first = published(tmp_path, history)
    with opened(first) as connection:
        shutil.rmtree(first.path.parent)
        history.remembered("more")
        assert published(tmp_path, history).position == 21
        assert connection.execute("SELECT count(*) FROM events").fetchall() == [(20,)]


def test_a_writer_goes_on(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """While somebody writes and views are posted, each snapshot has exactly the events up to its
    position, and its root is that of the log there."""
    alice.remember("begin")
    stop, failures = Event(), list[BaseException]()

    def write() -> None:
        number = 0
        try:
            while not stop.is_set():
                number += 1
                alice.remember_many([{"content": f"{number} {i}", "user": "alice"} for i in "abc"])
        except BaseException as error:
            failures.append(error)
            raise

    writer = Thread(target=write)
    writer.start()
    try:
        found = [shared_ledger.snapshot(tenant=tenant).snapshot for _ in range(6)]
    finally:
        stop.set()
        writer.join()
    assert failures == []
    leaves = [row.recorded.leaf_hash for row in shared_ledger.tenant(tenant).log.reader.rows()]
    assert found[-1].position > found[0].position
    for snapshot in found[-KEEP:]:
        counted = rows(
            snapshot, 'SELECT count(*), max("index") + 1, max(append_last) + 1 FROM events'
        )
        assert counted == [(snapshot.position,) * 3]
        assert snapshot.root == root_of(leaves[: snapshot.position]).hex()


@pytest.mark.parametrize(
    "change",
    [
        {"log_id": str(UUID(int=9))},
        {"format": "stats/0"},
        {"snapshot": "../../secret.duckdb"},
        {"snapshot": "0000000000000000-00000000.duckdb"},
        {"position": "x"},
        None,
    ],
)
def test_a_pointer_that_leads_nowhere(tmp_path: Path, change: dict[str, Any] | None) -> None:
    """A pointer to another log, of another format, to a missing file, or no JSON is as none, and
    the next snapshot is published anew."""
    history = mixed_history()
    first = published(tmp_path, history)
    pointer = first.path.parent / POINTER
    text = "{" if change is None else json.dumps({**json.loads(pointer.read_text()), **change})
    pointer.write_text(text)
    assert Snapshots(first.path.parent, history.log_id).current() is None
    again = published(tmp_path, history)
    assert again.path != first.path
    assert again.root == first.root


def test_a_lost_snapshot_is_an_error_and_then_a_new_one(tmp_path: Path) -> None:
    """Reading a snapshot that was removed says so; after that another one is published."""
    history = mixed_history()
    first = published(tmp_path, history)
    snapshots = Snapshots(first.path.parent, history.log_id)
    first.path.unlink()
    with pytest.raises(UnavailableError) as caught, snapshots.reading(first):
        pass
    assert (caught.value.code, caught.value.retry) == ("snapshot_lost", True)
    assert published(tmp_path, history).root == first.root


def test_what_a_killed_publisher_left_is_removed(tmp_path: Path) -> None:
    """Drafts of a publisher that was killed go when the next one begins."""
    history = mixed_history()
    folder = tmp_path / "snapshots"
    (folder / "draft-live.duckdb.tmp").mkdir(parents=True)
    for name in ("draft-live.duckdb", "draft-snapshot.duckdb.wal", "draft-pointer"):
        (folder / name).write_bytes(b"half")
    published(tmp_path, history)
    assert list(folder.glob("draft-*")) == []


def test_a_damaged_view_is_rebuilt_for_it(tmp_path: Path) -> None:
    """A live view with rows that are missing or blocks that cannot be read is rebuilt, and the
    snapshot has every event."""
    history = mixed_history(2_000)
    posted = view_of(tmp_path, history)
    with posted.read(wait=60) as reading:
        reading.view.query('DELETE FROM events WHERE "index" = 3')
    posted.close()
    snapshot = published(tmp_path, history)
    assert rows(snapshot, "SELECT count(*) FROM events") == [(history.head(),)]
    history.remembered("more")
    (live,) = (tmp_path / "view").rglob(FILE)
    with live.open("r+b") as file:
        # After the headers: blocks of rows.
        file.seek(64 * 1024)
        file.write(b"\xff" * 400_000)
    again = published(tmp_path, history)
    assert rows(again, "SELECT count(*) FROM events") == [(history.head(),)]
    assert again.root == root_of(row.recorded.leaf_hash for row in history.rows).hex()


def test_two_publishers_take_turns(tmp_path: Path) -> None:
    """Publishing from several threads at once gives one snapshot for the same events."""
    history = mixed_history()
    posted, found = view_of(tmp_path, history), list[Path]()
    snapshots = Snapshots(tmp_path / "snapshots", history.log_id)
    threads = [
        Thread(target=lambda: found.append(snapshots.publish(posted).path)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    posted.close()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A file where the folder should be is a typed error that names it."""
    (tmp_path / "snapshots").write_text("")
    with pytest.raises(UnavailableError) as caught:
        published(tmp_path, mixed_history())
    assert "snapshots" in caught.value.message


def test_parquet(shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path) -> None:
    """Each table is written as a Parquet file that only its owner may read, with the same rows."""
    alice.remember("x")
    folder = tmp_path / "out"
    made = shared_ledger.snapshot(tenant=tenant, parquet=folder)
    names = {"events", "memory_versions", "branches", "position", "snapshot"}
    assert {path.stem for path in made.parquet} == names
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in made.parquet)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in names:
        with duckdb.connect() as connection:
            sql = f"SELECT * FROM '{folder}/{name}.parquet' ORDER BY ALL"
            exported = connection.execute(sql).fetchall()
        assert exported == rows(made.snapshot, f"SELECT * FROM {name} ORDER BY ALL")


def test_parquet_into_a_file(shared_ledger: Ledger, tenant: str, tmp_path: Path) -> None:
    """A file in the place of the folder is refused before anything is done."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        shared_ledger.snapshot(tenant=tenant, parquet=tmp_path / "file")
    assert caught.value.field == "parquet"


def test_the_lock_goes_with_the_reader(tmp_path: Path) -> None:
    """A snapshot that was read can be locked by others once its reader has left."""
    history = mixed_history()
    snapshot = published(tmp_path, history)
    snapshots = Snapshots(snapshot.path.parent, history.log_id)
    other = os.open(snapshot.path, os.O_RDONLY)
    try:
        with snapshots.reading(snapshot), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
