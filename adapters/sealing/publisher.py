"""The port through which checkpoints leave the house."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Published:
    """
    A checkpoint that was signed and is on the local disk.

    Args:
        origin: Log and incarnation, ``memoriale/<log id>/<incarnation>``.
        size: Events that it covers.
        root: Root over them, 32 bytes.
        note: The signed note.
    """

    origin: str
    size: int
    root: bytes
    note: bytes


class Publisher(Protocol):
    """Takes checkpoints to places outside."""

    def publish(self, checkpoints: Sequence[Published]) -> None:
        """
        Called after each sealing, at most one checkpoint for each log.

        A place that cannot be reached is recorded by the publisher itself and tried again with
        the next checkpoint: whatever is raised here fails neither the sealing nor a write, and
        is logged as a warning.
        """

    def close(self) -> None:
        """Waits for what is under way, within limits."""


class Nowhere:
    """No outside place is configured."""

    def publish(self, checkpoints: Sequence[Published]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
