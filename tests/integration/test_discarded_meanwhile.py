"""A branch that is discarded between the moment a write looked at it and its append."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

import memoriale
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import RefusedError
from tests.fixtures.ledger import HASHING


@pytest.fixture
def elsewhere(shared_url: str, ledger_home: Path) -> Iterator[Ledger]:
    """The same ledger with connections of its own."""
    with memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING) as opened:
        yield opened


class Between:
    """
    Does something just before the next append of a process, when all that the append rests on has
    been looked at.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, act: Callable[[], object]) -> None:
        done: list[bool] = []
        for name in ("save", "save_and_show", "save_many"):
            self._patch.setattr(TenantLog, name, self._passing(name, act, done))

    def _passing(
        self, name: str, act: Callable[[], object], done: list[bool]
    ) -> Callable[..., object]:
        real = getattr(TenantLog, name)

        def passed(log: TenantLog, *given: object) -> object:
            if not done and log.log.kind == "memory":
                done.append(True)
                act()
            return real(log, *given)

        return passed


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    return Between(monkeypatch)


WRITES: dict[str, Callable[[Memory], object]] = {
    "remember": lambda side: side.remember("late"),
    "replace": lambda side: side.remember("late", kind="fact", subject="drink"),
    "remember_many": lambda side: _raised(side.remember_many(["late", "later"])[1]),
    "correct": lambda side: side.correct(_first(side), "late"),
    "amend": lambda side: side.amend(_first(side), importance=0.9),
    "invalidate": lambda side: side.invalidate(_first(side)),
    "a store": lambda side: side.facts.add_facts(None, ["late"]),
    "a session": lambda side: side.sessions.get_or_create_session("s-2"),
    "messages": lambda side: side.sessions.append_messages(
        "s-1", [ChatMessage(role="user", content="late")]
    ),
}


def _raised(answer: object) -> None:
    assert isinstance(answer, Exception)
    raise answer


def _first(memory: Memory) -> UUID:
    return memory.list(limit=1).memories[0].memory_id


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_looked_before_a_discard_stores_nothing_after_it(
    shared_ledger: Ledger, elsewhere: Ledger, tenant: str, between: Between, name: str
) -> None:
    """Whatever is written, and though the branch was there when the write looked at it."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", session="s-1")
    alice.remember("before")
    alice.sessions.get_or_create_session("s-1")
    side = alice.fork("side")
    other = elsewhere.memory(tenant=tenant, user="alice", session="s-1")
    between(lambda: other.discard("side"))
    with pytest.raises(RefusedError) as refused:
        WRITES[name](side)
    assert refused.value.code == "discarded"
    last = alice.services.log.reader.last(1)[0]
    assert last.columns.topic == "branch.discarded"


def test_working_memory_on_a_branch_that_is_discarded_meanwhile(
    shared_ledger: Ledger, elsewhere: Ledger, tenant: str, between: Between
) -> None:
    """Neither set nor delete reach a branch after its end."""
    bot = shared_ledger.memory(tenant=tenant, resource="bot")
    bot.working.set("plan", "first")
    writes: dict[str, Callable[[Memory], object]] = {
        "set": lambda side: side.working.set("plan", "late"),
        "delete": lambda side: side.working.delete("plan"),
    }
    for name, write in writes.items():
        side = bot.fork(name)
        other = elsewhere.memory(tenant=tenant, resource="bot")
        with pytest.MonkeyPatch.context() as patch:
            Between(patch)(partial(other.discard, name))
            with pytest.raises(RefusedError) as refused:
                write(side)
        assert refused.value.code == "discarded"
        assert bot.services.log.reader.last(1)[0].columns.topic == "branch.discarded"


def test_a_write_goes_on_when_its_branch_was_merged_meanwhile(
    shared_ledger: Ledger, elsewhere: Ledger, tenant: str, between: Between
) -> None:
    """What happens to a branch without ending it holds nothing up; nor what happens to others."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    side = alice.fork("side")
    side.remember("one")
    other = elsewhere.memory(tenant=tenant, user="alice")
    for act, write in (
        (lambda: other.merge("side"), lambda: side.remember("two")),
        (lambda: other.merge("side"), lambda: side.remember_many(["three"])),
        (lambda: other.merge("side"), lambda: side.facts.add_facts(None, ["four"])),
        (lambda: other.fork("unused"), lambda: side.remember("five")),
        (lambda: other.discard("unused"), lambda: side.remember("six")),
    ):
        with pytest.MonkeyPatch.context() as patch:
            Between(patch)(act)
            write()
    found = [record.content for record in side.list(limit=10).memories]
    assert sorted(filter(None, found)) == ["five", "four", "one", "six", "three", "two"]


def test_on_main_an_append_is_guarded_by_nothing_more(
    alice: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``main`` is never discarded, so a note there is stored without a condition."""
    seen: list[object] = []
    real = TenantLog.save

    def watched(log: TenantLog, events: object, guards: object = ()) -> object:
        # Others, such as those who write access logs, save in threads of their own.
        if threading.current_thread() is caller:
            seen.append(guards)
        return real(log, events, guards)  # type: ignore[arg-type]

    caller = threading.current_thread()
    monkeypatch.setattr(TenantLog, "save", watched)
    alice.remember("a note")
    assert seen == [()]
