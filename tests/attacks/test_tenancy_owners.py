"""Owners of one tenant against each other: what is hidden stays so, and so does what names it."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.extraction.jobs import request_extraction
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.domain.access import AccessScope
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Right
from tests.fixtures.language_models import silent

OWN = frozenset({Right.USE})


class Bus:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def emit(self, name: str, payload: dict[str, Any]) -> None:
        self.told.append(payload)


def contents(memory: Memory) -> list[str | None]:
    return [record.content for record in memory.list().memories]


def in_session(ledger: Ledger, tenant: str, user: str) -> Memory:
    return ledger.memory(tenant=tenant, user=user, session="guessed", rights=OWN)


def test_a_write_in_a_guessed_session_replaces_nothing_of_its_user(
    shared_ledger: Ledger, tenant: str
) -> None:
    """Whoever knows a session's id ends no memory that is another user's there, neither by an
    equal subject nor by its id, and is not told that there is one."""
    hers = in_session(shared_ledger, tenant, "alice").remember(
        "hers", kind="fact", owner="session", subject="plan"
    )
    mallory = in_session(shared_ledger, tenant, "mallory")
    made = mallory.remember("his", kind="fact", owner="session", subject="plan")
    assert made.superseded == ()
    with pytest.raises(InputError) as refused:
        mallory.remember("his", kind="fact", owner="session", supersedes=[str(hers.memory_id)])
    assert refused.value.code == "unknown_memory"
    mallory.invalidate(made.memory_id)
    assert mallory.reinstate(made.memory_id).superseded == ()
    assert contents(in_session(shared_ledger, tenant, "alice")) == ["hers"]
    assert contents(mallory) == ["his"]


def test_a_reviewer_is_not_told_what_a_reinstatement_ends(
    shared_ledger: Ledger, tenant: str
) -> None:
    """Reinstating for another owner ends that owner's current fact of the same subject; the
    receipt names it only to who may see it."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    shown = alice.remember("tea", kind="fact", subject="drink", visibility="tenant").memory_id
    alice.invalidate(shown)
    hidden = alice.remember("coffee", kind="fact", subject="drink").memory_id
    bob = shared_ledger.memory(tenant=tenant, user="bob")
    assert bob.reinstate(shown).superseded == ()
    assert alice.show(hidden).status == "invalidated"


def test_a_replacement_that_is_hidden_is_not_named(shared_ledger: Ledger, tenant: str) -> None:
    """A memory that others see does not tell them the id of the hidden one in its place: not
    when shown, not in its history, not in a diff. Its owner is told."""
    alice, bob = (shared_ledger.memory(tenant=tenant, user=user) for user in ("alice", "bob"))
    shared_ledger.memory(tenant=tenant).fork("side")
    seen = alice.remember("tea", kind="fact", subject="drink", visibility="tenant").memory_id
    side = alice.branch("side")
    shown = side.remember("tea", kind="fact", subject="drink", visibility="tenant").memory_id
    hidden = {
        alice.remember("coffee", kind="fact", subject="drink").memory_id,
        side.remember("coffee", kind="fact", subject="drink").memory_id,
    }
    replaced = alice.remember("on", kind="fact", subject="lamp", visibility="tenant").memory_id
    alice.fork("hers")
    told = [
        bob.show(seen).as_dict(),
        [entry.as_dict() for entry in bob.history(seen)],
        bob.branch("side").show(shown).as_dict(),
        [entry.as_dict() for entry in bob.branch("side").history(shown)],
        bob.diff("main", "side").entries,
    ]
    assert not [memory_id for memory_id in hidden if str(memory_id) in str(told)]
    assert bob.show(seen).reason_code == "superseded"
    assert alice.show(seen).replaced_by in hidden
    assert {entry.replaced_by for entry in alice.history(seen)} & hidden
    auditor = shared_ledger.memory(tenant=tenant)
    assert auditor.show(seen, all_owners=True).replaced_by in hidden
    assert bob.show(replaced).replaced_by is None


def test_a_learning_does_not_name_the_hidden_one_in_its_place(
    shared_ledger: Ledger, tenant: str
) -> None:
    """The same holds for what a store answers."""
    alice, bob = (
        LearnedKnowledge(shared_ledger.memory(tenant=tenant, user=user))
        for user in ("alice", "bob")
    )
    new = {"title": "t", "content": "c"}
    seen = alice.save_learning({**new, "scope": "tenant"})
    hidden = alice.save_learning(new)
    alice.invalidate_learning(seen.id, hidden.id)
    found = [store.get_learning(seen.id) for store in (alice, bob)]
    assert [None if one is None else one.superseded_by for one in found] == [hidden.id, None]


def test_a_fork_makes_nobody_another_resource(shared_ledger: Ledger, tenant: str) -> None:
    """A handle on another resource's branch is that resource's, so a caller with ``use`` alone
    gets none, and so no other way to what the resource remembers."""
    shared_ledger.memory(tenant=tenant, resource="hers").remember("secret of hers")
    mallory = shared_ledger.memory(tenant=tenant, resource="his", rights=OWN)
    with pytest.raises(MissingRightError) as refused:
        mallory.fork("trick", resource="hers")
    assert refused.value.allowed == Right.OPERATE
    assert mallory.fork("own", resource="his").principal == mallory.principal


def test_a_child_is_not_told_the_names_of_its_parents_branches(
    shared_ledger: Ledger, tenant: str
) -> None:
    """What a child owner inherits is shown with the branch's id in place of its name, which is
    the parent owner's text."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    private = parent.fork("private-name")
    made = private.remember("inherited").memory_id
    child = private.fork("given", resource="child")
    child.fork("further")
    child.correct(made, "changed")
    told = [
        child.show(made).as_dict(),
        [entry.as_dict() for entry in child.history(made)],
        child.list().memories,
        child.diff("main", "given"),
        child.diff("given", "further"),
        child.tree(),
        child.branches(),
    ]
    assert "private-name" not in str(told)
    assert private.show(made).branch == "private-name"


def test_teams_are_read_and_not_written(shared_ledger: Ledger, tenant: str) -> None:
    """Further teams are for reading: changing what one of them owns takes the right ``review``."""
    blue = shared_ledger.memory(tenant=tenant, team="blue", rights=OWN)
    made = blue.remember("of blue", owner="team").memory_id
    reader = shared_ledger.memory(tenant=tenant, user="ann", teams=("blue",), rights=OWN)
    assert reader.show(made).content == "of blue"
    with pytest.raises(MissingRightError):
        reader.correct(made, "changed")
    assert blue.correct(made, "changed").created


def test_background_work_of_a_manager_is_its_own_callers(
    shared_ledger: Ledger, tenant: str
) -> None:
    """A manager's model reads no other owner's texts: a job of another one is left alone, and
    its bus is told nothing of it."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", agent="a")
    said = [ChatMessage(role="user", content="hers alone")]
    (hers,) = request_extraction(alice, ["facts"], said)
    bus = Bus()
    mallory = shared_ledger.memory(tenant=tenant, user="mallory", rights=OWN)
    his = MemoryManager(storage=mallory, model=silent(), event_bus=bus, user_facts=True)
    asked = his.after_run(None, "mallory", [{"role": "user", "content": "his"}])
    his.await_extractions()
    jobs = alice.services.jobs
    assert {jobs.get(job).status.value for job in asked} == {"completed"}
    assert jobs.get(hers).status.value == "queued"
    assert {payload["job_id"] for payload in bus.told} == {str(job) for job in asked}


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        ("adapters.application.reading.hidden_of", test_a_replacement_that_is_hidden_is_not_named),
        (
            "adapters.application.writing.Writing.scope",
            test_a_write_in_a_guessed_session_replaces_nothing_of_its_user,
        ),
        ("domain.principal.Principal.owners", test_teams_are_read_and_not_written),
    ],
)
def test_the_checks_notice(
    planted: str,
    check: Callable[[Ledger, str], None],
    shared_ledger: Ledger,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted failures: without its rule each check is red."""
    everything: dict[str, Any] = {
        "hidden_of": lambda *asked: frozenset(),
        "scope": lambda *asked: AccessScope(everything=True),
        "owners": lambda self: [Subject("team", team) for team in self.teams],
    }
    name = planted.rpartition(".")[2]
    monkeypatch.setattr(f"memoriale.{planted}", everything[name])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(shared_ledger, tenant)
