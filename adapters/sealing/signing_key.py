"""The key that signs checkpoints, and every public key that ever did."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.notes.signed_note import NoteSigner
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.files import publish, read, sync_folder
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError
from memoriale.projections.generations import FileLock, disk_errors

SETTING: Final = "MEMORIALE_SIGNING_KEY"
NAME: Final = "memoriale"
"""Under this name public keys are kept and given away; each log's checkpoints bear its own."""
_SEED: Final = re.compile(rb"\s*([0-9a-f]{64})\s*")
_WAIT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """
    Which public key followed which.

    Args:
        former: The one before; None when its private key was lost.
        key: The one that signs now.
    """

    former: bytes | None
    key: bytes


class SigningKey:
    """
    An Ed25519 key in a file (0600) of 64 hexadecimal digits, made when it is first asked for.

    The public keys stand in ``verifiers``, one line each, oldest first. They are what tells a
    key that was lost or exchanged from a first one, so an installation signs with the key that
    it began with until a rotation says otherwise.

    Args:
        path: The key's file.
        folder: Where ``verifiers`` lies.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self._folder = folder
        self._verifiers = folder / "verifiers"

    def load(self) -> Ed25519PrivateKey:
        """
        The key; a random one is made, durably, if this installation never had one.

        Raises:
            UnavailableError: ``missing_signing_key``, ``bad_signing_key``, or
                ``foreign_signing_key`` when it is none that signed here before.
        """
        if self._never_made():
            with self._locked():
                return self._load()
        return self._load()

    def problem(self) -> MemorialeError | None:
        """Why ``load`` would fail, None if it would not; makes nothing."""
        try:
            if not self._never_made():
                self._load()
        except MemorialeError as error:
            return error
        return None

    def public_keys(self) -> list[bytes]:
        """
        Every public key that ever signed here, oldest first.

        Raises:
            UnavailableError: ``bad_verifiers``: the file was changed by hand.
        """
        lines = (read(self._verifiers) or b"").decode("ascii", "replace").splitlines()
        try:
            return [VerifierKey.parse(line).public_key for line in lines]
        except InputError as error:
            raise UnavailableError(
                f"{self._verifiers} cannot be read: {error.message}",
                code="bad_verifiers",
                field=SETTING,
            ) from None

    def verifiers(self, origin: str) -> list[VerifierKey]:
        """Every public key, under the name of a log."""
        return [VerifierKey(origin, key) for key in self.public_keys()]

    def signers(self, origin: str) -> list[NoteSigner]:
        """Who signs the checkpoints of a log; see ``load``."""
        return [NoteSigner(origin, self.load())]

    def rotate(
        self, sign_again: Callable[[Sequence[Ed25519PrivateKey], Rotation], None], *, lost: bool
    ) -> Rotation:
        """
        Begins to sign with a new key. The former private key is overwritten at the end. A
        rotation that was killed is finished by the next one, with the same new key.

        Args:
            sign_again: Has the present checkpoints signed with both keys, the former first.
            lost: The former key is gone; then only the new one signs.

        Raises:
            UnavailableError: As ``load``, unless ``lost``; the former key stays in use.
        """
        with self._locked():
            # Without one there is nothing to rotate: it is made, and then followed.
            former = None if lost else self._load()
            key = self._successor()
            rotation = Rotation(None if former is None else public_of(former), public_of(key))
            self._make_known(rotation.key)
            sign_again([key] if former is None else [former, key], rotation)
            self._adopt()
        return rotation

    def _never_made(self) -> bool:
        return self._stored() is None and not self.public_keys()

    def _load(self) -> Ed25519PrivateKey:
        key, known = self._stored(), self.public_keys()
        if key is None and not known:
            key = Ed25519PrivateKey.from_private_bytes(os.urandom(32))
            publish(self.path, _text(key))
        if key is None:
            raise self._error(
                "missing_signing_key",
                "is missing; put it back or name the right file. If it is lost for good, "
                "'memoriale key rotate --lost' begins another one, on record",
            )
        if not known:
            self._make_known(public_of(key))
        elif public_of(key) not in known:
            raise self._error(
                "foreign_signing_key",
                f"is none of the keys in {self._verifiers}; put the right one back, or begin "
                "another one with 'memoriale key rotate --lost', on record",
            )
        return key

    def _successor(self) -> Ed25519PrivateKey:
        path = self._next
        match = _SEED.fullmatch(read(path) or b"")
        if match is not None:
            return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(match[1].decode()))
        key = Ed25519PrivateKey.from_private_bytes(os.urandom(32))
        publish(path, _text(key))
        return key

    def _adopt(self) -> None:
        former = None
        with disk_errors(self.path):
            if self.path.exists():
                former = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.replace(self._next, self.path)
                sync_folder(self.path.parent)
                if former is not None:
                    # In place: whoever looks for it on the disk finds zeros.
                    os.write(former, bytes(os.fstat(former).st_size))
                    os.fsync(former)
            finally:
                if former is not None:
                    os.close(former)

    @property
    def _next(self) -> Path:
        return self.path.with_name(f"{self.path.name}.next")

    def _stored(self) -> Ed25519PrivateKey | None:
        data = read(self.path)
        if data is None:
            return None
        match = _SEED.fullmatch(data)
        if match is None:
            raise self._error("bad_signing_key", "does not hold 64 hexadecimal digits")
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(match[1].decode()))

    def _make_known(self, key: bytes) -> None:
        known = self.public_keys()
        if key not in known:
            lines = [f"{VerifierKey(NAME, one)}\n" for one in (*known, key)]
            publish(self._verifiers, "".join(lines).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self._folder / "lock")
        if not lock.acquire(time.monotonic() + _WAIT):
            raise self._error("locked", "is being rotated by another process; try again")
        try:
            yield
        finally:
            lock.release()

    def _error(self, code: str, problem: str) -> UnavailableError:
        return UnavailableError(
            f"The signing key {self.path} {problem}. Meanwhile nothing is sealed.",
            code=code,
            field=SETTING,
            value=str(self.path),
        )


def public_of(key: Ed25519PrivateKey) -> bytes:
    """The public key of a private one, 32 bytes."""
    return key.public_key().public_bytes_raw()


def _text(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes_raw().hex().encode() + b"\n"
