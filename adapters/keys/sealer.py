"""
Sealing event bodies with AES-256-GCM, and opening them. The layout is in ``domain.envelope``.

A section's key is HKDF-SHA-256(ikm = the keys of the persons in its set, sorted as bytes and
concatenated; salt = the period key; info = ``seal/1`` and the 16 bytes of the log id). Destroying
any one of those keys closes the section for good. The nonce is random.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from threading import Lock
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memoriale.domain.envelope import (
    NONCE_BYTES,
    TAG_BYTES,
    Erased,
    SealContext,
    Section,
    associated_data,
    build_envelope,
    parse_envelope,
    split_key_ids,
)
from memoriale.domain.errors import ConflictError, InputError, UnavailableError
from memoriale.domain.keys import KeyStore, PeriodKey, PersonKey

MAX_SECTIONS = 65_535
MAX_PERSONS = 65_535
MAX_SECTION_BYTES = 2**31 - 1 - TAG_BYTES
_BATCH = 256

_Keys = AESGCM | tuple[bytes, ...]
"""What opens a section, or the ids of the keys that are missing for it."""


class Sealer:
    """
    Seals and opens the bodies of one log. Safe to share between threads.

    Derived keys are kept in memory, the least used ones dropped, all of them dropped as soon as
    the store says that some key was destroyed, by whatever process.

    Args:
        store: Where the keys are.
        log_id: The log whose events are sealed.
        tenant: The log's tenant.
        clock: Tells the time, aware; the UTC month of it chooses the period key.
        cache_size: Number of derived keys kept, at least 1.
    """

    def __init__(
        self,
        store: KeyStore,
        log_id: UUID,
        tenant: str,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        cache_size: int = 4096,
    ) -> None:
        self._store = store
        self._log_id = log_id
        self._tenant = tenant
        self._clock = clock
        self._cache = _KeyCache(cache_size)

    def seal(
        self,
        sections: Sequence[bytes],
        context: SealContext,
        persons: Sequence[PersonKey],
        retention_class: str = "standard",
    ) -> bytes:
        """
        Return the ``state`` that holds ``sections``, for the event of ``context`` only.

        Args:
            sections: The plain bytes, at most 65,535 sections of 2 GiB; they may be empty.
            context: The event.
            persons: The sealing set: whoever's key goes takes every section along.
            retention_class: Chooses the period key.

        Raises:
            InputError: The set is empty or of another tenant, the context is of another log, or
                there is too much to seal.
            ConflictError: With code ``key_destroyed``: a person was erased, or a period expired,
                since the caller looked the key up.
            UnavailableError: The key store cannot be used.
        """
        self._check(sections, context, persons)
        key_ids = self.key_ids(persons, retention_class)
        return self.seal_like([(plain, key_ids) for plain in sections], context)

    def key_ids(self, persons: Sequence[PersonKey], retention_class: str = "standard") -> bytes:
        """The ids of the keys that ``seal`` closes a section with now."""
        period = self._period(retention_class, self._cache.follow(self._store.generation()))
        return b"".join(sorted({person.key_id for person in persons})) + period.key_id

    def seal_like(self, sections: Sequence[tuple[bytes, bytes]], context: SealContext) -> bytes:
        """
        Return a ``state`` of sections that are closed by the same keys as others before.

        Args:
            sections: For each the plain bytes and the key ids, as ``Section`` has them.
            context: What they belong to.

        Raises:
            ConflictError: With code ``key_destroyed``: one of the keys is gone.
            UnavailableError: The key store cannot be used.
        """
        sealed = []
        for number, (plain, key_ids) in enumerate(sections):
            nonce = os.urandom(NONCE_BYTES)
            data = self._cipher(key_ids).encrypt(nonce, plain, associated_data(context, number))
            sealed.append(Section(key_ids, nonce, data))
        return build_envelope(sealed)

    def open(self, state: bytes, context: SealContext) -> list[bytes | Erased]:
        """
        Return the sections of ``state``; an ``Erased`` for each whose keys are gone.

        Raises:
            UnavailableError: The bytes are not a state (code ``malformed_state``), or were not
                sealed for this event (code ``tampered_state``); or the key store cannot be used.
        """
        return next(self.open_many(((state, context),)))

    def open_many(
        self, items: Iterable[tuple[bytes, SealContext]]
    ) -> Iterator[list[bytes | Erased]]:
        """Open states one after another, asking the store for keys once per batch of 256."""
        rest = iter(items)
        while batch := list(islice(rest, _BATCH)):
            parsed = [(parse_envelope(state), context) for state, context in batch]
            keys = self._keys({section.key_ids for found, _ in parsed for section in found})
            for sections, context in parsed:
                yield [
                    _open_section(section, number, context, keys[section.key_ids])
                    for number, section in enumerate(sections)
                ]

    def forget(self, key_ids: Iterable[bytes]) -> None:
        """Drop from memory every derived key that one of these keys went into."""
        self._cache.forget(frozenset(key_ids))

    def _check(
        self, sections: Sequence[bytes], context: SealContext, persons: Sequence[PersonKey]
    ) -> None:
        if context.log_id != self._log_id:
            raise InputError("This sealer is for another log. Use that log's.", field="log_id")
        if not persons or any(person.tenant != self._tenant for person in persons):
            raise InputError(
                "A body is sealed for at least one person, all of the log's tenant.",
                code="bad_sealing_set",
                field="persons",
                value=len(persons),
            )
        if (
            len(sections) > MAX_SECTIONS
            or len(persons) > MAX_PERSONS
            or any(len(plain) > MAX_SECTION_BYTES for plain in sections)
        ):
            raise InputError(
                f"A body is too large to seal: at most {MAX_SECTIONS} sections of "
                f"{MAX_SECTION_BYTES} bytes, for {MAX_PERSONS} persons. Split it over events.",
                code="too_long",
                field="sections",
                value=len(sections),
                allowed=(MAX_SECTIONS, MAX_SECTION_BYTES, MAX_PERSONS),
            )

    def _period(self, retention_class: str, generation: int) -> PeriodKey:
        now = self._clock()
        if now.tzinfo is None:
            raise InputError("The sealer's clock gives a time without a zone.", field="clock")
        now = now.astimezone(UTC)
        month = f"{now.year:04d}-{now.month:02d}"
        period = self._cache.get_period(retention_class, month)
        if period is None:
            period = self._store.period(self._tenant, retention_class, month)
            self._cache.put_period(period, generation)
        return period

    def _cipher(self, key_ids: bytes) -> AESGCM:
        """
        Return the cipher made from the store's keys, not the caller's.

        A caller may still hold a key that was destroyed. What is sealed with it could never be
        read, and keeping what is derived from it would open what was erased.
        """
        cipher = self._cache.get(key_ids) or self._keys({key_ids})[key_ids]
        if isinstance(cipher, tuple):
            raise ConflictError(
                "A key to seal with was destroyed in the meantime. Look the persons up again.",
                code="key_destroyed",
                field="persons",
                value=[key_id.hex() for key_id in cipher],
            )
        return cipher

    def _keys(self, wanted: set[bytes]) -> dict[bytes, _Keys]:
        generation = self._cache.follow(self._store.generation())
        keys: dict[bytes, _Keys] = {}
        for key_ids in wanted:
            cipher = self._cache.get(key_ids)
            if cipher is not None:
                keys[key_ids] = cipher
        absent = [key_ids for key_ids in wanted if key_ids not in keys]
        if absent:
            keys.update(self._fetch(absent, generation))
        return keys

    def _fetch(self, absent: Sequence[bytes], generation: int) -> Iterator[tuple[bytes, _Keys]]:
        single = {key_ids: split_key_ids(key_ids) for key_ids in absent}
        stored = self._store.get_many(
            list(dict.fromkeys(key_id for ids in single.values() for key_id in ids))
        )
        for key_ids, ids in single.items():
            missing = tuple(key_id for key_id in ids if key_id not in stored)
            if missing:
                yield key_ids, missing
                continue
            *persons, period = (stored[key_id] for key_id in ids)
            cipher = self._derive(persons, period)
            self._cache.put(key_ids, cipher, generation)
            yield key_ids, cipher

    def _derive(self, persons: Iterable[bytes], period: bytes) -> AESGCM:
        info = b"seal/1" + self._log_id.bytes
        return AESGCM(HKDF(SHA256(), 32, salt=period, info=info).derive(b"".join(sorted(persons))))


def _open_section(
    section: Section, number: int, context: SealContext, keys: _Keys
) -> bytes | Erased:
    if isinstance(keys, tuple):
        return Erased(number, keys)
    try:
        return keys.decrypt(section.nonce, section.ciphertext, associated_data(context, number))
    except InvalidTag:
        raise UnavailableError(
            f"Section {number} of event {context.event_id} was changed, or belongs to another "
            "event. Run verify to find what was changed.",
            code="tampered_state",
            field="state",
            value=str(context.event_id),
        ) from None


class _KeyCache:
    """Derived keys and period keys of one generation of the store."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._generation = -1
        self._ciphers: OrderedDict[bytes, AESGCM] = OrderedDict()
        self._periods: dict[tuple[str, str], PeriodKey] = {}

    def follow(self, generation: int) -> int:
        """Drop everything if the store has moved on, and return its generation."""
        if generation != self._generation:
            with self._lock:
                self._ciphers.clear()
                self._periods.clear()
                self._generation = generation
        return generation

    def get(self, key_ids: bytes) -> AESGCM | None:
        with self._lock:
            cipher = self._ciphers.get(key_ids)
            if cipher is not None:
                self._ciphers.move_to_end(key_ids)
            return cipher

    def put(self, key_ids: bytes, cipher: AESGCM, generation: int) -> None:
        """Keep a key, unless one may have been destroyed since it was fetched."""
        with self._lock:
            if generation == self._generation:
                self._ciphers[key_ids] = cipher
                if len(self._ciphers) > self._size:
                    self._ciphers.popitem(last=False)

    def get_period(self, retention_class: str, month: str) -> PeriodKey | None:
        return self._periods.get((retention_class, month))

    def put_period(self, period: PeriodKey, generation: int) -> None:
        with self._lock:
            if generation == self._generation:
                if len(self._periods) >= self._size:
                    self._periods.clear()
                self._periods[period.retention_class, period.period] = period

    def forget(self, key_ids: frozenset[bytes]) -> None:
        with self._lock:
            for kept in list(self._ciphers):
                if not key_ids.isdisjoint(split_key_ids(kept)):
                    del self._ciphers[kept]
            for place, period in list(self._periods.items()):
                if period.key_id in key_ids:
                    del self._periods[place]
