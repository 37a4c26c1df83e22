"""The stats view keeps the contract of views."""

from pathlib import Path

from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.view import StatsView
from tests.contracts.view import ViewContract


class TestStatsView(ViewContract):
    """Every rule of ``ViewContract`` for the DuckDB file."""

    def make_view(self, folder: Path) -> StatsView:
        return StatsView.open(folder) if (folder / FILE).exists() else StatsView.create(folder)
