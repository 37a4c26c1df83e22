"""The embedded key store: its files, what it leaves behind, backup, rotation and processes."""

import json
import os
import shutil
import stat
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.keys.key_file import FIRST_RECORD
from memoriale.domain.errors import UnavailableError
from memoriale.domain.keys import PersonKey, Subject
from tests.contracts.key_store import ALICE, BOB, KeyStoreContract, person
from tests.fixtures.key_files import MANY, change, files, opening_code, record_place

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "key_store.json").read_text()
)


class TestFileKeyStore(KeyStoreContract):
    """The embedded store keeps the contract."""

    def open_store(self, place: Path) -> FileKeyStore:
        """A folder is a store."""
        return FileKeyStore(place / "keys")


def test_a_key_file_of_the_first_release_opens(tmp_path: Path) -> None:
    """The frozen key file gives its keys and names, and takes new ones."""
    (tmp_path / "master.key").write_text(GOLDEN["master_key"])
    with (tmp_path / "store.keys").open("wb") as file:
        for place, data in GOLDEN["bytes"].items():
            file.seek(int(place))
            file.write(bytes.fromhex(data))
    with FileKeyStore(tmp_path) as store:
        assert store.store_id == UUID(GOLDEN["store_id"])
        for tenant, kind, outside_id, pseudonym, key_id, key in GOLDEN["persons"]:
            subject = Subject(kind, outside_id)
            ids = (UUID(pseudonym), bytes.fromhex(key_id), bytes.fromhex(key))
            assert store.find(tenant, subject) == PersonKey(tenant, subject, *ids)
        for tenant, retention_class, month, key_id, key in GOLDEN["periods"]:
            period = store.find_period(tenant, retention_class, month)
            assert period
            assert (period.key_id.hex(), period.key.hex()) == (key_id, key)
        assert store.stats() == tuple(GOLDEN["stats"])
        assert person(store, Subject("user", "new"))


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """The folder is 0700 and every file in it 0600, whatever the umask."""
    before = os.umask(0)
    try:
        with FileKeyStore(tmp_path / "home" / "keys") as store:
            store.get_or_create("acme", MANY)
            store.destroy(person(store, MANY[0]).key_id)
    finally:
        os.umask(before)
    folder = tmp_path / "home" / "keys"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert names == dict.fromkeys(("lock", "master.key", "store.index", "store.keys"), 0o600)


def test_no_name_and_no_key_lies_in_clear(tmp_path: Path) -> None:
    """Neither outside names nor data keys can be read in any file."""
    with FileKeyStore(tmp_path) as store:
        alice = person(store, Subject("user", "alice.liddell@example.org"))
        period = store.period("acme-tenant", "standard", "2026-01")
    for data in files(tmp_path).values():
        for secret in (b"alice.liddell", b"acme", b"standard", alice.key, period.key):
            assert secret not in data


def test_destroying_leaves_nothing(tmp_path: Path) -> None:
    """No byte of a destroyed record's wrapped key, name or index entry is in any file."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:700])
        victim = keys[350]
        before = files(tmp_path)
        place = record_place(tmp_path, victim.key_id)
        record = before["store.keys"][place : place + 192]
        entry = struct.pack(">Q", place)
        assert store.destroy(victim.key_id)
        after = files(tmp_path)
        store.get_or_create("acme", MANY)
        later = files(tmp_path)
    wrapped, sealed = record[40:80], record[92:]
    assert wrapped in before["store.keys"]
    assert before["store.index"].count(entry) == 3
    for found in (after, later):
        for data in found.values():
            assert victim.key not in data
            assert wrapped not in data
            assert not any(sealed[at : at + 8] in data for at in range(len(sealed) - 8))
        assert entry not in found["store.index"]
    assert after["store.keys"][place + 40 : place + 80] == bytes(40)


def test_the_master_key_may_lie_elsewhere(tmp_path: Path) -> None:
    """A master key outside the folder is used, and made together with a new store."""
    master = tmp_path / "secrets" / "master"
    master.parent.mkdir()
    with FileKeyStore(tmp_path / "keys", master_key=master) as store:
        alice = person(store, ALICE)
    assert len(bytes.fromhex(master.read_text())) == 32
    assert not (tmp_path / "keys" / "master.key").exists()
    with FileKeyStore(tmp_path / "keys", master_key=master) as store:
        assert store.find("acme", ALICE) == alice


def test_a_given_master_key_is_used_as_it_is(tmp_path: Path) -> None:
    """A key that was there before the store, with space around it, is taken and not changed."""
    (tmp_path / "given").write_text(f"  {'ab' * 32}\n\n")
    with FileKeyStore(tmp_path / "keys", master_key=tmp_path / "given") as store:
        alice = person(store, ALICE)
    assert (tmp_path / "given").read_text() == f"  {'ab' * 32}\n\n"
    with FileKeyStore(tmp_path / "keys", master_key=tmp_path / "given") as store:
        assert store.find("acme", ALICE) == alice


def test_stores_made_at_once_may_share_a_master_key(tmp_path: Path) -> None:
    """Of several stores that are made at the same moment, none loses the shared key."""
    folders = [tmp_path / str(number) for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda folder: make(folder, tmp_path / "master"), folders))
    for folder in folders:
        with FileKeyStore(folder, master_key=tmp_path / "master") as store:
            assert store.find("acme", ALICE)


def test_a_wrong_master_key_is_told_apart(tmp_path: Path) -> None:
    """Another, a missing and a malformed master key each have their own error code."""
    with FileKeyStore(tmp_path) as store:
        person(store, ALICE)
    master = tmp_path / "master.key"
    right = master.read_text()
    for text, code in (("cd" * 32, "wrong_master_key"), ("secret", "bad_master_key")):
        master.write_text(text)
        assert opening_code(tmp_path) == code
    master.unlink()
    assert opening_code(tmp_path) == "missing_master_key"
    assert not master.exists()
    master.write_text(right)
    assert opening_code(tmp_path) is None


def test_an_error_never_shows_a_master_key(tmp_path: Path) -> None:
    """The error about a malformed master key does not repeat it."""
    (tmp_path / "master.key").write_text("hunter2")
    with pytest.raises(UnavailableError) as caught:
        FileKeyStore(tmp_path)
    assert "hunter2" not in str(caught.value.as_dict())


def test_another_version_is_refused(tmp_path: Path) -> None:
    """A file of a version that this release does not know is not touched."""
    FileKeyStore(tmp_path).close()
    change(tmp_path / "store.keys", 8, lambda data: struct.pack(">H", 2) + data[2:])
    before = files(tmp_path)
    assert opening_code(tmp_path) == "unknown_key_file_version"
    assert files(tmp_path) == before


def test_a_lost_key_file_is_not_replaced(tmp_path: Path) -> None:
    """A store whose key file is gone never becomes an empty store."""
    with FileKeyStore(tmp_path) as store:
        person(store, ALICE)
        (tmp_path / "store.keys").unlink()
        with pytest.raises(UnavailableError) as caught:
            person(store, BOB)
        assert caught.value.code == "missing_key_file"
    assert opening_code(tmp_path) == "missing_key_file"
    assert not (tmp_path / "store.keys").exists()


def test_rotation_changes_the_wrapping_only(tmp_path: Path) -> None:
    """A new master key opens the same keys; the old one is in no file and opens nothing."""
    with FileKeyStore(tmp_path) as store, FileKeyStore(tmp_path) as other:
        keys = store.get_or_create("acme", MANY[:50])
        old = (tmp_path / "master.key").read_bytes()
        records = (tmp_path / "store.keys").read_bytes()[FIRST_RECORD:]
        store.rotate_master_key()
        assert (tmp_path / "store.keys").read_bytes()[FIRST_RECORD:] == records
        assert other.get_or_create("acme", MANY[:50]) == keys
        assert person(other, ALICE) == person(store, ALICE)
    assert all(old.strip() not in data for data in files(tmp_path).values())
    with FileKeyStore(tmp_path) as store:
        assert store.get_or_create("acme", MANY[:50]) == keys
    (tmp_path / "master.key").write_bytes(old)
    assert opening_code(tmp_path) == "wrong_master_key"


def test_a_copy_of_the_key_file_is_a_backup(tmp_path: Path) -> None:
    """The copied file with the master key gives every key; the index beside it may be newer."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:50])
        gone = person(store, ALICE)
        shutil.copy(tmp_path / "store.keys", tmp_path / "backup")
        store.destroy(gone.key_id)
        store.get_or_create("acme", MANY[50:90])
    os.replace(tmp_path / "backup", tmp_path / "store.keys")
    with FileKeyStore(tmp_path) as store:
        assert store.get_or_create("acme", MANY[:50]) == keys
        assert store.find("acme", ALICE) == gone
        assert store.find("acme", MANY[60]) is None
        assert person(store, MANY[60]) != keys[0]


def test_a_replaced_key_file_is_noticed(tmp_path: Path) -> None:
    """A store that is open when its file is replaced reads the new file before it writes."""
    with FileKeyStore(tmp_path) as store:
        alice = person(store, ALICE)
        shutil.copy(tmp_path / "store.keys", tmp_path / "backup")
        bob = person(store, BOB)
        os.replace(tmp_path / "backup", tmp_path / "store.keys")
        person(store, MANY[0])
        assert person(store, ALICE) == alice
        assert person(store, BOB) != bob


@pytest.mark.parametrize("count", [1, 395, 397, 1500])
def test_the_index_grows_with_the_store(tmp_path: Path, count: int) -> None:
    """Keys are found at every size of the index, also after reopening."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[: count // 2])
        keys += [person(store, subject) for subject in MANY[count // 2 : count]]
    with FileKeyStore(tmp_path) as store:
        assert store.get_or_create("acme", MANY[:count]) == keys
        assert store.stats() == (count, 0, 0)


def test_a_child_process_may_use_its_parents_store(tmp_path: Path) -> None:
    """After os.fork both sides read and write, even when the parent held the lock meanwhile."""
    with FileKeyStore(tmp_path) as store:
        alice = person(store, ALICE)
        with store._settled():
            pid = os.fork()
            if pid == 0:
                with_exit_code(lambda: in_child(store, alice))
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert store.find("acme", BOB) is not None
        assert store.find("acme", ALICE) is None
        assert store.stats() == (1, 0, 1)


def test_a_lock_that_stays_held_is_an_error(tmp_path: Path) -> None:
    """Whoever waits too long for another writer gets an error instead of waiting for ever."""
    with (
        FileKeyStore(tmp_path) as holder,
        FileKeyStore(tmp_path, lock_timeout=0.05) as store,
        holder._settled(),
    ):
        for waiting in (store, store):
            with pytest.raises(UnavailableError) as caught:
                person(waiting, ALICE)
            assert caught.value.code == "locked"
    assert opening_code(tmp_path) is None


def test_closing_waits_for_a_writer(tmp_path: Path) -> None:
    """A store closed by one thread while others write ends their calls cleanly."""
    store = FileKeyStore(tmp_path)
    made: list[PersonKey] = []
    started = threading.Event()

    def write() -> None:
        with suppress(UnavailableError):
            for subject in MANY:
                made.append(person(store, subject))
                started.set()

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(write) for _ in range(4)]
        started.wait(30)
        store.close()
    assert [future.exception() for future in writing] == [None] * 4
    with FileKeyStore(tmp_path) as again:
        assert [again.find("acme", key.subject) for key in made] == made


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A path below a file gives a typed error that names it."""
    (tmp_path / "file").touch()
    assert opening_code(tmp_path / "file" / "keys") == "key_store_unavailable"


def make(folder: Path, master: Path) -> None:
    """Make a store with one person in it."""
    with FileKeyStore(folder, master_key=master) as store:
        person(store, ALICE)


def in_child(store: FileKeyStore, alice: PersonKey) -> None:
    """What the child of the fork does."""
    assert store.find("acme", ALICE) == alice
    person(store, BOB)
    assert store.destroy(alice.key_id)


def with_exit_code(work: Callable[[], None]) -> None:
    """Run ``work`` and leave the process at once: 0 if it went well."""
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
