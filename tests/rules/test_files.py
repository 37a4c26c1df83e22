"""The rules of notebooks (R15), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.files import FileMemory
from memoriale.domain.errors import InputError
from memoriale.domain.stores import files as rules
from memoriale.domain.stores.files import ChangeFile
from tests.rules.planting import Planted


@pytest.fixture
def files(alice: Memory) -> FileMemory:
    """Notebooks of 20 and 10 characters."""
    return FileMemory(alice, memory_char_limit=20, user_char_limit=10)


def r15_cap(store: FileMemory) -> None:
    """Exactly the limit fits, one more does not: the reply tells usage and entries."""
    assert store.add("user", None, "12345").ok
    assert store.add("user", None, "67890").ok
    refused = store.add("user", None, "x")
    assert not refused.ok
    assert refused.usage == "10/10"
    assert refused.current_entries == ("12345", "67890")
    assert store.get_entries("user") == ["12345", "67890"]
    too_long = store.replace("user", None, "123", "123456")
    assert not too_long.ok
    assert too_long.current_entries == ("12345", "67890")


def r15_match(store: FileMemory) -> None:
    """replace and remove need a part of exactly one entry; an empty one matches nothing."""
    for text in ("a tea", "b tea"):
        store.add("user", None, text)
    assert not store.remove("user", None, "tea").ok
    assert not store.remove("user", None, "coffee").ok
    store.remove("user", None, "b tea")
    assert not store.remove("user", None, "").ok
    assert store.replace("user", None, "a t", "milk").ok
    assert store.get_entries("user") == ["milk"]


def r15_owner(store: FileMemory) -> None:
    """What is stored for a user is shown for that user, whoever the agent is."""
    store.add("user", None, "mine")
    assert "mine" in store.get_context_string(agent_name="other")


RULES: dict[str, Callable[[FileMemory], None]] = {
    r.__name__: r for r in (r15_cap, r15_match, r15_owner)
}


def matches_all(self: ChangeFile, entries: list[object], error: str) -> list[object]:
    """As the reference, which takes an empty text for a part of every entry."""
    from memoriale.domain.events import ReasonCode
    from memoriale.domain.steps import End

    if self.old_text == "" and len(entries) == 1:
        return [End(memory_id=entries[0].memory_id, because=ReasonCode.RETRACTED)]  # type: ignore[attr-defined]
    self.reply = rules.FileReply(ok=False)
    return []


PLANTED = {
    "r15_cap": Planted(ChangeFile, "_fits", lambda self, texts, new: True),
    "r15_match": Planted(ChangeFile, "_refuse", matches_all),
    "r15_owner": Planted(
        FileMemory, "get_context_string", lambda self, user_id=None, agent_name=None: agent_name
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, files: FileMemory) -> None:
    """Each rule holds."""
    RULES[name](files)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, files: FileMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](files)


def test_the_defaults_are_those_of_the_reference(alice: Memory) -> None:
    """2,200 characters for the agent's notebook, 1,375 for the user's."""
    assert FileMemory(alice).limits == {"memory": 2_200, "user": 1_375}


def test_an_entry_that_is_there_changes_nothing(files: FileMemory) -> None:
    """The second add of one text is no second entry, also when full."""
    for _ in range(2):
        assert files.add("user", None, "1234567890").ok
    assert files.get_entries("user") == ["1234567890"]


def test_writers_never_pass_the_limit(files: FileMemory) -> None:
    """Of twenty entries written at once only as many are stored as fit."""
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: files.add("user", None, f"n{n:03}"), range(20)))
    assert sum(reply.ok for reply in replies) == 2
    assert len(files.get_entries("user")) == 2


def test_bad_target_and_tool(files: FileMemory) -> None:
    """An unknown target is refused; the tool answers JSON and its errors say what to do."""
    with pytest.raises(InputError, match="target"):
        files.add("diary", None, "x")
    (tool,) = files.get_tools()
    assert tool.handler({"action": "add", "target": "user", "content": "hello"}) == {"ok": True}
    assert "old_text is empty" in tool.handler({"action": "remove", "target": "user"})["error"]
