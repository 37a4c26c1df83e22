"""The analyst's use cases: SQL on published snapshots, counts, and the data dictionary."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.mart.values import as_json
from memoriale.domain.errors import InputError
from memoriale.domain.text import check_text, shown
from memoriale.domain.values import check_seconds, check_whole
from memoriale.projections.posted import PostedView
from memoriale.projections.stats.dictionary import RELATIONS, Relation
from memoriale.projections.stats.snapshots import Snapshot, Snapshots
from memoriale.projections.stats.summary import Summary
from memoriale.projections.stats.view import StatsView

MAX_QUERY_BYTES: Final = 100_000
MAX_ROWS: Final = 100_000
MAX_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class QueryResult:
    """
    What a query of an analyst found.

    Args:
        columns: For each column its ``name`` and DuckDB ``type``.
        rows: Each row by column, as JSON values.
        truncated: Whether there were more rows, or more bytes, than may be handed out.
        snapshot: What was asked.
        behind: Events of the log that the snapshot lacks.
    """

    columns: list[dict[str, str]]
    rows: list[dict[str, Any]]
    truncated: bool
    snapshot: Snapshot
    behind: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "columns": self.columns,
            "rows": self.rows,
            "truncated": self.truncated,
            "index": self.snapshot.index,
            "position": self.snapshot.position,
            "root": self.snapshot.root,
            "published_at": as_json(self.snapshot.published_at),
            "behind": self.behind,
        }


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot as it was handed out, with the Parquet files that were asked for."""

    snapshot: Snapshot
    parquet: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        snapshot = self.snapshot
        return {
            "path": str(snapshot.path),
            "index": snapshot.index,
            "position": snapshot.position,
            "root": snapshot.root,
            "log_id": str(snapshot.log_id),
            "published_at": as_json(snapshot.published_at),
            "parquet": [str(path) for path in self.parquet],
        }


@dataclass(frozen=True, slots=True)
class Counts:
    """
    What a log holds, counted.

    Args:
        summary: Counts of the events that the view has applied.
        behind: Events of the log that it has not.
    """

    summary: Summary
    behind: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "tables": as_json(self.summary.tables),
            "index": self.summary.position - 1,
            "position": self.summary.position,
            "behind": self.behind,
            "first_recorded_at": as_json(self.summary.first_recorded_at),
            "last_recorded_at": as_json(self.summary.last_recorded_at),
        }


class Mart:
    """
    The stats of one tenant's memory log for analysts.

    Args:
        log: The memory log.
        stats: Its stats view.
        folder: Where snapshots of every log lie.
        allow: Called with the command's name once its input is right; checks the right
            ``analyse`` and records its use.
    """

    def __init__(
        self,
        log: TenantLog,
        stats: PostedView[StatsView],
        folder: Path,
        allow: Callable[[str], None],
    ) -> None:
        self._log, self._stats, self._allow = log, stats, allow
        self._snapshots = Snapshots(folder / log.log_id.hex, log.log_id)

    def snapshot(self, parquet: Path | None = None) -> Published:
        """
        Publishes the log as it is now.

        Args:
            parquet: Folder to write each table into as a Parquet file too.

        Raises:
            InputError: The folder is something else.
            UnavailableError: The disk or the log cannot be used.
        """
        target = None if parquet is None else _folder(parquet)
        self._allow("snapshot")
        snapshot = self._snapshots.publish(self._stats)
        if target is None:
            return Published(snapshot)
        from memoriale.projections.stats.publishing import export_parquet

        with self._snapshots.reading(snapshot):
            return Published(snapshot, tuple(export_parquet(snapshot.path, target)))

    def sql(self, query: str, *, fresh: bool, limit: int, timeout: float) -> QueryResult:
        """
        Runs SQL from a user on the newest snapshot, in a process of its own.

        Args:
            query: One SELECT.
            fresh: Publish first what was recorded since.
            limit: Most rows, 1 to 100,000.
            timeout: Seconds, up to 600.

        Raises:
            InputError: The query is wrong, refused, or needs more than it may have.
            UnavailableError: ``snapshot_lost``: it was removed or damaged; ask again.
        """
        from memoriale.adapters.mart.runner import SnapshotError, run_query

        text = check_text("query", query, max_bytes=MAX_QUERY_BYTES)
        rows = check_whole("limit", limit, 1, MAX_ROWS)
        seconds = check_seconds("timeout", timeout, MAX_SECONDS)
        self._allow("sql")
        snapshot = self._usable(fresh)
        with self._snapshots.reading(snapshot) as descriptor:
            try:
                found = run_query(snapshot, descriptor, text, rows=rows, seconds=seconds)
            except SnapshotError as error:
                raise self._snapshots.lost(snapshot) from error
        behind = max(0, self._log.head() - snapshot.position)
        return QueryResult(**found, snapshot=snapshot, behind=behind)

    def stats(self, wait: float) -> Counts:
        """
        Counts of what the log holds, from the live view.

        Args:
            wait: Seconds that the view may take to catch up.
        """
        check_seconds("wait", wait)
        self._allow("stats")
        return self._stats.run(
            lambda reading: Counts(reading.view.summary(), reading.behind), wait=wait
        )

    def _usable(self, fresh: bool) -> Snapshot:
        found = None if fresh else self._snapshots.current()
        # A log that was restored from a backup may be shorter than what was published of it.
        if found is None or found.position > self._log.head():
            return self._snapshots.publish(self._stats)
        return found


def describe(view: str | None = None) -> list[Relation]:
    """
    The data dictionary of snapshots.

    Args:
        view: Name of a table or view; None: all of them.

    Raises:
        InputError: There is none of that name.
    """
    if view is None:
        return list(RELATIONS.values())
    if view not in RELATIONS:
        raise InputError(
            f"there is no table or view {shown(view)!r}; there are {', '.join(RELATIONS)}.",
            code="unknown_view",
            field="view",
            value=shown(view),
            allowed=list(RELATIONS),
        )
    return [RELATIONS[view]]


def _folder(path: Path) -> Path:
    from memoriale.projections.generations import disk_errors, make_folder

    folder = path.expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; name one for the Parquet files.",
            code="bad_path",
            field="parquet",
            value=shown(str(path)),
            allowed="a folder",
        )
    with disk_errors(folder):
        make_folder(folder)
    return folder
