"""Sealing: what opens again, what does not, and that the bytes never change."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.keys.sealer import Sealer
from memoriale.domain.envelope import (
    Erased,
    SealContext,
    associated_data,
    build_envelope,
    parse_envelope,
    split_key_ids,
)
from memoriale.domain.errors import ConflictError, InputError, UnavailableError
from memoriale.domain.keys import KeyStore, PeriodKey, PersonKey, Subject

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "sealing.json").read_text()
)
LOG = UUID("6f1d3c1e-0000-4000-8000-000000000001")
CONTEXT = SealContext(LOG, UUID(int=2), UUID(int=3), 7, "memory.remembered", 1)
ALICE = Subject("user", "alice")
BOB = Subject("user", "bob")

sections = st.lists(st.binary(max_size=300), max_size=5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileKeyStore]:
    """A key store for the tests that destroy nothing."""
    with FileKeyStore(tmp_path_factory.mktemp("keys")) as store:
        yield store


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[FileKeyStore]:
    """A key store of the test's own."""
    with FileKeyStore(tmp_path / "keys") as store:
        yield store


class FixedKeys:
    """The part of a key store that sealing uses, with given keys, for vectors that never change."""

    def __init__(self, golden: dict[str, Any]) -> None:
        self.keys = {bytes.fromhex(i): bytes.fromhex(k) for i, k in golden["keys"].items()}
        self.period_key_id = bytes.fromhex(golden["period_key_id"])

    def period(self, tenant: str, retention_class: str, period: str) -> PeriodKey:
        """The one period key."""
        key = self.keys[self.period_key_id]
        return PeriodKey(tenant, retention_class, period, self.period_key_id, key)

    def get_many(self, key_ids: list[bytes]) -> dict[bytes, bytes]:
        """Keys by id."""
        return {key_id: self.keys[key_id] for key_id in key_ids}

    def generation(self) -> int:
        """Nothing is ever destroyed."""
        return 0

    def person(self, key_id: str) -> PersonKey:
        """The person with this key id."""
        key = self.keys[bytes.fromhex(key_id)]
        return PersonKey("acme", ALICE, UUID(int=0), bytes.fromhex(key_id), key)


def test_what_was_sealed_is_opened(store: FileKeyStore) -> None:
    """The person's sealed sections come back as they were, none and empty ones included."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    for plain in ([], [b""], [b"content"], [b"content", b"", b"reason"]):
        state = sealer.seal(plain, CONTEXT, people)
        assert sealer.open(state, CONTEXT) == plain
        assert Sealer(store, LOG, "acme").open(state, CONTEXT) == plain
        assert not any(len(part) > 3 and part in state for part in plain)


@given(plain=sections, names=st.sets(st.sampled_from("abcdef"), min_size=1), data=st.data())
def test_any_sections_of_any_persons_are_opened(
    store: FileKeyStore, plain: list[bytes], names: set[str], data: st.DataObject
) -> None:
    """Order and repetition of the persons do not matter; every section comes back."""
    people = store.get_or_create("acme", [Subject("user", name) for name in sorted(names)])
    again = data.draw(st.permutations([*people, people[0]]))
    sealer = Sealer(store, LOG, "acme")
    state = sealer.seal(plain, CONTEXT, again)
    assert sealer.open(state, CONTEXT) == plain
    wanted = sorted(person.key_id for person in people)
    for section in parse_envelope(state):
        assert list(split_key_ids(section.key_ids)[:-1]) == wanted


@given(plain=sections.filter(bool), data=st.data())
@settings(max_examples=300)
def test_a_changed_byte_never_opens(
    store: FileKeyStore, plain: list[bytes], data: st.DataObject
) -> None:
    """With any byte changed, no section that the byte belongs to gives its text."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE, BOB])
    state = bytearray(sealer.seal(plain, CONTEXT, people))
    place = data.draw(st.integers(0, len(state) - 1))
    state[place] ^= data.draw(st.integers(1, 255))
    opened = opened_or_code(sealer, bytes(state))
    # A key id that nobody has cannot be told from one that was destroyed.
    assert opened in ("malformed_state", "tampered_state") or any(
        isinstance(section, Erased) for section in opened
    )


@pytest.mark.parametrize("cut", [1, 5, 16, 60])
def test_a_cut_or_longer_state_is_malformed(store: FileKeyStore, cut: int) -> None:
    """Every byte must be accounted for."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    state = sealer.seal([b"content"], CONTEXT, people)
    for wrong in (state[:-cut], state + bytes(cut), state[cut:], b""):
        with pytest.raises(UnavailableError) as caught:
            sealer.open(wrong, CONTEXT)
        assert caught.value.code == "malformed_state"


@pytest.mark.parametrize(
    "other",
    [
        replace(CONTEXT, log_id=uuid4()),
        replace(CONTEXT, event_id=uuid4()),
        replace(CONTEXT, stream_id=uuid4()),
        replace(CONTEXT, stream_version=8),
        replace(CONTEXT, stream_version=-7),
        replace(CONTEXT, topic="memory.corrected"),
        replace(CONTEXT, topic="memory.remembered "),
        replace(CONTEXT, schema_version=2),
        replace(CONTEXT, event_id=CONTEXT.stream_id, stream_id=CONTEXT.event_id),
    ],
)
def test_a_state_opens_in_its_own_event_only(store: FileKeyStore, other: SealContext) -> None:
    """A ciphertext moved to another log, event, stream, version, topic or schema stays closed."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    state = sealer.seal([b"content"], CONTEXT, people)
    with pytest.raises(UnavailableError) as caught:
        sealer.open(state, other)
    assert caught.value.code == "tampered_state"
    assert "content" not in str(caught.value.as_dict())


def test_sections_cannot_trade_places(store: FileKeyStore) -> None:
    """A section is bound to its number."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    one, two = parse_envelope(sealer.seal([b"one", b"two"], CONTEXT, people))
    with pytest.raises(UnavailableError, match="Section 0"):
        sealer.open(build_envelope([two, one]), CONTEXT)


def test_another_log_has_other_keys(store: FileKeyStore) -> None:
    """The log id goes into the key: a sealer for another log opens nothing."""
    people = store.get_or_create("acme", [ALICE])
    state = Sealer(store, LOG, "acme").seal([b"content"], CONTEXT, people)
    with pytest.raises(UnavailableError, match="changed"):
        Sealer(store, uuid4(), "acme").open(state, CONTEXT)


def test_a_nonce_is_never_used_twice(store: FileKeyStore) -> None:
    """Every section gets a random nonce of its own."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    states = [sealer.seal([b"same", b"same"], CONTEXT, people) for _ in range(200)]
    assert len({section.nonce for state in states for section in parse_envelope(state)}) == 400


def test_a_large_payload_is_sealed(store: FileKeyStore) -> None:
    """A section of 20 MB opens again."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    payload = os.urandom(1_000_000) * 20
    assert sealer.open(sealer.seal([payload], CONTEXT, people), CONTEXT) == [payload]


def test_destroying_any_key_erases_the_section(fresh: FileKeyStore) -> None:
    """When one person's key is gone the sections are tombstones that name the missing key."""
    alice, bob = fresh.get_or_create("acme", [ALICE, BOB])
    sealer = Sealer(fresh, LOG, "acme")
    both = sealer.seal([b"one", b"two"], CONTEXT, [alice, bob])
    own = sealer.seal([b"own"], CONTEXT, [bob])
    assert sealer.open(both, CONTEXT) == [b"one", b"two"]
    fresh.destroy(alice.key_id)
    missing = (alice.key_id,)
    assert sealer.open(both, CONTEXT) == [Erased(0, missing), Erased(1, missing)]
    assert sealer.open(own, CONTEXT) == [b"own"]
    fresh.destroy(bob.key_id)
    assert sealer.open(own, CONTEXT) == [Erased(0, (bob.key_id,))]
    assert sealer.open(both, CONTEXT)[0] == Erased(0, tuple(sorted([alice.key_id, bob.key_id])))


def test_destroying_the_period_key_erases_the_section(fresh: FileKeyStore) -> None:
    """When the period's key is gone, only what was sealed in that period and class is."""
    people = fresh.get_or_create("acme", [ALICE])
    sealer = Sealer(fresh, LOG, "acme", clock=lambda: datetime(2026, 1, 31, tzinfo=UTC))
    state = sealer.seal([b"standard"], CONTEXT, people)
    other = sealer.seal([b"hipaa"], CONTEXT, people, "hipaa")
    period = fresh.find_period("acme", "standard", "2026-01")
    assert period
    fresh.destroy(period.key_id)
    assert sealer.open(state, CONTEXT) == [Erased(0, (period.key_id,))]
    assert sealer.open(other, CONTEXT) == [b"hipaa"]
    assert sealer.open(sealer.seal([b"new"], CONTEXT, people), CONTEXT) == [b"new"]


def test_a_key_destroyed_elsewhere_is_forgotten(fresh: FileKeyStore, tmp_path: Path) -> None:
    """No derived key survives in memory when another process destroys what it came from."""
    (alice,) = fresh.get_or_create("acme", [ALICE])
    sealer = Sealer(fresh, LOG, "acme")
    state = sealer.seal([b"content"], CONTEXT, [alice])
    with FileKeyStore(tmp_path / "keys") as other:
        other.destroy(alice.key_id)
    assert sealer.open(state, CONTEXT) == [Erased(0, (alice.key_id,))]


def test_nothing_is_sealed_with_a_destroyed_key(fresh: FileKeyStore) -> None:
    """A caller that still holds a destroyed key cannot seal with it, nor make it open again."""
    (alice,) = fresh.get_or_create("acme", [ALICE])
    sealer = Sealer(fresh, LOG, "acme")
    state = sealer.seal([b"content"], CONTEXT, [alice])
    fresh.destroy(alice.key_id)
    with pytest.raises(ConflictError) as caught:
        sealer.seal([b"more"], CONTEXT, [alice])
    assert caught.value.code == "key_destroyed"
    assert sealer.open(state, CONTEXT) == [Erased(0, (alice.key_id,))]
    (again,) = fresh.get_or_create("acme", [ALICE])
    assert sealer.open(sealer.seal([b"more"], CONTEXT, [again]), CONTEXT) == [b"more"]


def test_forget_drops_derived_keys(fresh: FileKeyStore) -> None:
    """After forget the key is derived again from the store, and everything still opens."""
    alice, bob = fresh.get_or_create("acme", [ALICE, BOB])
    sealer = Sealer(fresh, LOG, "acme")
    states = [sealer.seal([b"x"], CONTEXT, people) for people in ([alice], [bob], [alice, bob])]
    sealer.forget([alice.key_id])
    assert [len(kept) for kept in sealer._cache._ciphers] == [32]
    assert [sealer.open(state, CONTEXT) for state in states] == [[b"x"]] * 3
    sealer.forget([section.key_ids[-16:] for section in parse_envelope(states[0])])
    assert not sealer._cache._ciphers
    assert not sealer._cache._periods


def test_the_cache_is_bounded(fresh: FileKeyStore) -> None:
    """The least used derived keys are dropped; what they sealed still opens."""
    people = fresh.get_or_create("acme", [Subject("user", str(number)) for number in range(20)])
    sealer = Sealer(fresh, LOG, "acme", cache_size=4)
    states = [sealer.seal([b"x"], CONTEXT, [person]) for person in people]
    assert len(sealer._cache._ciphers) == 4
    assert [sealer.open(state, CONTEXT) for state in states] == [[b"x"]] * 20
    assert len(sealer._cache._ciphers) == 4


def test_many_states_are_opened_in_order(fresh: FileKeyStore) -> None:
    """open_many gives one answer per state, in order, over batches, tombstones among them."""
    people = fresh.get_or_create("acme", [Subject("user", str(number)) for number in range(7)])
    sealer = Sealer(fresh, LOG, "acme")
    items = []
    for number in range(600):
        context = replace(CONTEXT, stream_version=number)
        state = sealer.seal([str(number).encode()], context, [people[number % 7]])
        items.append((state, context))
    fresh.destroy(people[3].key_id)
    opened = list(Sealer(fresh, LOG, "acme").open_many(iter(items)))
    gone = Erased(0, (people[3].key_id,))
    assert opened == [[gone if n % 7 == 3 else str(n).encode()] for n in range(600)]
    assert list(sealer.open_many([])) == []


@pytest.mark.parametrize(
    ("now", "period"),
    [
        (datetime(2026, 3, 1, 0, 0, tzinfo=UTC), "2026-03"),
        (datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2026-02"),
        (datetime(2025, 12, 31, 22, 0, tzinfo=timezone(timedelta(hours=-5))), "2026-01"),
    ],
)
def test_the_period_is_the_utc_month(fresh: FileKeyStore, now: datetime, period: str) -> None:
    """Whatever zone the clock is in, the period key is that of the month in UTC."""
    people = fresh.get_or_create("acme", [ALICE])
    Sealer(fresh, LOG, "acme", clock=lambda: now).seal([b"x"], CONTEXT, people)
    assert fresh.find_period("acme", "standard", period)
    assert fresh.stats().periods == 1


def test_bad_input_is_refused(store: FileKeyStore) -> None:
    """Nobody, another tenant's person, another log and a naive clock are errors by name."""
    alice, foreign = (store.get_or_create(tenant, [ALICE])[0] for tenant in ("acme", "other"))
    sealer = Sealer(store, LOG, "acme")
    naive = Sealer(store, LOG, "acme", clock=lambda: datetime(2026, 1, 1))
    elsewhere = replace(CONTEXT, log_id=uuid4())
    calls: dict[str, Callable[[], bytes]] = {
        "persons": lambda: sealer.seal([b"x"], CONTEXT, []),
        "persons ": lambda: sealer.seal([b"x"], CONTEXT, [alice, foreign]),
        "log_id": lambda: sealer.seal([b"x"], elsewhere, [alice]),
        "sections": lambda: sealer.seal([b""] * 65_536, CONTEXT, [alice]),
        "clock": lambda: naive.seal([b"x"], CONTEXT, [alice]),
        "retention_class": lambda: sealer.seal([b"x"], CONTEXT, [alice], "für immer"),
    }
    for field, seal in calls.items():
        with pytest.raises(InputError) as caught:
            seal()
        assert caught.value.field == field.strip()


def test_keys_do_not_show(store: FileKeyStore) -> None:
    """No error of the sealer and no repr of what it returns shows a key."""
    sealer, people = Sealer(store, LOG, "acme"), store.get_or_create("acme", [ALICE])
    state = sealer.seal([b"content"], CONTEXT, people)
    with pytest.raises(UnavailableError) as caught:
        sealer.open(state[:-1] + bytes([state[-1] ^ 1]), CONTEXT)
    key = people[0].key
    for shown in (repr(caught.value), str(caught.value.as_dict()), repr(parse_envelope(state))):
        assert key.hex() not in shown
        assert repr(key)[2:-1] not in shown


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_sealed_bytes_are_frozen(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed keys and nonces give the frozen bytes, which open again: stored ones must for ever."""
    store = FixedKeys(GOLDEN)
    context = context_of(case)
    sealer = Sealer(cast(KeyStore, store), context.log_id, "acme")
    nonces = iter(bytes.fromhex(nonce) for nonce in case["nonces"])
    monkeypatch.setattr(os, "urandom", lambda size: next(nonces))
    plain = [bytes.fromhex(section) for section in case["sections"]]
    people = [store.person(key_id) for key_id in case["person_key_ids"]]
    state = sealer.seal(plain, context, people)
    assert state.hex() == case["state"]
    assert sealer.open(bytes.fromhex(case["state"]), context) == plain
    for number, expected in enumerate(case["associated_data"]):
        assert associated_data(context, number).hex() == expected


def test_a_section_can_be_opened_from_the_description_alone() -> None:
    """The frozen bytes open with nothing but HKDF, AES-GCM and the layout in the docstring."""
    case = GOLDEN["cases"][1]
    keys = {bytes.fromhex(key_id): bytes.fromhex(key) for key_id, key in GOLDEN["keys"].items()}
    state, context = bytes.fromhex(case["state"]), context_of(case)
    assert state[:6] == bytes.fromhex("01 0002 01 0002")
    ids, period, nonce = (state[6:22], state[22:38]), state[38:54], state[54:66]
    length = int.from_bytes(state[66:70], "big")
    secret = b"".join(sorted(keys[key_id] for key_id in ids))
    info = b"seal/1" + context.log_id.bytes
    key = HKDF(SHA256(), 32, salt=keys[period], info=info).derive(secret)
    parts = (
        context.log_id.bytes,
        context.event_id.bytes,
        context.stream_id.bytes,
        context.stream_version.to_bytes(8, "big", signed=True),
        context.topic.encode(),
        context.schema_version.to_bytes(4, "big"),
        (0).to_bytes(4, "big"),
    )
    bound = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    plain = AESGCM(key).decrypt(nonce, state[70 : 70 + length], bound)
    assert plain.hex() == case["sections"][0]


def opened_or_code(sealer: Sealer, state: bytes) -> list[bytes | Erased] | str:
    """Open a state, or say with which error code it does not open."""
    try:
        return sealer.open(state, CONTEXT)
    except UnavailableError as error:
        return error.code


def context_of(case: dict[str, Any]) -> SealContext:
    """The event of a golden case."""
    fields = case["context"]
    ids = {name: UUID(fields[name]) for name in ("log_id", "event_id", "stream_id")}
    return SealContext(**{**fields, **ids})
