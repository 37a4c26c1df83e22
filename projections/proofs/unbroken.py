"""Whether a log is entirely in order, at the speed of hashing: ``verify`` says what is not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
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
PIECE: Final = 2**16
"""Events read as one piece: a power of two, so that their tree is a subtree of the log's."""
Append = tuple[int, int, bytes]
"""First and last index of an append, and its time as PostgreSQL sends it."""


def _array(type_id: int, count: int, size: int) -> tuple[bytes, bytes]:
    """How PostgreSQL begins a list of items of one size, and how the leaf does."""
    items = count * (4 + size)
    if count == 0:
        return pack(">IIII", 12, 0, 0, type_id), pack(">II", 4, 0)
    sent = pack(">IIIIII", 20 + items, 1, 0, type_id, count, 1)
    return sent + pack(">I", size), pack(">II", 4 + items, count) + pack(">I", size)


_ABOUT: Final = [_array(2950, count, 16) for count in range(_MOST_ITEMS)]
_TAGS: Final = [_array(17, count, size) for count in range(_MOST_ITEMS) for size in (16, 32, 33)]


@dataclass(frozen=True, slots=True)
class Piece:
    """
    Successive events of a log in which nothing is wrong by itself.

    Args:
        start: Index of the first.
        size: How many.
        enters: The append of the first one: its first and last index, and its time.
        leaves: The append of the last one.
        subtrees: Of the tree over their leaves.
        within: The same at some of the sizes of the log that fall into the piece.
    """

    start: int
    size: int
    enters: Append
    leaves: Append
    subtrees: list[bytes]
    within: dict[int, list[bytes]]


class Joining:
    """
    Joins pieces, in order, and holds signed roots against the tree over them.

    Args:
        expected: As for ``verify``.
    """

    def __init__(self, expected: Iterator[Expected]) -> None:
        self._expected = expected
        self._next = next(expected, None)
        self._leaves: Append = (-1, -1, b"")
        self.tree, self.sealed, self.compared = MerkleTree(), 0, 0

    def until(self, size: int) -> list[Expected]:
        """The roots over at most so many events that were not asked for before."""
        found = []
        while self._next is not None and self._next.size <= size:
            found.append(self._next)
            self._next = next(self._expected, None)
        return found

    def add(self, piece: Piece, expected: Iterable[Expected]) -> bool:
        """
        Adds the next piece; whether nothing is wrong.

        Args:
            piece: Begins where the last one ended.
            expected: The roots over no more events than there are then.
        """
        if piece.start != self.tree.size or not (piece.size == 0 or self._fits(piece)):
            return False
        for one in expected:
            if one.size > piece.start + piece.size:
                return False
            if one.size <= piece.start:
                tree = self.tree
            else:
                tree = self.tree.extended(piece.within[one.size], one.size - piece.start)
            if tree.size != one.size or one.root != tree.root():
                return False
            self.sealed, self.compared = one.size, self.compared + 1
        self.tree = self.tree.extended(piece.subtrees, piece.size)
        self._leaves = piece.leaves if piece.size else self._leaves
        return True

    def ends(self, head: int) -> bool:
        """Whether nothing is missing at the end."""
        return self._next is None and head <= self.tree.size == self._leaves[1] + 1

    def _fits(self, piece: Piece) -> bool:
        begins, ends, moment = piece.enters
        first, last, recorded = self._leaves
        if (begins, ends) == (first, last):
            return piece.start <= last and moment == recorded
        return begins == piece.start == last + 1 and moment > recorded


def unbroken(
    rows: Iterable[bytes], head: int, joining: Joining, *, tenant: str, log_id: UUID
) -> bool:
    """
    Whether nothing at all is wrong in a log; False as soon as something may be, which is then
    for ``verify`` to look at. It never calls a log good that ``verify`` would not.

    Args:
        rows: The rows as ``raw_rows`` gives them, to the end of the log.
        head: Events that the log claimed to have before they were read.
        joining: What is known of the rows before these; its tree is then over all.
        tenant: Whose log.
        log_id: Which.
    """
    rows = iter(rows)
    while True:
        start = joining.tree.size
        here = joining.until(start + PIECE)
        sizes = [one.size for one in here]
        piece = read_piece(islice(rows, PIECE), start, sizes, tenant=tenant, log_id=log_id)
        if piece is None or not joining.add(piece, here):
            return False
        if piece.size < PIECE:
            return joining.ends(head)


def read_piece(
    rows: Iterable[bytes], start: int, sizes: Iterable[int], *, tenant: str, log_id: UUID
) -> Piece | None:
    """
    A piece of a log in which nothing at all is wrong; None as soon as something may be.

    Args:
        rows: Its rows as ``raw_rows`` gives them.
        start: Index of the first.
        sizes: For which sizes of the log the subtrees are wanted, smallest first.
        tenant: Whose log.
        log_id: Which.
    """
    try:
        return _read(rows, start, iter(sizes), tenant.encode(), log_id)
    except StructError:
        # A row that ends before its columns do.
        return None


def _read(
    rows: Iterable[bytes], start: int, sizes: Iterator[int], name: bytes, log_id: UUID
) -> Piece | None:
    prefix = pack(">I", len(name)) + name + pack(">I", 16) + log_id.bytes
    place_at, tree, within = len(prefix), MerkleTree(), dict[int, list[bytes]]()
    append, hashed = tree.append, sha256
    enters: Append | None = None
    first = last = -1
    recorded, moment = b"", b""
    wanted = next((size for size in sizes if size > start), -1)
    for index, row in enumerate(rows, start):
        (size,) = _LENGTH(row, 2)
        at = 6 + size
        if row[:2] != _COUNT or size == 0xFFFFFFFF:
            return None
        state, leaf, moment = row[6:at], row[at + 4 : at + 36], row[at + 40 : at + 48]
        (size,) = _LENGTH(row, at + 48)
        body = row[at + 52 + size :]
        if row[at + 52 : at + 52 + size] not in _TOPICS or not body.startswith(prefix):
            return None
        eight, place, _, _, begins, _, ends = _PLACE(body, place_at)
        if eight != 8 or place != index:
            return None
        if begins != first or ends != last:
            if enters is None:
                # Whether it fits to what comes before is seen when pieces are joined.
                enters = begins, ends, moment
                if not begins <= index <= ends:
                    return None
            elif begins != index or index != last + 1 or ends < index or moment <= recorded:
                return None
            first, last, recorded = begins, ends, moment
        elif index > last or moment != recorded:
            return None
        if body[-6:] != _VERSION or hashed(state).digest() != body[-38:-6]:
            return None
        if hashed(_LEAF + _as_leaf(body)).digest() != leaf:
            return None
        append(leaf)
        if index + 1 == wanted:
            within[wanted] = tree.subtrees()
            wanted = next((size for size in sizes if size > wanted), -1)
    leaves = first, last, recorded
    return Piece(start, tree.size, enters or leaves, leaves, tree.subtrees(), within)


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
