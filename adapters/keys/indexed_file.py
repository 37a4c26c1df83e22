"""The key file and its index, kept in step through crashes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from memoriale.adapters.keys.disk import leftover, remove
from memoriale.adapters.keys.index import (
    FINGERPRINT_BYTES,
    Coverage,
    DamagedIndexError,
    Entry,
    Index,
)
from memoriale.adapters.keys.key_file import FIRST_RECORD, KeyFile, damaged
from memoriale.adapters.keys.records import DamagedRecordError, DestroyedKey, Kind, StoredKey
from memoriale.adapters.keys.store_secret import StoreSecret

# How much of the index may stay unsynced: about 500 records, entered again in 10 ms.
_UNSYNCED_BYTES = 96 * 1024
# An index further behind than this is made again: that needs no list of the records.
_BEHIND_BYTES = 16 * 1024 * 1024


class Query(NamedTuple):
    """What to look for: a fingerprint that proposes records, and what the right one must hold."""

    fingerprint: bytes
    kind: Kind | None
    field: str
    """Field of ``StoredKey``."""
    value: bytes

    @classmethod
    def name(cls, secret: StoreSecret, kind: Kind, name: bytes) -> "Query":
        """Look for an encoded name."""
        return cls(_name_fingerprint(secret, kind, name), kind, "name", name)

    @classmethod
    def key_id(cls, key_id: bytes) -> "Query":
        """Look for the key of a person or period."""
        return cls(key_id[:FINGERPRINT_BYTES], None, "key_id", key_id)

    @classmethod
    def pseudonym(cls, pseudonym: bytes) -> "Query":
        """Look for a person by pseudonym."""
        return cls(pseudonym[:FINGERPRINT_BYTES], Kind.PERSON, "pseudonym", pseudonym)

    def matches(self, record: StoredKey | DestroyedKey) -> bool:
        """Say whether a live record is the one."""
        return (
            isinstance(record, StoredKey)
            and self.kind in (None, record.kind)
            and getattr(record, self.field) == self.value
        )


class IndexedKeyFile:
    """
    Looks keys up without a lock; changes them below the store's lock.

    Without the lock, only a key that is found counts: a miss or damage may be another process
    at work, and is settled below the lock.
    """

    def __init__(self, file: KeyFile, index_path: Path) -> None:
        self.file = file
        self._index_path = index_path
        self._index: Index | None = None

    def look_up_unlocked(self, query: Query) -> StoredKey | None:
        """Return the key if it is found at once."""
        try:
            return self._look_up(query)
        except (DamagedIndexError, DamagedRecordError):
            return None

    def look_up(self, query: Query) -> StoredKey | None:
        """Return the key, or None when there is none."""
        try:
            try:
                return self._look_up(query)
            except DamagedIndexError:
                self._rebuild()
                return self._look_up(query)
        except DamagedRecordError as error:
            raise damaged(self.file.path, "it was changed", error.offset) from None

    def append(self, names: Sequence[tuple[Kind, bytes]]) -> list[StoredKey]:
        """Make a key for each name, durably."""
        made = self.file.append(names)
        try:
            self._enter(made)
        except DamagedIndexError:
            self._rebuild()
        return made

    def destroy(self, key_id: bytes) -> bool:
        """Destroy a key and its name; says whether there was one."""
        record = self.look_up(Query.key_id(key_id))
        if record is None:
            return False
        self.file.commit(self.file.latest().next(pending=record.offset), durable=True)
        self._finish_destroying(record.offset)
        return True

    def settle(self) -> None:
        """Bring what a crash interrupted to an end, and the index up to date."""
        self.file.take_in_tail()
        try:
            self._catch_up()
        except DamagedIndexError:
            self._rebuild()
        pending = self.file.latest().pending
        if pending:
            self._finish_destroying(pending)

    def _look_up(self, query: Query) -> StoredKey | None:
        for offset in self._open_index().offsets(query.fingerprint):
            record = self.file.read(offset)
            if isinstance(record, StoredKey) and query.matches(record):
                return record
        return None

    def _finish_destroying(self, offset: int) -> None:
        latest = self.file.latest()
        try:
            record = self.file.read(offset)
            if isinstance(record, StoredKey):
                self._forget(record, latest.destroyed + 1)
                self.file.wipe(record)
        except DamagedRecordError:
            # The index forgot the record before its bytes were touched.
            record = self.file.wipe_torn(offset)
        person = record.kind is Kind.PERSON
        changed = latest.next(
            pending=0,
            persons=latest.persons - person,
            periods=latest.periods - (not person),
            destroyed=latest.destroyed + 1,
        )
        self.file.commit(changed)
        self._cover(destroyed=changed.destroyed)

    def _forget(self, record: StoredKey, destroyed: int) -> None:
        """Take a record's entries off the disk, so that no index leads from a name to it."""
        entries = list(self._entries(record))
        try:
            removed = self._open_index().remove(entries)
        except DamagedIndexError:
            self._rebuild()
            removed = self._open_index().remove(entries)
        index = self._open_index()
        self._cover(entries=index.coverage().entries - removed, destroyed=destroyed)
        index.sync()
        remove(leftover(self._index_path))

    def _cover(self, **changes: Any) -> None:
        index = self._open_index()
        index.cover(replace(index.coverage(), **changes))

    def _catch_up(self) -> None:
        latest = self.file.latest()
        fresh = self._index is None or not self._index.is_at_path()
        if fresh:
            self._index = Index.open(self._index_path, self.file.secret)
        coverage = self._open_index().coverage()
        destroying = latest.destroyed + bool(latest.pending)
        if not latest.destroyed <= coverage.destroyed <= destroying:
            raise DamagedIndexError
        if coverage.through > latest.end or (fresh and not self._is_of_this_past(coverage)):
            raise DamagedIndexError
        start = coverage.durable if fresh else coverage.through
        if latest.end - start > _BEHIND_BYTES:
            raise DamagedIndexError
        if start < latest.end:
            self._enter(list(self.file.walk(start)))

    def _is_of_this_past(self, coverage: Coverage) -> bool:
        if not coverage.last_offset:
            return coverage.through == FIRST_RECORD
        try:
            last = self.file.read(coverage.last_offset)
        except DamagedRecordError as error:
            return error.offset == self.file.latest().pending
        ends = last.offset + last.length == coverage.through
        return ends and last.key_id == coverage.last_key_id

    def _enter(self, records: Sequence[StoredKey | DestroyedKey]) -> None:
        """Add the last records of the file; the index then covers all of it."""
        index, latest = self._open_index(), self.file.latest()
        coverage, last = index.coverage(), records[-1]
        entries = [entry for record in records for entry in self._entries(record)]
        if not index.has_room(len(entries)):
            # A crash may have left some of the new entries in the index already.
            old = (entry for entry in index.entries() if entry[1] < records[0].offset)
            self._build(chain(old, entries), coverage.entries + len(entries), lambda: last)
            return
        added = index.insert(entries)
        durable = coverage.durable
        if latest.end - durable > _UNSYNCED_BYTES:
            index.sync()
            durable = latest.end
        self._cover(
            entries=coverage.entries + added,
            through=latest.end,
            durable=durable,
            last_offset=last.offset,
            last_key_id=last.key_id,
        )

    def _rebuild(self) -> None:
        latest = self.file.latest()
        last: StoredKey | DestroyedKey | None = None

        def entries() -> Iterator[Entry]:
            nonlocal last
            for last in self.file.walk(FIRST_RECORD):
                yield from self._entries(last)

        self._build(entries(), 3 * latest.persons + 2 * latest.periods, lambda: last)

    def _build(
        self,
        entries: Iterable[Entry],
        expected: int,
        last: Callable[[], StoredKey | DestroyedKey | None],
    ) -> None:
        latest = self.file.latest()

        def covers(count: int) -> Coverage:
            record = last()
            place, key_id = (record.offset, record.key_id) if record else (0, bytes(16))
            return Coverage(count, latest.end, latest.end, latest.destroyed, place, key_id)

        secret = self.file.secret
        self._index = Index.build(self._index_path, secret, entries, expected, covers)

    def _open_index(self) -> Index:
        if self._index is None:
            raise DamagedIndexError
        return self._index

    def _entries(self, record: StoredKey | DestroyedKey) -> Iterator[Entry]:
        if isinstance(record, StoredKey):
            name = _name_fingerprint(self.file.secret, record.kind, record.name)
            yield name, record.offset
            yield record.key_id[:FINGERPRINT_BYTES], record.offset
            if record.kind is Kind.PERSON:
                yield record.pseudonym[:FINGERPRINT_BYTES], record.offset


def _name_fingerprint(secret: StoreSecret, kind: Kind, name: bytes) -> bytes:
    return secret.index_mac(bytes((kind,)) + name)[:FINGERPRINT_BYTES]
