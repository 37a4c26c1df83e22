"""Every public method of the Python surface needs its rights, and nothing else: no way around."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import ALL_RIGHTS, Right
from memoriale.domain.resources.ref import ResourceRef
from tests.fixtures.store_calls import FINDING, FOR_OTHERS, MISSING, OFFERING, REPAIRING, prepare
from tests.fixtures.surfaces import public

USE, AUDIT, CONTENT, OPERATE = Right.USE, Right.AUDIT, Right.CONTENT, Right.OPERATE
REVIEW, ANALYSE, ADMIN = Right.REVIEW, Right.ANALYSE, Right.ADMIN
WITHOUT_RIGHTS: Final = {"Ledger.close", "Ledger.memory", "Ledger.describe", *OFFERING}
"""They touch nothing of a tenant."""


@dataclass(frozen=True)
class Place:
    """
    What a call is made with: the ledger, handles (``desk`` is alice's with an agent and a
    resource, in a session), a memory that bob may see, a folder.
    """

    ledger: Any
    alice: Any
    bob: Any
    nobody: Any
    desk: Any
    tenant: str
    memory_id: UUID
    folder: Path


@dataclass(frozen=True)
class Call:
    """
    A call of a method, and the rights without which it is refused. Where ``finds`` is False it
    asks for what there is not, and an allowed call says so.
    """

    method: str
    rights: frozenset[Right]
    make: Callable[[Place], Any]
    finds: bool = True


def call(method: str, make: Callable[[Place], Any], *rights: Right) -> Call:
    return Call(method, frozenset(rights), make)


CALLS: Final = [
    call("Memory.branch", lambda p: p.alice.branch("main"), USE),
    call("Memory.fork", lambda p: p.alice.fork("b"), USE),
    call("Memory.fork", lambda p: p.nobody.fork("b"), USE, REVIEW),
    call("Memory.fork", lambda p: p.alice.fork("b", resource="r"), USE, OPERATE),
    call("Memory.branches", lambda p: p.alice.branches(), USE),
    call("Memory.tree", lambda p: p.alice.tree(), USE),
    call("Memory.diff", lambda p: p.alice.diff("main", "main", questions=["x"]), USE),
    call("Memory.merge", lambda p: p.alice.merge("work"), USE, REVIEW),
    call("Memory.merge", lambda p: p.alice.merge("work", propose=True), USE),
    call("Memory.merge", lambda p: p.alice.merge("handed"), USE, REVIEW, OPERATE),
    Call(
        "Memory.approve",
        frozenset({USE, REVIEW}),
        lambda p: p.alice.approve(p.memory_id),
        finds=False,
    ),
    call("Memory.discard", lambda p: p.alice.discard("work"), USE),
    call("Memory.discard", lambda p: p.nobody.discard("whole"), USE, REVIEW),
    call("Memory.discard", lambda p: p.alice.discard("handed"), USE, OPERATE),
    call("Memory.episodic", lambda p: p.alice.episodic(ResourceRef("r")), USE),
    call("Memory.episodic_tree", lambda p: p.alice.episodic_tree(ResourceRef("r")), USE),
    call("Memory.remember", lambda p: p.alice.remember("x"), USE),
    call("Memory.remember_many", lambda p: p.alice.remember_many(["x"]), USE),
    call(
        "Memory.remember_many",
        lambda p: p.alice.remember_many([{"content": "x", "user": "zoe"}]),
        *(USE, OPERATE),
    ),
    call("Memory.import_lines", lambda p: p.alice.import_lines(['{"content":"x"}']), USE, OPERATE),
    call("Memory.correct", lambda p: p.alice.correct(p.memory_id, "y"), USE),
    call("Memory.correct", lambda p: p.bob.correct(p.memory_id, "y"), USE, REVIEW),
    call("Memory.amend", lambda p: p.alice.amend(p.memory_id, importance=0.1), USE),
    call("Memory.amend", lambda p: p.bob.amend(p.memory_id, importance=0.1), USE, REVIEW),
    call("Memory.invalidate", lambda p: p.alice.invalidate(p.memory_id), USE),
    call("Memory.invalidate", lambda p: p.bob.invalidate(p.memory_id), USE, REVIEW),
    call("Memory.reinstate", lambda p: p.alice.reinstate(p.memory_id), USE),
    call("Memory.reinstate", lambda p: p.bob.reinstate(p.memory_id), USE, REVIEW),
    call("Memory.recall", lambda p: p.alice.recall("x"), USE),
    call("Memory.show", lambda p: p.alice.show(p.memory_id), USE),
    call("Memory.show", lambda p: p.alice.show(p.memory_id, all_owners=True), AUDIT),
    call("Memory.history", lambda p: p.alice.history(p.memory_id), USE),
    call("Memory.history", lambda p: p.alice.history(p.memory_id, all_owners=True), AUDIT),
    call("Memory.list", lambda p: p.alice.list(), USE),
    call("Memory.context", lambda p: p.alice.context("x"), USE),
    call("Memory.get_tools", lambda p: p.alice.get_tools(), USE),
    call("Memory.explain", lambda p: p.alice.explain(p.memory_id), USE),
    call("Memory.explain", lambda p: p.alice.explain(p.memory_id, all_owners=True), AUDIT),
    *(call(name, make, USE) for name, make in FINDING.items()),
    *(Call(name, frozenset({USE}), make, finds=False) for name, make in MISSING.items()),
    *(call(name, make, USE, OPERATE) for name, make in FOR_OTHERS.items()),
    *(call(name, make, OPERATE) for name, make in REPAIRING.items()),
    call("Ledger.replay", lambda p: p.ledger.replay("stats", tenant=p.tenant), OPERATE),
    call("Ledger.reconcile", lambda p: p.ledger.reconcile("stats", tenant=p.tenant), OPERATE),
    call("Ledger.verify", lambda p: p.ledger.verify(tenant=p.tenant), AUDIT),
    call("Ledger.anchors", lambda p: p.ledger.anchors(tenant=p.tenant), AUDIT),
    call("Ledger.witness_keys", lambda p: p.ledger.witness_keys(tenant=p.tenant), AUDIT),
    call("Ledger.checkpoint", lambda p: p.ledger.checkpoint(tenant=p.tenant), AUDIT),
    call("Ledger.bundle", lambda p: p.ledger.bundle(p.folder, tenant=p.tenant), AUDIT),
    call("Ledger.signing_keys", lambda p: p.ledger.signing_keys(tenant=p.tenant), ADMIN),
    call(
        "Ledger.rotate_signing_key", lambda p: p.ledger.rotate_signing_key(tenant=p.tenant), ADMIN
    ),
    *(
        Call(f"Ledger.{name}", frozenset({right}), make, finds=False)
        for name, right, make in (
            ("push", OPERATE, lambda p: p.ledger.push(tenant=p.tenant)),
            ("witnessed", AUDIT, lambda p: p.ledger.witnessed(tenant=p.tenant)),
            ("receipt", AUDIT, lambda p: p.ledger.receipt(99, tenant=p.tenant)),
            ("consistency", AUDIT, lambda p: p.ledger.consistency("a", "b", tenant=p.tenant)),
            ("restored", ADMIN, lambda p: p.ledger.restored("", tenant=p.tenant)),
        )
    ),
    call("Ledger.position", lambda p: p.ledger.position("stats", tenant=p.tenant), USE),
    call("Ledger.wait", lambda p: p.ledger.wait(0, view="stats", tenant=p.tenant, timeout=60), USE),
    call("Ledger.ahead", lambda p: p.ledger.ahead(tenant=p.tenant), USE),
    call("Ledger.events", lambda p: p.ledger.events(tenant=p.tenant), AUDIT),
    call("Ledger.events", lambda p: p.ledger.events(tenant=p.tenant, content=True), AUDIT, CONTENT),
    call("Memory.subscribe", lambda p: p.alice.subscribe(), USE),
    call("Memory.subscribe", lambda p: p.alice.subscribe(all_owners=True), AUDIT),
    call("Ledger.subscribe", lambda p: p.ledger.subscribe(tenant=p.tenant), AUDIT),
    call(
        "Ledger.subscribe",
        lambda p: p.ledger.subscribe(tenant=p.tenant, user=p.alice.principal.user),
        USE,
    ),
    call(
        "Ledger.subscribe",
        lambda p: p.ledger.subscribe(tenant=p.tenant, content=True),
        *(AUDIT, CONTENT),
    ),
    call("Ledger.sql", lambda p: p.ledger.sql("SELECT 1", tenant=p.tenant), ANALYSE),
    call("Ledger.snapshot", lambda p: p.ledger.snapshot(tenant=p.tenant), ANALYSE),
    call("Ledger.stats", lambda p: p.ledger.stats(tenant=p.tenant), ANALYSE),
    call("Ledger.jobs.list", lambda p: p.ledger.jobs.list(tenant=p.tenant), OPERATE),
    call("Ledger.jobs.run", lambda p: p.ledger.jobs.run(tenant=p.tenant), OPERATE),
    call("Ledger.jobs.worker", lambda p: p.ledger.jobs.worker(tenant=p.tenant), OPERATE),
    *(
        Call(f"Ledger.jobs.{name}", frozenset({OPERATE}), make, finds=False)
        for name, make in {
            "get": lambda p: p.ledger.jobs.get(uuid4(), tenant=p.tenant),
            "cancel": lambda p: p.ledger.jobs.cancel(uuid4(), tenant=p.tenant),
            "retry": lambda p: p.ledger.jobs.retry(uuid4(), tenant=p.tenant),
            "compare": lambda p: p.ledger.jobs.compare(uuid4(), tenant=p.tenant),
        }.items()
    ),
    *(
        call(f"Ledger.access.{name}", make, *rights)
        for content, rights in ((False, (AUDIT,)), (True, (AUDIT, CONTENT)))
        for name, make in {
            "who_saw": lambda p, c=content: p.ledger.access.who_saw(
                p.memory_id, tenant=p.tenant, content=c
            ),
            "what_was_told": lambda p, c=content: p.ledger.access.what_was_told(
                "s", tenant=p.tenant, content=c
            ),
            "by": lambda p, c=content: p.ledger.access.by(tenant=p.tenant, content=c),
        }.items()
    ),
]
NAMES: Final = [f"{c.method} {'+'.join(sorted(c.rights))}" for c in CALLS]
NEEDED: Final = [
    pytest.param(c, right, id=f"{name} without {right}")
    for c, name in zip(CALLS, NAMES, strict=True)
    for right in sorted(c.rights)
]


def methods(ledger: Ledger, memory: Memory) -> set[str]:
    """Every public method of the handles, and of what their properties hand out."""
    found = set()
    for handle in (memory, ledger):
        name = type(handle).__name__
        found |= {f"{name}.{method}" for method in public(type(handle))}
        for part, _ in inspect.getmembers(
            type(handle), lambda m: isinstance(m, property | cached_property)
        ):
            made = type(getattr(handle, part))
            if made.__module__.startswith("memoriale.adapters.library"):
                found |= {f"{name}.{part}.{method}" for method in public(made)}
    return found


def test_every_public_method_stands_in_the_matrix(shared_ledger: Ledger, alice: Memory) -> None:
    """A method that is new must say here which rights it needs."""
    listed = {c.method for c in CALLS} | WITHOUT_RIGHTS
    found = methods(shared_ledger, alice)
    for name in sorted(found - listed):
        pytest.fail(
            f"{name} stands in no row: add call({name!r}, lambda p: …, its rights) to CALLS, or its"
            " name to WITHOUT_RIGHTS if it touches nothing of a tenant; and let it call `allow`."
        )
    assert listed <= found


@pytest.fixture
def place(shared_ledger: Ledger, tenant: str, tmp_path: Path) -> Place:
    """A tenant with a memory of alice's that bob may see as well; handles with every right."""
    made = shared_ledger.memory(tenant=tenant, user="alice")
    memory_id = made.remember("x", visibility="tenant").memory_id
    return placed(shared_ledger, tenant, memory_id, tmp_path, ALL_RIGHTS)


def placed(
    ledger: Ledger, tenant: str, memory_id: UUID, folder: Path, rights: frozenset[Right]
) -> Place:
    alice, bob = (ledger.memory(tenant=tenant, user=u, rights=rights) for u in ("alice", "bob"))
    nobody = ledger.memory(tenant=tenant, rights=rights)
    as_clerk = {"user": "alice", "agent": "clerk", "session": "s", "resource": "r"}
    desk = ledger.memory(tenant=tenant, rights=rights, **as_clerk)
    return Place(ledger, alice, bob, nobody, desk, tenant, memory_id, folder)


def ready(case: Call, place: Place) -> None:
    """What a call needs beforehand: only an invalidated memory can be reinstated, and so on."""
    if case.method == "Memory.reinstate":
        place.alice.invalidate(place.memory_id)
    if case.method in ("Memory.merge", "Memory.discard"):
        place.alice.fork("work").remember("x")
        place.alice.fork("handed", resource="r").remember("x")
        place.nobody.fork("whole")
    if case.method in FINDING:
        prepare(case.method, place.desk)


def made(case: Call, place: Place, rights: frozenset[Right]) -> None:
    """Makes a call with some rights, and takes the first of what it iterates over."""
    ledger = place.ledger
    before, ledger.rights = ledger.rights, rights
    try:
        limited = placed(ledger, place.tenant, place.memory_id, place.folder, rights)
        answer = case.make(limited)
        if isinstance(answer, Iterator):
            next(answer, None)
            getattr(answer, "close", lambda: None)()
    finally:
        ledger.rights = before


def entries(place: Place, topic: str) -> list[str]:
    access = place.ledger.tenant(place.tenant).access
    return [row.header for row in access.reader.rows() if row.columns.topic == topic]


@pytest.mark.parametrize("case", CALLS, ids=NAMES)
def test_a_call_is_allowed_with_exactly_its_rights(case: Call, place: Place) -> None:
    """With its own rights and no other a call is made, and the use of each right other than
    ``use`` is on record."""
    ready(case, place)
    with nullcontext() if case.finds else pytest.raises(InputError):
        made(case, place, case.rights)
    used = "".join(entries(place, "access.right_used"))
    assert all(f'"{right}"' in used for right in case.rights - {USE})
    assert entries(place, "access.denied") == []


@pytest.mark.parametrize(("case", "right"), NEEDED)
def test_a_call_is_refused_without_one_of_its_rights(
    case: Call, right: Right, place: Place
) -> None:
    """With every right but one that it needs a call is refused by that name, stores nothing in
    the memory log, and the refusal is on record."""
    ready(case, place)
    head = place.ledger.tenant(place.tenant).log.head()
    with pytest.raises(MissingRightError) as refused:
        made(case, place, ALL_RIGHTS - {right})
    assert refused.value.allowed == right
    assert place.ledger.tenant(place.tenant).log.head() == head
    (denied,) = entries(place, "access.denied")
    assert f'"right":"{right}"' in denied


async def first(answer: Any) -> Any:
    """What an awaitable gives, or the first item of an asynchronous iterator."""
    if isinstance(answer, AsyncIterator):
        return await anext(answer)
    assert isinstance(answer, Awaitable)
    return await answer


def test_the_matrix_notices_a_call_that_asks_for_no_right(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted failures: a method that goes past the gate, and one that stands in no row, are each
    found by the tests above."""
    case = next(c for c in CALLS if c.method == "Memory.recall")
    with monkeypatch.context() as planted:
        planted.setattr(Memory, "allow", lambda self, command, *rights: None)
        with pytest.raises(pytest.fail.Exception):
            test_a_call_is_refused_without_one_of_its_rights(case, USE, place)
    monkeypatch.setattr(Memory, "leak", lambda self: None, raising=False)
    with pytest.raises(pytest.fail.Exception, match=r"Memory\.leak stands in no row"):
        test_every_public_method_stands_in_the_matrix(place.ledger, place.alice)


@pytest.mark.parametrize(("case", "right"), NEEDED)
def test_an_awaited_call_is_refused_without_one_of_its_rights(
    case: Call, right: Right, place: Place
) -> None:
    """The asynchronous surface refuses what the synchronous one refuses."""
    ready(case, place)

    async def main() -> None:
        ledger = AsyncLedger(lambda: place.ledger)
        await ledger.__aenter__()
        limited = placed(
            place.ledger, place.tenant, place.memory_id, place.folder, ALL_RIGHTS - {right}
        )
        names = ("alice", "bob", "nobody", "desk")
        handles: Any = {n: AsyncMemory(getattr(limited, n), ledger.threads) for n in names}
        awaited = replace(limited, ledger=ledger, **handles)
        answer = case.make(awaited)
        try:
            with pytest.raises(MissingRightError) as refused:
                await first(answer)
            assert refused.value.allowed == right
        finally:
            await asyncio.to_thread(ledger.threads.end, lambda: None)

    before, place.ledger.rights = place.ledger.rights, ALL_RIGHTS - {right}
    try:
        asyncio.run(main())
    finally:
        place.ledger.rights = before
