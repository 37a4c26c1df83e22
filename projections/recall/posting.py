"""Posting a batch: which versions its events open and close."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from memoriale.domain.events import RecordedEvent, Remembered
from memoriale.domain.memory import project_memory
from memoriale.projections.recall.versions import Version

Place = tuple[UUID, UUID]
"""A memory on a branch."""


def memories_needed(events: Iterable[RecordedEvent]) -> set[UUID]:
    """
    The memories whose earlier versions a batch builds on: those that it does not make. One that
    a merge took over was made on another branch, where the batch may change it too.
    """
    needed, made = set(), set()
    for recorded in events:
        memory_id = recorded.columns.memory_id
        if memory_id is None:
            continue
        if isinstance(recorded.event, Remembered) and recorded.columns.continues is None:
            made.add(memory_id)
        elif memory_id not in made:
            needed.add(memory_id)
    return needed


class Posting:
    """
    The versions that a batch changes, folded by the domain's own rules.

    Args:
        versions: The versions that the batch may continue, by key.
    """

    def __init__(self, versions: Mapping[int, Version]) -> None:
        self.changed: dict[int, Version] = {}
        self._versions = dict(versions)
        self._open: dict[Place, Version] = {
            _place(version): version for version in versions.values() if version.is_open
        }

    def post(self, recorded: RecordedEvent) -> None:
        """Applies one event; one that is no event of a memory changes nothing."""
        memory_id, branch = recorded.columns.memory_id, recorded.columns.branch
        if memory_id is None or branch is None:
            return
        last = self._open.get((memory_id, branch))
        before = last or self._continued(recorded)
        state = project_memory(None if before is None else before.state, [recorded])
        if state is None or state.index != recorded.index:
            return
        if last is not None:
            last.close(recorded.index)
            self._change(last)
        opened = Version.opened(state, before)
        self._open[memory_id, branch] = opened
        self._change(opened)

    def _continued(self, recorded: RecordedEvent) -> Version | None:
        index = recorded.columns.continues
        return None if index is None else self._versions.get(index)

    def _change(self, version: Version) -> None:
        key = version.state.index
        self._versions[key] = self.changed[key] = version


def _place(version: Version) -> Place:
    branch = version.state.columns.branch
    assert branch is not None
    return version.state.memory_id, branch
