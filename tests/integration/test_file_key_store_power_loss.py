"""The embedded key store after a loss of power, when only what was synced is surely on the disk."""

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.keys.index import Index
from memoriale.adapters.keys.records import StoredKey
from memoriale.domain.keys import PersonKey, Subject

if sys.platform == "darwin":
    pytest.skip("the watched system calls are those of Linux", allow_module_level=True)

SECTOR = 512
MANY = [Subject("user", f"user-{number}") for number in range(450)]
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


class Outage:
    """Looks, now and then, at what a loss of power would leave, and checks it."""

    def __init__(self, folder: Path, image: Path, patch: pytest.MonkeyPatch, seed: int) -> None:
        self.chance = random.Random(seed)
        self.alive: dict[Subject, PersonKey] = {}
        self.gone: list[PersonKey] = []
        self.looked = 0
        self._image = image
        self._disk = Disk(folder, patch)
        self._disk.changed = lambda: self.look(0.12)

    def look(self, probability: float) -> None:
        """Check what is left after a loss of power at this moment, with some probability."""
        if self.chance.random() < probability:
            self.looked += 1
            with pytest.MonkeyPatch.context() as unwatched:
                for name, call in REAL.items():
                    unwatched.setattr(os, name, call)
                write_files(self._image, self._disk.left_over(self.chance))
                check(self._image, self.alive, self.gone)

    def make(self, store: FileKeyStore, subjects: list[Subject]) -> None:
        """Make persons; once they are acknowledged, they must stay."""
        for key in store.get_or_create("acme", subjects):
            self.alive[key.subject] = key
        self.look(0.2)

    def destroy(self, store: FileKeyStore) -> None:
        """Destroy somebody, who is there or not until it is acknowledged, and then is not."""
        victim = self.alive.pop(self.chance.choice(list(self.alive)))
        store.destroy(victim.key_id)
        self.gone.append(victim)
        for _ in range(2):
            self.look(0.9)


@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_changes_survive_a_loss_of_power(tmp_path: Path, seed: int) -> None:
    """Whenever the power goes, keys that were returned are there and destroyed ones are not."""
    folder = tmp_path / "keys"
    with FileKeyStore(folder) as store, pytest.MonkeyPatch.context() as patch:
        outage = Outage(folder, tmp_path / "image", patch, seed)
        outage.make(store, MANY[:200])
        for _ in range(16):
            if outage.chance.random() < 0.3:
                outage.destroy(store)
            else:
                size = outage.chance.choice((1, 1, 1, 2, 60))
                outage.make(store, outage.chance.sample(MANY, size))
    assert outage.looked > 15


@pytest.mark.parametrize("seed", range(4))
def test_power_lost_after_a_kill(tmp_path: Path, seed: int) -> None:
    """A batch that a killed process did not sync may go with the power, never half of it."""
    folder = tmp_path / "keys"
    with FileKeyStore(folder) as store, pytest.MonkeyPatch.context() as patch:
        outage = Outage(folder, tmp_path / "image", patch, seed)
        outage.make(store, MANY[:50])
        with pytest.MonkeyPatch.context() as killing:
            killing.setattr(os, "fdatasync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.get_or_create("acme", MANY[50:80])
        with FileKeyStore(folder) as after:
            outage.make(after, MANY[70:90])
            outage.look(1)
    assert outage.looked > 1


REAL = {
    name: getattr(os, name)
    for name in ("pwrite", "ftruncate", "fdatasync", "fsync", "replace", "unlink", "open")
}


def interrupt(_: int) -> None:
    """Stands for the end of the process."""
    raise KeyboardInterrupt


def check(folder: Path, alive: dict[Subject, PersonKey], gone: list[PersonKey]) -> None:
    """Open what is left, twice, and see who is there and whom the index leads to."""
    for _ in range(2):
        with FileKeyStore(folder) as store:
            assert {subject: store.find("acme", subject) for subject in alive} == alive
            assert store.get_many([key.key_id for key in gone]) == {}
            assert store.names("acme", [key.pseudonym for key in gone]) == {}
            with store._settled() as keys:
                index = Index.open(folder / "store.index", keys.file.secret)
                records = [keys.file.read(offset) for _, offset in index.entries()]
            assert all(isinstance(record, StoredKey) for record in records)
            assert len(store.get_or_create("acme", MANY)) == len(MANY)
            assert store.stats().persons == len(MANY)


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
