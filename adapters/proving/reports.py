"""What the proving calls answer with."""

from dataclasses import asdict, dataclass
from typing import Any

from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.sealer import Sealed
from memoriale.adapters.sealing.signing_key import NAME, SigningKey, public_of
from memoriale.domain.errors import MemorialeError


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """
    A checkpoint.

    Args:
        tenant: Whose log.
        log: Which of the tenant's logs.
        origin: Its name in the checkpoint.
        size: Events that it covers: all that there were.
        root: Root over them, hexadecimal.
        note: The signed note.
        fresh: Whether this call made it.
    """

    tenant: str
    log: str
    origin: str
    size: int
    root: str
    note: str
    fresh: bool

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SigningKeyReport:
    """
    A public key that signs or signed checkpoints.

    Args:
        key: As a verifier key, ``name+hash+key``; it stands for every log.
        signs: Whether it signs now.
    """

    key: str
    signs: bool

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def reported(answer: Sealed | MemorialeError) -> CheckpointReport:
    """
    The checkpoint of a log.

    Raises:
        MemorialeError: There is none, for this reason.
    """
    if isinstance(answer, MemorialeError):
        raise answer
    target, checkpoint = answer.target, answer.checkpoint
    return CheckpointReport(
        target.tenant,
        target.kind,
        checkpoint.origin,
        checkpoint.size,
        checkpoint.root.hex(),
        str(answer.signed.note),
        answer.fresh,
    )


def signing_keys(key: SigningKey) -> list[SigningKeyReport]:
    """
    Every public key, oldest first; the first call makes one.

    Raises:
        UnavailableError: The signing key cannot be used.
    """
    signs = public_of(key.load())
    return [SigningKeyReport(str(VerifierKey(NAME, k)), k == signs) for k in key.public_keys()]
