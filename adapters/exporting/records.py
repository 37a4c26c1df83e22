"""One event as an object that says everything without the key store."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.application.presenting import as_json
from memoriale.domain.events import RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.record import COLUMNS, Columns, Row
from memoriale.domain.values import parse_json_strictly

PERSONS: Final = (
    "owner",
    "principal_user",
    "principal_agent",
    "principal_resource",
    "principal_session",
    "principal_team",
    "actor",
    "on_behalf_of",
    "source_run",
)
"""Columns that hold one pseudonym."""

_APART: Final = ("state", "header")


class Records:
    """
    Makes objects of events: every column but the sealed state, ``header`` and ``body`` as
    objects, and ``names`` with the outside names of the pseudonyms in the columns.

    ``body`` is null when its key was destroyed; erased names are absent. The columns are those
    that ``leaf_hash`` covers, so a reader can compute it again.

    Args:
        identities: The tenant's names.
        subject: With a person's pseudonym, other users stay pseudonyms: who gets the export of
            one person is not told the names of others.
    """

    def __init__(self, identities: Identities, subject: UUID | None) -> None:
        self._identities = identities
        self._subject = subject

    def of(self, rows: Sequence[Row], events: Sequence[RecordedEvent]) -> Iterable[dict[str, Any]]:
        """The objects of rows and the same events opened, in order."""
        names = self._names(rows)
        for row, event in zip(rows, events, strict=True):
            body = event.event.body
            yield {
                **{c.name: as_json(row.value(c.name)) for c in COLUMNS if c.name not in _APART},
                "names": _named(row.columns, names),
                "header": parse_json_strictly(row.header),
                "body": None if body is None else body.model_dump(mode="json"),
            }

    def _names(self, rows: Sequence[Row]) -> dict[UUID, Subject]:
        names = self._identities.names(p for row in rows for p in persons(row.columns))
        if self._subject is None:
            return names
        return {p: s for p, s in names.items() if s.type != "user" or p == self._subject}


def persons(columns: Columns) -> Iterable[UUID | None]:
    """Every pseudonym in the columns."""
    return (*(getattr(columns, name) for name in PERSONS), *columns.about)


def _named(columns: Columns, names: dict[UUID, Subject]) -> dict[str, Any]:
    found = {name: names.get(getattr(columns, name)) for name in PERSONS}
    single = {name: as_json(subject) for name, subject in found.items() if subject is not None}
    about = [as_json(names[person]) for person in columns.about if person in names]
    return {**single, "about": about} if about else single
