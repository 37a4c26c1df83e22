"""
The index of the key file: a hash table on disk that can be made again from the key file.

    0    ``MEMOINDX``, u16 version, 2 B zero, u32 buckets, 16 B store id, u64 entries,
         u64 end of the records covered, u64 end covered that is surely on the disk,
         u64 keys destroyed, u64 place and 16 B key id of the last record covered, 16 B MAC
    512  buckets of 512 bytes: 31 entries of 8 B fingerprint + u64 place of the record
         (0 = free), u64 "some entries went on to the next bucket", 8 B MAC over the bucket's
         number and content

Fingerprints of names are cut HMACs, so names cannot be guessed from the index; those of key ids
and pseudonyms are their first bytes. A fingerprint only proposes a record. A missing one means
"no such person", so every bucket carries a MAC, and the header says which state of the key file
the index covers. Entries that may be lost with the power (everything after the last sync) are
entered again whenever a store is opened.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from memoriale.adapters.keys.disk import DiskFile, building, disk_errors
from memoriale.adapters.keys.store_secret import MAC_BYTES, StoreSecret

FINGERPRINT_BYTES: Final = 8
SLOTS: Final = 31
BUCKET_BYTES: Final = 512
_SMALLEST, _GROWTH, _FILL = 64, 4, 0.6
_VERSION = 1
_MAGIC = b"MEMOINDX"
_HEADER = struct.Struct(">8sH2xI16sQQQQQ16s")
_ENTRY = struct.Struct(f">{FINGERPRINT_BYTES}sQ")
_ENTRIES_BYTES = SLOTS * _ENTRY.size
_BUCKET_MAC_BYTES = 8
_WENT_ON = struct.Struct(">Q")
_NUMBER = struct.Struct(">I")
_FREE = bytes(_ENTRY.size)
_WRITTEN_AT_ONCE = 4096

Entry = tuple[bytes, int]


class DamagedIndexError(Exception):
    """The index is missing, damaged or of another store: it must be made again."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which state of the key file an index covers."""

    entries: int
    through: int
    """End of the records that are entered."""
    durable: int
    """End of the records whose entries a loss of power cannot take away."""
    destroyed: int
    """Number of destroyed keys whose entries are gone."""
    last_offset: int
    """Place of the last record that is entered; 0 when there is none."""
    last_key_id: bytes
    """Its key id: an index is of a key file's own past only if the record there has this id."""


class Index:
    """An open index. Whatever writes must hold the store's lock."""

    def __init__(self, disk: DiskFile, secret: StoreSecret, buckets: int) -> None:
        self._disk = disk
        self._secret = secret
        self.buckets = buckets

    @classmethod
    def open(cls, path: Path, secret: StoreSecret) -> Self:
        """Open an index; raises ``DamagedIndexError``."""
        with disk_errors(path):
            if not path.exists():
                raise DamagedIndexError
        disk = DiskFile(path)
        index = cls(disk, secret, 0)
        index.buckets = index._header()[0]
        if disk.size() != BUCKET_BYTES * (index.buckets + 1):
            raise DamagedIndexError
        return index

    @classmethod
    def build(
        cls,
        path: Path,
        secret: StoreSecret,
        entries: Iterable[Entry],
        expected: int,
        covers: Callable[[int], Coverage],
    ) -> Self:
        """
        Make an index beside the one at ``path`` and let it take its place, durably.

        Args:
            path: Where.
            secret: The store's secret.
            entries: What it holds.
            expected: About how many those are; decides the size.
            covers: Asked in the end, with their number, for what the index covers.
        """
        buckets = _SMALLEST
        while buckets * SLOTS * _FILL < expected:
            buckets *= _GROWTH
        with building(path) as disk:
            index = cls(disk, secret, buckets)
            table = _NewTable(buckets)
            for entry in entries:
                table.insert(*entry)
            for start in range(0, buckets, _WRITTEN_AT_ONCE):
                numbers = range(start, min(start + _WRITTEN_AT_ONCE, buckets))
                data = b"".join(index.sealed(number, table.content(number)) for number in numbers)
                disk.write(data, _place(start))
            index.cover(covers(table.added))
        return index

    def is_at_path(self) -> bool:
        """Say whether this is still the file at its path."""
        return self._disk.is_at_path()

    def coverage(self) -> Coverage:
        """Return which state of the key file is covered; raises ``DamagedIndexError``."""
        return self._header()[1]

    def cover(self, coverage: Coverage) -> None:
        """Say which state of the key file is covered."""
        body = _HEADER.pack(
            _MAGIC,
            _VERSION,
            self.buckets,
            self._secret.store_id.bytes,
            coverage.entries,
            coverage.through,
            coverage.durable,
            coverage.destroyed,
            coverage.last_offset,
            coverage.last_key_id,
        )
        self._disk.write(body + self._secret.index_mac(body), 0)

    def sync(self) -> None:
        """Return when all entries are on the disk."""
        self._disk.sync()

    def has_room(self, more: int) -> bool:
        """Say whether ``more`` entries can be added without making look-ups slow."""
        return self.coverage().entries + more <= self.buckets * SLOTS * _FILL

    def offsets(self, fingerprint: bytes) -> Iterator[int]:
        """Yield the places of records with this fingerprint; raises ``DamagedIndexError``."""
        number = _home(fingerprint, self.buckets)
        for _ in range(self.buckets):
            bucket = self.read_bucket(number)
            at = bucket.find(fingerprint)
            while 0 <= at < _ENTRIES_BYTES:
                if at % _ENTRY.size == 0 and (offset := _ENTRY.unpack_from(bucket, at)[1]):
                    yield offset
                at = bucket.find(fingerprint, at + 1)
            if not _went_on(bucket):
                return
            number = _after(number, self.buckets)

    def insert(self, entries: Iterable[Entry]) -> int:
        """Add entries that are not there yet and return how many."""
        table = _Table(self)
        for fingerprint, offset in entries:
            table.insert(fingerprint, offset)
        table.flush()
        return table.added

    def remove(self, entries: Iterable[Entry]) -> int:
        """Overwrite entries with zeros and return how many were there."""
        table = _Table(self)
        for fingerprint, offset in entries:
            table.remove(fingerprint, offset)
        table.flush()
        return -table.added

    def entries(self) -> Iterator[Entry]:
        """Yield every entry; raises ``DamagedIndexError``."""
        for number in range(self.buckets):
            bucket = self.read_bucket(number)
            for fingerprint, offset in _ENTRY.iter_unpack(bucket[:_ENTRIES_BYTES]):
                if offset:
                    yield fingerprint, offset

    def read_bucket(self, number: int) -> bytes:
        """Return a bucket's content without its MAC; raises ``DamagedIndexError``."""
        data = self._disk.read(BUCKET_BYTES, _place(number))
        content = data[:-_BUCKET_MAC_BYTES]
        if data != self.sealed(number, content):
            raise DamagedIndexError
        return content

    def write_bucket(self, number: int, content: bytes) -> None:
        """Write a bucket's content and its MAC."""
        self._disk.write(self.sealed(number, content), _place(number))

    def sealed(self, number: int, content: bytes) -> bytes:
        """Return a bucket as it stands in the file: its content and its MAC."""
        mac = self._secret.index_mac(_NUMBER.pack(number) + content)
        return content + mac[:_BUCKET_MAC_BYTES]

    def _header(self) -> tuple[int, Coverage]:
        data = self._disk.read(_HEADER.size + MAC_BYTES, 0)
        body = data[: _HEADER.size]
        if data[_HEADER.size :] != self._secret.index_mac(body):
            raise DamagedIndexError
        magic, version, buckets, store_id, *covered = _HEADER.unpack(body)
        if (magic, version, store_id) != (_MAGIC, _VERSION, self._secret.store_id.bytes):
            raise DamagedIndexError
        return buckets, Coverage(*covered)


class _NewTable:
    """All buckets of an index that is being made, in memory."""

    def __init__(self, buckets: int) -> None:
        self._buckets = [bytearray() for _ in range(buckets)]
        self._went_on: set[int] = set()
        self.added = 0

    def insert(self, fingerprint: bytes, offset: int) -> None:
        number = _home(fingerprint, len(self._buckets))
        while len(self._buckets[number]) == _ENTRIES_BYTES:
            self._went_on.add(number)
            number = _after(number, len(self._buckets))
        self._buckets[number] += _ENTRY.pack(fingerprint, offset)
        self.added += 1

    def content(self, number: int) -> bytes:
        return bytes(self._buckets[number]).ljust(_ENTRIES_BYTES, b"\0") + _WENT_ON.pack(
            number in self._went_on
        )


class _Table:
    """The buckets that one change touches, each read and written once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._loaded: dict[int, bytearray] = {}
        self._changed: set[int] = set()
        self.added = 0

    def insert(self, fingerprint: bytes, offset: int) -> None:
        entry = _ENTRY.pack(fingerprint, offset)
        path = self._path(fingerprint)
        if all(_find(self._bucket(number), entry) is None for number in path):
            number, at = self._free_slot(path)
            self._put(number, at, entry)
            self.added += 1

    def remove(self, fingerprint: bytes, offset: int) -> None:
        entry = _ENTRY.pack(fingerprint, offset)
        for number in self._path(fingerprint):
            at = _find(self._bucket(number), entry)
            if at is not None:
                self._put(number, at, _FREE)
                self.added -= 1
                return

    def flush(self) -> None:
        for number in sorted(self._changed):
            self._index.write_bucket(number, bytes(self._bucket(number)))

    def _path(self, fingerprint: bytes) -> list[int]:
        """Return the buckets in which a search for the fingerprint looks."""
        path = [_home(fingerprint, self._index.buckets)]
        while _went_on(self._bucket(path[-1])) and len(path) < self._index.buckets:
            path.append(_after(path[-1], self._index.buckets))
        return path

    def _free_slot(self, path: list[int]) -> tuple[int, int]:
        for number in path:
            at = _find(self._bucket(number), _FREE)
            if at is not None:
                return number, at
        _WENT_ON.pack_into(self._bucket(path[-1]), _ENTRIES_BYTES, 1)
        self._changed.add(path[-1])
        return self._free_slot([_after(path[-1], self._index.buckets)])

    def _put(self, number: int, at: int, entry: bytes) -> None:
        self._bucket(number)[at : at + _ENTRY.size] = entry
        self._changed.add(number)

    def _bucket(self, number: int) -> bytearray:
        bucket = self._loaded.get(number)
        if bucket is None:
            bucket = self._loaded[number] = bytearray(self._index.read_bucket(number))
        return bucket


def _home(fingerprint: bytes, buckets: int) -> int:
    """Return the bucket in which the search for a fingerprint begins."""
    return int.from_bytes(fingerprint, "big") & (buckets - 1)


def _after(number: int, buckets: int) -> int:
    """Return the bucket in which the search goes on."""
    return (number + 1) & (buckets - 1)


def _place(number: int) -> int:
    return BUCKET_BYTES * (number + 1)


def _went_on(bucket: bytes | bytearray) -> bool:
    return bucket[_ENTRIES_BYTES + _WENT_ON.size - 1] != 0


def _find(bucket: bytes | bytearray, entry: bytes) -> int | None:
    at = bucket.find(entry)
    while 0 <= at < _ENTRIES_BYTES:
        if at % _ENTRY.size == 0:
            return at
        at = bucket.find(entry, at + 1)
    return None
