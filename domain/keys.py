"""The key store port: pseudonyms and data keys of persons, and keys of periods."""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, Self
from uuid import UUID

from memoriale.domain.errors import InputError
from memoriale.domain.text import check_code, check_outside_id, shown

PERSON_TYPES: Final = ("user", "agent", "resource", "session", "team", "tenant", "service", "run")
"""Types of outside names. Each is a name space of its own."""

_PERIOD = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_LENGTH = struct.Struct(">I")


class Subject(NamedTuple):
    """The outside name of a person or owner: opaque, compared byte for byte as given."""

    type: str
    """One of ``PERSON_TYPES``."""
    id: str
    """1 to 256 bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class PersonKey:
    """A person's random pseudonym and data key. The key never shows in a repr."""

    tenant: str
    subject: Subject
    pseudonym: UUID
    """16 random bytes that stand for the person in the log."""
    key_id: bytes
    """16 random bytes that name the key in sealed sections."""
    key: bytes = field(repr=False)
    """32 random bytes."""


@dataclass(frozen=True, slots=True)
class PeriodKey:
    """The key of a retention class in one UTC month. The key never shows in a repr."""

    tenant: str
    retention_class: str
    period: str
    """``YYYY-MM``."""
    key_id: bytes
    """16 random bytes that name the key in sealed sections."""
    key: bytes = field(repr=False)
    """32 random bytes."""


class KeyStoreStats(NamedTuple):
    """How many keys a store holds, over all tenants."""

    persons: int
    periods: int
    destroyed: int
    """Keys destroyed since the store was made."""


class KeyStore(Protocol):
    """
    Holds what links the log to people. Nothing else does.

    An implementation must be usable by many threads and processes at once. It must not answer
    from a copy that outlives a destroyed key, keep a key or name after its destruction in any
    file, or make a new key for a person whose stored key it merely cannot read.

    Every method raises ``UnavailableError`` when the store cannot be used, and ``InputError``
    for a tenant or outside id that ``check_outside_id`` refuses, or an unknown type.
    """

    def get_or_create(self, tenant: str, subjects: Sequence[Subject]) -> list[PersonKey]:
        """
        Return one key per subject, in the order given, making those that do not exist.

        New keys are durable before the call returns; a batch costs one sync. Whoever asks for
        the same (tenant, type, id), from any process, gets the same pseudonym and key.
        """
        ...

    def find(self, tenant: str, subject: Subject) -> PersonKey | None:
        """Return the subject's key, or None. Never makes one."""
        ...

    def period(self, tenant: str, retention_class: str, period: str) -> PeriodKey:
        """
        Return the key of a retention class in a month, making it if it does not exist.

        Args:
            tenant: Whose.
            retention_class: 1 to 64 characters of ``A-Za-z0-9_.:/-``.
            period: The UTC month as ``YYYY-MM``.
        """
        ...

    def find_period(self, tenant: str, retention_class: str, period: str) -> PeriodKey | None:
        """Return the key of a retention class in a month, or None. Never makes one."""
        ...

    def get_many(self, key_ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the 32-byte keys of persons and periods by id; unknown or destroyed are absent."""
        ...

    def names(self, tenant: str, pseudonyms: Sequence[UUID]) -> dict[UUID, Subject]:
        """Return outside names by pseudonym; another tenant's or destroyed ones are absent."""
        ...

    def destroy(self, key_id: bytes) -> bool:
        """
        Destroy a person's or a period's key and the outside name beside it, for good.

        Returns True when the key existed. A later ``get_or_create`` for the same outside name
        makes a fresh pseudonym and key.
        """
        ...

    def generation(self) -> int:
        """
        Return a number that changes with every key destroyed, by whatever process.

        Cheap enough to ask before each use of a key kept in memory.
        """
        ...

    def stats(self) -> KeyStoreStats:
        """Return how many keys there are."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...


def person_name(tenant: str, subject: Subject) -> bytes:
    """
    Encode (tenant, type, id) so that no two different names give the same bytes.

    Raises:
        InputError: The tenant or the id cannot be an outside id, or the type is unknown.
    """
    if subject.type not in PERSON_TYPES:
        raise InputError(
            f"Unknown type of person {shown(subject.type)!r}. Use one of the allowed types.",
            code="unknown_person_type",
            field="type",
            value=shown(subject.type),
            allowed=PERSON_TYPES,
        )
    outside_id = check_outside_id(subject.type, subject.id)
    return _encode(check_outside_id("tenant", tenant), subject.type, outside_id)


def period_name(tenant: str, retention_class: str, period: str) -> bytes:
    """
    Encode (tenant, retention class, month) so that no two different names give the same bytes.

    Raises:
        InputError: The tenant, the class or the month is malformed.
    """
    if not _PERIOD.fullmatch(period):
        raise InputError(
            f"period {shown(period)!r} is not a month. Write it as YYYY-MM.",
            code="bad_period",
            field="period",
            value=shown(period),
            allowed="YYYY-MM",
        )
    retention_class = check_code("retention_class", retention_class)
    return _encode(check_outside_id("tenant", tenant), retention_class, period)


def name_parts(name: bytes) -> tuple[str, ...]:
    """Return the parts that ``person_name`` or ``period_name`` encoded."""
    parts = []
    start = 0
    while start < len(name):
        (length,) = _LENGTH.unpack_from(name, start)
        start += _LENGTH.size
        parts.append(name[start : start + length].decode())
        start += length
    return tuple(parts)


def _encode(*parts: str) -> bytes:
    encoded = [part.encode() for part in parts]
    return b"".join(_LENGTH.pack(len(part)) + part for part in encoded)
