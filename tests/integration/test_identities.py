"""Keys of names that a process keeps in memory, and what ends them."""

from pathlib import Path

import pytest

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import PersonKey, Subject

ALICE, BOB = Subject("user", "alice"), Subject("user", "bob")


def test_a_name_that_was_used_is_found_without_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a write looked up is found again in memory; a name that nobody used is asked for."""
    with FileKeyStore(tmp_path / "keys") as store:
        identities, asked = Identities(store, "acme"), list[Subject]()
        key = identities.key(ALICE)
        find = store.find

        def counted(tenant: str, subject: Subject) -> PersonKey | None:
            asked.append(subject)
            return find(tenant, subject)

        monkeypatch.setattr(store, "find", counted)
        assert identities.find(ALICE) == key
        assert identities.find(BOB) is None
        assert identities.find(None) is None
        assert asked == [BOB]


def test_a_key_that_another_process_destroyed_is_not_found_in_memory(tmp_path: Path) -> None:
    """After an erasure by whatever process a name is unknown, and then it is another person."""
    with FileKeyStore(tmp_path / "keys") as store, FileKeyStore(tmp_path / "keys") as other:
        identities = Identities(store, "acme")
        key = identities.key(ALICE)
        assert identities.find(ALICE) == key
        assert other.destroy(key.key_id)
        assert identities.find(ALICE) is None
        assert identities.key(ALICE).pseudonym != key.pseudonym


def test_a_name_that_another_process_made_is_found(tmp_path: Path) -> None:
    """That a name was unknown is not kept."""
    with FileKeyStore(tmp_path / "keys") as store, FileKeyStore(tmp_path / "keys") as other:
        identities = Identities(store, "acme")
        assert identities.find(BOB) is None
        (made,) = other.get_or_create("acme", [BOB])
        assert identities.find(BOB) == made
