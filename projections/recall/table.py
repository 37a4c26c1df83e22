"""The LanceDB table of a recall view: opened, read, merged into and compacted."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from memoriale.domain.errors import CorruptViewError, ForkedHandleError
from memoriale.projections.recall.lance_errors import lance_errors, once_more
from memoriale.projections.recall.lance_memory import give_back, lancedb, shared_session
from memoriale.projections.recall.schema import (
    COLUMNS,
    KEY_INDEX,
    LACKING,
    PASSAGES,
    SENTINEL_KEY,
    TABLE,
    VECTOR,
    WORDS,
    WORDS_INDEX,
    arrow_schema,
    index_configs,
    index_name,
    words_config,
)
from memoriale.projections.recall.upkeep import ROWS_IN_FILE, Upkeep

_MOST_FILES: Final = 32
"""Each commit adds one, and after 300 a commit costs ten times more."""
_MOST_UNINDEXED: Final = 2_000
_INDEXED_PER_UNINDEXED: Final = 100
_MOST_UNINDEXED_MEANWHILE: Final = ROWS_IN_FILE
"""In the middle of a long posting: each merge reads through what is not indexed."""
_SCANNED_PER_UNINDEXED: Final = 100
"""
A merge reads rows that the index of keys lacks as a whole, with text and vector. In the time of
one it compares so many keys without an index.
"""
_KEPT: Final = timedelta(minutes=10)
"""How long files of earlier versions stay for readers that have them open."""
_FORGOTTEN_EVERY: Final = 60.0
"""Seconds at least; it opens every version that is kept: 0.4 s for 3,000 commits."""
_MOST_VERSIONS: Final = 2**64 - 1
"""LanceDB names the file of a version by what is left to it, so that the newest comes first."""


class Merged(NamedTuple):
    """
    What a merge did.

    Args:
        rows: What it was given, as an Arrow table.
        version: The table's version that it made.
        changed: How many of them it inserted or put in the place of older ones.
    """

    rows: Any
    version: int
    changed: int


class VersionTable:
    """
    The table ``versions`` in one folder. Safe for use by several threads.

    Every failure is raised as ``CorruptViewError``, or as ``UnavailableError`` (the disk).

    Args:
        folder: Folder of the LanceDB database.
        table: The opened table.
    """

    def __init__(self, folder: Path, table: Any) -> None:
        self.folder = folder
        self._table: Any = table
        self._versions = folder / f"{TABLE}.lance" / "_versions"
        self._forgets_from = 0.0
        self._scans = False
        """Whether a merge is faster when it compares every key than by the index of keys."""

    @classmethod
    def create(cls, folder: Path, width: int, model: str) -> "VersionTable":
        """Makes the table at position 0, with its indexes."""
        schema = arrow_schema(width)
        with lance_errors(folder):
            table = _connection(folder).create_table(
                TABLE,
                data=arrow_table([sentinel(0, model)], [None], width),
                schema=schema,
                # Without it a missing vector is refused; real ones are checked before.
                on_bad_vectors="null",
            )
            made = cls(folder, table)
            made._make_indexes()
        return made

    @classmethod
    def open(cls, folder: Path) -> "VersionTable":
        """Opens the table as it is."""
        with lance_errors(folder):
            return cls(folder, _connection(folder).open_table(TABLE))

    @property
    def column_names(self) -> tuple[str, ...]:
        """Every column."""
        return (*COLUMNS, PASSAGES, VECTOR)

    @property
    def width(self) -> int:
        """Components of a vector; 0 if the table has no column of vectors."""
        with lance_errors(self.folder):
            schema = self._table.schema
        place = schema.get_field_index(VECTOR)
        return 0 if place < 0 else getattr(schema.field(place).type, "list_size", 0)

    def sentinel(self) -> dict[str, Any]:
        """The position, the model and the status of the table."""
        found = self.read(f"key = {SENTINEL_KEY}", ("seq", "model", "status")).to_pylist()
        if len(found) != 1:
            raise CorruptViewError(
                f"the recall view in {self.folder} has lost its position; rebuild it.",
                value=str(self.folder),
            )
        sentinel: dict[str, Any] = found[0]
        return sentinel

    def read(self, where: str, columns: Sequence[str]) -> Any:
        """The rows that a filter selects, as an Arrow table in no order."""

        def scan() -> Any:
            with lance_errors(self.folder):
                query = self._table.search().where(where).select(list(columns))
                return _validated(query.to_arrow())

        return once_more(scan)

    def keyword_search(self, words: str, where: str, columns: Sequence[str], limit: int) -> Any:
        """
        The rows that fit words best, the filter applied first; ``_score`` is BM25. The first
        such search of a table makes its index of words.

        Args:
            words: Any text; it is split into words and never read as a query expression.
        """
        from lancedb.query import MatchQuery

        # Its declared types demand every optional argument.
        match: Any = MatchQuery

        def search() -> Any:
            with lance_errors(self.folder):
                self._index_words()
                query = self._table.search(match(words, WORDS), query_type="fts")
                query = query.where(where, prefilter=True).limit(limit)
                return _validated(query.select([*columns, "_score"]).to_arrow())

        return once_more(search)

    def vector_search(self, vector: Any, where: str, columns: Sequence[str], limit: int) -> Any:
        """
        The rows nearest to a vector by exact comparison, the filter applied first;
        ``_distance`` is 1 minus the cosine.
        """

        def search() -> Any:
            with lance_errors(self.folder):
                query = self._table.search(vector, vector_column_name=VECTOR)
                query = query.distance_type("cosine").bypass_vector_index()
                query = query.where(where, prefilter=True).limit(limit)
                return _validated(query.select([*columns, "_distance"]).to_arrow())

        return once_more(search)

    def merge(
        self,
        rows: Sequence[Mapping[str, Any]],
        vectors: Sequence[Any],
        width: int,
        *,
        again: bool = False,
    ) -> "Merged":
        """
        Inserts rows and replaces those of the same key that are older, in one commit.

        A row moves forward only: LanceDB cannot refuse a late writer's whole commit, so the
        condition on ``seq`` stands on each row.

        Args:
            rows: Values by column name.
            vectors: For each row its vector or None.
            width: Components of a vector.
            again: Replaces rows that the same event wrote, too.
        """
        older = "target.seq <= source.seq" if again else "target.seq < source.seq"
        data = arrow_table(rows, vectors, width)
        with lance_errors(self.folder):
            merge = self._table.merge_insert("key")
            merge = merge.when_matched_update_all(where=older)
            merge.when_not_matched_insert_all().use_index(not self._scans)
            done = merge.execute(data, on_bad_vectors="null")
        changed = done.num_inserted_rows + done.num_updated_rows
        return Merged(data, done.version, changed)

    def compact(self, *, more_to_come: bool) -> bool:
        """
        Joins small files and brings the indexes up when it is worth while: a commit adds a file,
        and rows that are not indexed yet are read through by every look-up. The caller holds the
        writer lock, as for ``optimize``.

        Args:
            more_to_come: Whether this is the middle of a long posting; then it is done less
                often, because each time the indexes are written as a whole.

        Returns:
            Whether it was done.
        """
        with lance_errors(self.folder):
            keys = self._table.index_stats(KEY_INDEX)
            if keys is None:
                self._make_indexes()
                keys = self._table.index_stats(KEY_INDEX)
        most = max(_MOST_UNINDEXED, keys.num_indexed_rows // _INDEXED_PER_UNINDEXED)
        if more_to_come:
            most = max(most, min(_MOST_UNINDEXED_MEANWHILE, keys.num_indexed_rows // 2))
        index = keys.num_unindexed_rows > most
        rows = keys.num_indexed_rows + keys.num_unindexed_rows
        self._scans = not index and rows < _SCANNED_PER_UNINDEXED * keys.num_unindexed_rows
        due = index or (not more_to_come and self.small_files() >= _MOST_FILES)
        if due:
            once_more(lambda: self._keep_up(index=index))
        elif more_to_come:
            give_back()
        return due

    def optimize(self) -> None:
        """
        Joins all small files, indexes every row, forgets old versions of the table, and removes
        what writers left that were killed or met a full disk. The caller holds the writer lock:
        the files of somebody who is writing would be taken for left ones.
        """
        self._keep_up(index=True, everything=True)

    def small_files(self) -> int:
        """Number of files that the rows are in, without as many as full ones would be."""
        with lance_errors(self.folder):
            stats = self._table.stats()
        files, rows = stats["fragment_stats"]["num_fragments"], stats["num_rows"]
        return max(int(files) - int(rows) // ROWS_IN_FILE, 0)

    def count(self, where: str | None = None) -> int:
        """Number of rows that a filter selects; without one of all, the sentinel included."""
        with lance_errors(self.folder):
            return int(self._table.count_rows(where))

    def newest(self) -> int:
        """Number of the table's last version; each commit adds one."""
        with lance_errors(self.folder):
            names = [name.partition(".")[0] for name in os.listdir(self._versions)]
            return max(_MOST_VERSIONS - int(name) for name in names if name.isdecimal())

    def is_newest(self, version: int) -> bool:
        """
        Whether nobody has committed since a version. It looks for two files, however many
        versions there are: a look into the table takes a thousand times as long.
        """
        with lance_errors(self.folder):
            next_one = os.path.exists(self._versions / _file_name(version + 1))
            return not next_one and os.path.exists(self._versions / _file_name(version))

    def ranges(self, columns: Sequence[str], stop: int, size: int) -> Iterator[Any]:
        """
        All rows as Arrow tables sorted by key: first those with negative keys, then
        ``size`` keys at a time up to ``stop``, then those beyond.

        The bounds depend on the position alone, so two tables of equal content give equal
        pieces.
        """
        bounds = [None, *range(0, stop, size), stop, None]
        for low, high in pairwise(bounds):
            if low is not None and low == high:
                continue
            below = [] if high is None else [f"key < {high}"]
            above = [] if low is None else [f"key >= {low}"]
            yield self.read(" AND ".join(above + below), columns).sort_by("key")

    def _keep_up(self, *, index: bool, everything: bool = False) -> None:
        with lance_errors(self.folder):
            upkeep = Upkeep(self.folder / f"{TABLE}.lance", KEY_INDEX)
            upkeep.join_files(everything=everything)
            self._make_indexes()
            if index:
                upkeep.index_rows()
            now = time.monotonic()
            if everything or now >= self._forgets_from:
                upkeep.forget(_KEPT)
                self._forgets_from = now + _FORGOTTEN_EVERY
        del upkeep
        give_back()

    def _make_indexes(self) -> None:
        """Makes those that are not there: Lance drops a damaged one when it joins files."""
        for column, config in index_configs().items():
            if self._table.index_stats(index_name(column)) is None:
                self._table.create_index(column, config=config, name=index_name(column))

    def _index_words(self) -> None:
        if self._table.index_stats(WORDS_INDEX) is None:
            self._table.create_index(WORDS, config=words_config(), name=WORDS_INDEX)

    def close(self) -> None:
        """Lets the table go."""
        self._table = None


def sentinel(position: int, model: str, *, lacking: bool = False) -> dict[str, Any]:
    """
    The row that carries the position. Its text and vector are null: no search finds it.

    Args:
        position: How many events the table has seen.
        model: The model of its vectors.
        lacking: Whether rows were posted without the vectors that they should have.
    """
    status = LACKING if lacking else None
    return {"key": SENTINEL_KEY, "seq": position, "model": model, "status": status}


def _file_name(version: int) -> str:
    return f"{_MOST_VERSIONS - version}.manifest"


def arrow_table(rows: Sequence[Mapping[str, Any]], vectors: Sequence[Any], width: int) -> Any:
    """
    Rows with their vectors in the table's schema.

    Args:
        rows: Values by column name; a missing one is null.
        vectors: For each row an array [width] of float32, or None.
        width: Components of a vector.
    """
    import pyarrow as pa

    schema = arrow_schema(width)
    columns = [
        _vector_column(vectors, width)
        if field.name == VECTOR
        else pa.array([row.get(field.name) for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _validated(table: Any) -> Any:
    # LanceDB has no checksums: damaged text may be no UTF-8, which only a later reader would meet.
    table.validate(full=True)
    return table


def _vector_column(vectors: Sequence[Any], width: int) -> Any:
    import numpy
    import pyarrow as pa

    values = numpy.zeros((len(vectors), width), dtype=numpy.float32)
    missing = numpy.ones(len(vectors), dtype=bool)
    for place, vector in enumerate(vectors):
        if vector is not None:
            values[place], missing[place] = vector, False
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.reshape(-1)), width, mask=pa.array(missing)
    )


_first_user: Final[dict[str, int]] = {}
"""The process that used LanceDB first."""


def _connection(folder: Path) -> Any:
    # Its threads do not survive a fork, and what then waits for them waits for ever: two of
    # three runs of a test went well.
    if _first_user.setdefault("pid", os.getpid()) != os.getpid():
        raise ForkedHandleError(
            "LanceDB was used before os.fork and cannot be used in the child process; recall "
            "there from a process that was started anew, as multiprocessing's 'spawn' does."
        )
    # The default never sees what another handle wrote.
    return lancedb().connect(
        str(folder), read_consistency_interval=timedelta(0), session=shared_session()
    )
