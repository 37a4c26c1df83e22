"""Owner snapshots: what was folded of an owner, sealed, so that a new process folds what is new."""

import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.owner_snapshots import Place, SnapshotRow, SnapshotTable
from memoriale.domain.envelope import Erased, SealContext, parse_envelope
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.domain.fold_version import fold_version
from memoriale.domain.holdings import Holding
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.record import Row

MOST_SECTIONS: Final = 5_000
"""Sets of keys that one snapshot is sealed with at most; of more there is none."""
_LAYER: Final = b"\x01"
"""First byte of a sealed layer inside of another; what is folded begins with another one."""
_STATE_BYTES: Final = 3_000
_ADAPTER: Final = TypeAdapter(
    list[MemoryState], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)
_log = logging.getLogger("memoriale.snapshots")

Keys = Mapping[UUID, frozenset[bytes]]


@dataclass(frozen=True, slots=True)
class Folded:
    """
    What an owner has of a kind.

    Args:
        holding: The memories.
        last: Index of the last event that is in it; -1 for none.
        leaf: The leaf hash of that event.
        keys: For each memory the key ids that its events were sealed with.
        size: About the bytes that it takes in memory.
    """

    holding: Holding = field(default_factory=Holding)
    last: int = -1
    leaf: bytes = b""
    keys: Keys = field(default_factory=dict)
    size: int = 0


class _Contents(BaseModel):
    """The first section: what the others together must be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    last: int
    leaf: str
    sections: int
    memories: int


def size_of(state: MemoryState) -> int:
    """About the bytes that a state takes in memory."""
    return _STATE_BYTES + (0 if state.payload is None else 2 * len(state.payload.content))


class OwnerSnapshots:
    """
    Saves what was folded, and begins from it. Nothing here fails a read: what cannot be used is
    removed, and the log is folded from its beginning.

    Each memory is sealed with all keys that its events were sealed with, so with any of them
    destroyed the snapshot cannot be opened any more, and is not used.

    Args:
        log: The memory log.
    """

    def __init__(self, log: TenantLog) -> None:
        self._log = log
        self.table = SnapshotTable(log.datastore, log.log)

    def begin(
        self, place: Place, branches: Sequence[UUID], index: int
    ) -> tuple[Folded, list[Row] | None]:
        """
        The newest snapshot of a place up to an index, and the rows that come after it.

        Args:
            place: Whose memories of which kind, on which branch.
            branches: The branches of its lineage.
            index: Last index that counts.

        Returns:
            What was folded, and the later rows; nothing, and None, when there is no snapshot.
        """
        version = fold_version(place.kind)
        found = self.table.newest(place, version, index)
        if found is None:
            return Folded(), None
        row = SnapshotRow(place, version, found[0])
        folded = self._opened(row, found[1])
        if folded is not None:
            after = folded.last - 1
            rows = self._log.reader.slice(place.owner, place.kind, index, branches, after)
            # Its last event must still be there: the log may have been restored to a time before.
            if rows and _is_last_of(folded, rows[0]):
                return folded, rows[1:]
        self._remove(row)
        return Folded(), None

    def save(self, place: Place, index: int, folded: Folded) -> None:
        """
        Leaves a snapshot behind.

        Args:
            place: Whose memories of which kind, on which branch.
            index: The index up to which it was folded.
            folded: What was.
        """
        row = SnapshotRow(place, fold_version(place.kind), index)
        try:
            state = self._sealed(row, folded)
            if state is not None:
                self.table.save(place, row.version, index, state)
        except MemorialeError as error:
            _log.warning("an owner snapshot could not be saved: %s", error.message)

    def load(self, row: SnapshotRow) -> Folded | None:
        """One snapshot; None when it is not there or cannot be used."""
        found = self.table.newest(row.place, row.version, row.index)
        if found is None or found[0] != row.index:
            return None
        return self._opened(row, found[1])

    def _remove(self, row: SnapshotRow) -> None:
        try:
            self.table.remove(row)
        except MemorialeError as error:
            _log.warning("an unusable owner snapshot could not be removed: %s", error.message)

    def _sealed(self, row: SnapshotRow, folded: Folded) -> bytes | None:
        names = self._log.identities.names([row.place.owner])
        if row.place.owner not in names:
            return None
        own = self._log.sealer.key_ids(self._log.identities.keys([names[row.place.owner]]))
        groups: dict[frozenset[bytes], list[MemoryState]] = {}
        for memory_id, state in folded.holding.items():
            # Of what was erased nothing is left that its keys could protect.
            known = {} if state.status is Status.ERASED else folded.keys
            groups.setdefault(known.get(memory_id, frozenset((own,))), []).append(state)
        if len(groups) > MOST_SECTIONS:
            return None
        contents = _Contents(
            last=folded.last,
            leaf=folded.leaf.hex(),
            sections=len(groups),
            memories=len(folded.holding),
        )
        context = self._context(row)
        sections = [(contents.model_dump_json().encode(), own)]
        for keys, states in groups.items():
            plain = zlib.compress(_ADAPTER.dump_json(states, exclude_defaults=True), level=1)
            *inner, outermost = sorted(keys)
            for layer in inner:
                plain = self._log.sealer.seal_like([(plain, layer)], context)
            sections.append((plain, outermost))
        return self._log.sealer.seal_like(sections, context)

    def _opened(self, row: SnapshotRow, state: bytes) -> Folded | None:
        """What a state holds; None when it was changed, belongs elsewhere or lost its keys."""
        context = self._context(row)
        try:
            sections = self._plain(state, context)
            if sections is None:
                return None
            contents = _Contents.model_validate_json(sections[0][0])
            if len(sections) != contents.sections + 1:
                return None
            states, keys = _states(sections[1:])
        except (UnavailableError, ValueError, zlib.error) as error:
            # A database that cannot be reached is told by the fold that comes instead.
            _log.warning("an owner snapshot cannot be read: %s", type(error).__name__)
            return None
        if len(states) != contents.memories:
            return None
        return Folded(
            holding=Holding({one.memory_id: one for one in states}),
            last=contents.last,
            leaf=bytes.fromhex(contents.leaf),
            keys=keys,
            size=sum(map(size_of, states)),
        )

    def _plain(
        self, state: bytes, context: SealContext
    ) -> list[tuple[bytes, frozenset[bytes]]] | None:
        found = []
        outer = parse_envelope(state)
        for section, opened in zip(outer, self._log.sealer.open(state, context), strict=True):
            keys = {section.key_ids}
            while not isinstance(opened, Erased) and opened[:1] == _LAYER:
                keys.add(parse_envelope(opened)[0].key_ids)
                (opened,) = self._log.sealer.open(opened, context)
            if isinstance(opened, Erased):
                return None
            found.append((opened, frozenset(keys)))
        return found

    def _context(self, row: SnapshotRow) -> SealContext:
        return SealContext(
            log_id=self._log.log_id,
            event_id=row.place.owner,
            stream_id=row.place.branch,
            stream_version=row.index,
            topic=f"snapshot/{row.place.kind}",
            schema_version=row.version,
        )


def _states(
    sections: Sequence[tuple[bytes, frozenset[bytes]]],
) -> tuple[list[MemoryState], dict[UUID, frozenset[bytes]]]:
    states: list[MemoryState] = []
    keys: dict[UUID, frozenset[bytes]] = {}
    for plain, sealed_with in sections:
        found = _ADAPTER.validate_json(zlib.decompress(plain))
        keys.update(dict.fromkeys((state.memory_id for state in found), sealed_with))
        states += found
    return sorted(states, key=lambda state: state.first_index), keys


def _is_last_of(folded: Folded, row: Row) -> bool:
    return row.recorded.index == folded.last and row.recorded.leaf_hash == folded.leaf
