"""The versions of one partition as arrays: filters, words and vectors."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoriale.domain.errors import CorruptViewError
from memoriale.domain.leaf import EPOCH, microseconds
from memoriale.projections.recall.growing import Growing, Vectors
from memoriale.projections.recall.postings import Postings
from memoriale.projections.recall.schema import COLUMNS, PASSAGES, VECTOR
from memoriale.projections.recall.scratch import Scratch

READ: Final = (*COLUMNS, PASSAGES, VECTOR)
"""Columns that a shelf is made from."""
NEVER: Final = 2**62
"""An end that is not given, in microseconds."""
_SHOWN: Final = (
    *("key", "memory_id", "text", "source", "metadata", "tags", "importance"),
    *("recorded_at", "created_at", "valid_from", "valid_until", "kind", "branch", "speaker"),
)
"""What is told of a row that is found."""
_INTEGERS: Final = ("key", "recorded_until", "first_index")
_TIMES: Final = {"valid_from": -NEVER, "valid_until": NEVER, "expires_at": NEVER, "created_at": 0}
"""Times, each with what stands for none."""
_CODED: Final = (
    *("branch", "status", "kind", "owner", "owner_type", "principal_user", "principal_agent"),
    *("namespace", "speaker", "role", "conversation"),
)
_UNKNOWN: Final = -1
_MOST_JOINED: Final = 2**24
"""Bytes of shown columns up to which pieces are joined."""


class Shelf:
    """
    Rows of one partition in key order, as columns of numpy arrays.

    Texts that are compared are coded as small integers, the same code for equal texts of a
    column and 0 for none. ``passages`` gives for each passage the place of its row. A place
    stays what it is: rows are only ever put behind the others.

    Args:
        width: Components of a vector.
        scratch: Where what is large goes.
    """

    def __init__(self, width: int, scratch: Scratch) -> None:
        self.width = width
        self.position = 0
        self.vectors = Vectors(width, scratch)
        """For each passage its vector of length 1; zeros where it has none."""
        self.postings = Postings(scratch)
        self._scratch = scratch
        self._integers = {name: Growing("int64") for name in (*_INTEGERS, *_TIMES)}
        self._codes = {name: Growing("int32") for name in (*_CODED, "overridden", "tag")}
        self._names: dict[str, dict[str, int]] = {name: {} for name in self._codes}
        self._importance = Growing("int16")
        self._continues = Growing(bool)
        self._passages = Growing("int32")
        self._tagged = Growing("int32")
        self._shown: list[Any] = []

    def __len__(self) -> int:
        return len(self._continues)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about, without what lies in files."""
        columns = (*self._integers.values(), *self._codes.values(), self._importance)
        columns = (*columns, self._continues, self._passages, self._tagged)
        shown = sum(self._scratch.kept(table) for table in self._shown)
        names = sum(len(names) for names in self._names.values())
        arrays = sum(column.nbytes for column in columns)
        return arrays + shown + 200 * names + self.vectors.nbytes + self.postings.nbytes

    def put(self, table: Any) -> None:
        """
        Adds rows and replaces what has changed of those that are there: only the end of a
        version ever does.

        Args:
            table: An Arrow table with the columns ``READ``.

        Raises:
            CorruptViewError: A row turned up that comes before others that were there.
        """
        import numpy

        if not len(table):
            return
        table = table.sort_by("key")
        keys, known = table["key"].to_numpy(), self.array("key")
        places = numpy.searchsorted(known, keys)
        old = places < len(known)
        old[old] = known[places[old]] == keys[old]
        ends = table["recorded_until"].to_numpy()
        self.array("recorded_until")[places[old]] = ends[old]
        fresh = table.filter(~old)
        if len(fresh) and len(known) and fresh["key"][0].as_py() < known[-1]:
            raise CorruptViewError("a version turned up before others that were there; rebuild.")
        if len(fresh):
            self._add(fresh)

    def array(self, name: str) -> Any:
        """
        A column: integers and times in microseconds as they are, texts as their codes.
        ``overridden`` codes the memories that have a version which hides an inherited one.
        """
        if name in self._integers:
            return self._integers[name].array
        if name == "continues":
            return self._continues.array
        if name == "importance":
            return self._importance.array
        return self._codes[name].array

    def code(self, column: str, text: str | None) -> int:
        """The code of a text in a column; -1 for one that no row has."""
        return 0 if text is None else self._names[column].get(text, _UNKNOWN)

    def texts(self, column: str) -> dict[str, int]:
        """Every text of a coded column, with its code."""
        return self._names[column]

    def tagged(self, tag: str) -> Any:
        """Which rows have a tag, as a mask."""
        import numpy

        mask = numpy.zeros(len(self), dtype=bool)
        mask[self._tagged.array[self._codes["tag"].array == self.code("tag", tag)]] = True
        return mask

    @property
    def passages(self) -> Any:
        """For each passage the place of its row."""
        return self._passages.array

    def rows(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """What is told of some rows."""
        found: dict[int, dict[str, Any]] = {}
        start = 0
        for table in self._shown:
            here = [place for place in places if start <= place < start + len(table)]
            if here:
                rows = table.take([place - start for place in here]).to_pylist()
                found.update(zip(here, rows, strict=True))
            start += len(table)
        return [found[place] for place in places]

    def _add(self, table: Any) -> None:
        import numpy

        start = len(self)
        for name in _INTEGERS:
            self._integers[name].add(table[name].to_numpy())
        for name, missing in _TIMES.items():
            self._integers[name].add(_microseconds(table[name], missing))
        self._importance.add(table["importance"].fill_null(_UNKNOWN).to_numpy())
        table = table.append_column("conversation", conversations(table))
        for name in _CODED:
            self._codes[name].add(self._coded(name, table[name].combine_chunks()))
        self._add_tags(table["tags"], start)
        self._add_passages(table, start)
        self._show(table.select(_SHOWN))
        self._continues.add(table["continues"].is_valid().to_numpy())
        self._override(table)
        assert numpy.all(self.passages[-1:] == len(self) - 1)

    def _coded(self, name: str, column: Any) -> Any:
        """The codes of a column's texts; new texts get new ones."""
        import numpy

        coded = column.dictionary_encode()
        names = self._names[name]
        codes = [names.setdefault(text, len(names) + 1) for text in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(len(codes)).to_numpy()
        return numpy.array([*codes, 0], dtype=numpy.int32)[indices]

    def _add_tags(self, column: Any, start: int) -> None:
        import numpy
        import pyarrow.compute as pc

        column = column.combine_chunks()
        sizes = pc.list_value_length(column).fill_null(0).to_numpy()
        self._tagged.add(numpy.repeat(numpy.arange(start, start + len(column)), sizes))
        self._codes["tag"].add(self._coded("tag", column.drop_null().flatten()))

    def _add_passages(self, table: Any, start: int) -> None:
        import numpy
        import pyarrow.compute as pc

        lines = pc.split_pattern(table["search_text"].fill_null("").combine_chunks(), "\n")
        sizes = pc.list_value_length(lines).to_numpy()
        self._passages.add(numpy.repeat(numpy.arange(start, start + len(table)), sizes))
        self.postings.add(lines.flatten())
        self.vectors.add(_passage_vectors(table, sizes, self.width))

    def _show(self, shown: Any) -> None:
        import pyarrow as pa

        while self._shown and self._shown[-1].nbytes <= min(2 * shown.nbytes, _MOST_JOINED):
            shown = pa.concat_tables([self._shown.pop(), shown])
        self._shown.append(self._scratch.table(shown.combine_chunks()))

    def _override(self, table: Any) -> None:
        """Codes the memories of which a new row hides an inherited version."""
        import numpy
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self._names["overridden"]
        hiding = table["memory_id"].filter(table["continues"].is_valid())
        fresh = [m for m in dict.fromkeys(hiding.to_pylist()) if m not in names]
        names.update({memory: len(names) + n for n, memory in enumerate(fresh, 1)})
        codes = self._codes["overridden"]
        if names:
            ids = table["memory_id"].to_pylist()
            codes.add(numpy.array([names.get(memory, 0) for memory in ids], dtype=numpy.int32))
        else:
            codes.add(numpy.zeros(len(table), dtype=numpy.int32))
        start = 0
        for part in self._shown if fresh else ():
            there = pc.index_in(part["memory_id"], pa.array(fresh)).combine_chunks()
            places = numpy.flatnonzero(there.is_valid().to_numpy(zero_copy_only=False))
            found = there.drop_null().to_numpy() + names[fresh[0]]
            codes.array[start + places] = found
            start += len(part)


def conversations(table: Any) -> Any:
    """
    Which conversation each row is a turn of: the owner's rows of one session that somebody
    said; null for a row that is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    said = pc.or_(table["speaker"].is_valid(), table["role"].is_valid())
    session = table["principal_session"]
    turn = pc.and_(said, pc.not_equal(session.fill_null(""), ""))
    named = pc.binary_join_element_wise(table["owner"], table["branch"], session, "/")
    return pc.if_else(turn, named, pa.scalar(None, pa.utf8()))


def moment(time: datetime) -> int:
    """An aware time in the unit of a shelf's time columns."""
    return microseconds(time)


def _microseconds(column: Any, missing: int) -> Any:
    import numpy
    import pyarrow as pa

    moments = column.cast(pa.int64()).combine_chunks()
    there = moments.is_valid().to_numpy(zero_copy_only=False)
    values = moments.fill_null(0).to_numpy() - int(EPOCH.timestamp()) * 1_000_000
    return numpy.where(there, values, missing)


def _passage_vectors(table: Any, sizes: Any, width: int) -> Any:
    """Vectors [passages, width]; zeros for rows that have none, or not as many as passages."""
    import numpy
    import pyarrow.compute as pc

    ends = numpy.cumsum(sizes)
    vectors = numpy.zeros((int(sizes.sum()), width), dtype=numpy.float32)
    column, several = table[VECTOR].combine_chunks(), table[PASSAGES].combine_chunks()
    single = column.is_valid().to_numpy(zero_copy_only=False) & (sizes == 1)
    single &= several.is_null().to_numpy(zero_copy_only=False)
    matrix = column.values.to_numpy(zero_copy_only=False).reshape(-1, width)
    matrix = matrix[column.offset : column.offset + len(column)]
    vectors[ends[single] - 1] = matrix[single]
    counts = pc.list_value_length(several).fill_null(0).to_numpy()
    for row in numpy.flatnonzero(counts == numpy.where(sizes, sizes * width, -1)):
        vectors[ends[row] - sizes[row] : ends[row]] = (
            several[row].values.to_numpy().reshape(-1, width)
        )
    return vectors
