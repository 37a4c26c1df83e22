"""The versions of one partition in memory: filters, words and vectors as arrays."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from memoriale.domain.leaf import microseconds
from memoriale.projections.recall.schema import COLUMNS, PASSAGES, VECTOR

READ: Final = (*COLUMNS, PASSAGES, VECTOR)
"""Columns that a shelf is made from."""
NEVER: Final = 2**62
"""An end that is not given, in microseconds."""
_INTEGERS: Final = ("key", "recorded_from", "recorded_until", "first_index")
_CODED: Final = (
    *("memory_id", "branch", "status", "kind", "owner_type", "principal_user", "namespace"),
    *("speaker", "role", "conversation"),
)


class Shelf:
    """
    Rows of one partition in the order in which they were put, as columns of numpy arrays.

    Texts that are compared are coded as small integers, the same code for equal texts of a
    column and 0 for none. ``passages`` gives for each passage the place of its row.

    Args:
        width: Components of a vector.
    """

    def __init__(self, width: int) -> None:
        import numpy

        self.width = width
        self.position = 0
        self.rows: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _CODED}
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._arrays: dict[str, Any] = {}
        self._posted: dict[str, tuple[Any, Any]] = {}
        self._lengths: list[int] = []
        self._passage_rows: list[int] = []
        self._vectors: list[Any] = []
        self._matrix = numpy.zeros((0, width), dtype=numpy.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, table: Any) -> None:
        """
        Adds rows and replaces what has changed of those that are there: only the end of a
        version ever does.

        Args:
            table: An Arrow table with the columns ``READ``.
        """
        vectors = _vectors(table, self.width)
        rows = table.drop_columns([VECTOR, PASSAGES]).to_pylist()
        order = sorted(range(len(rows)), key=lambda place: rows[place]["key"])
        for place in order:
            known = self._places.get(rows[place]["key"])
            if known is not None:
                self.rows[known]["recorded_until"] = rows[place]["recorded_until"]
            else:
                self._add(rows[place], vectors[place])
        self._arrays.clear()

    def array(self, name: str) -> Any:
        """A column: integers and times in microseconds as they are, texts as their codes."""
        if name not in self._arrays:
            self._arrays[name] = self._made(name)
        return self._arrays[name]

    def code(self, column: str, text: str | None) -> int:
        """The code of a text in a column; -1 for one that no row has."""
        return 0 if text is None else self._codes[column].get(text, -1)

    def texts(self, column: str) -> dict[str, int]:
        """Every text of a coded column, with its code."""
        return self._codes[column]

    def vocabulary(self) -> Iterable[str]:
        """Every word of every passage."""
        return self._postings

    def posting(self, word: str) -> tuple[Any, Any]:
        """The passages that hold a word, and how often each does."""
        import numpy

        if word not in self._posted:
            found = numpy.array(self._postings.get(word, ()), dtype=numpy.int64).reshape(-1, 2)
            self._posted[word] = (found[:, 0], found[:, 1])
        return self._posted[word]

    @property
    def passages(self) -> Any:
        """For each passage the place of its row."""
        return self.array("passages")

    @property
    def lengths(self) -> Any:
        """For each passage its number of words."""
        return self.array("lengths")

    @property
    def vectors(self) -> Any:
        """For each passage its vector of length 1; zeros where it has none."""
        import numpy

        if self._vectors:
            self._matrix = numpy.concatenate([self._matrix, *self._vectors])
            self._vectors = []
        return self._matrix

    @property
    def with_vector(self) -> Any:
        """Which passages have a vector, as a mask."""
        if "with_vector" not in self._arrays:
            self._arrays["with_vector"] = self.vectors.any(axis=1)
        return self._arrays["with_vector"]

    def _add(self, row: dict[str, Any], vectors: Any) -> None:
        place = len(self.rows)
        self._places[row["key"]] = place
        row["conversation"] = conversation(row)
        for name in _CODED:
            if row[name] is not None:
                codes = self._codes[name]
                codes.setdefault(row[name], len(codes) + 1)
        lines = (row.pop("search_text") or "").split("\n")
        self.rows.append(row)
        for line in lines:
            self._add_passage(place, line.split())
        self._vectors.append(_fitted(vectors, len(lines), self.width))

    def _add_passage(self, place: int, words: list[str]) -> None:
        passage = len(self._lengths)
        self._passage_rows.append(place)
        self._lengths.append(len(words))
        for word, count in Counter(words).items():
            self._postings.setdefault(word, []).append((passage, count))
            self._posted.pop(word, None)

    def _made(self, name: str) -> Any:
        import numpy

        if name == "passages":
            return numpy.array(self._passage_rows, dtype=numpy.int64)
        if name == "lengths":
            return numpy.array(self._lengths, dtype=numpy.float64)
        if name in _INTEGERS:
            return numpy.array([row[name] for row in self.rows], dtype=numpy.int64)
        if name in _CODED:
            codes = self._codes[name]
            values = [0 if row[name] is None else codes[row[name]] for row in self.rows]
            return numpy.array(values, dtype=numpy.int64)
        if name == "continues":
            return numpy.array([row[name] is not None for row in self.rows], dtype=bool)
        missing = -NEVER if name == "valid_from" else NEVER
        times = [missing if row[name] is None else microseconds(row[name]) for row in self.rows]
        return numpy.array(times, dtype=numpy.int64)


def conversation(row: dict[str, Any]) -> str | None:
    """
    Which conversation a row is a turn of: the owner's rows of one session that somebody said;
    None for a row that is none.
    """
    session = row["principal_session"]
    said = row["speaker"] is not None or row["role"] is not None
    return f"{row['owner']}/{row['branch']}/{session}" if session and said else None


def moment(time: datetime) -> int:
    """An aware time in the unit of a shelf's time columns."""
    return microseconds(time)


def _vectors(table: Any, width: int) -> list[Any]:
    """For each row the vectors of its passages [passages, width], or None."""
    import numpy

    from memoriale.projections.recall.view import vector_rows

    found: list[Any] = []
    for single, several in zip(vector_rows(table), table[PASSAGES].to_pylist(), strict=True):
        if several is not None:
            found.append(numpy.array(several, dtype=numpy.float32).reshape(-1, width))
        else:
            found.append(None if single is None else single.reshape(1, width))
    return found


def _fitted(vectors: Any, passages: int, width: int) -> Any:
    """Vectors of length 1, as many as passages; zeros when a row has none."""
    import numpy

    if vectors is None or len(vectors) != passages:
        return numpy.zeros((passages, width), dtype=numpy.float32)
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return (vectors / lengths).astype(numpy.float32)
