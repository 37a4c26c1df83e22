"""Whether a log is entirely in order, at the speed of hashing: ``verify`` says what is not."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct, pack
from struct import error as StructError
from typing import Final
from uuid import UUID

from memoriale.domain.leaf import LEAF_DOMAIN
from memoriale.domain.record import COLUMNS, LEAF_VERSION
from memoriale.domain.topics import KNOWN_TOPICS
from memoriale.projections.proofs.merkle import MerkleTree
from memoriale.projections.proofs.verify import Expected

_COUNT: Final = pack(">H", len(COLUMNS) + 2)
_LEAF: Final = b"\x00" + pack(">I", len(LEAF_DOMAIN)) + LEAF_DOMAIN
_VERSION: Final = pack(">Ih", 2, LEAF_VERSION)
_LENGTH: Final = Struct(">I").unpack_from
_PLACE: Final = Struct(">Iq20sIqIq").unpack_from
_TOPICS: Final = frozenset(topic.encode() for topic in KNOWN_TOPICS)
_MOST_ITEMS: Final = 4


def _array(type_id: int, count: int, size: int) -> tuple[bytes, bytes]:
    """How PostgreSQL begins a list of items of one size, and how the leaf does."""
    items = count * (4 + size)
    if count == 0:
        return pack(">IIII", 12, 0, 0, type_id), pack(">II", 4, 0)
    sent = pack(">IIIIII", 20 + items, 1, 0, type_id, count, 1)
    return sent + pack(">I", size), pack(">II", 4 + items, count) + pack(">I", size)


_ABOUT: Final = [_array(2950, count, 16) for count in range(_MOST_ITEMS)]
_TAGS: Final = [_array(17, count, size) for count in range(_MOST_ITEMS) for size in (16, 32, 33)]


def unbroken(
    rows: Iterable[bytes],
    head: int,
    *,
    tenant: str,
    log_id: UUID,
    expected: Iterator[Expected],
) -> tuple[MerkleTree, int, int] | None:
    """
    The tree of a log in which nothing at all is wrong; None as soon as something may be, which
    is then for ``verify`` to look at. It never calls a log good that ``verify`` would not.

    Args:
        rows: Every row as ``raw_rows`` gives them.
        head: Events that the log claimed to have before they were read.
        tenant: Whose log.
        log_id: Which.
        expected: As for ``verify``.

    Returns:
        The tree, the largest size whose root was as it was signed, and how many were.
    """
    try:
        return _read(rows, head, tenant.encode(), log_id, expected)
    except StructError:
        # A row that ends before its columns do.
        return None


def _read(
    rows: Iterable[bytes], head: int, name: bytes, log_id: UUID, expected: Iterator[Expected]
) -> tuple[MerkleTree, int, int] | None:
    prefix = pack(">I", len(name)) + name + pack(">I", 16) + log_id.bytes
    start, tree = len(prefix), MerkleTree()
    append, hashed = tree.append, sha256
    first = last = -1
    recorded, moment = b"", b""
    pending, sealed, compared = next(expected, None), 0, 0
    while pending is not None and pending.size == 0:
        if pending.root != tree.root():
            return None
        compared += 1
        pending = next(expected, None)
    for index, row in enumerate(rows):
        (size,) = _LENGTH(row, 2)
        at = 6 + size
        if row[:2] != _COUNT or size == 0xFFFFFFFF:
            return None
        state, leaf, moment = row[6:at], row[at + 4 : at + 36], row[at + 40 : at + 48]
        (size,) = _LENGTH(row, at + 48)
        body = row[at + 52 + size :]
        if row[at + 52 : at + 52 + size] not in _TOPICS or not body.startswith(prefix):
            return None
        eight, place, _, _, begins, _, ends = _PLACE(body, start)
        if eight != 8 or place != index:
            return None
        if begins != first or ends != last:
            if begins != index or index != last + 1 or ends < index or moment <= recorded:
                return None
            first, last, recorded = begins, ends, moment
        elif index > last or moment != recorded:
            return None
        if body[-6:] != _VERSION or hashed(state).digest() != body[-38:-6]:
            return None
        if hashed(_LEAF + _as_leaf(body)).digest() != leaf:
            return None
        append(leaf)
        while pending is not None and pending.size == index + 1:
            if pending.root != tree.root():
                return None
            sealed, compared = pending.size, compared + 1
            pending = next(expected, None)
    if pending is not None or tree.size < head or last != tree.size - 1:
        return None
    return tree, sealed, compared


def _as_leaf(body: bytes) -> bytes:
    """
    The columns as the leaf has them: all but lists are sent alike. A list that is not among the
    usual ones, or bytes before it that look like one, give another hash and are left to
    ``verify``.
    """
    for sent, wanted in _ABOUT:
        if sent in body:
            body = body.replace(sent, wanted, 1)
            break
    for sent, wanted in _TAGS:
        if sent in body:
            return body.replace(sent, wanted, 1)
    return body
