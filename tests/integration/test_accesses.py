"""The auditor's questions: who saw a memory, what was told in a session, who did what."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import memoriale
from memoriale.adapters.application.access_recording import Given
from memoriale.adapters.application.accesses import PAGE
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal, Right
from tests.fixtures.ledger import HASHING

Open = Callable[..., Ledger]


@pytest.fixture
def full(shared_url: str, ledger_home: Path) -> Open:
    """Opens a ledger that keeps questions, on the run's home."""
    return lambda: memoriale.open(
        home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30, access_log="full"
    )


def test_who_saw_names_everybody_who_was_given_a_memory(shared_ledger: Ledger, tenant: str) -> None:
    """Each answer that held the memory is told with who, when, where, for what, in which version
    and at which place; answers without it are not."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    memory_id = alice.remember("tea", visibility="tenant").memory_id
    other = alice.remember("something else", visibility="tenant").memory_id
    bob = shared_ledger.memory(
        tenant=tenant, user="bob", agent="support", session="s-1", purpose="care"
    )
    bob.show(memory_id)
    bob.show(other)
    corrected = alice.correct(memory_id, "coffee")
    before = datetime.now(UTC)
    bob.recall("coffee")
    saw = list(shared_ledger.access.who_saw(memory_id, tenant=tenant))
    assert [access.command for access in saw] == ["show", "recall"]
    assert [m.memory_id for access in saw for m in access.memories] == [memory_id] * 2
    assert [access.memories[0].version for access in saw] == [0, corrected.index]
    last = saw[-1]
    assert (last.user and last.user.id, last.actor.id) == ("bob", "support")
    assert (last.session and last.session.id, last.purpose, last.branch) == ("s-1", "care", "main")
    assert last.at is not None
    assert before <= last.at <= last.recorded_at
    assert last.question is None
    assert list(shared_ledger.access.who_saw(uuid4(), tenant=tenant)) == []


def test_what_was_told_in_a_session(shared_ledger: Ledger, tenant: str) -> None:
    """Memories come in the order in which they were told, each in the version of then, with what
    became of it since; other sessions, and answers without a memory, leave nothing."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    ids = [alice.remember(text, owner="user").memory_id for text in ("one", "two", "three", "four")]
    telling = shared_ledger.memory(tenant=tenant, user="alice", session="s-1")
    telling.recall("nothing at all", kinds=["message"])
    for memory_id in ids:
        telling.show(memory_id)
    shared_ledger.memory(tenant=tenant, user="alice", session="s-2").show(ids[0])
    alice.correct(ids[0], "uno")
    gone = alice.invalidate(ids[1], because="retracted")
    alice.amend(ids[2], importance=0.5)
    alice.invalidate(ids[3])
    alice.reinstate(ids[3])
    alice.fork("side").correct(ids[2], "drei")
    telling.show(ids[0])
    told = list(shared_ledger.access.what_was_told("s-1", tenant=tenant, content=True))
    assert [t.memory_id for t in told] == [*ids, ids[0]]
    assert [t.content for t in told] == ["one", "two", "three", "four", "uno"]
    assert [t.current for t in told] == [False, False, True, True, True]
    assert told[1].since is not None
    assert told[1].since["index"] == gone.index
    assert (told[1].since["event"], told[1].since["reason_code"]) == (
        "memory.invalidated",
        "retracted",
    )
    assert told[2].since is not None
    assert told[2].since["event"] == "memory.amended"
    assert told[4].since is None
    (plain, *_) = shared_ledger.access.what_was_told("s-1", tenant=tenant)
    assert plain.content is None


def test_what_was_told_on_a_branch(shared_ledger: Ledger, tenant: str) -> None:
    """A version of a branch is told with its text, also where the branch only amended it."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", session="s-1")
    memory_id = alice.remember("one", owner="user").memory_id
    side = alice.fork("side")
    side.amend(memory_id, importance=0.5)
    side.show(memory_id)
    alice.correct(memory_id, "uno")
    (told,) = shared_ledger.access.what_was_told("s-1", tenant=tenant, content=True)
    assert (told.content, told.current) == ("one", True)
    assert told.branch != "main"


def test_the_question_is_opened_with_content_alone(full: Open, tenant: str) -> None:
    """What was asked is shown only where it was kept and only when content is asked for."""
    with full() as ledger:
        alice = ledger.memory(tenant=tenant, user="alice")
        memory_id = alice.remember("tea").memory_id
        alice.recall("tea, what else")
        (plain,) = ledger.access.who_saw(memory_id, tenant=tenant)
        (opened,) = ledger.access.who_saw(memory_id, tenant=tenant, content=True)
        assert (plain.question, opened.question) == (None, "tea, what else")


def test_an_erased_name_is_a_pseudonym(full: Open, tenant: str) -> None:
    """After a person's key is destroyed their entries stay, under a pseudonym that can be asked
    for, without a name and without the question."""
    with full() as ledger:
        alice = ledger.memory(tenant=tenant, user="alice", session="s-1")
        memory_id = alice.remember("tea", visibility="tenant", owner="session").memory_id
        alice.recall("tea")
        list(ledger.access.who_saw(memory_id, tenant=tenant))
        key = ledger.tenant(tenant).log.identities.find(Subject("user", "alice"))
        assert key is not None
        ledger.infrastructure.keys.destroy(key.key_id)
        (saw,) = ledger.access.who_saw(memory_id, tenant=tenant, content=True)
        assert saw.user is not None
        assert (saw.user.id, saw.user.pseudonym, saw.question) == (None, key.pseudonym, None)
        assert list(ledger.access.by("alice", tenant=tenant)) == []
        again = list(ledger.access.by(str(key.pseudonym), tenant=tenant))
        assert [access.index for access in again] == [saw.index]


def test_accesses_by_somebody(shared_ledger: Ledger, tenant: str) -> None:
    """Entries are found by an outside id in whatever part, or by a principal of which every part
    must fit; refusals can be asked for alone."""
    bob = shared_ledger.memory(tenant=tenant, user="bob", agent="support")
    eve = shared_ledger.memory(tenant=tenant, user="eve", agent="support")
    bob.list()
    eve.list()
    with pytest.raises(MissingRightError):
        shared_ledger.memory(tenant=tenant, user="eve", rights=[]).list()
    shared_ledger.tenant(tenant).recorder.flush()

    def by(who: Any, **more: Any) -> list[tuple[str | None, str]]:
        found = shared_ledger.access.by(who, tenant=tenant, **more)
        names = [(None if a.user is None else a.user.id, a.event) for a in found]
        return [(name, event) for name, event in names if event != "access.right_used"]

    given = "access.recalled"
    # The refusal is written at once, answers with the next batch.
    assert sorted(map(str, by("eve"))) == sorted(
        map(str, [("eve", "access.denied"), ("eve", given)])
    )
    assert len(by("support")) == 2
    assert by(Principal(tenant=tenant, user="bob", agent="support")) == [("bob", given)]
    assert by(Principal(tenant=tenant, user="bob", agent="other")) == []
    assert by(None, denied=True) == [("eve", "access.denied")]
    assert by("nobody") == []
    (refused,) = shared_ledger.access.by("eve", tenant=tenant, denied=True)
    assert (refused.command, refused.details) == ("list", {"right": "use"})


def test_a_span_of_time_and_pages(shared_ledger: Ledger, tenant: str) -> None:
    """`since` and `until` bound when entries were recorded, both included; `after` and `limit`
    walk through all of them once, over many pages of the database."""
    services = shared_ledger.tenant(tenant)
    memory_id = uuid4()
    given = Given(command="recall", memories=[(memory_id, 1)], index=1, branch=services.log.log_id)
    caller = Principal(tenant=tenant, user="alice", session="s-1")
    for _ in range(PAGE + 50):
        services.recorder.record(caller, given)
    services.recorder.flush()
    whole = list(shared_ledger.access.who_saw(memory_id, tenant=tenant))
    assert len(whole) == PAGE + 50
    after, walked = -1, []
    while page := list(
        shared_ledger.access.who_saw(memory_id, tenant=tenant, after=after, limit=200)
    ):
        walked += [access.index for access in page]
        after = walked[-1]
    assert walked == [access.index for access in whole]
    first, last = whole[0].recorded_at, whole[-1].recorded_at
    between = shared_ledger.access.who_saw(memory_id, tenant=tenant, since=first, until=first)
    assert {access.recorded_at for access in between} == {first}
    later = shared_ledger.access.who_saw(
        memory_id, tenant=tenant, since=last + timedelta(microseconds=1)
    )
    assert list(later) == []
    ids = shared_ledger.access.what_was_told("s-1", tenant=tenant, limit=200)
    assert len(list(ids)) == 200


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("memory_id", {"memory_id": "x"}),
        ("since", {"since": "2026-01-01T00:00:00"}),
        ("until", {"until": "yesterday"}),
        ("after", {"after": -2}),
        ("limit", {"limit": 0}),
    ],
)
def test_bad_arguments_name_their_field(
    field: str, arguments: dict[str, Any], shared_ledger: Ledger, tenant: str
) -> None:
    """A wrong argument is refused when the call is made, and nothing is recorded."""
    given = {"memory_id": uuid4(), "tenant": tenant, **arguments}
    with pytest.raises(InputError) as refused:
        shared_ledger.access.who_saw(**given)
    assert refused.value.field == field
    assert shared_ledger.tenant(tenant).access.head() == 0


def test_a_time_to_come_is_refused(shared_ledger: Ledger, tenant: str) -> None:
    """A time later than the database clock is bad input that names the field."""
    later = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(InputError) as refused:
        list(shared_ledger.access.by(tenant=tenant, until=later))
    assert refused.value.field == "until"


def test_another_tenants_accesses_are_not_seen(shared_ledger: Ledger, tenant: str) -> None:
    """An auditor of one tenant finds nothing of another's log, whatever they ask by."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", session="s-1")
    memory_id = alice.remember("tea", owner="user").memory_id
    alice.recall("tea")
    other = f"{tenant}-2"
    access = shared_ledger.access
    assert list(access.who_saw(memory_id, tenant=other)) == []
    assert list(access.what_was_told("s-1", tenant=other)) == []
    assert [a.event for a in access.by("alice", tenant=other)] == []


def test_the_questions_are_on_record_themselves(shared_ledger: Ledger, tenant: str) -> None:
    """Asking needs `audit`, with content also `content`, and each use is an entry of the log."""
    shared_ledger.memory(tenant=tenant, user="alice").remember("tea")
    list(shared_ledger.access.what_was_told("s-1", tenant=tenant, content=True))
    (used,) = shared_ledger.access.by(tenant=tenant, limit=1)
    assert (used.event, used.command) == ("access.right_used", "what-was-told")
    assert used.details == {"rights": [Right.AUDIT, Right.CONTENT]}


def test_the_questions_awaited(shared_url: str, ledger_home: Path, tenant: str) -> None:
    """The asynchronous surface gives the same answers as asynchronous iterators."""

    async def main() -> None:
        async with memoriale.open_async(
            home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30
        ) as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice", session="s-1")
            receipt = await alice.remember("tea", owner="user")
            await alice.recall("tea")
            saw = [a async for a in ledger.access.who_saw(receipt.memory_id, tenant=tenant)]
            told = [t async for t in ledger.access.what_was_told("s-1", tenant=tenant)]
            done = [a.command async for a in ledger.access.by("alice", tenant=tenant)]
            assert len(saw) == len(told) == 1
            assert done == ["recall"]

    asyncio.run(main())
