"""The recall view of one log: posted from events, read by search."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from memoriale.domain.errors import ConflictError, CorruptViewError
from memoriale.domain.events import RecordedEvent
from memoriale.projections.embedding import Embedder, embed_owned
from memoriale.projections.recall.contents import content_digest, differences, differing_vectors
from memoriale.projections.recall.lance_errors import once_more
from memoriale.projections.recall.posting import Posting, memories_needed
from memoriale.projections.recall.schema import COLUMNS, OPEN, PASSAGES, SENTINEL_KEY, VECTOR
from memoriale.projections.recall.shelves import Shelves
from memoriale.projections.recall.table import VersionTable, sentinel
from memoriale.projections.recall.versions import Version, version_of
from memoriale.projections.view import Batch, Digest

NAME: Final = "recall"
VERSION: Final = 2
"""Of what rows hold; a view of another version is rebuilt."""
_LARGE_BATCH: Final = 500
"""A batch of so many rows is hardly the last one of a posting."""
_IDS_AT_ONCE: Final = 1_000
_KEYS_AT_ONCE: Final = 4_096


class RecallView:
    """
    One generation of the recall view: a row for each version of each memory.

    Searches need no lock. Whoever calls ``apply`` holds the folder's writer lock.

    Args:
        table: Where the rows are.
        embedder: Makes vectors of new content; the same model as of the rows.
    """

    name = NAME
    exclusive = False

    def __init__(self, table: VersionTable, embedder: Embedder) -> None:
        self.table = table
        self.embedder = embedder
        self.shelves = Shelves(table, embedder.width)
        self.reached = 0
        """A position that the view has reached for certain; it may stand further on."""
        self._commits: frozenset[str] = frozenset()

    @classmethod
    def create(cls, folder: Path, embedder: Embedder) -> "RecallView":
        """
        Makes an empty view at position 0.

        Args:
            folder: An existing folder of its own.
            embedder: Makes the vectors.

        Raises:
            UnavailableError: The disk is full or the folder may not be used.
            CorruptViewError: The folder holds a view already, or cannot be written.
        """
        return cls(VersionTable.create(folder, embedder.width, embedder.model), embedder)

    @classmethod
    def open(cls, folder: Path, embedder: Embedder) -> "RecallView":
        """
        Opens a view.

        Raises:
            CorruptViewError: It cannot be read, or was made with another model.
        """
        view = cls(VersionTable.open(folder), embedder)
        found = (view.table.sentinel()["model"], view.table.width)
        if found != (embedder.model, embedder.width):
            raise CorruptViewError(
                f"the recall view in {folder} was made with the model {found[0]} of width "
                f"{found[1]}, not with {embedder.model} of width {embedder.width}; rebuild it.",
                code="other_model",
                field="MEMORIALE_EMBEDDER",
                value=found[0],
                allowed=embedder.model,
            )
        return view

    def position(self) -> int:
        """How many events it has applied."""
        # The names come first: whoever commits in between makes them others next time.
        commits = self.table.commits()
        if commits != self._commits:
            self.reached = int(self.table.sentinel()["seq"])
            self._commits = commits
        return self.reached

    def apply(self, batch: Batch, expected_position: int) -> None:
        """
        Posts a batch in one commit: all of its versions and the position, or nothing.

        Args:
            batch: Rows from ``expected_position`` on.
            expected_position: Where the view must stand.

        Raises:
            ConflictError: It stands elsewhere, or the batch begins elsewhere.
            UnavailableError: The embedder failed.
            CorruptViewError: The files cannot be read or written.
        """
        events = batch.events
        once_more(lambda: self._post(batch, events, expected_position))
        self.table.compact(more_to_come=len(batch.rows) >= _LARGE_BATCH)

    def digest(self) -> Digest:
        """
        SHA-256 over every column but ``vector`` and ``seq`` of every row in key order, and over
        the position. ``seq`` is left out because it tells which event wrote a row last, not what
        is known; the sentinel row counts through the position.
        """
        return content_digest(self.table, self.position(), _KEYS_AT_ONCE)

    def compare_vectors(self, other: "RecallView") -> int:
        """
        Number of rows whose vectors differ from another generation's: cosine below 0.999,
        another model, or present in one of the two only.
        """
        stop = max(self.position(), other.position())
        return differing_vectors(self.table, other.table, stop, _KEYS_AT_ONCE)

    def differences(self, other: "RecallView") -> list[str]:
        """The first few versions that another generation holds differently, a line for each."""
        stop = max(self.position(), other.position())
        return differences(self.table, other.table, stop, _KEYS_AT_ONCE)

    def vectors(self) -> Iterator[tuple[int, str | None, Any]]:
        """Key, model and vector (an array [width], or None) of every version, in key order."""
        columns = ("key", "model", VECTOR)
        for part in self.table.ranges(columns, self.position(), _KEYS_AT_ONCE):
            keys, models = part["key"].to_pylist(), part["model"].to_pylist()
            for key, model, vector in zip(keys, models, vector_rows(part), strict=True):
                if key != SENTINEL_KEY:
                    yield key, model, vector

    def rows_count(self) -> int:
        """Number of versions."""
        return self.table.count() - 1

    def close(self) -> None:
        """Releases the table."""
        self.table.close()

    def _post(self, batch: Batch, events: Sequence[RecordedEvent], expected_position: int) -> None:
        position = self.position()
        if not position == expected_position == batch.position:
            raise ConflictError(
                f"the recall view stands at {position}; the batch begins at {batch.position} and "
                f"expects {expected_position}. Read the position and try again.",
                field="expected_position",
                value=expected_position,
                allowed=position,
            )
        posting = Posting(self._versions(events))
        for recorded in events:
            posting.post(recorded)
        changed = list(posting.changed.values())
        self._embed(changed)
        rows = [sentinel(batch.end, self.embedder.model), *(v.row() for v in changed)]
        vectors = [None, *(v.passage.vector for v in changed)]
        self.table.merge(rows, vectors, self.embedder.width)

    def _versions(self, events: Sequence[RecordedEvent]) -> dict[int, Version]:
        needed = sorted(memory_id.hex for memory_id in memories_needed(events))
        continued = [e.columns.continues for e in events if e.columns.continues is not None]
        keys = ", ".join(str(int(key)) for key in continued)
        either = f"recorded_until = {OPEN}" + (f" OR key IN ({keys})" if keys else "")
        versions = {}
        for start in range(0, len(needed), _IDS_AT_ONCE):
            ids = ", ".join(f"'{memory_id}'" for memory_id in needed[start : start + _IDS_AT_ONCE])
            found = self.table.read(
                f"memory_id IN ({ids}) AND ({either})", (*COLUMNS, PASSAGES, VECTOR)
            )
            rows = found.drop_columns([VECTOR]).to_pylist()
            for row, vector in zip(rows, vector_rows(found), strict=True):
                versions[row["key"]] = version_of(row, vector)
        return versions

    def _embed(self, versions: Sequence[Version]) -> None:
        pending = {id(v.passage): v for v in versions if v.passage.texts is not None}
        texts = [text for v in pending.values() for text in v.passage.texts or ()]
        if not texts:
            return
        owners = [v.state.columns.owner for v in pending.values() for _ in v.passage.texts or ()]
        vectors = embed_owned(self.embedder, owners, texts)
        start = 0
        for version in pending.values():
            passage = version.passage
            stop = start + len(passage.texts or ())
            passage.set(vectors[start:stop], self.embedder.model)
            start = stop


def vector_rows(table: Any) -> list[Any]:
    """The vectors of an Arrow table as arrays [width], None where a row has none."""
    column = table[VECTOR].combine_chunks()
    width = column.type.list_size
    values = column.values.to_numpy(zero_copy_only=False).reshape(-1, width)
    values = values[column.offset : column.offset + len(column)]
    present = column.is_valid().to_pylist()
    return [row if there else None for row, there in zip(values, present, strict=True)]
