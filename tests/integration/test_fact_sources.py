"""Sources of facts on the ledger are looked up at each read, and not believed."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.domain.resources.facts import MemoryFact, SourceRef, Verification
from memoriale.domain.resources.ref import ResourceRef

REF = ResourceRef("bot", "blue")
SAID = "The  Harbour opens\nat NINE o’clock — Größe 7"


@pytest.fixture
def facts(shared_ledger: Ledger, tenant: str) -> LedgerSemanticMemory:
    return LedgerSemanticMemory(shared_ledger, tenant=tenant)


@pytest.fixture
def handle(shared_ledger: Ledger, tenant: str) -> Callable[..., Memory]:
    def made(**who: Any) -> Memory:
        return shared_ledger.memory(tenant=tenant, **who)

    return made


def checked(
    facts: LedgerSemanticMemory, source: SourceRef | None, evidence: str | None = None
) -> Verification:
    """What a recall says of a fact with a source."""
    fact = MemoryFact(content="the harbour opens early", source_ref=source, evidence=evidence)
    made = facts.remember(REF, fact)
    found = next(f for f in facts.recall(REF, fact.content, top_k=100) if f.id == made.id)
    assert found.verification is made.verification
    assert found.verified is (found.verification is Verification.VERIFIED)
    return found.verification


def test_each_state_says_what_the_look_up_found(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory]
) -> None:
    """Verified is what an entry says, in whatever case, width of space and form; without
    evidence an entry is linked; what is not there, or of another session, is not found."""
    run = handle(resource="bot", team="blue", session="run-1")
    entry = run.remember(SAID).index
    source = SourceRef("run-1", entry)
    assert checked(facts, source, "harbour OPENS at nine") is Verification.VERIFIED
    assert checked(facts, source, "GRÖSSE 7") is Verification.VERIFIED
    assert checked(facts, source, "closes at nine") is Verification.EVIDENCE_ABSENT
    assert checked(facts, source) is Verification.LINKED
    assert checked(facts, None, "harbour") is Verification.UNSOURCED
    for other in (SourceRef("run-2", entry), SourceRef("run-1", 99_999_999)):
        assert checked(facts, other, "harbour") is Verification.NOT_FOUND
    elsewhere = handle(resource="bot", team="blue", session="run-2").remember("elsewhere").index
    assert checked(facts, SourceRef("run-1", elsewhere), "elsewhere") is Verification.NOT_FOUND


@pytest.mark.parametrize(
    "who",
    [
        {"resource": "other", "team": "blue"},
        {"resource": "bot"},
        {"resource": "bot", "team": "red"},
        {"user": "alice"},
        {"session": "run-1"},
    ],
    ids=str,
)
def test_an_entry_that_the_resource_may_not_see_is_not_found(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory], who: dict[str, str]
) -> None:
    """A source is no way to ask what stands in another one's entries: with the right words of
    another owner a fact is as unverified as with wrong ones."""
    facts.remember(REF, MemoryFact(content="makes the resource known"))
    entry = handle(**{"session": "run-1", **who}).remember(SAID).index
    for evidence in ("harbour", "not a word of it", None):
        assert checked(facts, SourceRef("run-1", entry), evidence) is Verification.NOT_FOUND


def test_a_session_that_the_resource_ran_bears_facts_out(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory]
) -> None:
    """Messages and other entries that a session owns count when the resource ran it, unless they
    were recorded for a user."""
    run = handle(resource="bot", team="blue", session="run-1")
    own = run.remember(SAID, owner="session").index
    assert checked(facts, SourceRef("run-1", own), "at nine") is Verification.VERIFIED
    run.sessions.get_or_create_session()
    run.sessions.append_messages(messages=[{"role": "user", "content": SAID}])
    said = run.services.log.head() - 1
    assert checked(facts, SourceRef("run-1", said), "at nine") is Verification.VERIFIED
    private = handle(resource="bot", team="blue", session="run-1", user="alice")
    hers = private.remember(SAID, owner="session").index
    assert checked(facts, SourceRef("run-1", hers), "at nine") is Verification.NOT_FOUND


def test_a_correction_counts_as_what_it_says_itself(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory]
) -> None:
    """The entry that is named is looked into, not what became of it."""
    run = handle(resource="bot", team="blue", session="run-1")
    made = run.remember("opens at nine")
    corrected = run.correct(made.memory_id, "opens at ten")
    source, later = SourceRef("run-1", made.index), SourceRef("run-1", corrected.index)
    assert checked(facts, source, "at nine") is Verification.VERIFIED
    assert checked(facts, later, "at nine") is Verification.EVIDENCE_ABSENT
    assert checked(facts, later, "at ten") is Verification.VERIFIED


def test_a_child_checks_what_it_inherited_and_what_it_ran(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory]
) -> None:
    """After a fork the sources of inherited facts are still found, those of the child's own
    sessions too, and what the parent records later is not."""
    run = handle(resource="bot", team="blue", session="run-1")
    entry = run.remember(SAID).index
    source = SourceRef("run-1", entry)
    facts.remember(REF, MemoryFact(content="inherited", source_ref=source, evidence="at nine"))
    child = ResourceRef("kid", "blue")
    facts.fork(REF, child)
    late = run.remember(SAID).index
    own = handle(resource="kid", team="blue", session="run-2").remember(SAID).index
    for source in (SourceRef("run-1", late), SourceRef("run-2", own)):
        facts.remember(child, MemoryFact(content="own", source_ref=source, evidence="at nine"))
    found = [(fact.content, fact.verification) for fact in facts.list_all(child)]
    assert found == [
        ("inherited", Verification.VERIFIED),
        ("own", Verification.NOT_FOUND),
        ("own", Verification.VERIFIED),
    ]


def test_the_sources_of_a_recall_are_looked_up_at_once(
    facts: LedgerSemanticMemory, handle: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many facts are recalled, their entries are read in one round trip."""
    run = handle(resource="bot", team="blue", session="run-1")
    entries = [run.remember(f"harbour {n}").index for n in range(20)]
    for n, entry in enumerate(entries):
        source = SourceRef("run-1", entry)
        fact = MemoryFact(content=f"harbour fact {n}", source_ref=source, evidence=f"harbour {n}")
        facts.remember(REF, fact)
    asked: list[str] = []
    fetch = Datastore.fetch

    def counted(self: Datastore, tenant: str, statement: str, *given: Any, **more: Any) -> Any:
        asked.append(statement)
        return fetch(self, tenant, statement, *given, **more)

    monkeypatch.setattr(Datastore, "fetch", counted)
    found = facts.recall(REF, "harbour fact", top_k=20)
    assert len(found) == 20
    assert all(fact.verified for fact in found)
    assert len([statement for statement in asked if "%(indices)s" in statement]) == 1
