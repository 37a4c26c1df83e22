"""What a check says."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class State(StrEnum):
    """How a part of an installation was found."""

    OK = "ok"
    WARNING = "warning"
    """Nothing is wrong, but somebody should know."""
    FAILED = "failed"
    NOT_TRIED = "not tried"
    """Nothing is known: the part could not be looked at, or not all of it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part of an installation: its name, how it was found, and what is to be done."""

    name: str
    state: State
    detail: str

    @property
    def ok(self) -> bool:
        """False for a failure, and for nothing else."""
        return self.state is not State.FAILED

    def as_dict(self) -> dict[str, str | bool]:
        """As JSON values."""
        return {"name": self.name, "ok": self.ok, "state": str(self.state), "detail": self.detail}

    @classmethod
    def passed(cls, name: str, detail: str) -> Self:
        """A part that is as it should be."""
        return cls(name, State.OK, detail)

    @classmethod
    def failed(cls, name: str, detail: str) -> Self:
        """A part that is not as it should be; the detail says what to do."""
        return cls(name, State.FAILED, detail)

    @classmethod
    def warned(cls, name: str, detail: str) -> Self:
        """A part that is as it should be, with something to know about it."""
        return cls(name, State.WARNING, detail)

    @classmethod
    def not_tried(cls, name: str, why: str) -> Self:
        """A part of which nothing is known."""
        return cls(name, State.NOT_TRIED, f"not tried: {why}")

    @classmethod
    def of(cls, name: str, ok: bool, detail: str) -> Self:
        """A part that passed or failed."""
        return cls(name, State.OK if ok else State.FAILED, detail)


def exit_code(checks: list[Check]) -> int:
    """1 when a part failed, 6 when none did and one could not be looked at, else 0."""
    states = {check.state for check in checks}
    if State.FAILED in states:
        return 1
    return 6 if State.NOT_TRIED in states else 0
