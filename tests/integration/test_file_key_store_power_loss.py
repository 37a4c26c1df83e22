"""The embedded key store after a loss of power, when only what was synced is surely on the disk."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import PersonKey, Subject
from tests.contracts.key_store import person

SECTOR = 512
MANY = [Subject("user", f"user-{number}") for number in range(900)]
Write = tuple[int, bytes | None]
"""Place and bytes, or a new length and None."""


class Disk:
    """
    Watches a folder and can say what a loss of power would have left of it.

    A write that was not synced is there or not, sector by sector, in any combination. Names
    made, replaced or removed since the folder was synced may be lost from the last backwards.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.names: dict[str, int] = {}
        self.named: list[dict[str, int]] = []
        self.safe: dict[int, bytes] = {}
        self.unsafe: dict[int, list[Write]] = {}
        for path in folder.iterdir():
            inode = path.stat().st_ino
            self.names[path.name] = inode
            self.safe[inode] = path.read_bytes()
        self.changed: Callable[[], None] = lambda: None
        for name in ("pwrite", "ftruncate", "fdatasync", "fsync", "replace", "unlink", "open"):
            patch.setattr(os, name, self._watching(getattr(self, f"_{name}"), getattr(os, name)))

    def left_over(self, chance: random.Random) -> dict[str, bytes]:
        """Return the files as they might be after a loss of power now."""
        names = chance.choice([self.names, *self.named])
        return {name: self._content(inode, chance) for name, inode in names.items()}

    def _content(self, inode: int, chance: random.Random) -> bytes:
        data = bytearray(self.safe.get(inode, b""))
        kept = chance.choice((0.0, 0.5, 0.9, 1.0))
        for place, written in self.unsafe.get(inode, []):
            if written is None:
                if chance.random() < kept:
                    del data[place:]
                    data.extend(bytes(place - len(data)))
                continue
            at = place
            while at < place + len(written):
                end = min((at // SECTOR + 1) * SECTOR, place + len(written))
                if chance.random() < kept:
                    _put(data, at, written[at - place : end - place])
                at = end
        return bytes(data)

    def _watching(self, note: Callable[..., None], call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            note(result, *args)
            self.changed()
            return result

        return watched

    def _pwrite(self, written: int, fd: int, data: bytes, place: int) -> None:
        self.unsafe.setdefault(os.fstat(fd).st_ino, []).append((place, bytes(data[:written])))

    def _ftruncate(self, _: None, fd: int, size: int) -> None:
        self.unsafe.setdefault(os.fstat(fd).st_ino, []).append((size, None))

    def _fdatasync(self, _: None, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        self.safe[inode] = os.pread(fd, 1 << 30, 0)
        self.unsafe.pop(inode, None)

    def _fsync(self, _: None, fd: int) -> None:
        if os.fstat(fd).st_ino == self.folder.stat().st_ino:
            self.names = self.named[-1] if self.named else self.names
            self.named = []

    def _open(self, fd: int, path: Path, flags: int, *_: int) -> None:
        if Path(path).parent == self.folder and flags & os.O_TRUNC:
            inode = os.fstat(fd).st_ino
            self.safe.pop(inode, None)
            self.unsafe.pop(inode, None)
            self._name({Path(path).name: inode})

    def _replace(self, _: None, source: Path, target: Path) -> None:
        inode = target.stat().st_ino
        self._name({target.name: inode}, without=source.name)

    def _unlink(self, _: None, path: Path) -> None:
        self._name({}, without=Path(path).name)

    def _name(self, new: dict[str, int], *, without: str | None = None) -> None:
        names = {**(self.named[-1] if self.named else self.names), **new}
        names.pop(without or "", None)
        self.named.append(names)


@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_keys_survive_a_loss_of_power(tmp_path: Path, seed: int) -> None:
    """Whenever the power goes, keys that were returned are there and destroyed ones are not."""
    chance = random.Random(seed)
    folder, image = tmp_path / "keys", tmp_path / "image"
    alive: dict[Subject, PersonKey] = {}
    gone: list[PersonKey] = []
    looked = 0
    with FileKeyStore(folder) as store:
        for key in store.get_or_create("acme", MANY[:200]):
            alive[key.subject] = key
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(folder, patch)

            def look() -> None:
                nonlocal looked
                if chance.random() < 0.25:
                    looked += 1
                    with pytest.MonkeyPatch.context() as unwatched:
                        unwatch(unwatched)
                        write_files(image, disk.left_over(chance))
                        check(image, alive, gone)

            for _ in range(30):
                disk.changed = look
                made, destroyed = change_something(store, chance, alive)
                disk.changed = lambda: None
                gone += destroyed
                alive.update((key.subject, key) for key in made)
    assert looked > 20


REAL = {
    name: getattr(os, name)
    for name in ("pwrite", "ftruncate", "fdatasync", "fsync", "replace", "unlink", "open")
}


def unwatch(patch: pytest.MonkeyPatch) -> None:
    """Use the real system calls."""
    for name, call in REAL.items():
        patch.setattr(os, name, call)


def change_something(
    store: FileKeyStore, chance: random.Random, alive: dict[Subject, PersonKey]
) -> tuple[list[PersonKey], list[PersonKey]]:
    """Make some persons or destroy one; returns who was made and who was destroyed."""
    if chance.random() < 0.3 and alive:
        # While a key is being destroyed it may be there or not.
        victim = alive.pop(chance.choice(list(alive)))
        store.destroy(victim.key_id)
        return [], [victim]
    size = chance.choice((1, 1, 1, 2, 40))
    return store.get_or_create("acme", chance.sample(MANY, size)), []


def check(folder: Path, alive: dict[Subject, PersonKey], gone: list[PersonKey]) -> None:
    """Open what is left, twice, and see who is there."""
    for _ in range(2):
        with FileKeyStore(folder) as store:
            for subject, key in alive.items():
                assert store.find("acme", subject) == key
            assert store.get_many([key.key_id for key in gone]) == {}
            assert store.names("acme", [key.pseudonym for key in gone]) == {}
            assert person(store, Subject("team", "new"))
            persons = store.stats().persons
            assert len(store.get_or_create("acme", MANY)) == len(MANY)
            assert store.stats().persons == len(MANY) + 1 >= persons


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into an empty folder."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _put(data: bytearray, place: int, piece: bytes) -> None:
    data.extend(bytes(max(0, place + len(piece) - len(data))))
    data[place : place + len(piece)] = piece
