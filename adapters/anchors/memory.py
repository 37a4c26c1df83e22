"""What this installation remembers of one anchor: what it took, and what went wrong last."""

import json
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from memoriale.adapters.keys.process_lock import ProcessLock
from memoriale.adapters.sealing.files import publish, read
from memoriale.domain.errors import MemorialeError, ViolationError

_LOCK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """
    How the last uses of an anchor went. All but ``conflict`` is of the last use of its kind.

    Args:
        last_success: When it last took a checkpoint, RFC 3339.
        last_error: Why it did not, in one sentence; None when the last use went well.
        last_error_at: When.
        last_error_log: Of which log; None when it is about the anchor as a whole.
        conflict: The last finding that it holds another history. It is never forgotten: a
            rewritten place that looks well again is no less a finding.
        conflict_at: When.
        conflict_log: Of which log.
        in_conflict: Whether the anchor has not taken a checkpoint of that log since.
    """

    last_success: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    last_error_log: str | None = None
    conflict: str | None = None
    conflict_at: str | None = None
    conflict_log: str | None = None
    in_conflict: bool = False

    def seen_from(self, origins: Container[str]) -> "Health":
        """The same without what is about other logs."""
        seen = self
        if self.last_error_log is not None and self.last_error_log not in origins:
            seen = replace(seen, last_error=None, last_error_at=None, last_error_log=None)
        if self.conflict_log is not None and self.conflict_log not in origins:
            seen = replace(
                seen, conflict=None, conflict_at=None, conflict_log=None, in_conflict=False
            )
        return seen


class AnchorMemory:
    """
    A folder of small files. Losing it loses no guarantee but one: what an anchor held before,
    which tells an anchor that was itself set back.

    Args:
        folder: Made when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = ProcessLock(folder / "lock", timeout=_LOCK_SECONDS)
        self._mark = folder / "unfinished"
        self._is_new_mark = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """
        Holds the anchor for one process at a time.

        Raises:
            UnavailableError: Another process uses it for long.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock.held():
            yield

    def close(self) -> None:
        """Lets go of the lock file."""
        self._lock.close()

    def size(self, origin: str) -> int | None:
        """The size of the last checkpoint that the anchor took of a log."""
        found = read(self._file(origin))
        return int(found) if found and found.strip().isdigit() else None

    def took(self, origin: str, size: int) -> None:
        """Remembers that the anchor took a checkpoint."""
        publish(self._file(origin), f"{size}\n".encode())

    def begin(self) -> None:
        """Marks that there are checkpoints that the anchor has not taken."""
        if not self._mark.exists():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._mark.touch()
            self._is_new_mark = True

    def end(self) -> None:
        """Removes the mark: it took all."""
        self._mark.unlink(missing_ok=True)
        self._is_new_mark = True

    def is_left_over(self) -> bool:
        """Whether the mark is of a process that ended before the anchor had taken all."""
        return not self._is_new_mark

    def health(self) -> Health:
        """How the last uses went; a file that cannot be read is as good as none."""
        try:
            stored: Any = json.loads(read(self._health_file) or b"{}")
            return Health(**stored)
        except (ValueError, TypeError):
            return Health()

    def went_well(self, origins: Container[str]) -> None:
        """
        Remembers that the last use went well.

        Args:
            origins: The logs of which it took a checkpoint.
        """
        health = self.health()
        settled = health.conflict_log is None or health.conflict_log in origins
        self._write(
            replace(
                health,
                last_success=_now(),
                last_error=None,
                last_error_at=None,
                last_error_log=None,
                in_conflict=health.in_conflict and not settled,
            )
        )

    def went_wrong(self, error: MemorialeError, origin: str | None) -> None:
        """
        Remembers why the last use did not go well.

        Args:
            error: What was in the way; a conflict is kept for longer.
            origin: Of which log; None when it is about the anchor as a whole.
        """
        health = replace(
            self.health(), last_error=error.message, last_error_at=_now(), last_error_log=origin
        )
        if isinstance(error, ViolationError):
            health = replace(
                health,
                conflict=error.message,
                conflict_at=_now(),
                conflict_log=origin,
                in_conflict=True,
            )
        self._write(health)

    @property
    def _health_file(self) -> Path:
        return self.folder / "health.json"

    def _write(self, health: Health) -> None:
        publish(self._health_file, json.dumps(asdict(health), indent=1).encode())

    def _file(self, origin: str) -> Path:
        return self.folder / "sizes" / origin.replace("/", ".")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
