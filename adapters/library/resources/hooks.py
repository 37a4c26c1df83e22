"""Hooks that note in working memory which sandbox a resource last ran in."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from memoriale.adapters.library.resources.memory import ResourceMemory
from memoriale.domain.errors import InputError
from memoriale.domain.resources.limits import BOOKKEEPING, check_key, check_ref, is_bookkeeping
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import check_outside_id, check_text, shown

CHECKPOINT_KEY: Final = "__memoriale_last_checkpoint"
SESSION_KEY: Final = "__memoriale_last_session"
_log = logging.getLogger("memoriale.resources")


def _logged(error: Exception) -> None:
    _log.warning("a hook of a resource's memory failed: %s: %s", type(error).__name__, error)


class SandboxHooks:
    """
    What a program that runs sandboxes calls (reference system C, ``SandboxHooks``). No hook ever
    raises, so memory that cannot be written stops no sandbox; the last write counts.

    Args:
        memory: Where it is noted.
        ref: The resource.
        checkpoint_key, session_key: Keys, of bookkeeping.
        on_error: Is given what went wrong.
    """

    def __init__(
        self,
        memory: ResourceMemory,
        ref: ResourceRef,
        checkpoint_key: str,
        session_key: str,
        on_error: Callable[[Exception], object],
    ) -> None:
        self._memory, self._ref, self._on_error = memory, check_ref(ref), on_error
        self.checkpoint_key = _checked("checkpoint_key", checkpoint_key)
        self.session_key = _checked("session_key", session_key)

    def on_created(self, sandbox_id: str) -> None:
        """Notes the sandbox that was made."""
        self._note(self.session_key, lambda: check_outside_id("sandbox_id", sandbox_id))

    def on_checkpoint(self, sandbox_id: str, snapshot_id: str, name: str | None = None) -> None:
        """
        Notes a checkpoint with the time.

        Args:
            sandbox_id: The sandbox.
            snapshot_id: What it can be restored from.
            name: The checkpoint's, if it has one.
        """

        def value() -> JsonValue:
            noted: dict[str, JsonValue] = {
                "sandbox_id": check_outside_id("sandbox_id", sandbox_id),
                "snapshot_id": check_outside_id("snapshot_id", snapshot_id),
                "at": datetime.now(UTC).isoformat(),
            }
            return noted if name is None else {**noted, "name": check_text("name", name)}

        self._note(self.checkpoint_key, value)

    def last_session(self) -> JsonValue:
        """The sandbox that was made last; None: none was noted."""
        return self._memory.working_memory.get(self._ref, self.session_key)

    def last_checkpoint(self) -> JsonValue:
        """The last checkpoint; None: none was noted."""
        return self._memory.working_memory.get(self._ref, self.checkpoint_key)

    def _note(self, key: str, value: Callable[[], JsonValue]) -> None:
        try:
            self._memory.working_memory.set(self._ref, key, value())
        except Exception as error:
            # The sandbox goes on; who wants to know is told.
            self._on_error(error)


def create_memory_lifecycle_hooks(
    memory: ResourceMemory,
    ref: ResourceRef,
    *,
    checkpoint_key: str = CHECKPOINT_KEY,
    session_key: str = SESSION_KEY,
    on_error: Callable[[Exception], object] = _logged,
) -> SandboxHooks:
    """
    Hooks that note the last sandbox and the last checkpoint of a resource (reference system C,
    ``createMemoryLifecycleHooks``).

    Args:
        memory: Where it is noted.
        ref: The resource.
        checkpoint_key, session_key: Under which keys; they begin with two underscores, so that
            no list, prompt or fork has them.
        on_error: Is given what went wrong; default: a warning in the log.

    Raises:
        InputError: A key that is none, or that does not begin with two underscores.
    """
    return SandboxHooks(memory, ref, checkpoint_key, session_key, on_error)


def _checked(field: str, key: str) -> str:
    if not isinstance(key, str) or not is_bookkeeping(key):
        raise InputError(
            f"{field} is {shown(key)!r}; let it begin with {BOOKKEEPING}, so that no prompt or "
            "fork has it.",
            code="bad_key",
            field=field,
            value=shown(key),
            allowed=f"{BOOKKEEPING}…",
        )
    return check_key(key)
