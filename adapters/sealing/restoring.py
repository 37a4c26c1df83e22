"""Declaring a restore: logs that came back from a backup go on in a new incarnation."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

import psycopg

from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.postgres.errors import translated
from memoriale.adapters.postgres.leaves import HASH_BYTES, Leaves
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.adapters.postgres.logs import find_log
from memoriale.adapters.sealing.sealer import Target
from memoriale.adapters.sealing.sealing import Sealing
from memoriale.domain.errors import CorruptViewError, MemorialeError
from memoriale.domain.governance import DEPLOYMENT_LOG, LedgerRestored, LedgerRestoredHeader
from memoriale.domain.keys import Subject
from memoriale.projections.proofs.merkle import MerkleTree
from memoriale.projections.proofs.tiles import TILE_WIDTH, TileReader

_BEGIN = "SELECT incarnation FROM ledger.begin_incarnation(%s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Restored:
    """
    A log that came back from a backup.

    Args:
        tenant: Whose.
        log: Which of the tenant's logs.
        log_id: Its id.
        incarnation: The one that begins now.
        events: Events that it has.
        sealed: Events under the last checkpoint known outside the database.
        root: Root over those, hexadecimal; None when there was no checkpoint.
        lost: How many of those are not there any more.
    """

    tenant: str
    log: str
    log_id: UUID
    incarnation: int
    events: int
    sealed: int
    root: str | None
    lost: int


def declare(
    sealing: Sealing,
    admin_url: str,
    reason: str,
    *,
    outside: Sequence[Checkpoint] = (),
    actor: Subject,
) -> list[Restored]:
    """
    Notes that the database came back from a backup, and begins a new incarnation of every log
    that the deployment log knows. A declaration that was killed is repeated.

    Args:
        sealing: Has tiles, checkpoints and the deployment log.
        admin_url: A login that may act as the owner of the ledger.
        reason: Why; sealed.
        outside: Checkpoints kept elsewhere, their signatures checked.
        actor: Who says so.

    Raises:
        UnavailableError: The database cannot be used, or not by that login.
    """
    restored = [_examined(sealing, target, outside) for target in _targets(sealing)]
    sealing.deployment.note([_event(one) for one in restored], actor=actor, reason=reason)
    settings = connection_settings(admin_url)
    with (
        translated(place_of(settings)),
        psycopg.connect(**settings, autocommit=True) as connection,
    ):
        connection.execute("SET ROLE memoriale_owner")
        for one in restored:
            connection.execute(_BEGIN, [one.tenant, one.log_id, one.incarnation])
    return restored


def targets(restored: Sequence[Restored]) -> list[Target]:
    """Those of the logs that are to be sealed anew; the deployment log always is."""
    return [
        Target(one.tenant, one.log, one.log_id, one.incarnation)
        for one in restored
        if one.log != DEPLOYMENT_LOG
    ]


def _targets(sealing: Sealing) -> list[Target]:
    """Logs that are in the database, the deployment log last."""
    found = []
    for known in sealing.deployment.logs():
        log = find_log(sealing.datastore, known.tenant, known.kind)
        if log is not None and log.log_id == known.log_id:
            found.append(Target(log.tenant, log.kind, log.log_id, log.incarnation))
    return [*found, sealing.deployment_target]


def _examined(sealing: Sealing, target: Target, outside: Sequence[Checkpoint]) -> Restored:
    leaves = sealing.sealer.leaves(target)
    stand = leaves.stand()
    tree = sealing.sealer.tree(target, stand.incarnation)
    try:
        last = tree.last()
    except MemorialeError:
        # Whatever was made of it, the outside ones tell what they tell.
        last = None
    own = [] if last is None else [last.checkpoint]
    given = [one for one in outside if one.origin == tree.origin]
    newest = max([*own, *given], key=lambda one: one.size, default=None)
    kept = 0
    if newest is not None:
        size = own[0].size if own else 0
        kept = max(
            _common(leaves, tree.reader(size), min(size, stand.head)),
            _covered(leaves, [*own, *given], stand.head),
        )
    return Restored(
        target.tenant,
        target.kind,
        target.log_id,
        stand.incarnation + 1,
        stand.head,
        0 if newest is None else newest.size,
        None if newest is None else newest.root.hex(),
        0 if newest is None else newest.size - kept,
    )


def _common(leaves: Leaves, reader: TileReader, stop: int) -> int:
    """How many of the first events are those in the tiles; the tiles may be damaged."""
    place = 0
    try:
        for piece in leaves.hashes(0, stop):
            for at in range(0, len(piece), TILE_WIDTH * HASH_BYTES):
                found = piece[at : at + TILE_WIDTH * HASH_BYTES]
                tile = reader.tile(0, place // TILE_WIDTH)[: len(found)]
                if tile != found:
                    return place + next(
                        number
                        for number in range(TILE_WIDTH)
                        if _hash(tile, number) != _hash(found, number)
                    )
                place += len(found) // HASH_BYTES
    except CorruptViewError:
        return place
    return place


def _covered(leaves: Leaves, checkpoints: Sequence[Checkpoint], head: int) -> int:
    """The largest checkpoint whose root the events give."""
    tree, held = MerkleTree(), 0
    ordered = sorted((one for one in checkpoints if one.size <= head), key=lambda one: one.size)
    hashes = chain.from_iterable(
        (_hash(piece, number) for number in range(len(piece) // HASH_BYTES))
        for piece in leaves.hashes(0, ordered[-1].size if ordered else 0)
    )
    for checkpoint in ordered:
        while tree.size < checkpoint.size:
            tree.append(next(hashes))
        if tree.root() != checkpoint.root:
            break
        held = checkpoint.size
    return held


def _hash(hashes: bytes, number: int) -> bytes:
    return hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]


def _event(one: Restored) -> LedgerRestored:
    header = LedgerRestoredHeader(
        tenant=one.tenant,
        log_kind=one.log,
        log_id=one.log_id,
        incarnation=one.incarnation,
        events=one.events,
        sealed=one.sealed,
        root=one.root,
        lost=one.lost,
    )
    return LedgerRestored(header=header, body=None)
