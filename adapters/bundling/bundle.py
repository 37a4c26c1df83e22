"""What is in a bundle, file by file, written in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from uuid import UUID

from memoriale.adapters.bundling.archive import Archive, archive
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.domain.errors import ViolationError
from memoriale.domain.leaf import leaf_data
from memoriale.domain.record import Row
from memoriale.projections.proofs.tiles import TILE_WIDTH, TileReader, entries_path, tiles_of

STATES_IN_A_FILE: Final = 64 << 20
"""A file of sealed states is closed when it has as many bytes; no file nears two gigabytes."""
README: Final = """\
This is a bundle of a memoriale ledger: logs of one tenant, with what is needed to check them.

    memoriale-verify BUNDLE.zip --verifier KEY --checkpoint FILE

KEY is the verifier key of the installation and FILE a checkpoint, both from a source that does
not depend on whoever gave you the bundle: without them the bundle only agrees with itself.
memoriale-verify comes with memoriale; it is one file, memoriale_verify.py, that needs Python and
the package cryptography, and may be copied alone to another machine.

verifiers                              public keys that signed here, oldest first
<log id>/<incarnation>/checkpoint      the last signed checkpoint (C2SP tlog-checkpoint)
  checkpoints/<size>                   earlier ones
  tile/<level>/<number>                Merkle tree tiles (C2SP tlog-tiles)
  tile/entries/<number>                the events without their bodies, as hashed
  states/<first index>                 their sealed bodies, each after its length
  deployment.tlog-proof                the deployment log's own entry about the checkpoint
manifest.json                          what is in here, and the SHA-256 of every file
"""


@dataclass(frozen=True, slots=True)
class BundledLog:
    """
    A log as it goes into a bundle, up to its last checkpoint.

    Args:
        tenant: Whose.
        kind: Which of the tenant's logs.
        log_id: Its id.
        incarnation: Which incarnation the checkpoint is of.
        size: Events under the checkpoint.
        checkpoint: Its note.
        history: Sizes and notes of all checkpoints, smallest first; asked once.
        tiles: The tree of that size.
        rows: Its events in order, in pieces, with their sealed states; asked once.
        proof: The deployment log's entry about the checkpoint, as a proof file.
    """

    tenant: str
    kind: str
    log_id: UUID
    incarnation: int
    size: int
    checkpoint: bytes
    history: Iterable[tuple[int, bytes]]
    tiles: TileReader
    rows: Callable[[], Iterable[Sequence[Row]]]
    proof: bytes


def write_bundle(
    file: BinaryIO,
    logs: Sequence[BundledLog],
    *,
    verifiers: Sequence[VerifierKey],
    deployment: str,
    states: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """
    Writes a bundle; the same logs give the same bytes.

    Args:
        file: Empty, open for reading and writing.
        logs: What goes into it.
        verifiers: Public keys that ever signed.
        deployment: Origin of the deployment log.
        states: Whether the sealed bodies go into it.
        progress: Told the kind of log, events done and events in all.

    Raises:
        ViolationError: A log ends before its checkpoint (``log_shrank``).
        UnavailableError: A tile cannot be read, or an event is missing.
    """
    with archive(file) as bundle:
        bundle.add("README.txt", README.encode())
        bundle.add("verifiers", "".join(f"{key}\n" for key in verifiers).encode())
        for log in logs:
            _add_log(bundle, log, states, progress)
        bundle.finish(
            {"deployment": deployment, "logs": [_description(log, states) for log in logs]}
        )


def _description(log: BundledLog, states: bool) -> dict[str, Any]:
    return {
        "tenant": log.tenant,
        "kind": log.kind,
        "log_id": str(log.log_id),
        "incarnation": log.incarnation,
        "states": states,
    }


def _add_log(
    bundle: Archive,
    log: BundledLog,
    states: bool,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    folder = f"{log.log_id}/{log.incarnation}/"
    bundle.add(f"{folder}checkpoint", log.checkpoint)
    for size, note in log.history:
        bundle.add(f"{folder}checkpoints/{size}", note)
    bundle.add(f"{folder}deployment.tlog-proof", log.proof)
    for tile in tiles_of(log.size):
        bundle.add(folder + tile.path, log.tiles.tile(tile.level, tile.index))
    bodies = _Bodies(bundle, f"{folder}states/") if states else None
    for first, rows in _by_tile(log):
        entries = (leaf_data(row) for row in rows)
        content = b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
        bundle.add(folder + entries_path(first // TILE_WIDTH, len(rows)), content)
        if bodies is not None:
            for row in rows:
                bodies.add(row)
        if progress is not None:
            progress(log.kind, first + len(rows), log.size)
    if bodies is not None:
        bodies.close()


def _by_tile(log: BundledLog) -> Iterator[tuple[int, list[Row]]]:
    """The events tile by tile, each with the index of the first one."""
    first, waiting = 0, list[Row]()
    for piece in log.rows():
        waiting += piece
        while len(waiting) >= TILE_WIDTH:
            yield first, waiting[:TILE_WIDTH]
            first, waiting = first + TILE_WIDTH, waiting[TILE_WIDTH:]
    if waiting:
        yield first, waiting
    if first + len(waiting) != log.size:
        raise ViolationError(
            f"The {log.kind} log of tenant {log.tenant!r} has {first + len(waiting)} events; its "
            f"checkpoint covers {log.size}. Run 'memoriale verify'.",
            code="log_shrank",
            value=first + len(waiting),
            allowed=log.size,
        )


class _Bodies:
    """Sealed bodies, many to a file; a file is named by the index of its first one."""

    def __init__(self, bundle: Archive, folder: str) -> None:
        self._bundle, self._folder = bundle, folder
        self._parts: list[bytes] = []
        self._first = self._count = self._bytes = 0

    def add(self, row: Row) -> None:
        if row.state is None:
            raise ViolationError(
                f"The body of event {row.recorded.index} is gone. Run 'memoriale verify'.",
                code="missing_state",
                value=row.recorded.index,
            )
        self._parts += len(row.state).to_bytes(4, "big"), row.state
        self._count, self._bytes = self._count + 1, self._bytes + len(row.state)
        if self._bytes >= STATES_IN_A_FILE:
            self.close()

    def close(self) -> None:
        if self._parts:
            self._bundle.add(f"{self._folder}{self._first:015}", b"".join(self._parts))
        self._parts, self._first, self._bytes = [], self._count, 0
