"""The port of a view: a read model that is posted from the log and can be thrown away."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from memoriale.domain.events import RecordedEvent
from memoriale.domain.record import Row

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Batch:
    """
    Events of a log in index order that hold whole appends only. They are read in the form that a
    view asks for: as rows, or all headers at once as a table.

    Args:
        log_id: The log.
        position: Index of the first: where a view must stand to apply this batch.
        end: Where a view stands when it has applied it.
        leaf_hash: Leaf hash of the last one.
        load: Reads the rows; headers in clear, bodies sealed.
        decode: Opens bodies.
        load_table: Reads what stands in clear; see ``projections.stats.incoming``.
    """

    log_id: UUID
    position: int
    end: int
    leaf_hash: bytes
    load: Callable[[], Sequence[Row]]
    decode: Callable[[Sequence[Row]], list[RecordedEvent]]
    load_table: Callable[[], "pa.Table"]

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The stored rows."""
        return self.load()

    @cached_property
    def events(self) -> list[RecordedEvent]:
        """The rows as events with opened bodies; an erased body is a tombstone."""
        return self.decode(self.rows)

    @cached_property
    def table(self) -> "pa.Table":
        """What stands in clear of each event."""
        return self.load_table()


class EventSource(Protocol):
    """Where views are posted from: one log."""

    def head(self) -> int:
        """Number of events in the log."""

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        """
        The log from ``position`` up to and without ``stop``, in batches of about ``size`` rows
        that never split an append. Raises ``UnavailableError`` on a hole.
        """


@dataclass(frozen=True)
class Digest:
    """
    What a view holds, for comparison.

    Args:
        value: Hexadecimal digest over every column of every row but vectors, in key order.
        rows: Number of rows that it covers.
    """

    value: str
    rows: int


class View(Protocol):
    """
    One generation of a view.

    ``name`` is permanent: it keys the position. An implementation changes position and rows
    together or not at all, refuses a batch that does not begin at its position, and never
    writes to the log.
    """

    name: str

    def position(self) -> int:
        """How many events it has applied: it has seen 0 … position - 1."""

    def apply(self, batch: Batch, expected_position: int) -> None:
        """
        Posts a batch.

        Raises:
            ConflictError: The view does not stand at ``expected_position``.
            CorruptViewError: It cannot be read or written as it is.
        """

    def digest(self) -> Digest:
        """Digest of what it holds now; reads every row."""

    def close(self) -> None:
        """Releases files and handles."""
