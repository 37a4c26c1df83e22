"""
Upkeep of a LanceDB table: its files are joined and its new rows indexed, in steps whose cost
hardly grows with the table.

LanceDB's own ``optimize`` rewrites every file of less than 1,048,576 rows each time: at 900,000
rows that took 7 seconds and 250 MiB after every few commits. It has no option for that, so this
goes through Lance, the library beneath it.
"""

import warnings
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

_CACHE: Final = 32 * 2**20
"""Bytes; by default each data set that is opened has caches of its own, of up to 7 GiB."""
ROWS_IN_FILE: Final = 65_536
"""A file of so many rows is left as it is."""
_ROWS_AT_ONCE: Final = 1_024
_MOST_INDEXED: Final = 16
"""Small files that are indexed: to join them moves rows, so every index is written anew."""


@cache
def lance() -> Any:
    """
    The library. From then on it warns whenever the program forks; what may not be used after a
    fork is refused where it is used, so that warning is left out.
    """
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    import lance as library

    return library


class Upkeep:
    """
    One look at a table. The caller holds the table's writer lock.

    Args:
        path: Folder of the table.
        index: Name of an index that every row shall be in.
    """

    def __init__(self, path: Path, index: str) -> None:
        self._data: Any = lance().dataset(
            str(path), index_cache_size_bytes=_CACHE, metadata_cache_size_bytes=_CACHE
        )
        self._index = index

    def join_files(self, *, everything: bool = False) -> None:
        """
        Joins small files into files of ``ROWS_IN_FILE`` rows, and rewrites those of which a
        tenth is deleted.

        Args:
            everything: Also those few whose rows are indexed.
        """
        small = self._small_and_indexed()
        spared = [] if everything or len(small) >= _MOST_INDEXED else small
        self._data.optimize.compact_files(
            target_rows_per_fragment=ROWS_IN_FILE,
            # One thread and small batches: more of them take memory, not less time.
            num_threads=1,
            batch_size=_ROWS_AT_ONCE,
            excluded_fragment_ids=spared,
        )

    def index_rows(self) -> None:
        """Puts the rows that no index knows yet into every index."""
        self._data.optimize.optimize_indices()

    def forget(self, kept: timedelta) -> None:
        """
        Removes old versions of the table, and what writers left that were killed.

        Args:
            kept: How long a version stays for readers that have it open.
        """
        self._data.cleanup_old_versions(kept, delete_unverified=True)

    def _small_and_indexed(self) -> list[int]:
        indexed = set(self._indexed())
        files = (fragment.metadata for fragment in self._data.get_fragments())
        return [f.id for f in files if f.id in indexed and f.physical_rows < ROWS_IN_FILE]

    def _indexed(self) -> Iterable[int]:
        for index in self._data.describe_indices():
            if index.name == self._index:
                for segment in index.segments:
                    yield from segment.fragment_ids
