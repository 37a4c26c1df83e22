"""The embedded key store: one file of keys in a private folder, with an index beside it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from uuid import UUID

from memoriale.adapters.keys.disk import disk_errors, make_folder
from memoriale.adapters.keys.indexed_file import IndexedKeyFile, Query
from memoriale.adapters.keys.key_file import KeyFile
from memoriale.adapters.keys.master_key import MasterKeyFile
from memoriale.adapters.keys.process_lock import ProcessLock
from memoriale.adapters.keys.records import Kind, StoredKey
from memoriale.adapters.keys.store_secret import master_id
from memoriale.domain.errors import UnavailableError
from memoriale.domain.keys import (
    KeyStoreStats,
    PeriodKey,
    PersonKey,
    Subject,
    name_parts,
    period_name,
    person_name,
)


class FileKeyStore:
    """
    A ``KeyStore`` in a folder (0700) of files (0600):

    - ``store.keys``: every key, wrapped, and every outside name, encrypted. Destroying a key
      overwrites both in place and syncs. A copy of this file is a backup, also when it is taken
      while the store is in use; it needs the master key to be read, and it keeps what is
      destroyed later. Stop every process before putting a copy back.
    - ``store.index``: finds records; made again when it is missing, damaged or of another time.
    - ``master.key``: 32 random bytes in hexadecimal, made with the store.
    - ``lock``: held by the process that writes.

    Overwriting in place reaches the old bytes on file systems that write in place, such as ext4
    and XFS. Btrfs, ZFS, snapshots and the spare blocks of flash drives may keep older versions,
    there the disk itself must be encrypted.

    Args:
        folder: Where; made, with its parents, when it does not exist.
        master_key: File of the master key; default ``master.key`` in ``folder``. It is made
            together with a new store; its folder must exist.
        lock_timeout: Seconds to wait for another process or thread that writes.

    Raises:
        UnavailableError: The files cannot be used, and the code says why:
            ``missing_key_file``, ``missing_master_key``, ``bad_master_key``,
            ``wrong_master_key``, ``unknown_key_file_version``, ``damaged_key_file``,
            ``replaced_key_file``, ``locked``, ``key_store_unavailable``; ``closed`` after
            ``close``.
    """

    def __init__(
        self, folder: Path, *, master_key: Path | None = None, lock_timeout: float = 60.0
    ) -> None:
        make_folder(folder)
        self._path = folder / "store.keys"
        self._index_path = folder / "store.index"
        self._master = MasterKeyFile(master_key or folder / "master.key")
        self._lock = ProcessLock(folder / "lock", timeout=lock_timeout)
        self._keys: IndexedKeyFile | None = None
        self._closed = False
        with self._settled():
            pass

    def get_or_create(self, tenant: str, subjects: Sequence[Subject]) -> list[PersonKey]:
        """See ``KeyStore.get_or_create``."""
        names = {subject: person_name(tenant, subject) for subject in subjects}
        found = self._get_or_create(Kind.PERSON, list(names.values()))
        by_subject = {
            subject: _person(tenant, subject, record)
            for subject, record in zip(names, found, strict=True)
        }
        return [by_subject[subject] for subject in subjects]

    def find(self, tenant: str, subject: Subject) -> PersonKey | None:
        """See ``KeyStore.find``."""
        record = self._find(Kind.PERSON, person_name(tenant, subject))
        return _person(tenant, subject, record) if record else None

    def period(self, tenant: str, retention_class: str, period: str) -> PeriodKey:
        """See ``KeyStore.period``."""
        name = period_name(tenant, retention_class, period)
        (record,) = self._get_or_create(Kind.PERIOD, [name])
        return PeriodKey(tenant, retention_class, period, record.key_id, record.key)

    def find_period(self, tenant: str, retention_class: str, period: str) -> PeriodKey | None:
        """See ``KeyStore.find_period``."""
        record = self._find(Kind.PERIOD, period_name(tenant, retention_class, period))
        if record is None:
            return None
        return PeriodKey(tenant, retention_class, period, record.key_id, record.key)

    def get_many(self, key_ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """See ``KeyStore.get_many``."""
        found = self._look_up([Query.key_id(key_id) for key_id in dict.fromkeys(key_ids)])
        return {record.key_id: record.key for record in found if record}

    def names(self, tenant: str, pseudonyms: Sequence[UUID]) -> dict[UUID, Subject]:
        """See ``KeyStore.names``."""
        queries = [Query.pseudonym(pseudonym.bytes) for pseudonym in dict.fromkeys(pseudonyms)]
        names = {}
        for record in self._look_up(queries):
            if record is not None:
                owner, kind, outside_id = name_parts(record.name)
                if owner == tenant:
                    names[UUID(bytes=record.pseudonym)] = Subject(kind, outside_id)
        return names

    def destroy(self, key_id: bytes) -> bool:
        """See ``KeyStore.destroy``."""
        with self._settled() as keys:
            return keys.destroy(key_id)

    def rotate_master_key(self) -> None:
        """
        Replace the master key by a fresh random one. No data key, tag or sealed byte changes.

        The old key is overwritten in its file, so no other store may use that file. After a
        crash at any moment the next opening finishes the rotation or takes it back.
        """
        with self._settled() as keys:
            successor = self._master.write_successor()
            keys.file.rewrap(successor)
            self._master.adopt(successor)

    def generation(self) -> int:
        """See ``KeyStore.generation``."""
        return self._open_keys().file.latest().destroyed

    def stats(self) -> KeyStoreStats:
        """See ``KeyStore.stats``."""
        latest = self._open_keys().file.latest()
        return KeyStoreStats(latest.persons, latest.periods, latest.destroyed)

    @property
    def store_id(self) -> UUID:
        """Random id of the store, in its files since it was made."""
        return self._open_keys().file.secret.store_id

    def close(self) -> None:
        """See ``KeyStore.close``."""
        self._closed = True
        self._keys = None
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _get_or_create(self, kind: Kind, names: Sequence[bytes]) -> list[StoredKey]:
        keys = self._open_keys()
        queries = [Query.name(keys.file.secret, kind, name) for name in names]
        found = {query.value: keys.look_up_unlocked(query) for query in queries}
        if None in found.values():
            with self._settled() as keys:
                for query in queries:
                    found[query.value] = found[query.value] or keys.look_up(query)
                missing = [(kind, name) for name, record in found.items() if record is None]
                if missing:
                    found.update((record.name, record) for record in keys.append(missing))
        return [record for name in names if (record := found[name])]

    def _find(self, kind: Kind, name: bytes) -> StoredKey | None:
        (record,) = self._look_up([Query.name(self._open_keys().file.secret, kind, name)])
        return record

    def _look_up(self, queries: Sequence[Query]) -> list[StoredKey | None]:
        keys = self._open_keys()
        found = [keys.look_up_unlocked(query) for query in queries]
        if None in found:
            with self._settled() as keys:
                return [
                    record or keys.look_up(query)
                    for query, record in zip(queries, found, strict=True)
                ]
        return found

    def _open_keys(self) -> IndexedKeyFile:
        keys = self._keys
        if keys is None:
            raise UnavailableError("The key store is closed. Open it again.", code="closed")
        return keys

    @contextmanager
    def _settled(self) -> Iterator[IndexedKeyFile]:
        """Hold the lock, with nothing left over from a crash."""
        with self._lock.held():
            if self._closed:
                self._open_keys()
            keys = self._keys
            if keys is None or not keys.file.is_at_path():
                keys = self._reopen(keys)
            keys.settle()
            self._keys = keys
            yield keys

    def _reopen(self, before: IndexedKeyFile | None) -> IndexedKeyFile:
        keys = self._open(create=before is None)
        if before and before.file.secret.store_id != keys.file.secret.store_id:
            raise UnavailableError(
                f"{self._path} was replaced by the file of another store. Open the store again.",
                code="replaced_key_file",
                field="keystore",
                value=str(self._path),
            )
        return keys

    def _open(self, *, create: bool) -> IndexedKeyFile:
        with disk_errors(self._path):
            exists, was_there = self._path.exists(), self._index_path.exists()
        if not exists:
            if was_there or not create:
                raise UnavailableError(
                    f"The key file {self._path} is gone, and without it nothing that was sealed "
                    "can be read. Restore it from a backup.",
                    code="missing_key_file",
                    field="keystore",
                    value=str(self._path),
                )
            KeyFile.create(self._path, self._master.read_or_create())
        current, successor = self._master.read(), self._master.read_successor()
        file = KeyFile.open(self._path, [current, *([successor] if successor else [])])
        self._finish_rotation(file, successor)
        return IndexedKeyFile(file, self._index_path)

    def _finish_rotation(self, file: KeyFile, successor: bytes | None) -> None:
        if successor and file.latest().master_id == master_id(successor):
            file.rewrap(successor)
            self._master.adopt(successor)
        else:
            self._master.drop_successor()


def _person(tenant: str, subject: Subject, record: StoredKey) -> PersonKey:
    return PersonKey(tenant, subject, UUID(bytes=record.pseudonym), record.key_id, record.key)
