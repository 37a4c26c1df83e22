"""The analyst's calls on a ledger: SQL, snapshots, counts and their description."""

from pathlib import Path
from typing import TYPE_CHECKING

from memoriale.adapters.library.opened import Opened
from memoriale.domain.principal import Right

if TYPE_CHECKING:
    from memoriale.adapters.application.mart import Counts, Mart, Published, QueryResult
    from memoriale.projections.stats.dictionary import Relation


class Analysis(Opened):
    """The part of ``Ledger`` that answers questions about what was recorded."""

    def sql(
        self,
        query: str,
        *,
        tenant: str,
        fresh: bool = False,
        limit: int = 1_000,
        timeout: float = 30.0,
    ) -> "QueryResult":
        """
        Runs SQL on the newest published snapshot of the statistics; publishes one if there is
        none. ``describe`` lists the tables. Runs in a process of its own with limits.

        Args:
            query: One SELECT.
            tenant: Whose.
            fresh: Publish first what was recorded since.
            limit: Most rows, 1 to 100,000.
            timeout: Seconds that it may take, up to 600.

        Returns:
            Columns with types, rows as JSON values, whether they were truncated, and of which
            snapshot. Right: ``analyse``.

        Raises:
            InputError: The query is wrong, refused, or needs more time or memory than it may.
            UnavailableError: ``snapshot_lost``: the snapshot was removed; ask again.
        """
        return self._mart(tenant).sql(query, fresh=fresh, limit=limit, timeout=timeout)

    def snapshot(self, *, tenant: str, parquet: Path | str | None = None) -> "Published":
        """
        Publishes the statistics of a log as an immutable DuckDB file that anybody may open.

        Args:
            tenant: Whose.
            parquet: Folder to write each table into as a Parquet file too.

        Returns:
            Its path, its last index, and the Merkle root over its events. Right: ``analyse``.
        """
        folder = None if parquet is None else Path(parquet)
        return self._mart(tenant).snapshot(folder)

    def stats(self, *, tenant: str, wait: float | None = None) -> "Counts":
        """
        Counts of what a log holds by topic, kind, branch, day and so on.

        Args:
            tenant: Whose.
            wait: Seconds that the view may take to catch up; default: the setting.

        Returns:
            Tables of counts. Right: ``analyse``.
        """
        seconds = self.settings.wait if wait is None else wait
        return self._mart(tenant).stats(seconds)

    def describe(self, view: str | None = None) -> "list[Relation]":
        """
        The tables and views that ``sql`` can ask, with the type, unit and meaning of each column.

        Args:
            view: One of them; None: all.

        Raises:
            InputError: There is none of that name.
        """
        from memoriale.adapters.application.mart import describe

        return describe(view)

    def _mart(self, tenant: str) -> "Mart":
        from memoriale.adapters.application.mart import Mart

        services, folder = self.tenant(tenant), self.settings.snapshots_folder
        return Mart(
            services.log,
            services.view("stats"),
            folder,
            lambda command: self._allow(services, command, Right.ANALYSE),
        )
