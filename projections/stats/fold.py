"""What the headers of a memory's events make of it: ``domain.memory`` without the bodies."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.events import (
    Amended,
    Corrected,
    Invalidated,
    Reinstated,
    Remembered,
    Restated,
)
from memoriale.domain.memory import Status
from memoriale.projections.stats.schema import VERSIONS

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

Event = dict[str, Any]
"""One row of ``events`` by column."""
Version = dict[str, Any]
"""One row of ``memory_versions`` by column."""
Evolve = Callable[[Version | None, Event], Version | None]


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


def fold(events: Iterable[Event], known: Known) -> Folded:
    """
    Folds the events of memories in a batch that go on from something, by the rules of
    ``domain.memory``.

    Args:
        events: Rows of ``events`` by column, in index order.
        known: What they go on from; is brought up to date.
    """
    new: dict[int, Version] = {}
    closed: list[tuple[int, int]] = []
    for event in events:
        index, continues = event["index"], event["continues"]
        place = (event["memory_id"], event["branch"])
        last = known.open.get(place)
        base = last if continues is None else known.by_index.get(continues)
        version = _EVOLVE[event["topic"]](base, event)
        if version is None:
            continue
        if last is not None:
            last["recorded_until"] = index
            if last["recorded_from"] not in new:
                closed.append((last["recorded_from"], index))
        new[index] = known.open[place] = known.by_index[index] = version
    return Folded(list(new.values()), closed)


OF_BATCH: Final = 'WHERE "index" >= ? AND "index" < ?'
"""Which events are of a batch, by its position and its end."""


def insert_made() -> str:
    """
    The SQL that adds the first version of each memory that a batch makes. Most events are such
    ones, and none of them goes on from anything.
    """
    columns = ", ".join(
        f'{_MADE.get(c.name, chr(34) + c.name + chr(34))} AS "{c.name}"' for c in VERSIONS.columns
    )
    return f"INSERT INTO memory_versions BY NAME SELECT {columns} FROM events {OF_BATCH} AND {MADE}"


MADE: Final = f"memory_id IS NOT NULL AND topic = '{Remembered.TOPIC}' AND stream_version <= 1"
"""Which events make a memory on a branch."""

_MADE: Final = {
    "recorded_from": '"index"',
    "recorded_until": str(NO_LIMIT),
    "version": "1",
    "first_index": '"index"',
    "status": f"'{Status.CURRENT.value}'",
    "namespace": "coalesce(namespace_tags[-1], '')",
    "created_at": "recorded_at",
    "has_evidence": "coalesce(has_evidence, false)",
    "reason_code": "NULL",
    "replaced_by": "NULL",
}


def _remembered(base: Version | None, event: Event) -> Version:
    version: Version = dict.fromkeys(_FIELDS)
    for name in (*_OWN, *_SPANS, *_ABOUT_CONTENT, *_KEPT_UNLESS_GIVEN):
        version[name] = event[name]
    tags = event["namespace_tags"]
    version.update(
        memory_id=event["memory_id"],
        kind=event["kind"],
        version=0,
        first_index=event["index"],
        created_at=event["recorded_at"],
        status=Status.CURRENT.value,
        has_evidence=bool(event["has_evidence"]),
        namespace=tags[-1] if tags else "",
    )
    return _placed(version, event)


def _placed(version: Version, event: Event) -> Version:
    version["recorded_from"], version["recorded_until"] = event["index"], NO_LIMIT
    for name in ("branch", "continues", "topic", "recorded_at"):
        version[name] = event[name]
    version["version"] += 1
    return version


def _changing(change: Callable[[Version, Event], None]) -> Evolve:
    def evolve(base: Version | None, event: Event) -> Version | None:
        if base is None:
            return None
        version = dict(base)
        change(version, event)
        return _placed(version, event)

    return evolve


def _corrected(version: Version, event: Event) -> None:
    for name in _ABOUT_CONTENT:
        version[name] = event[name]
    for name in _KEPT_UNLESS_GIVEN:
        if event[name] is not None:
            version[name] = event[name]


def _amended(version: Version, event: Event) -> None:
    for name in event["changed"]:
        if name in _SPANS or name == "importance":
            version[name] = event[name]


def _invalidated(version: Version, event: Event) -> None:
    version["status"] = Status.INVALIDATED.value
    version["reason_code"], version["replaced_by"] = event["reason_code"], event["replaced_by"]


def _reinstated(version: Version, event: Event) -> None:
    version["status"] = Status.CURRENT.value
    version["reason_code"] = version["replaced_by"] = None


_EVOLVE: Final[Mapping[str, Evolve]] = {
    Remembered.TOPIC: _remembered,
    Corrected.TOPIC: _changing(_corrected),
    Restated.TOPIC: _changing(_corrected),
    Amended.TOPIC: _changing(_amended),
    Invalidated.TOPIC: _changing(_invalidated),
    Reinstated.TOPIC: _changing(_reinstated),
}
TOPICS: Final = tuple(_EVOLVE)
"""Topics of the events that make versions of memories."""


def forked(event: Event, header: Mapping[str, Any]) -> dict[str, Any]:
    """
    A row of ``branches``.

    Args:
        event: A ``branch.forked`` event.
        header: Its header.
    """
    scoped, child = header["scope"] == "owner", header.get("child_owner")
    return {
        "index": event["index"],
        "branch": event["branch"],
        "parent": UUID(header["parent"]),
        "fork_index": header["at"],
        "scope": header["scope"],
        "owner": event["owner"] if scoped else None,
        "owner_type": event["owner_type"] if scoped else None,
        "child_owner": None if child is None else UUID(child),
        "child_owner_type": header.get("child_owner_type"),
        "recorded_at": event["recorded_at"],
    }
