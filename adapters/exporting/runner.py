"""Running an export: the log of a tenant, or of one of its users, in bounded memory."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from uuid import UUID

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.exporting.records import Records
from memoriale.adapters.exporting.target import replaced, target_path
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.errors import InputError
from memoriale.domain.events import ExportedHeader
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal, Right
from memoriale.domain.record import Row
from memoriale.domain.text import check_outside_id, shown

FORMATS: Final = ("jsonl",)
PAGE: Final = 200
"""Events held in memory at a time; one may be over a megabyte."""

Progress = Callable[[str, int, int], None]
"""Called with what is going on, how much is done and how much there is."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """
    What an export wrote.

    Args:
        files: Absolute paths of the files.
        events: How many events they hold.
        index: Last index of the log when the export began; -1 for an empty log.
    """

    files: tuple[str, ...]
    events: int
    index: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"files": list(self.files), "events": self.events, "index": self.index}


def export(
    ledger: Ledger,
    *,
    tenant: str,
    out: str | os.PathLike[str],
    format: str = "jsonl",
    subject_user: str | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """
    Writes a tenant's events as JSON lines, oldest first, with every column and the opened
    content; see ``Records`` for the objects.

    Args:
        ledger: Where from; right ``privacy``. The export is recorded in the access log before
            the file gets its name.
        tenant: Whose.
        out: A folder, or the name of a file. A file that stands there is replaced at the end in
            one step; nothing stays when the export fails.
        format: ``jsonl``.
        subject_user: Outside id of a user: only the events of memories that this user owns or
            that are about this user, without the names of other users.
        progress: Called after each page of events.

    Raises:
        InputError: Unknown format or user, or a place that cannot be a file.
        MissingRightError: This ledger lacks ``privacy``.
        UnavailableError: Database, key store or disk cannot be used.
    """
    if format not in FORMATS:
        raise InputError(
            f"unknown format {shown(format)!r}; there is jsonl.",
            code="unknown_format",
            field="format",
            value=shown(format),
            allowed=list(FORMATS),
        )
    services = ledger.tenant(tenant)
    principal = Principal(tenant=services.name, rights=ledger.rights)
    services.gate.allow(principal, "export", Right.PRIVACY)
    services.log.require_its_keys()
    subject = None if subject_user is None else _pseudonym(services.log, subject_user)
    stop = services.log.head()
    path = target_path(out, services.name, stop - 1, f".{format}")
    with replaced(path) as file:
        events = _write(services.log, file, stop, subject, progress)
        services.gate.exported(
            principal,
            ExportedHeader(format=format, events=events, index=stop - 1, subject=subject),
        )
    return ExportReport((str(path),), events, stop - 1)


def _pseudonym(log: TenantLog, user: str) -> UUID:
    key = log.identities.find(Subject("user", check_outside_id("subject_user", user)))
    if key is None:
        raise InputError(
            f"this tenant knows no user {shown(user)!r}; nothing was exported.",
            code="unknown_user",
            field="subject_user",
            value=shown(user),
        )
    return key.pseudonym


def _write(
    log: TenantLog, file: BinaryIO, stop: int, subject: UUID | None, progress: Progress | None
) -> int:
    records, events = Records(log.identities, subject), 0
    for page in _pages(log, stop):
        rows = [row for row in page if subject is None or _concerns(row, subject)]
        for record in records.of(rows, log.mapper.decode(rows)):
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        events += len(rows)
        if progress is not None:
            progress("export", page[-1].recorded.index + 1, stop)
    return events


def _pages(log: TenantLog, stop: int) -> Iterator[Sequence[Row]]:
    after = -1
    while after + 1 < stop:
        rows = log.reader.rows(after=after, stop=min(stop, after + 1 + PAGE))
        yield rows
        after = rows[-1].recorded.index


def _concerns(row: Row, subject: UUID) -> bool:
    return row.columns.owner == subject or subject in row.columns.about
