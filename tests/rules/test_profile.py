"""The rules of profiles (R16), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Step
from memoriale.domain.stores.profile import UpdateProfile
from tests.rules.planting import Planted


@pytest.fixture
def profile(alice: Memory) -> UserProfile:
    """The profile of a user of a new tenant."""
    return UserProfile(alice, custom_fields=["team", "diet"])


def r16_method(store: UserProfile) -> None:
    """None clears a field, built-in or custom; what is not named stays."""
    store.update_profile(patch={"name": "Alice", "role": "lead", "custom": {"diet": "vegan"}})
    store.update_profile(patch={"role": None, "custom": {"diet": None, "team": "blue"}})
    found = store.get_profile()
    assert found is not None
    assert (found.name, found.role, found.custom) == ("Alice", None, {"team": "blue"})


def r16_tool(store: UserProfile) -> None:
    """The tool clears with null as the method does, and its schema allows it."""
    (tool,) = store.get_tools()
    assert "null" in tool.parameters["properties"]["role"]["type"]
    tool.handler({"name": "Alice", "role": "lead"})
    assert tool.handler({"role": None}).get("role") is None


def r6_values(store: UserProfile) -> None:
    """A value that was cleared is not learnt again from a model's reply, and not shown."""
    store.update_profile(patch={"location": "Paris"})
    store.update_profile(patch={"location": None})
    store.update_profile(patch={"location": "paris"}, source="auto")
    assert store.get_profile() is None
    assert store.get_context_string() == ""
    store.update_profile(patch={"location": "Rome"}, source="auto")
    assert "Rome" in store.get_context_string()


RULES: dict[str, Callable[[UserProfile], None]] = {
    r.__name__: r for r in (r16_method, r16_tool, r6_values)
}


def ignores_none(self: UpdateProfile, state: MemoryState) -> list[Step]:
    """As the reference's tool, which cannot send null."""
    return []


PLANTED = {
    "r16_method": Planted(UpdateProfile, "_clear", ignores_none),
    "r16_tool": Planted(UpdateProfile, "_clear", ignores_none),
    "r6_values": Planted(
        UpdateProfile,
        "__init__",
        lambda self, patch, command_of, extracted=False: self.__dict__.update(
            patch=patch, command_of=command_of, extracted=False
        ),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, profile: UserProfile) -> None:
    """Each rule holds."""
    RULES[name](profile)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, profile: UserProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](profile)


@pytest.mark.parametrize(
    "patch",
    [{"nick": "x"}, {"name": 7}, {"name": " "}, {"custom": "x"}, {"custom": {"a": float("nan")}}],
)
def test_a_wrong_patch_stores_nothing(patch: Mapping[str, Any], profile: UserProfile) -> None:
    """A field that does not exist or a value that cannot be is refused as a whole."""
    with pytest.raises(InputError):
        profile.update_profile(patch={"role": "lead", **patch})
    assert profile.get_profile() is None


def test_two_writers_lose_no_field(profile: UserProfile) -> None:
    """Fields that threads set at once are all there, and a field keeps one memory."""
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: profile.update_profile(patch={"custom": {f"f{n % 10}": n}}), range(30)
            )
        )
    found = profile.get_profile()
    assert found is not None
    assert sorted(found.custom) == [f"f{n}" for n in range(10)]


def test_history_as_of_and_clear(profile: UserProfile, alice: Memory) -> None:
    """Each field has its history; the profile as of then is told; clearing counts truly."""
    profile.update_profile(patch={"role": "trainee"})
    profile.update_profile(patch={"role": "lead"})
    (record,) = alice.list(kinds=["profile_field"]).memories
    contents = [entry.content for entry in alice.history(record.memory_id)]
    assert contents == ["role: trainee", "role: lead"]
    then = profile.get_profile(as_of=record.index - 1)
    assert then is not None
    assert then.role == "trainee"
    assert profile.clear() == 1
    assert profile.clear() == 0
    assert profile.get_profile() is None
