"""Labels of operations: unique while they are in use, free again afterwards."""

from threading import Lock
from uuid import uuid4

from memoriale.domain.text import check_outside_id


class OperationIds:
    """The labels in use, of adds and searches together. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._used: set[str] = set()

    def take(self, wanted: object, kind: str) -> str:
        """
        A label that nobody else uses.

        Args:
            wanted: What the caller calls the operation, without the blanks around it; None or a
                blank text: one is made up. While another operation has it, ``#2``, ``#3`` and so
                on is put behind.
            kind: What a made up one begins with.

        Raises:
            InputError: No text, or longer than 256 bytes.
        """
        if wanted is None or (isinstance(wanted, str) and not wanted.strip()):
            label = f"{kind}-{uuid4().hex[:12]}"
        else:
            text = wanted.strip() if isinstance(wanted, str) else wanted
            label = check_outside_id("op_id", text)
        with self._lock:
            found, number = label, 1
            while found in self._used:
                number += 1
                found = f"{label}#{number}"
            self._used.add(found)
        return found

    def release(self, label: str) -> None:
        """The operation has ended; its label may be used again."""
        with self._lock:
            self._used.discard(label)
