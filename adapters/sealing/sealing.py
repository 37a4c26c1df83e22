"""Sealing of an installation: logs, then the deployment log about them, then places outside."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.notes.checkpoint import SignedCheckpoint
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.sealing.deployment import SEALER, Deployment, KnownLog
from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.adapters.sealing.publisher import Published, Publisher
from memoriale.adapters.sealing.sealer import Sealed, Sealer, Target, log_shrank
from memoriale.adapters.sealing.signing_key import Rotation, SigningKey
from memoriale.domain.errors import MemorialeError
from memoriale.domain.governance import (
    CheckpointPublished,
    CheckpointPublishedHeader,
    KeyRotated,
    KeyRotatedHeader,
)
from memoriale.domain.keys import Subject

SIGNING: Final = "signing"
_log = logging.getLogger("memoriale.sealing")


@dataclass(frozen=True, slots=True)
class Extent:
    """
    How far a log is sealed.

    Args:
        head: Events that it has.
        sealed: Events that the last checkpoint on this machine covers.
        problem: Why it cannot be told, or cannot go on; None when all is well.
    """

    head: int
    sealed: int
    problem: MemorialeError | None = None

    @property
    def unsealed(self) -> int:
        """Events that no checkpoint covers."""
        return max(0, self.head - self.sealed)


class Sealing:
    """
    Seals logs of an installation and tells how far they are sealed.

    Args:
        datastore: The database.
        key: Who signs.
        tiles: Folder of all trees.
        open_deployment: Opens the deployment log.
        publisher: Takes checkpoints to places outside.
    """

    def __init__(
        self,
        datastore: Datastore,
        key: SigningKey,
        tiles: Path,
        open_deployment: Callable[[], TenantLog],
        publisher: Publisher,
    ) -> None:
        self.datastore = datastore
        self.key = key
        self.tiles = tiles
        self.deployment = Deployment(self.deployment_log)
        self.sealer = Sealer(datastore, key, tiles, self.known)
        self._open_deployment = open_deployment
        self._publisher = publisher
        self._lock = Lock()
        self._deployment: TenantLog | None = None

    @property
    def deployment_target(self) -> Target:
        """The deployment log."""
        return target_of(self.deployment_log())

    def seal(self, targets: Iterable[Target]) -> list[Sealed | MemorialeError]:
        """
        Seals logs, notes what was sealed in the deployment log, seals that one too, and hands
        all new checkpoints to the publisher.

        Args:
            targets: Logs other than the deployment log.

        Returns:
            For each log its checkpoint, or why there is none; the others are sealed all the
            same. The last answer is that of the deployment log.
        """
        answers = [self._sealed(target) for target in targets]
        sealed = [answer for answer in answers if isinstance(answer, Sealed)]
        try:
            self._note(sealed)
            answers.append(self.sealer.seal(self.deployment_target))
        except MemorialeError as error:
            answers.append(error)
        self._publish([a.signed for a in answers if isinstance(a, Sealed) and a.fresh])
        return answers

    def extent(self, target: Target) -> Extent:
        """How far a log is sealed on this machine."""
        stand = self.sealer.leaves(target).stand()
        try:
            last = self.sealer.tree(target, stand.incarnation).last()
        except MemorialeError as error:
            return Extent(stand.head, 0, error)
        size = 0 if last is None else last.checkpoint.size
        shrank = log_shrank(target, stand.head, size) if size > stand.head else None
        return Extent(stand.head, size, shrank or self.key.problem())

    def close(self) -> None:
        """Lets go of the deployment log."""
        if self._deployment is not None:
            self._deployment.close()
            self._deployment = None

    def rotate(self, *, lost: bool = False, actor: Subject = SEALER) -> Rotation:
        """
        Signs with a new key from now on; see ``SigningKey.rotate``. The present checkpoint of
        every log is signed with both keys, and the deployment log notes the change.

        Raises:
            UnavailableError: The former key cannot be used and is not said to be lost.
        """

        def sign_again(keys: Sequence[Ed25519PrivateKey], rotation: Rotation) -> None:
            former = None if rotation.former is None else rotation.former.hex()
            header = KeyRotatedHeader(purpose=SIGNING, former=former, key=rotation.key.hex())
            self.deployment.note([KeyRotated(header=header, body=None)], actor=actor)
            again = [self.sealer.seal(self.deployment_target, keys).signed]
            for log in self.deployment.logs():
                target = Target(log.tenant, log.kind, log.log_id, log.incarnation)
                again += self._signed_again(self.sealer.tree(target, log.incarnation), keys)
            self._publish(again)

        return self.key.rotate(sign_again, lost=lost)

    def deployment_log(self) -> TenantLog:
        """The deployment log, opened when it is first needed."""
        with self._lock:
            if self._deployment is None:
                self._deployment = self._open_deployment()
            return self._deployment

    def known(self, log_id: UUID) -> KnownLog | None:
        """What the deployment log knows of another log; of itself it knows nothing."""
        own = self.deployment_log().log_id
        return None if log_id == own else self.deployment.last(log_id)

    def _signed_again(
        self, tree: LogTree, keys: Sequence[Ed25519PrivateKey]
    ) -> list[SignedCheckpoint]:
        with tree.locked():
            last = tree.last()
            return [] if last is None else [tree.sign(last.checkpoint, keys)]

    def _sealed(self, target: Target) -> Sealed | MemorialeError:
        try:
            return self.sealer.seal(target)
        except MemorialeError as error:
            return error

    def _note(self, sealed: Sequence[Sealed]) -> None:
        trees = [(one, self.sealer.tree(one.target, one.incarnation)) for one in sealed]
        new = [(one, tree) for one, tree in trees if tree.noted() < one.checkpoint.size]
        if not new:
            return
        self.deployment.note([_noted(one) for one, _ in new])
        for one, tree in new:
            tree.mark_noted(one.checkpoint.size)

    def _publish(self, signed: Sequence[SignedCheckpoint]) -> None:
        if not signed:
            return
        try:
            self._publisher.publish([_leaving(one) for one in signed])
        except MemorialeError as error:
            _log.warning("checkpoints were not taken outside: %s", error.message)


def target_of(log: TenantLog) -> Target:
    """A log to seal."""
    return Target(log.tenant, log.log.kind, log.log_id, log.log.incarnation)


def _leaving(signed: SignedCheckpoint) -> Published:
    checkpoint = signed.checkpoint
    note = str(signed.note).encode()
    return Published(checkpoint.origin, checkpoint.size, checkpoint.root, note)


def _noted(sealed: Sealed) -> CheckpointPublished:
    target, checkpoint = sealed.target, sealed.checkpoint
    header = CheckpointPublishedHeader(
        tenant=target.tenant,
        log_kind=target.kind,
        log_id=target.log_id,
        incarnation=sealed.incarnation,
        size=checkpoint.size,
        root=checkpoint.root.hex(),
    )
    return CheckpointPublished(header=header, body=None)
