"""Hooks of sandboxes note the last session and checkpoint, and stop nothing."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memoriale import InputError, build_context_snippet, create_memory_lifecycle_hooks
from tests.fixtures.resource_memory import REF, PlainWorking, memory


def test_what_happened_last_is_noted() -> None:
    """The sandbox and the checkpoint with its time; the last write counts."""
    both = memory()
    hooks = create_memory_lifecycle_hooks(both, REF)
    assert (hooks.last_session(), hooks.last_checkpoint()) == (None, None)
    for sandbox in ("s1", "s2"):
        hooks.on_created(sandbox)
        hooks.on_checkpoint(sandbox, f"snapshot of {sandbox}")
    hooks.on_checkpoint("s2", "snapshot", "before the merge")
    assert hooks.last_session() == "s2"
    noted: Any = hooks.last_checkpoint()
    age = datetime.now(UTC) - datetime.fromisoformat(noted.pop("at"))
    assert timedelta(0) <= age < timedelta(minutes=5)
    assert noted == {"sandbox_id": "s2", "snapshot_id": "snapshot", "name": "before the merge"}
    again = create_memory_lifecycle_hooks(both, REF)
    assert again.last_session() == "s2"


def test_notes_are_in_no_list_prompt_or_fork() -> None:
    """They are had by their names alone."""
    both = memory()
    create_memory_lifecycle_hooks(both, REF).on_created("s1")
    assert dict(both.working.list(REF)) == {}
    assert build_context_snippet(both, REF) == ""
    assert create_memory_lifecycle_hooks(both, both.fork(REF, "child").ref).last_session() is None


def test_keys_can_be_chosen() -> None:
    """They begin with two underscores; others are refused, because prompts would show them."""
    both = memory()
    hooks = create_memory_lifecycle_hooks(
        both, REF, checkpoint_key="__checkpoint", session_key="__session"
    )
    hooks.on_created("s1")
    hooks.on_checkpoint("s1", "p1")
    assert both.working.get(REF, "__session") == "s1"
    assert both.working.get(REF, "__checkpoint") == hooks.last_checkpoint()
    for wrong in ("session", "", 5, "__" + "k" * 256):
        for name in ("checkpoint_key", "session_key"):
            with pytest.raises(InputError):
                create_memory_lifecycle_hooks(both, REF, **{name: wrong})  # type: ignore[arg-type]


def test_an_error_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """``on_error`` is given it; without one it stands in the log."""
    errors: list[Exception] = []
    held = PlainWorking(failing="__memoriale_last_session")
    both = memory(working_memory=held)
    hooks = create_memory_lifecycle_hooks(both, REF, on_error=errors.append)
    hooks.on_created("s1")
    hooks.on_created("")
    hooks.on_checkpoint("s1", "")
    assert [type(error) for error in errors] == [OSError, InputError, InputError]
    assert held.values == {}
    with caplog.at_level(logging.WARNING):
        create_memory_lifecycle_hooks(both, REF).on_created("s1")
    assert "the disk is full" in caplog.text
