"""Idempotency keys of lines that bring none: the same line gets the same key in every import."""

import hmac
import struct
from collections.abc import Sequence
from typing import Final

from memoriale.adapters.importing.occurrences import Occurrences
from memoriale.adapters.keys.tags import TagKey

_NUMBER: Final = struct.Struct(">Q")


class LineKeys:
    """
    Makes keys as HMAC-SHA-256 under the tenant's tag key, so that they tell nothing about the
    lines to anybody else. One for each input, because it counts equal lines.

    Args:
        key: The tenant's tag key.
    """

    def __init__(self, key: TagKey) -> None:
        self._key = key
        self._occurrences = Occurrences()

    def one(self, canonical: bytes) -> str:
        """The key of a record that has an identity of its own, as 64 hexadecimal digits."""
        return self._tag(b"import-record/1\0" + canonical).hex()

    def counted(self, canonicals: Sequence[bytes]) -> list[str]:
        """
        The keys of lines in the order of the input: two equal lines have two keys.

        Args:
            canonicals: Canonical form of each line.
        """
        tags = [self._tag(b"import-line/1\0" + canonical) for canonical in canonicals]
        numbers = self._occurrences.before(tags)
        return [
            self._tag(b"import-place/1\0" + tag + _NUMBER.pack(number)).hex()
            for tag, number in zip(tags, numbers, strict=True)
        ]

    def _tag(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256")
