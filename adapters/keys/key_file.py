"""
The file of keys: a header, two commit blocks and records, all of it below one secret.

    0      8 B ``MEMOKEYS``, u16 version, 2 B zero, 16 B store id, u32 CRC-32 of these 28 bytes
    4096   commit block of even sequence
    8192   commit block of odd sequence
    12288  records, one after another, each at a multiple of 64

A record is written behind the end and synced before a commit block moves the end. After a
crash the file is longer than the end says: whole records are taken in (their tag proves them),
a torn rest is overwritten with zeros and cut off. Because the synced records prove themselves,
the commit block needs no sync of its own.
"""

import itertools
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from memoriale.adapters.keys import records
from memoriale.adapters.keys.commit_block import (
    BLOCK_BYTES,
    Commit,
    read_proven,
    read_unproven,
)
from memoriale.adapters.keys.disk import DiskFile, publish
from memoriale.adapters.keys.records import DamagedRecordError, DestroyedKey, Kind, StoredKey
from memoriale.adapters.keys.store_secret import StoreSecret, master_id
from memoriale.domain.errors import UnavailableError

VERSION: Final = 1
BLOCK_PLACES: Final = (4096, 8192)
FIRST_RECORD: Final = 12288
_HEADER = struct.Struct(">8sH2x16s")
_CHECK = struct.Struct(">I")
_MAGIC = b"MEMOKEYS"
_FIRST_READ = 256
_WALK_BYTES = 1 << 20


class _Found(NamedTuple):
    offset: int
    length: int
    """0 when the bytes state no possible length."""
    record: StoredKey | DestroyedKey | None
    """None when the bytes are no whole record."""


class KeyFile:
    """An open key file. Whatever writes must hold the store's lock."""

    def __init__(self, disk: DiskFile, secret: StoreSecret) -> None:
        self.path = disk.path
        self.secret = secret
        self._disk = disk
        self._seen: tuple[bytes, Commit] | None = None

    @classmethod
    def create(cls, path: Path, master: bytes) -> None:
        """Make an empty key file; it is there whole or not at all."""
        store_id, secret = uuid4(), os.urandom(32)
        keys = StoreSecret.derive(secret, store_id)
        wrapped = aes_key_wrap(master, secret)
        first = Commit(0, FIRST_RECORD, 0, 0, 0, 0, master_id(master), wrapped)
        header = _HEADER.pack(_MAGIC, VERSION, store_id.bytes)
        data = bytearray(FIRST_RECORD)
        data[: _HEADER.size + _CHECK.size] = header + _CHECK.pack(zlib.crc32(header))
        for commit, place in zip((first, first.next()), BLOCK_PLACES, strict=True):
            data[place : place + BLOCK_BYTES] = commit.encode(keys)
        publish(path, bytes(data))

    @classmethod
    def open(cls, path: Path, masters: Sequence[bytes]) -> Self:
        """
        Open an existing key file.

        Args:
            path: The file.
            masters: The master keys that may have wrapped the store's secret.

        Raises:
            UnavailableError: No such file, a file of another version (code
                ``unknown_key_file_version``), damaged (``damaged_key_file``), or wrapped by
                another key (``wrong_master_key``).
        """
        disk = DiskFile(path)
        store_id = _read_header(path, disk.read(_HEADER.size + _CHECK.size, 0))
        secret = _unwrap_secret(path, _read_blocks(disk), masters)
        return cls(disk, StoreSecret.derive(secret, store_id))

    def is_at_path(self) -> bool:
        """Say whether this is still the file at its path."""
        return self._disk.is_at_path()

    def latest(self) -> Commit:
        """Return the published state; without the lock it may be a moment old."""
        blocks = _read_blocks(self._disk)
        seen = self._seen
        if seen is not None and seen[0] == blocks:
            return seen[1]
        found = [
            commit for data in _split_blocks(blocks) if (commit := read_proven(self.secret, data))
        ]
        if not found:
            raise damaged(self.path, "both commit blocks were changed")
        latest = max(found, key=lambda commit: commit.sequence)
        self._seen = (blocks, latest)
        return latest

    def commit(self, state: Commit, *, durable: bool = False) -> None:
        """Publish ``state``, which must follow the latest."""
        self._disk.write(state.encode(self.secret), BLOCK_PLACES[state.sequence % 2])
        if durable:
            self._disk.sync()

    def read(self, offset: int) -> StoredKey | DestroyedKey:
        """Return the record at ``offset``; raises ``DamagedRecordError``."""
        data = self._disk.read(_FIRST_READ, offset)
        length = records.stated_length(data)
        if length > len(data):
            data = self._disk.read(length, offset)
        return records.decode(self.secret, data, offset)

    def walk(self, start: int) -> Iterator[StoredKey | DestroyedKey]:
        """Yield the records from ``start`` to the end, but not one that is half destroyed."""
        commit = self.latest()
        for found in self._scan(start, commit.end):
            if found.record is not None:
                yield found.record
            elif not found.length or found.offset != commit.pending:
                raise damaged(self.path, "it was changed or cut off", found.offset)

    def append(self, names: Sequence[tuple[Kind, bytes]]) -> list[StoredKey]:
        """Make a key for each name and return when all of them are on the disk."""
        latest = self.latest()
        made, end = [], latest.end
        for kind, name in names:
            made.append(records.new_key(kind, name, end))
            end += made[-1].length
        data = b"".join(records.encode(self.secret, record) for record in made)
        try:
            self._disk.write(data, latest.end)
            self._disk.sync()
        except UnavailableError:
            self._cut(latest.end)
            raise
        self.commit(_counting(latest, made, end))
        return made

    def take_in_tail(self) -> None:
        """Finish or undo an append that a crash interrupted."""
        latest, size = self.latest(), self._disk.size()
        if size == latest.end:
            return
        if size < latest.end:
            raise damaged(self.path, f"it has {size} bytes and should have {latest.end}")
        tail = self._scan(latest.end, size)
        whole = list(itertools.takewhile(lambda found: found.record is not None, tail))
        end = whole[-1].offset + whole[-1].length if whole else latest.end
        self._cut(end)
        self._disk.sync()
        live = [found.record for found in whole if isinstance(found.record, StoredKey)]
        self.commit(_counting(latest, live, end), durable=True)

    def wipe(self, record: StoredKey | DestroyedKey) -> None:
        """Overwrite a record's key and name in place, durably."""
        self._disk.write(records.encode_destroyed(self.secret, record), record.offset)
        self._disk.sync()

    def wipe_torn(self, offset: int) -> DestroyedKey:
        """Finish overwriting a record of which a crash left a part, and return what remains."""
        try:
            remains = records.remains(self._disk.read(records.MAX_RECORD, offset), offset)
        except DamagedRecordError:
            raise damaged(self.path, "it was changed", offset) from None
        self.wipe(remains)
        return remains

    def rewrap(self, master: bytes) -> None:
        """Wrap the store's secret with another master key, in both commit blocks, durably."""
        wrapped = aes_key_wrap(master, self.secret.secret)
        for _ in BLOCK_PLACES:
            changed = self.latest().next(master_id=master_id(master), wrapped_secret=wrapped)
            self.commit(changed, durable=True)

    def _scan(self, start: int, end: int) -> Iterator[_Found]:
        """Yield every place where a record should be, until its length cannot be told."""
        chunk, base, offset = b"", start, start
        while offset < end:
            if len(chunk) - (offset - base) < records.MAX_RECORD:
                base, chunk = offset, self._disk.read(min(_WALK_BYTES, end - offset), offset)
            found = self._find(chunk[offset - base : offset - base + records.MAX_RECORD], offset)
            yield found
            if not found.length:
                return
            offset += found.length

    def _find(self, data: bytes, offset: int) -> _Found:
        length = records.stated_length(data)
        try:
            return _Found(offset, length, records.decode(self.secret, data, offset))
        except DamagedRecordError:
            return _Found(offset, length, None)

    def _cut(self, end: int) -> None:
        size = self._disk.size()
        if size > end:
            self._disk.write(bytes(size - end), end)
            self._disk.sync()
            self._disk.truncate(end)


def damaged(path: Path, reason: str, offset: int | None = None) -> UnavailableError:
    """Return the error for a key file, or the record at ``offset`` in it, that is not whole."""
    what = f"The key file {path}" if offset is None else f"The record at byte {offset} of {path}"
    return UnavailableError(
        f"{what} is damaged: {reason}. Restore the file from a backup.",
        code="damaged_key_file",
        field="keystore",
        value=str(path) if offset is None else f"{path}:{offset}",
    )


def _counting(latest: Commit, made: Sequence[StoredKey], end: int) -> Commit:
    persons = sum(record.kind is Kind.PERSON for record in made)
    return latest.next(
        end=end,
        persons=latest.persons + persons,
        periods=latest.periods + len(made) - persons,
    )


def _read_blocks(disk: DiskFile) -> bytes:
    """Read both blocks and the gap between them: one system call, asked for often."""
    return disk.read(BLOCK_PLACES[-1] + BLOCK_BYTES - BLOCK_PLACES[0], BLOCK_PLACES[0])


def _split_blocks(blocks: bytes) -> list[bytes]:
    starts = (place - BLOCK_PLACES[0] for place in BLOCK_PLACES)
    return [blocks[start : start + BLOCK_BYTES] for start in starts]


def _read_header(path: Path, data: bytes) -> UUID:
    if len(data) < _HEADER.size + _CHECK.size or not data.startswith(_MAGIC):
        raise damaged(path, "it does not begin like a key file")
    _, version, store_id = _HEADER.unpack_from(data)
    if version != VERSION:
        raise UnavailableError(
            f"{path} is a key file of version {version}; this release reads version {VERSION}. "
            "Use the release that wrote it, or a later one.",
            code="unknown_key_file_version",
            field="keystore",
            value=version,
            allowed=VERSION,
        )
    if _CHECK.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        raise damaged(path, "its header was changed")
    return UUID(bytes=store_id)


def _unwrap_secret(path: Path, blocks: bytes, masters: Sequence[bytes]) -> bytes:
    by_id = {master_id(master): master for master in masters}
    found = [commit for data in _split_blocks(blocks) if (commit := read_unproven(data))]
    if not found:
        raise damaged(path, "both commit blocks are damaged")
    for commit in found:
        master = by_id.get(commit.master_id)
        if master is not None:
            try:
                return aes_key_unwrap(master, commit.wrapped_secret)
            except InvalidUnwrap:
                continue
    if any(commit.master_id in by_id for commit in found):
        raise damaged(path, "its wrapped secret was changed")
    raise UnavailableError(
        f"The master key does not open {path}. Name the one that belongs to it.",
        code="wrong_master_key",
        field="master_key",
    )
