"""Events of the deployment log: checkpoints, signing keys and restored backups."""

from typing import Annotated, ClassVar, Final
from uuid import UUID

from pydantic import Field

from memoriale.domain.events import Body, Code, Event, Header

DEPLOYMENT_TENANT: Final = "_deployment"
"""The reserved tenant of the one log that is about all other logs."""
DEPLOYMENT_LOG: Final = "deployment"

Count = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""32 bytes as hexadecimal text: a tree's root, or a public key."""


class LogHeader(Header):
    """Which log it is about. Its id is the event's stream as well."""

    tenant: Code
    log_kind: Code
    log_id: UUID
    incarnation: int = Field(ge=1)


class CheckpointPublishedHeader(LogHeader):
    """How many events were sealed, and the root over them."""

    size: Count
    root: Digest


class CheckpointPublished(Event):
    """A log was sealed: its first ``size`` events have this root, and it was signed."""

    TOPIC: ClassVar[str] = "checkpoint.published"
    LOG: ClassVar[str] = DEPLOYMENT_LOG
    header: CheckpointPublishedHeader
    body: Body | None


class KeyRotatedHeader(Header):
    """The public keys before and after; no former one when its private key was lost."""

    purpose: Code
    former: Digest | None = None
    key: Digest


class KeyRotated(Event):
    """Another key signs from now on."""

    TOPIC: ClassVar[str] = "key.rotated"
    LOG: ClassVar[str] = DEPLOYMENT_LOG
    header: KeyRotatedHeader
    body: Body | None


class LedgerRestoredHeader(LogHeader):
    """
    What a backup brought back. The incarnation is the one that begins with this event.

    ``events`` is how many there are, ``sealed`` and ``root`` are of the last checkpoint known
    outside the database, ``lost`` is how many of those sealed events are gone.
    """

    events: Count
    sealed: Count
    root: Digest | None = None
    lost: Count


class LedgerRestored(Event):
    """A log came back from a backup; what it held after that is another history."""

    TOPIC: ClassVar[str] = "ledger.restored"
    LOG: ClassVar[str] = DEPLOYMENT_LOG
    header: LedgerRestoredHeader
    body: Body | None


GOVERNANCE_TYPES: Final[tuple[type[Event], ...]] = (
    CheckpointPublished,
    KeyRotated,
    LedgerRestored,
)
