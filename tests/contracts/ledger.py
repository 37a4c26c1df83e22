"""Events for tests of the ledger: plain ones, and generated ones that fill every column."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from memoriale.adapters.postgres.append import Append
from memoriale.domain.guards import Guard
from memoriale.domain.record import Columns, NewRow

KIND: Final = "fact"
TOPIC: Final = "memory.remembered"


def event(
    stream_id: UUID | None = None,
    version: int = 1,
    *,
    header: str = '{"kind":"fact"}',
    state: bytes = b"sealed",
    **columns: Any,
) -> NewRow:
    """
    An event with every column that must be there.

    Args:
        stream_id: Its stream, a new one by default.
        version: Its version there.
        header: Header text.
        state: Sealed state.
        columns: Other columns, in place of the defaults.
    """
    defaults: dict[str, Any] = {
        "event_id": uuid4(),
        "stream_id": stream_id or uuid4(),
        "stream_version": version,
        "topic": TOPIC,
        "schema_version": 1,
        "kind": KIND,
        "owner": uuid4(),
        "owner_type": "user",
        "actor": uuid4(),
        "actor_kind": "user",
        "authentication": "local",
        "correlation_id": uuid4(),
    }
    return NewRow(Columns(**(defaults | columns)), header, state)


def append(*rows: NewRow, guards: tuple[Guard, ...] = ()) -> Append:
    """An append of these events, of one plain event if there is none."""
    return Append(rows or (event(),), guards)


class Rows:
    """
    Generated events with all sorts of values in every column.

    Args:
        seed: Equal seeds give equal events.
    """

    TEXTS: Final = ("a", "ÄÖÜ", "日本語", "e\u0301", "\U0001f600", "x" * 200, "\t'\"\\{},NULL")
    WORDS: Final = ("fact", "A-Z_09.:/-", "x" * 64)
    INTEGERS: Final = (0, 1, 255, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
    BYTES: Final = (b"", b"\x00", b"\xff" * 4, bytes(range(256)), b"\\x41")
    TIMES: Final = (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2000, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    )

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def event(self) -> NewRow:
        """The next event."""
        optional = self._optional
        columns = Columns(
            event_id=self._new_uuid(),
            stream_id=self._new_uuid(),
            stream_version=self._pick(self.INTEGERS),
            topic=self._pick(self.TEXTS),
            schema_version=self._pick((1, 2, 2**31 - 1)),
            owner=self._uuid(),
            owner_type=self._pick(("user", "agent", "tenant", "ö")),
            actor=self._uuid(),
            actor_kind=self._pick(self.TEXTS),
            authentication=self._pick(self.TEXTS),
            correlation_id=self._uuid(),
            retention_class=self._pick(self.WORDS),
            visibility=optional(lambda: self._pick(("owner", "tenant", "global"))),
            continues=optional(lambda: self._pick(self.INTEGERS)),
            memory_id=optional(self._uuid),
            branch=optional(self._uuid),
            kind=optional(lambda: self._pick(self.WORDS)),
            valid_from=optional(self._time),
            valid_until=optional(self._time),
            expires_at=optional(self._time),
            principal_user=optional(self._uuid),
            principal_agent=optional(self._uuid),
            principal_resource=optional(self._uuid),
            principal_session=optional(self._uuid),
            principal_team=optional(self._uuid),
            about=tuple(sorted(self._uuid() for _ in range(self._length()))),
            namespace_tags=tuple(self._bytes() for _ in range(self._length())),
            on_behalf_of=optional(self._uuid),
            purpose=optional(lambda: self._pick(self.WORDS)),
            causation_id=optional(self._uuid),
            source_run=optional(self._uuid),
            request_tag=optional(self._bytes),
            content_tag=optional(self._bytes),
            idempotency_tag=optional(lambda: self._random.randbytes(32)),
        )
        return NewRow(columns, self._pick(("", "{}", *self.TEXTS)), self._bytes())

    def _optional(self, make: Any) -> Any:
        return make() if self._random.random() < 0.6 else None

    def _pick(self, values: tuple[Any, ...]) -> Any:
        return self._random.choice(values)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def _uuid(self) -> UUID:
        edge = self._random.random()
        if edge < 0.001:
            return UUID(int=0) if edge < 0.0005 else UUID(int=2**128 - 1)
        return self._new_uuid()

    def _bytes(self) -> bytes:
        edge: bytes = self._pick(self.BYTES)
        return edge + self._random.randbytes(self._random.randrange(40))

    def _time(self) -> datetime:
        if self._random.random() < 0.5:
            time: datetime = self._pick(self.TIMES)
            return time
        return self.TIMES[2] + timedelta(microseconds=self._random.randrange(-(10**15), 10**16))

    def _length(self) -> int:
        length: int = self._pick((0, 0, 1, 2, 3, 17))
        return length
