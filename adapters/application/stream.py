"""The log as stored, for auditors and followers: columns, header, and bodies where allowed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from memoriale.adapters.application.mapper import LedgerMapper
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.events import RecordedEvent
from memoriale.domain.record import COLUMNS, Row
from memoriale.domain.values import parse_json_strictly

PAGE: Final = 1_000
_LEFT_OUT: Final = ("state", "header")


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """
    One event as stored.

    ``row`` has every column; ``body`` is the opened body when content was asked for and its
    keys exist, else None.
    """

    row: Row
    body: dict[str, Any] | None = None

    @property
    def index(self) -> int:
        """Place in the log."""
        return self.row.recorded.index

    def as_dict(self) -> dict[str, Any]:
        """Every column but the sealed state, the header as an object, the body if opened."""
        values = {c.name: self.row.value(c.name) for c in COLUMNS if c.name not in _LEFT_OUT}
        shown = {name: as_json(value) for name, value in values.items() if value is not None}
        opened = {} if self.body is None else {"body": self.body}
        return {**shown, "header": parse_json_strictly(self.row.header), **opened}


class Streaming:
    """Reads a log from any index on."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log

    def read(
        self, *, after: int = -1, limit: int | None = None, content: bool = False
    ) -> Iterator[LoggedEvent]:
        """What is recorded now, oldest first."""
        stop = self._log.head()
        return islice(self._pages(after, stop, content), limit)

    def _pages(self, after: int, stop: int, content: bool) -> Iterator[LoggedEvent]:
        while after + 1 < stop:
            rows = self._log.reader.rows(after=after, stop=min(stop, after + 1 + PAGE))
            yield from logged(self._log.mapper, rows, content)
            after += len(rows)


def logged(mapper: LedgerMapper, rows: Sequence[Row], content: bool) -> list[LoggedEvent]:
    """Rows as they are shown, with their bodies opened if they are to be."""
    if not content:
        return [LoggedEvent(row) for row in rows]
    events = mapper.decode(rows)
    return [LoggedEvent(row, _body(e)) for row, e in zip(rows, events, strict=True)]


def _body(recorded: RecordedEvent) -> dict[str, Any] | None:
    body = recorded.event.body
    return None if body is None else body.model_dump(mode="json", exclude_defaults=True)
