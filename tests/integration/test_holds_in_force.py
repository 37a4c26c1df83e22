"""A hold on an owner stops housekeeping, also when it is placed while the decision is made."""

from uuid import UUID, uuid4

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import ConflictError, RefusedError
from memoriale.domain.events import Body, Event, Header, NewEvent
from memoriale.domain.holds import HOLD_KIND, HoldPlaced, HoldReleased, no_new_hold
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns


def append_hold(log: TenantLog, event: type[Event], stream: UUID, version: int) -> None:
    owner = log.identities.key(Subject("user", "alice"))
    columns = Columns(
        **log.identities.stamp(Principal(tenant=log.tenant, user="officer"), None, None).fields(),
        event_id=uuid4(),
        stream_id=stream,
        stream_version=version,
        topic=event.TOPIC,
        schema_version=1,
        kind=HOLD_KIND,
        owner=owner.pseudonym,
        owner_type="user",
    )
    log.save([NewEvent(event(header=Header(), body=Body()), columns, (owner,))])


def test_a_hold_stops_housekeeping_until_it_is_released(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Under hold a memory is neither pruned nor expired, but its owner may still retract it."""
    log, hold = shared_ledger.tenant(tenant).log, uuid4()
    pruned, retracted = alice.remember("old"), alice.remember("wrong")
    append_hold(log, HoldPlaced, hold, 1)
    with pytest.raises(RefusedError) as refused:
        alice.invalidate(pruned.memory_id, because="pruned")
    assert refused.value.allowed == [str(hold)]
    alice.invalidate(retracted.memory_id, because="retracted")
    append_hold(log, HoldReleased, hold, 2)
    assert alice.invalidate(pruned.memory_id, because="pruned").created


def test_a_hold_placed_meanwhile_refuses_what_was_decided_before(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """The guard of a decision that saw no hold fails when one has been recorded since."""
    log = shared_ledger.tenant(tenant).log
    owner = log.reader.by_event_id(alice.remember("x").event_id)
    assert owner is not None
    guard = no_new_hold(owner.columns.owner, log.head() - 1)
    append_hold(log, HoldPlaced, uuid4(), 1)
    event, key = Header(), log.identities.by_pseudonyms([owner.columns.owner])
    columns = owner.columns
    with pytest.raises(ConflictError):
        log.save(
            [
                NewEvent(
                    HoldReleased(header=event, body=Body()),
                    Columns(
                        event_id=uuid4(),
                        stream_id=uuid4(),
                        stream_version=1,
                        topic=HoldReleased.TOPIC,
                        schema_version=1,
                        owner=columns.owner,
                        owner_type="user",
                        actor=columns.actor,
                        actor_kind="user",
                        authentication="asserted",
                        correlation_id=uuid4(),
                    ),
                    key,
                )
            ],
            [guard],
        )
