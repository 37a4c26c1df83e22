"""What an import did, line by line where it did nothing."""

from dataclasses import dataclass, field
from typing import Any, Final

from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.domain.receipt import Receipt

MAX_LISTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rejection:
    """
    A line that was not stored, and why.

    Args:
        line: Its number, from 1; with ``locomo`` the turn's number in the file.
        reason: One sentence.
        field: The field that is wrong; ``line`` when the line cannot be read at all.
        code: A stable word for programs.
    """

    line: int
    reason: str
    field: str | None
    code: str

    @classmethod
    def of(cls, line: int, error: MemorialeError) -> "Rejection":
        """The rejection of a line by an error."""
        return cls(line, error.message, _FIELDS.get(error.field or "", error.field), error.code)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "line": self.line,
            "reason": self.reason,
            "field": self.field,
            "code": self.code,
        }


_FIELDS: Final = {"source_run": "source_run_id"}
"""Names of lines that differ from the names of arguments."""


@dataclass(slots=True)
class ImportReport:
    """
    How far an import came.

    ``read`` counts the lines that are not empty; each was ``remembered``, ``skipped`` because
    an earlier import or an earlier line with the same key had stored it, or rejected.
    ``rejected`` lists the first 10,000 rejections and ``rejected_count`` counts all.
    ``first_index`` and ``last_index`` span what this import stored, None when it stored nothing.
    """

    read: int = 0
    remembered: int = 0
    skipped: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    rejected_count: int = 0
    first_index: int | None = None
    last_index: int | None = None
    seconds: float = 0.0

    @property
    def stored(self) -> int:
        """Lines that are in the ledger, from this import or an earlier one."""
        return self.remembered + self.skipped

    def add(self, receipt: Receipt) -> None:
        """Counts a line that the ledger holds."""
        if not receipt.created:
            self.skipped += 1
            return
        self.remembered += 1
        index = receipt.index
        self.first_index = index if self.first_index is None else min(self.first_index, index)
        self.last_index = index if self.last_index is None else max(self.last_index, index)

    def reject(self, rejection: Rejection) -> None:
        """Counts a line that was not stored."""
        self.rejected_count += 1
        if len(self.rejected) < MAX_LISTED:
            self.rejected.append(rejection)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "read": self.read,
            "remembered": self.remembered,
            "skipped": self.skipped,
            "rejected": [rejection.as_dict() for rejection in self.rejected],
            "rejected_count": self.rejected_count,
            "first_index": self.first_index,
            "last_index": self.last_index,
            "seconds": round(self.seconds, 6),
        }


class ImportInterruptedError(UnavailableError):
    """
    An import ended early because the database or the input cannot be used.

    Attributes:
        report: How far it came. What it stored stays stored; the same import again goes on
            from there.
    """

    report: ImportReport = ImportReport()

    @classmethod
    def after(cls, report: ImportReport, cause: MemorialeError) -> "ImportInterruptedError":
        """The error for an import that its cause ended."""
        error = cls(
            f"{cause.message} {report.stored} lines are stored; run the same import again to go "
            "on from there.",
            code=cause.code,
            field=cause.field,
            value=cause.value,
            allowed=cause.allowed,
        )
        error.report = report
        return error
