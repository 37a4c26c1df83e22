"""The recall view of one log: posted from events, read by search."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from memoriale.domain.errors import ConflictError, CorruptViewError, UnavailableError
from memoriale.domain.events import RecordedEvent
from memoriale.projections.allowance import allowance
from memoriale.projections.embedding import Embedder, embed_owned
from memoriale.projections.recall.contents import content_digest, differences, differing_vectors
from memoriale.projections.recall.lance_errors import once_more
from memoriale.projections.recall.posting import Posting, memories_needed
from memoriale.projections.recall.schema import (
    COLUMNS,
    LACKING,
    OPEN,
    PASSAGES,
    SENTINEL_KEY,
    VECTOR,
)
from memoriale.projections.recall.shelves import Shelves
from memoriale.projections.recall.table import Merged, VersionTable, sentinel
from memoriale.projections.recall.versions import Passage, Version, passage_texts, version_of
from memoriale.projections.view import Batch, Digest

NAME: Final = "recall"
VERSION: Final = 2
"""Of what rows hold; a view of another version is rebuilt."""
_LARGE_BATCH: Final = 500
"""A batch of so many rows is hardly the last one of a posting."""
_IDS_AT_ONCE: Final = 1_000
_FILLED_AT_ONCE: Final = 256
_KEYS_AT_ONCE: Final = 4_096


class _Standing(NamedTuple):
    """
    Where a view stands.

    Args:
        version: The version of its table, which tells whether anybody wrote since.
        position: How many events it has applied.
        lacking: Whether rows wait for vectors.
    """

    version: int
    position: int
    lacking: bool


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
        self._known = _Standing(0, 0, lacking=False)

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
        return self._standing().position

    @property
    def lacking(self) -> bool:
        """Whether rows waited for vectors when the position was last read; see ``fill``."""
        return self._known.lacking

    def apply(self, batch: Batch, expected_position: int) -> None:
        """
        Posts a batch in one commit: all of its versions and the position, or nothing. Under an
        ``Allowance`` that makes vectors optional, an embedder that fails leaves rows without;
        they are found by keyword, and ``fill`` makes up for it.

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
        self.table.compact(more_to_come=batch.end - batch.position >= _LARGE_BATCH)

    def fill(self) -> None:
        """
        Makes the vectors that rows were posted without. What is there when the embedder fails
        once more is kept, and the rest waits on. The caller holds the writer lock.

        Raises:
            UnavailableError: The embedder failed, and the ``Allowance`` does not put up with it.
            CorruptViewError: The files cannot be read or written.
        """
        without = f"key >= 0 AND text IS NOT NULL AND {VECTOR} IS NULL"
        keys = sorted(self.table.read(without, ("key",))["key"].to_pylist())
        for start in range(0, len(keys), _FILLED_AT_ONCE):
            if not self._filled(keys[start : start + _FILLED_AT_ONCE]):
                return
        done = sentinel(self.position(), self.embedder.model)
        self.table.merge([done], [None], self.embedder.width, again=True)
        self.table.compact(more_to_come=False)

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

    @property
    def vectors_computed(self) -> int | None:
        """Texts that the model was given for this view; None if the embedder does not count."""
        return getattr(self.embedder, "computed", None)

    def rows_count(self) -> int:
        """Number of versions."""
        return self.table.count() - 1

    def close(self) -> None:
        """Releases the table, and the files that shelves lie in."""
        self.shelves.clear()
        self.table.close()

    def _standing(self) -> "_Standing":
        known = self._known
        if not self.table.is_newest(known.version):
            # The version comes first: whoever commits in between is noticed next time.
            version, sentinel = self.table.newest(), self.table.sentinel()
            if known.lacking:
                # Somebody may have filled rows that a shelf holds without their vectors.
                self.shelves.clear()
            lacking = sentinel["status"] == LACKING
            # At once: another thread may be here, too.
            self._known = known = _Standing(version, int(sentinel["seq"]), lacking=lacking)
        return known

    def _post(self, batch: Batch, events: Sequence[RecordedEvent], expected_position: int) -> None:
        before = self._standing()
        position = before.position
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
        lacking = not self._embed(changed) or before.lacking
        head = sentinel(batch.end, self.embedder.model, lacking=lacking)
        merged = self._merge(changed, head)
        self._remember(merged, before, _Standing(merged.version, batch.end, lacking=lacking))

    def _remember(self, merged: Merged, before: "_Standing", after: "_Standing") -> None:
        """
        Spares the next read of the table, which would tell what was just written. Only if that
        is all: whoever else commits in between takes the number of a version, too.
        """
        alone = after.version == before.version + 1
        if not alone or merged.changed != len(merged.rows):
            return
        if after.position - before.position < _LARGE_BATCH:
            versions = merged.rows.slice(1)
            self.shelves.recent.add(before.position, after.position, versions)
        self._known = after

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

    def _embed(self, versions: Sequence[Version]) -> bool:
        """Gives passages their vectors. False: they got none, which is put up with."""
        pending = {id(v.passage): v for v in versions if v.passage.texts is not None}
        texts = [text for v in pending.values() for text in v.passage.texts or ()]
        if not texts:
            return True
        owners = [v.state.columns.owner for v in pending.values() for _ in v.passage.texts or ()]
        try:
            vectors = embed_owned(self.embedder, owners, texts)
        except UnavailableError as error:
            allowed = allowance()
            if allowed is None or not allowed.puts_up_with(error):
                raise
            return False
        start = 0
        for version in pending.values():
            passage = version.passage
            stop = start + len(passage.texts or ())
            passage.set(vectors[start:stop], self.embedder.model)
            start = stop
        return True

    def _filled(self, keys: Sequence[int]) -> bool:
        listed = ", ".join(str(key) for key in keys)
        rows = self.table.read(f"key IN ({listed})", (*COLUMNS, PASSAGES)).to_pylist()
        versions = [version_of(row, None) for row in rows]
        for version in versions:
            version.passage = Passage(passage_texts(version.state.payload))
        if not self._embed(versions):
            return False
        found = [version for version in versions if version.passage.vector is not None]
        if found:
            self._merge(found, again=True)
            self.shelves.clear()
        return True

    def _merge(
        self, versions: Sequence[Version], *head: dict[str, Any], again: bool = False
    ) -> Merged:
        rows = [*head, *(version.row() for version in versions)]
        vectors = [*(None for _ in head), *(version.passage.vector for version in versions)]
        return self.table.merge(rows, vectors, self.embedder.width, again=again)


def vector_rows(table: Any) -> list[Any]:
    """The vectors of an Arrow table as arrays [width], None where a row has none."""
    column = table[VECTOR].combine_chunks()
    width = column.type.list_size
    values = column.values.to_numpy(zero_copy_only=False).reshape(-1, width)
    values = values[column.offset : column.offset + len(column)]
    present = column.is_valid().to_pylist()
    return [row if there else None for row, there in zip(values, present, strict=True)]
