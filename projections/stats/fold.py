"""What the headers of a memory's events make of it: ``domain.memory`` without the bodies."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import UnavailableError
from memoriale.domain.events import (
    Amended,
    Corrected,
    Invalidated,
    Reinstated,
    Remembered,
    Restated,
)
from memoriale.domain.memory import Status
from memoriale.domain.record import Row
from memoriale.projections.stats.schema import VERSIONS

Header = dict[str, Any]

_FIELDS: Final = tuple(column.name for column in VERSIONS.columns)
_OWN: Final = (
    "owner",
    "owner_type",
    "visibility",
    "principal_user",
    "principal_agent",
    "principal_resource",
    "principal_session",
    "principal_team",
    "source_run",
    "retention_class",
)
_SPANS: Final = ("valid_from", "valid_until", "expires_at")
_ABOUT_CONTENT: Final = (
    "content_length",
    "aspect",
    "model",
    "prompt_version",
    "language",
)
_KEPT_UNLESS_GIVEN: Final = ("importance", "confidence", "source_tier")

Version = dict[str, Any]
"""One row of ``memory_versions`` by column."""


class Known(NamedTuple):
    """
    The versions that a batch goes on from.

    Args:
        open: The last version of each (memory, branch).
        by_index: Versions by the index of their event.
    """

    open: dict[tuple[UUID, UUID], Version]
    by_index: dict[int, Version]


class Folded(NamedTuple):
    """
    What a batch changes in ``memory_versions``.

    Args:
        new: Versions to add, in the order of their index.
        closed: For each older version that another followed: its index, and that of the other.
    """

    new: list[Version]
    closed: list[tuple[int, int]]


def parse_header(row: Row) -> Header:
    """
    The header of a stored row.

    Raises:
        UnavailableError: ``bad_header``: it is no JSON object.
    """
    try:
        header = json.loads(row.header)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise UnavailableError(
            f"the header of event {row.recorded.index} cannot be read; run verify.",
            code="bad_header",
            field="index",
            value=row.recorded.index,
        )
    return header


def is_memory_event(row: Row) -> bool:
    """Whether a row makes a version of a memory."""
    return row.columns.topic in _EVOLVE and row.columns.memory_id is not None


def fold(rows: Iterable[tuple[Row, Header]], known: Known) -> Folded:
    """
    Folds the memory events of a batch, by the rules of ``domain.memory``.

    Args:
        rows: Memory events with their headers, in index order.
        known: What they go on from; is brought up to date.
    """
    new: dict[int, Version] = {}
    closed: list[tuple[int, int]] = []
    for row, header in rows:
        columns, index = row.columns, row.recorded.index
        assert columns.memory_id is not None and columns.branch is not None
        place = (columns.memory_id, columns.branch)
        last = known.open.get(place)
        base = last if columns.continues is None else known.by_index.get(columns.continues)
        version = _EVOLVE[columns.topic](base, row, header)
        if version is None:
            continue
        if last is not None:
            last["recorded_until"] = index
            if last["recorded_from"] not in new:
                closed.append((last["recorded_from"], index))
        new[index] = known.open[place] = known.by_index[index] = version
    return Folded(list(new.values()), closed)


def _remembered(base: Version | None, row: Row, header: Header) -> Version:
    columns = row.columns
    version: Version = dict.fromkeys(_FIELDS)
    for name in (*_OWN, *_SPANS):
        version[name] = getattr(columns, name)
    for name in (*_ABOUT_CONTENT, *_KEPT_UNLESS_GIVEN):
        version[name] = header.get(name)
    tags = columns.namespace_tags
    version.update(
        memory_id=columns.memory_id,
        kind=columns.kind,
        version=0,
        first_index=row.recorded.index,
        created_at=row.recorded.recorded_at,
        status=Status.CURRENT.value,
        has_evidence=header.get("has_evidence", False),
        namespace=tags[-1].hex() if tags else "",
    )
    return _placed(version, row)


def _placed(version: Version, row: Row) -> Version:
    columns, recorded = row.columns, row.recorded
    version["recorded_from"], version["recorded_until"] = recorded.index, NO_LIMIT
    version["branch"], version["continues"] = columns.branch, columns.continues
    version["topic"], version["recorded_at"] = columns.topic, recorded.recorded_at
    version["version"] += 1
    return version


def _changing(
    change: Callable[[Version, Row, Header], None],
) -> Callable[[Version | None, Row, Header], Version | None]:
    def evolve(base: Version | None, row: Row, header: Header) -> Version | None:
        if base is None:
            return None
        version = dict(base)
        change(version, row, header)
        return _placed(version, row)

    return evolve


def _corrected(version: Version, row: Row, header: Header) -> None:
    for name in _ABOUT_CONTENT:
        version[name] = header.get(name)
    for name in _KEPT_UNLESS_GIVEN:
        if header.get(name) is not None:
            version[name] = header[name]


def _amended(version: Version, row: Row, header: Header) -> None:
    for name in header["changed"]:
        if name in _SPANS:
            version[name] = getattr(row.columns, name)
        elif name == "importance":
            version[name] = header.get(name)


def _invalidated(version: Version, row: Row, header: Header) -> None:
    replaced_by = header.get("replaced_by")
    version["status"] = Status.INVALIDATED.value
    version["reason_code"] = header["reason_code"]
    version["replaced_by"] = replaced_by and UUID(replaced_by)


def _reinstated(version: Version, row: Row, header: Header) -> None:
    version["status"] = Status.CURRENT.value
    version["reason_code"] = version["replaced_by"] = None


_EVOLVE: Final[Mapping[str, Callable[[Version | None, Row, Header], Version | None]]] = {
    Remembered.TOPIC: _remembered,
    Corrected.TOPIC: _changing(_corrected),
    Restated.TOPIC: _changing(_corrected),
    Amended.TOPIC: _changing(_amended),
    Invalidated.TOPIC: _changing(_invalidated),
    Reinstated.TOPIC: _changing(_reinstated),
}
