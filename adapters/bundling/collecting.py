"""Collecting what goes into a bundle: the logs of a tenant are sealed and read back."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.bundling.bundle import BundledLog, write_bundle
from memoriale.adapters.exporting.target import replaced, target_path
from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.proving.receipts import prove
from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.adapters.sealing.sealer import Sealed
from memoriale.adapters.sealing.sealing import Sealing, target_of
from memoriale.adapters.sealing.signing_key import NAME
from memoriale.domain.errors import IncompleteError, MemorialeError
from memoriale.domain.governance import CheckpointPublished, CheckpointPublishedHeader
from memoriale.domain.record import Row
from memoriale.domain.values import parse_json_strictly

_AT_ONCE: Final = 256
"""Events held in memory at a time; one may be over a megabyte."""
_LOOKED_AT: Final = 64

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BundleReport:
    """
    A bundle that was written.

    Args:
        path: The file.
        bytes: Its size.
        states: Whether the sealed bodies are in it.
        logs: Kind, origin, events and root of each log.
        verifiers: The public keys of this installation, to be given to whoever checks it, on
            another way than the bundle.
    """

    path: str
    bytes: int
    states: bool
    logs: tuple[dict[str, Any], ...]
    verifiers: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def bundle(
    sealing: Sealing,
    logs: Sequence[TenantLog],
    out: str | os.PathLike[str],
    *,
    states: bool = True,
    progress: Progress | None = None,
) -> BundleReport:
    """
    Seals the logs of a tenant and writes all that is under their checkpoints into one file.

    Args:
        sealing: What seals them.
        logs: The memory and the access log.
        out: A file, or a folder for it. One that stands there is replaced at the end, in one
            step; nothing stays when it fails.
        states: Whether the sealed bodies go into it.
        progress: Told the kind of log, events done and events in all.

    Raises:
        InputError: There can be no file at ``out``.
        ViolationError: What was sealed before is not in a log any more.
        UnavailableError: The signing key, the database or the disk cannot be used.
    """
    sealed = [_sealed(answer) for answer in sealing.seal(target_of(log) for log in logs)]
    deployment = sealed.pop()
    bundled = [
        _bundled(sealing, log, one, _proof(sealing, one))
        for log, one in zip(logs, sealed, strict=True)
    ]
    verifiers = [VerifierKey(NAME, key) for key in sealing.key.public_keys()]
    path = target_path(out, logs[0].tenant, sealed[0].checkpoint.size - 1, ".zip")
    with replaced(path) as file:
        write_bundle(
            file,
            bundled,
            verifiers=verifiers,
            deployment=deployment.checkpoint.origin,
            states=states,
            progress=progress,
        )
        size = file.seek(0, os.SEEK_END)
    return BundleReport(
        path=str(path),
        bytes=size,
        states=states,
        logs=tuple(_described(one.target.kind, one.checkpoint) for one in sealed),
        verifiers=tuple(map(str, verifiers)),
    )


def _sealed(answer: Sealed | MemorialeError) -> Sealed:
    if isinstance(answer, MemorialeError):
        raise answer
    return answer


def _described(kind: str, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "log": kind,
        "origin": checkpoint.origin,
        "events": checkpoint.size,
        "root": checkpoint.root.hex(),
    }


def _bundled(sealing: Sealing, log: TenantLog, sealed: Sealed, proof: bytes) -> BundledLog:
    tree = sealing.sealer.tree(sealed.target, sealed.incarnation)
    size = sealed.checkpoint.size
    return BundledLog(
        tenant=log.tenant,
        kind=log.log.kind,
        log_id=log.log_id,
        incarnation=sealed.incarnation,
        size=size,
        checkpoint=str(sealed.signed.note).encode(),
        history=_history(tree, size),
        tiles=tree.reader(size),
        rows=partial(_rows, log, size),
        proof=proof,
    )


def _history(tree: LogTree, size: int) -> Iterator[tuple[int, bytes]]:
    for earlier in tree.sizes():
        signed = tree.at(earlier) if earlier <= size else None
        if signed is not None:
            yield earlier, str(signed.note).encode()


def _rows(log: TenantLog, size: int) -> Iterator[list[Row]]:
    return log.reader.stream_rows(0, _AT_ONCE, stop=size)


def _proof(sealing: Sealing, sealed: Sealed) -> bytes:
    """The deployment log's entry about a checkpoint, proved to be in it."""
    deployment = sealing.deployment_log()
    log_id: UUID = sealed.target.log_id
    for row in deployment.reader.stream(log_id, desc=True, limit=_LOOKED_AT):
        if row.columns.topic == CheckpointPublished.TOPIC:
            noted = CheckpointPublishedHeader.model_validate(parse_json_strictly(row.header))
            if (noted.incarnation, noted.size) == (sealed.incarnation, sealed.checkpoint.size):
                return prove(deployment, sealing, row.recorded.index).proof.encode()
    raise IncompleteError(
        f"The deployment log does not say yet that {sealed.checkpoint.size} events of the "
        f"{sealed.target.kind} log were sealed; try again.",
        code="not_noted",
        value=sealed.checkpoint.size,
    )
