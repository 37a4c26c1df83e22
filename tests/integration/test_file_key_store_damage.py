"""The embedded key store with damaged, lost, cut and exchanged files."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.keys.key_file import BLOCK_PLACES, FIRST_RECORD
from memoriale.domain.errors import UnavailableError
from tests.contracts.key_store import ALICE, BOB, person
from tests.fixtures.key_files import (
    MANY,
    assert_unchanged,
    change,
    files,
    flip,
    opening_code,
    record_place,
)


def test_a_lost_index_is_made_again(tmp_path: Path) -> None:
    """Without the index every key is still found, and no new one is made."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:100])
        store.destroy(keys.pop().key_id)
        (tmp_path / "store.index").unlink()
        assert store.get_or_create("acme", MANY[:99]) == keys
        assert store.find("acme", MANY[99]) is None
        person(store, ALICE)
        assert (tmp_path / "store.index").exists()
    (tmp_path / "store.index").unlink()
    assert_unchanged(tmp_path, keys)


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    """Whichever byte of the index is changed, every key is still found and none is made anew."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:100])
    whole = (tmp_path / "store.index").read_bytes()
    # 509 is prime, so that every part of a bucket of 512 bytes has its turn.
    for place in range(0, len(whole), 509):
        change(tmp_path / "store.index", place, lambda data: bytes([data[0] ^ 0x10]) + data[1:])
        assert_unchanged(tmp_path, keys)
    for damaged in (b"", whole[:-1], whole[:700], bytes(len(whole)), whole + b"x"):
        (tmp_path / "store.index").write_bytes(damaged)
        assert_unchanged(tmp_path, keys)


def test_an_index_of_another_time_is_made_again(tmp_path: Path) -> None:
    """An older index put beside a newer key file hides nobody."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:100])
        shutil.copy(tmp_path / "store.index", tmp_path / "older")
        keys += store.get_or_create("acme", MANY[100:200])
        for key in keys[150:]:
            store.destroy(key.key_id)
    os.replace(tmp_path / "older", tmp_path / "store.index")
    assert_unchanged(tmp_path, keys[:150])


def test_an_index_of_another_store_is_made_again(tmp_path: Path) -> None:
    """An index that belongs to another key file is not used."""
    with FileKeyStore(tmp_path / "one") as store:
        keys = store.get_or_create("acme", MANY[:100])
    with FileKeyStore(tmp_path / "two") as store:
        store.get_or_create("acme", MANY[:100])
    os.replace(tmp_path / "two" / "store.index", tmp_path / "one" / "store.index")
    assert_unchanged(tmp_path / "one", keys)


def test_every_changed_byte_of_a_record_is_noticed(tmp_path: Path) -> None:
    """A person whose record was changed gets an error that names file and record, no fresh key."""
    with FileKeyStore(tmp_path) as store:
        alice = person(store, ALICE)
        person(store, BOB)
        place = record_place(tmp_path, alice.key_id)
        for at in range(place, place + 192):
            change(tmp_path / "store.keys", at, flip)
            with pytest.raises(UnavailableError) as caught:
                person(store, ALICE)
            assert caught.value.code == "damaged_key_file"
            assert caught.value.value == f"{tmp_path / 'store.keys'}:{place}"
            change(tmp_path / "store.keys", at, flip)
        assert person(store, ALICE) == alice


def test_a_damaged_record_harms_nobody_else(tmp_path: Path) -> None:
    """Other persons are found and made while one record is damaged; without index, none is."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", [*MANY[:600], ALICE])
        change(tmp_path / "store.keys", record_place(tmp_path, keys[3].key_id) + 100, flip)
    with FileKeyStore(tmp_path) as store:
        assert store.find("acme", ALICE) == keys[-1]
        assert person(store, BOB)
    (tmp_path / "store.index").unlink()
    assert opening_code(tmp_path) == "damaged_key_file"


@pytest.mark.parametrize("block", [0, 1])
def test_one_damaged_commit_block_is_survived(tmp_path: Path, block: int) -> None:
    """With either commit block changed, every acknowledged key is still there."""
    for made in range(4):
        folder = tmp_path / str(made)
        with FileKeyStore(folder) as store:
            keys = [person(store, subject) for subject in MANY[:made]]
        for at in (0, 10, 30, 60, 100):
            change(folder / "store.keys", BLOCK_PLACES[block] + at, flip)
            assert_unchanged(folder, keys)


def test_two_damaged_commit_blocks_are_noticed(tmp_path: Path) -> None:
    """Without a whole commit block the file is refused and left alone."""
    with FileKeyStore(tmp_path) as store:
        person(store, ALICE)
    for place in BLOCK_PLACES:
        change(tmp_path / "store.keys", place + 20, flip)
    before = files(tmp_path)
    assert opening_code(tmp_path) == "damaged_key_file"
    assert files(tmp_path) == before


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    """Each byte of the header is checked."""
    FileKeyStore(tmp_path).close()
    for at in (0, 7, 10, 12, 27, 28, 31):
        change(tmp_path / "store.keys", at, flip)
        assert opening_code(tmp_path) == "damaged_key_file"
        change(tmp_path / "store.keys", at, flip)
    assert opening_code(tmp_path) is None


def test_the_file_of_another_store_is_refused(tmp_path: Path) -> None:
    """A store whose file is exchanged for another store's says so before it writes."""
    with FileKeyStore(tmp_path / "one") as store:
        FileKeyStore(tmp_path / "two").close()
        os.replace(tmp_path / "two" / "master.key", tmp_path / "one" / "master.key")
        os.replace(tmp_path / "two" / "store.keys", tmp_path / "one" / "store.keys")
        with pytest.raises(UnavailableError) as caught:
            person(store, ALICE)
        assert caught.value.code == "replaced_key_file"


def test_a_full_disk_stores_nothing(tmp_path: Path) -> None:
    """A batch that does not fit leaves no part of itself, and the store goes on afterwards."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:5])
        size = (tmp_path / "store.keys").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300, limits[1]))
        try:
            with pytest.raises(UnavailableError) as caught:
                store.get_or_create("acme", MANY[5:50])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.value.code == "key_store_unavailable"
        assert (tmp_path / "store.keys").stat().st_size == size
        assert store.stats() == (5, 0, 0)
        keys += store.get_or_create("acme", MANY[5:50])
    assert_unchanged(tmp_path, keys)


def test_a_cut_file_is_noticed(tmp_path: Path) -> None:
    """A key file that lost acknowledged records is refused."""
    with FileKeyStore(tmp_path) as store:
        store.get_or_create("acme", MANY[:10])
    with (tmp_path / "store.keys").open("r+b") as file:
        file.truncate(FIRST_RECORD + 192 * 9)
    assert opening_code(tmp_path) == "damaged_key_file"


@pytest.mark.parametrize("kept", [0, 1, 79, 191])
def test_a_torn_tail_is_overwritten(tmp_path: Path, kept: int) -> None:
    """The beginning of a record behind the end is cut off, and its place is used again."""
    with FileKeyStore(tmp_path) as store:
        keys = store.get_or_create("acme", MANY[:2])
    path = tmp_path / "store.keys"
    whole = path.read_bytes()
    torn = whole[FIRST_RECORD : FIRST_RECORD + kept] + b"\x99" * 50
    path.write_bytes(whole + torn)
    with FileKeyStore(tmp_path) as store:
        assert store.get_or_create("acme", MANY[:2]) == keys
        assert path.stat().st_size == len(whole)
        keys.append(person(store, ALICE))
    assert path.stat().st_size == len(whole) + 192
    assert_unchanged(tmp_path, keys)
