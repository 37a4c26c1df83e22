"""The stats view in DuckDB: from headers only, so that erasure never rewrites it."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from memoriale.domain.branches import NO_LIMIT, main_branch
from memoriale.domain.errors import ConflictError, CorruptViewError, UnavailableError
from memoriale.domain.events import Forked
from memoriale.domain.memory import Status
from memoriale.projections.generations import disk_errors
from memoriale.projections.posted import ViewKind
from memoriale.projections.stats.connection import FILE, connect, duckdb_errors
from memoriale.projections.stats.digest import digest, first_differences
from memoriale.projections.stats.fold import (
    MADE,
    OF_BATCH,
    TOPICS,
    Event,
    Known,
    fold,
    forked,
    insert_made,
)
from memoriale.projections.stats.incoming import BAD_HEADERS, insert_events
from memoriale.projections.stats.schema import BRANCHES, EVENTS, FORMAT, VERSIONS, statements
from memoriale.projections.view import Batch, Digest

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from memoriale.projections.stats.summary import Summary

NAME: Final = "stats"
_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class Totals:
    """
    What the log holds, counted.

    Args:
        position: Events that were counted.
        events: Number of events by topic.
        memories: Number of memories that are current on some branch, by kind; expiry is not
            looked at.
        branches: Number of branches, ``main`` included.
    """

    position: int
    events: dict[str, int]
    memories: dict[str, int]
    branches: int


class StatsView:
    """
    One generation of the stats view; implements ``View``. One process, one thread at a time.

    Args:
        folder: The generation's folder.
        connection: Open on the file in it.
    """

    name = NAME

    def __init__(self, folder: Path, connection: "duckdb.DuckDBPyConnection") -> None:
        self._folder = folder
        self._connection = connection

    @classmethod
    def create(cls, folder: Path) -> Self:
        """
        Makes an empty view.

        Args:
            folder: Exists and has no view in it.

        Raises:
            CorruptViewError: The folder is missing.
            UnavailableError: The disk is full.
        """
        view = cls(folder, connect(folder))
        with view._closed_on_error(), view._transaction():
            view._connection.execute(";\n".join(statements()))
        return view

    @classmethod
    def open(cls, folder: Path) -> Self:
        """
        Opens a view.

        Args:
            folder: Where ``create`` made it.

        Raises:
            CorruptViewError: It is missing or damaged.
            UnavailableError: ``busy``: another process has it open.
        """
        if not (folder / FILE).is_file():
            raise CorruptViewError(f"{folder / FILE} is missing.")
        view = cls(folder, connect(folder))
        with view._closed_on_error():
            view.position()
        return view

    def position(self) -> int:
        """How many events it has applied."""
        rows = self._rows("SELECT position FROM position")
        if len(rows) != 1:
            raise CorruptViewError(f"{self._folder / FILE}: the position is lost.")
        return int(rows[0][0])

    def apply(self, batch: Batch, expected_position: int) -> None:
        """
        Posts a batch in one transaction. Bodies are never opened.

        Args:
            batch: Begins where the view stands.
            expected_position: Where the caller thinks that the view stands.

        Raises:
            ConflictError: The view does not stand there.
            CorruptViewError: The view cannot be read or written.
        """
        table = batch.table
        with self._transaction(), _readable_headers(batch):
            self._check_position(batch, expected_position)
            self._check_headers(table)
            self._with(table, insert_events())
            self._apply_versions(batch)
            self._apply_branches(batch)
            self._connection.execute("UPDATE position SET position = ?", [batch.end])

    def digest(self) -> Digest:
        """
        Digest over every column of every row of every table, in key order and bounded memory.
        """
        with duckdb_errors(self._folder):
            return digest(self._connection)

    def differences(self, other: "StatsView") -> list[str]:
        """
        The first rows in which two generations differ, for a person to look at.

        Args:
            other: A view at the same position.

        Returns:
            Ten lines at most: table, key, and what this and the other view hold.
        """
        with duckdb_errors(self._folder):
            return first_differences(self._connection, other._connection)

    def totals(self) -> Totals:
        """Counts of events, current memories and branches."""
        events = self._rows("SELECT topic, count(*) FROM events GROUP BY topic ORDER BY topic")
        memories = self._rows(
            "SELECT kind, count(DISTINCT memory_id) FROM memory_versions"
            " WHERE recorded_until = ? AND status = ? GROUP BY kind ORDER BY kind",
            [NO_LIMIT, Status.CURRENT.value],
        )
        branches = self._rows("SELECT count(*) FROM branches")
        return Totals(self.position(), dict(events), dict(memories), branches[0][0])

    def copy_to(self, path: Path) -> int:
        """
        Copies the file as it is, for a snapshot.

        Args:
            path: The copy; replaced if it exists.

        Returns:
            How many events it has applied.

        Raises:
            CorruptViewError: Its rows are not those up to its position.
            UnavailableError: The disk is full.
        """
        position = self.position()
        rows = self._rows('SELECT count(*), coalesce(max("index"), -1) FROM events')
        if rows != [(position, position - 1)]:
            raise CorruptViewError(f"{self._folder / FILE}: rows and position do not agree.")
        # What is still in the write-ahead file must be in the copy too.
        self._rows("CHECKPOINT")
        with disk_errors(path):
            shutil.copyfile(self._folder / FILE, path)
        return position

    def summary(self) -> "Summary":
        """Counts by topic, kind, branch, day and so on, for people."""
        from memoriale.projections.stats.summary import summarize

        with duckdb_errors(self._folder):
            return summarize(self._connection)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """
        Rows of a query of our own making. Text from users must not get here: it could change
        the view.

        Args:
            sql: One statement.
            parameters: Values for its question marks.
        """
        return self._rows(sql, parameters)

    def close(self) -> None:
        """Closes the file, so that another process can open it."""
        with duckdb_errors(self._folder):
            self._connection.close()

    def _check_position(self, batch: Batch, expected: int) -> None:
        position = self.position()
        if not position == expected == batch.position:
            raise ConflictError(
                f"the stats view stands at {position}; a batch from {batch.position} was to be "
                f"applied at {expected}. Read the position again and post from there.",
                field="expected_position",
                value=expected,
                allowed=position,
            )

    def _check_headers(self, table: "pa.Table") -> None:
        ((index,),) = self._with(table, BAD_HEADERS)
        if index is not None:
            raise UnavailableError(
                f"the header of event {index} cannot be read; run verify.",
                code="bad_header",
                field="index",
                value=index,
            )

    def _apply_versions(self, batch: Batch) -> None:
        import pyarrow as pa

        from memoriale.projections.stats.arrow import table_of

        self._connection.execute(insert_made(), [batch.position, batch.end])
        changes = f"topic IN {TOPICS} AND memory_id IS NOT NULL AND NOT ({MADE})"
        events = self._events(batch, changes)
        if not events:
            return
        new, closed = fold(events, self._known(events))
        self._insert(VERSIONS.name, table_of(VERSIONS, new))
        if closed:
            keys, untils = zip(*closed, strict=True)
            self._with(
                pa.table(
                    {"key": pa.array(keys, pa.int64()), "until": pa.array(untils, pa.int64())}
                ),
                "UPDATE memory_versions SET recorded_until = batch.until FROM batch"
                " WHERE recorded_from = batch.key",
            )

    def _events(self, batch: Batch, where: str) -> list[Event]:
        """Events of a batch by column, in index order."""
        names = [column.name for column in EVENTS.columns]
        chosen = ", ".join(f'"{name}"' for name in names)
        found = self._connection.execute(
            f'SELECT {chosen} FROM events {OF_BATCH} AND {where} ORDER BY "index"',
            [batch.position, batch.end],
        ).fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]

    def _apply_branches(self, batch: Batch) -> None:
        from memoriale.projections.stats.arrow import table_of

        found: list[dict[str, Any]] = []
        if batch.position == 0:
            main = main_branch(batch.log_id)
            found.append(
                {"index": main.index, "branch": main.id, "fork_index": main.at, "scope": "tenant"}
            )
        asked = f"SELECT header, \"index\" FROM batch WHERE topic = '{Forked.TOPIC}'"
        headers = {
            int(index): json.loads(header) for header, index in self._with(batch.table, asked)
        }
        if headers:
            events = self._events(batch, f"topic = '{Forked.TOPIC}'")
            found += [forked(event, headers[event["index"]]) for event in events]
        if found:
            self._insert(BRANCHES.name, table_of(BRANCHES, found))

    def _known(self, events: Sequence[Event]) -> Known:
        """What the events go on from: last versions of their memories, and those of parents."""
        import pyarrow as pa

        from memoriale.projections.stats.arrow import uuids

        parents = {event["continues"] for event in events} - {None}
        known = Known({}, {})
        ids = pa.table({"id": uuids(list({event["memory_id"] for event in events}))})
        where = f"memory_id IN (SELECT id FROM batch) AND recorded_until = {NO_LIMIT}"
        for version in self._versions(ids, where):
            known.open[version["memory_id"], version["branch"]] = version
        if parents:
            keys = pa.table({"key": pa.array(list(parents), pa.int64())})
            for version in self._versions(keys, "recorded_from IN (SELECT key FROM batch)"):
                known.by_index[version["recorded_from"]] = version
        return known

    def _versions(self, batch: "pa.Table", where: str) -> list[dict[str, Any]]:
        names = [column.name for column in VERSIONS.columns]
        found = self._with(batch, f"SELECT {', '.join(names)} FROM memory_versions WHERE {where}")
        return [dict(zip(names, row, strict=True)) for row in found]

    def _insert(self, table: str, batch: "pa.Table") -> None:
        self._with(batch, f"INSERT INTO {table} BY NAME SELECT * FROM batch")

    def _with(self, batch: "pa.Table", sql: str) -> list[tuple[Any, ...]]:
        import duckdb

        self._connection.register("batch", batch)
        try:
            found = self._connection.execute(sql).fetchall()
        except duckdb.Error:
            # In a transaction that failed DuckDB refuses this too, and the first error tells more.
            with suppress(duckdb.Error):
                self._connection.unregister("batch")
            raise
        self._connection.unregister("batch")
        return found

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with duckdb_errors(self._folder):
            return self._connection.execute(sql, list(parameters)).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        import duckdb

        with duckdb_errors(self._folder):
            self._connection.begin()
            try:
                yield
                self._connection.commit()
            except BaseException:
                # After a fatal error DuckDB refuses the rollback too; the first error tells more.
                with suppress(duckdb.Error):
                    self._connection.rollback()
                raise

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def stats_kind() -> ViewKind[StatsView]:
    """The stats view as ``PostedView`` keeps it posted."""
    return ViewKind(NAME, FORMAT, StatsView.create, StatsView.open, exclusive=True, batch=_BATCH)


@contextmanager
def _readable_headers(batch: Batch) -> Iterator[None]:
    # Headers are written from checked models, so only a changed log has such ones.
    import duckdb

    try:
        yield
    except (KeyError, TypeError, ValueError, duckdb.ConversionException) as error:
        raise UnavailableError(
            f"a header of events {batch.position} to {batch.end - 1} cannot be read; run verify.",
            code="bad_header",
            field="index",
            value=batch.position,
        ) from error
