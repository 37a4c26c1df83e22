"""Arguments of the wrong shape: a single value where a list belongs, items of no known type."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import memoriale
from memoriale.adapters.extraction.extractors import extract
from memoriale.adapters.extraction.people import FACTS
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.accepting import accept
from memoriale.adapters.library.resources.auto_compaction import AutoCompaction
from memoriale.adapters.library.resources.memory import ResourceMemory
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.adapters.settings import load_settings
from memoriale.domain.resources.compaction import AutoCompactOptions
from tests.fixtures.language_models import silent
from tests.fixtures.operations import ALICE, SAID, Make, said


@pytest.mark.parametrize("items", ["abc", b"abc", {"content": "x"}])
def test_one_item_is_no_list_of_items(
    items: Any, alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A text is not taken for its letters and a mapping not for its keys: nothing is stored."""
    for call, field in ((alice.remember_many, "items"), (alice.import_lines, "lines")):
        if field == "lines" and isinstance(items, dict):
            continue
        with pytest.raises(memoriale.InputError) as refused:
            call(items)
        assert refused.value.field == field
    assert shared_ledger.tenant(tenant).log.head() == 0


@pytest.mark.parametrize("value", ["red", b"red", {"red": 1}, 3, None])
def test_one_name_is_no_list_of_names(value: Any, shared_ledger: Ledger, alice: Memory) -> None:
    """
    A text is not taken for its letters: one team would be three others, and one tag that nothing
    has would be an empty answer.
    """
    tenant = alice.principal.tenant
    calls: dict[str, Callable[[], Any]] = {
        "teams": lambda: shared_ledger.memory(tenant=tenant, user="alice", teams=value),
        "kinds": lambda: alice.recall("tea", kinds=value),
        "tags": lambda: alice.recall("tea", tags=value),
        "questions": lambda: alice.diff("main", "main", questions=value),
    }
    lists: list[Callable[[], Any]] = [
        lambda: alice.list(kinds=value),
        lambda: alice.list(tags=value),
    ]
    for field, call in [*calls.items(), ("kinds", lists[0]), ("tags", lists[1])]:
        with pytest.raises(memoriale.InputError) as refused:
            call()
        assert (refused.value.code, refused.value.field) == ("bad_value", field)


@pytest.mark.parametrize("name", [3, None, b"main", ["main"]])
def test_a_branch_is_named_by_a_text(name: Any, alice: Memory) -> None:
    """Every call that takes a branch says so."""
    for call in (
        lambda given: alice.branch(given).list(),
        lambda given: alice.diff(given, "main"),
        alice.discard,
    ):
        with pytest.raises(memoriale.InputError) as refused:
            call(name)
        assert (refused.value.code, refused.value.field) == ("not_text", "branch")


def test_an_item_of_no_known_type_is_refused_by_itself(alice: Memory) -> None:
    """Beside good items each bad one gets its own error, and the good ones are stored."""
    answers = alice.remember_many(["first", None, 5, "last"])  # type: ignore[list-item]
    assert [isinstance(answer, memoriale.InputError) for answer in answers] == [
        False,
        True,
        True,
        False,
    ]
    assert [record.content for record in alice.list().memories] == ["first", "last"]


def test_lines_that_are_no_text_are_rejected(alice: Memory) -> None:
    """A line that is neither text nor bytes is rejected with its number."""
    report = alice.import_lines(['{"content": "x"}', 1, None])  # type: ignore[list-item]
    assert (report.remembered, [r.line for r in report.rejected]) == (1, [2, 3])


@pytest.mark.parametrize("name", ["home", "views_uri", "snapshots_uri", "keystore"])
@pytest.mark.parametrize("value", ["s3://bucket/x", "", "a\0b"])
def test_a_place_that_is_no_folder_is_refused(name: str, value: str) -> None:
    """An address of an object store is not taken for a folder of that name."""
    with pytest.raises(memoriale.InputError) as refused:
        load_settings(**{name: value})
    assert refused.value.field == f"MEMORIALE_{name.upper()}"


@pytest.mark.parametrize("at", [-1, 10_000])
def test_errors_name_the_argument_that_was_given(at: int, alice: Memory) -> None:
    """A fork's point is called ``at``, and a memory to replace ``supersedes``."""
    alice.remember("x")
    with pytest.raises(memoriale.InputError) as refused:
        alice.fork("side", at=at)
    assert refused.value.field == "at"
    with pytest.raises(memoriale.InputError) as refused:
        alice.remember("y", supersedes=["0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11"])
    assert refused.value.field == "supersedes"


KEYED: dict[str, Callable[[MemoryManager, Any], Any]] = {
    "facts": lambda m, key: m.storage.facts.add_facts(None, ["x"], idempotency_key=key),
    "entities": lambda m, key: m.storage.entities.upsert_entities(
        None, [{"name": "a", "entity_type": "t"}], idempotency_key=key
    ),
    "decisions": lambda m, key: m.storage.decisions.log_decision(
        "desk",
        {"decision": "x", "reasoning": "y", "decision_type": "z"},
        idempotency_key=key,
    ),
    "add": lambda m, key: accept(m.storage, SAID, idempotency_key=key),
}


@pytest.mark.parametrize("key", ["", "  ", "k" * 257, "\ud800", "a\0", 3])
@pytest.mark.parametrize("call", KEYED.values(), ids=KEYED.keys())
def test_an_idempotency_key_is_checked_by_whoever_takes_one(
    call: Callable[[MemoryManager, Any], Any],
    key: Any,
    shared_ledger: Ledger,
    alice: Memory,
    tenant: str,
) -> None:
    """Stores and adds refuse what ``remember`` refuses as a key, and store nothing."""
    with pytest.raises(memoriale.InputError) as refused:
        call(MemoryManager(storage=alice), key)
    assert refused.value.field == "idempotency_key"
    topics = [event.row.columns.topic for event in shared_ledger.events(tenant=tenant)]
    assert not any(topic.startswith(("memory.", "job.")) for topic in topics)


BAD_MESSAGES: dict[str, Any] = {
    "text": {"content": "a\ud800"},
    "NUL": {"content": "a\0"},
    "name": {"content": "a", "name": "\ud800"},
    "part": {"content": [{"type": "text", "text": "\ud800"}]},
    "NaN": {"content": [{"type": "text", "text": "a", "n": math.nan}]},
    "call": {"content": "a", "tool_calls": [{"id": "1", "name": "f", "arguments": "\ud800"}]},
    "answer": {"content": "a", "tool_call_id": "\ud800"},
}
TOLD: dict[str, Callable[[MemoryManager, Any], Any]] = {
    "add": lambda m, messages: accept(m.storage, messages),
    "extraction": lambda m, messages: extract(FACTS, m.storage, messages, silent()),
    "session": lambda m, messages: m.append_messages("call-1", messages),
    "background": lambda m, messages: m.after_run("call-1", "alice", messages, silent()),
}


@pytest.mark.parametrize("message", BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
@pytest.mark.parametrize("call", TOLD.values(), ids=TOLD.keys())
def test_messages_that_cannot_be_stored_are_refused_wherever_they_are_told(
    call: Callable[[MemoryManager, Any], Any],
    message: dict[str, Any],
    shared_ledger: Ledger,
    alice: Memory,
    tenant: str,
) -> None:
    """No field of a message has a lone surrogate, NUL or NaN; the error names it, nothing is
    stored."""
    manager = MemoryManager(storage=alice, user_facts=True)
    manager.get_or_create_session("call-1", "alice")
    before = shared_ledger.tenant(tenant).log.head()
    with pytest.raises(memoriale.InputError) as refused:
        call(manager, [{"role": "user", "content": "hello"}, {"role": "user", **message}])
    assert str(refused.value.field).startswith("messages[1]")
    assert shared_ledger.tenant(tenant).log.head() == before


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e300, "x", True])
def test_a_time_that_cannot_be_waited_for_is_refused(
    remembering: Make, shared_ledger: Ledger, tenant: str, timeout: Any
) -> None:
    """Every method that waits for work in the background names it, also when nothing is left."""
    owner = shared_ledger.memory(tenant=tenant, user="alice")
    waits: list[Callable[[Any], Any]] = [
        remembering().add(said("one"), ALICE).result,
        ResourceMemory.of(shared_ledger, tenant=tenant).wait_for_compaction,
        AutoCompaction(lambda ref: None, AutoCompactOptions(max_facts=1)).wait,
        MemoryManager(storage=owner).await_extractions,
    ]
    for wait in waits:
        with pytest.raises(memoriale.InputError) as error:
            wait(timeout)
        assert (error.value.code, error.value.field) == ("out_of_range", "timeout")
