"""Between events and rows: seals, upcasts, tombstones, and topics that are not known."""

from dataclasses import replace
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from memoriale.adapters.application.mapper import LedgerMapper
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys.sealer import Sealer
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.events import ContentHeader, Event, NewEvent, Remembered, RememberedBody
from memoriale.domain.memory import MemoryState, project_memory
from memoriale.domain.record import Row


@pytest.fixture
def log(shared_ledger: Ledger, tenant: str) -> TenantLog:
    return shared_ledger.tenant(tenant).log


@pytest.fixture
def row(alice: Memory, log: TenantLog) -> Row:
    alice.remember("content", tags=["a"], importance=0.25, idempotency_key="k")
    return log.reader.rows()[0]


def test_a_body_comes_back_as_it_was(row: Row, log: TenantLog) -> None:
    """What was sealed is opened again, field by field."""
    (recorded,) = log.mapper.decode([row])
    assert isinstance(recorded.event, Remembered)
    assert recorded.event.body is not None
    assert recorded.event.body.payload.content == "content"
    assert recorded.event.body.tags == ("a",)
    assert recorded.event.header.importance == 250


def test_the_library_folds_a_stream_with_our_projector(row: Row, log: TenantLog) -> None:
    """The repository of the library reads a stream and folds it by ``project_memory``."""
    state: MemoryState | None = log.application.repository.get(
        row.columns.stream_id,
        projector_func=project_memory,  # type: ignore[type-var]
    )
    assert state is not None
    assert state.payload is not None
    assert state.payload.content == "content"


def test_a_destroyed_key_leaves_a_tombstone(
    row: Row, log: TenantLog, shared_ledger: Ledger
) -> None:
    """Without its owner's key an event is read as one without a body, not as an error."""
    store = shared_ledger.infrastructure.keys
    (owner,) = log.identities.by_pseudonyms([row.columns.owner])
    assert store.destroy(owner.key_id)
    (recorded,) = log.mapper.decode([row])
    assert recorded.event.body is None
    assert recorded.columns == row.columns


@pytest.mark.parametrize(
    "change", [{"topic": "os.system"}, {"topic": "memory.Remembered"}, {"schema_version": 2}]
)
def test_a_topic_or_version_that_is_not_known_is_refused(
    change: dict[str, Any], row: Row, log: TenantLog
) -> None:
    """No row can name a module to import; a newer schema version asks for a newer release."""
    with pytest.raises(UnavailableError) as refused:
        log.mapper.decode([replace(row, columns=replace(row.columns, **change))])
    assert refused.value.code == "unknown_topic"


@pytest.mark.parametrize("header", ["{}", "not json", '{"content_length":"x"}', "[1]"])
def test_a_header_that_no_release_wrote_is_a_typed_error(
    header: str, row: Row, log: TenantLog
) -> None:
    """A header changed in the database is reported with the event's index."""
    with pytest.raises(UnavailableError) as refused:
        log.mapper.decode([replace(row, header=header)])
    assert (refused.value.code, refused.value.value) == ("unreadable_event", row.recorded.index)


@pytest.mark.parametrize("field", ["event_id", "stream_id"])
def test_a_body_under_another_event_does_not_open(field: str, row: Row, log: TenantLog) -> None:
    """A sealed body moved to another event or stream is noticed."""
    moved = replace(row, columns=replace(row.columns, **{field: uuid4()}))  # type: ignore[arg-type]
    with pytest.raises(UnavailableError) as refused:
        log.mapper.decode([moved])
    assert refused.value.code == "tampered_state"


class RememberedToday(Remembered):
    """The event as a later release might have it: two versions on, with renamed fields."""

    SCHEMA_VERSION: ClassVar[int] = 3
    UPCASTERS: ClassVar[dict[int, Any]] = {
        1: lambda header, body: ({**header, "language": "en"}, body),
        2: lambda header, body: (header, body and {**body, "tags": [*body["tags"], "upcast"]}),
    }


def test_an_older_event_is_brought_up_step_by_step(
    row: Row, log: TenantLog, shared_ledger: Ledger
) -> None:
    """Each upcaster turns the header and body of its version into the next one's."""
    sealer = Sealer(shared_ledger.infrastructure.keys, log.log_id, log.tenant)
    topics: dict[str, type[Event]] = {Remembered.TOPIC: RememberedToday}
    (recorded,) = LedgerMapper(sealer, log.log_id, topics).decode([row])
    assert isinstance(recorded.event, RememberedToday)
    assert recorded.event.header.language == "en"
    assert isinstance(recorded.event.body, RememberedBody)
    assert recorded.event.body.tags == ("a", "upcast")
    assert recorded.columns.schema_version == 1


def test_a_header_over_its_limit_is_refused(row: Row, log: TenantLog) -> None:
    """A header of more than 32 KiB is an input error before anything is sealed or stored."""
    (recorded,) = log.mapper.decode([row])
    owner = log.identities.by_pseudonyms([row.columns.owner])
    header = ContentHeader(content_length=1, supersedes=tuple(uuid4() for _ in range(1_000)))
    event = Remembered(header=header, body=recorded.event.body)  # type: ignore[arg-type]
    with pytest.raises(InputError) as refused:
        log.mapper.to_row(NewEvent(event, row.columns, owner))
    assert (refused.value.field, refused.value.code) == ("header", "too_long")
