"""An embedder that keeps vectors under the keys of the persons whose texts they are made from."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.embeddings.cache import EmbeddingCache, Entry
from memoriale.adapters.embeddings.limits import REST, TimeLimit
from memoriale.adapters.keys.tags import TagKey, embedding_tag, tag_key
from memoriale.projections.allowance import allowance
from memoriale.projections.embedding import Embedder, embed_passages, embed_query

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

T = TypeVar("T")
_NONCE_BYTES: Final = 12
_TEXTS_AT_ONCE: Final = 128
"""Texts that are computed and kept together: what was kept is not lost when the next ones fail."""
_MOST_QUESTIONS: Final = 32
_MOST_KEYRINGS: Final = 4_096
_FAIR_SECONDS: Final = 1.0


class Limits:
    """
    The time limits of an embedder's calls in a read, shared by all who use the embedder.

    An embedder that says of itself that it is ``in_process`` is called without: it needs no
    network, and a thread for each question would cost more than the question.

    Args:
        embedder: Which.
        rest: Seconds for which reads do not ask it after a first failure.
    """

    def __init__(self, embedder: Embedder, *, rest: float = REST) -> None:
        self.needed = not getattr(embedder, "in_process", False)
        # Passages are embedded by whoever holds a view's writer lock: one at a time.
        self.passages = TimeLimit(embedder.model, most=1, rest=rest)
        self.questions = TimeLimit(embedder.model, most=_MOST_QUESTIONS, rest=rest)


@dataclass(frozen=True, slots=True)
class _Keyring:
    """What a person's vectors are found and sealed by."""

    owner: UUID
    tags: TagKey = field(repr=False)
    cipher: AESGCM = field(repr=False)

    def sealed(self, tag: bytes, vector: Any) -> Entry:
        nonce = os.urandom(_NONCE_BYTES)
        plain = vector.astype("<f4").tobytes()
        return Entry(tag, self.owner, nonce + self.cipher.encrypt(nonce, plain, tag))

    def opened(self, tag: bytes, value: bytes) -> bytes | None:
        """The vector's bytes; None if the value was changed or stands under another key."""
        try:
            return self.cipher.decrypt(value[:_NONCE_BYTES], value[_NONCE_BYTES:], tag)
        except (InvalidTag, ValueError):
            return None


class CachedEmbedder:
    """
    An ``OwnedEmbedder`` that asks a model only for what its cache lacks.

    An entry's key is an HMAC under the owner's tag key over model, width and text; its value is
    sealed with AES-256-GCM under HKDF-SHA-256(the owner's data key, info ``embedding/1``). So
    equal texts of two owners have nothing in common, and without an owner's key nothing of his
    can be read, or even recognised. For an owner whose key is gone nothing is kept.

    Under an ``Allowance`` the model has only the time that is left. Safe to share between
    threads.

    Args:
        embedder: The model.
        cache: Of the log whose texts are embedded.
        identities: Of the log's tenant.
        limits: Of the model's calls in reads.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache,
        identities: Identities,
        limits: Limits | None = None,
    ) -> None:
        self.model, self.width = embedder.model, embedder.width
        self._embedder, self._cache, self._identities = embedder, cache, identities
        self._limits = limits or Limits(embedder)
        self._lock = Lock()
        self._generation, self._kept = identities.generation(), dict[UUID, _Keyring]()
        self.hits = 0
        """Texts whose vector was in the cache."""
        self.computed = 0
        """Texts that the model was given."""

    def embed_owned(self, owners: Sequence[UUID], texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]; see ``OwnedEmbedder``."""
        import numpy

        tagged = self._tagged(owners, texts)
        vectors = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        missing = self._filled(vectors, tagged)
        places = defaultdict[str, list[int]](list)
        for place in missing:
            places[texts[place]].append(place)
        for part in _parts(list(places)):
            for text, vector in zip(part, self._computed(part, places, tagged), strict=True):
                vectors[places[text]] = vector
        return vectors

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts that are nobody's, shape [number of texts, width]; not kept."""
        return self._in_time(lambda: self._asked(texts))

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]; not kept."""
        allowed = allowance()
        if allowed is None or not self._limits.needed:
            return embed_query(self._embedder, text)
        return self._limits.questions.run(
            lambda: embed_query(self._embedder, text), allowed.seconds
        )

    def _tagged(
        self, owners: Sequence[UUID], texts: Sequence[str]
    ) -> list[tuple[_Keyring, bytes] | None]:
        """For each text its owner's keyring and its key; None if the owner's key is gone."""
        keyrings = self._keyrings(owners)
        found: list[tuple[_Keyring, bytes] | None] = []
        for owner, text in zip(owners, texts, strict=True):
            ring = keyrings.get(owner)
            tag = ring and embedding_tag(ring.tags, self.model, self.width, text)
            found.append((ring, tag) if ring and tag else None)
        return found

    def _keyrings(self, owners: Sequence[UUID]) -> dict[UUID, _Keyring]:
        """Those whose keys exist. Kept in memory until some key is destroyed."""
        with self._lock:
            generation = self._identities.generation()
            if generation != self._generation or len(self._kept) > _MOST_KEYRINGS:
                self._generation, self._kept = generation, {}
            kept = self._kept
        unknown = [owner for owner in dict.fromkeys(owners) if owner not in kept]
        if unknown:
            kept.update(self._found(unknown))
        return kept

    def _found(self, owners: Iterable[UUID]) -> dict[UUID, _Keyring]:
        found = {}
        for owner, subject in self._identities.names(owners).items():
            person = self._identities.find(subject)
            # Between the two calls he may have been erased and made anew.
            if person is not None and person.pseudonym == owner:
                found[owner] = _Keyring(owner, tag_key(person.key), _cipher(person.key))
        return found

    def _filled(self, vectors: "Vectors", tagged: Sequence[tuple[_Keyring, bytes] | None]) -> Any:
        """Puts what the cache has into ``vectors``; the places of the rest."""
        import numpy

        kept = self._cache.get(list(dict.fromkeys(pair[1] for pair in tagged if pair)))
        missing = []
        for place, pair in enumerate(tagged):
            value = kept.get(pair[1]) if pair else None
            plain = pair[0].opened(pair[1], value) if pair and value else None
            if plain is None or len(plain) != 4 * self.width:
                missing.append(place)
            else:
                vectors[place] = numpy.frombuffer(plain, dtype="<f4")
        with self._lock:
            self.hits += len(tagged) - len(missing)
        return missing

    def _computed(
        self,
        texts: Sequence[str],
        places: dict[str, list[int]],
        tagged: Sequence[tuple[_Keyring, bytes] | None],
    ) -> "Vectors":
        def computed_and_kept() -> "Vectors":
            vectors = self._asked(texts)
            pairs = (
                (tagged[place], vector)
                for text, vector in zip(texts, vectors, strict=True)
                for place in places[text]
            )
            self._cache.put([pair[0].sealed(pair[1], vector) for pair, vector in pairs if pair])
            return vectors

        return self._in_time(computed_and_kept)

    def _asked(self, texts: Sequence[str]) -> "Vectors":
        vectors = embed_passages(self._embedder, texts)
        with self._lock:
            self.computed += len(texts)
        return vectors

    def _in_time(self, call: Callable[[], T]) -> T:
        allowed = allowance()
        if allowed is None or not self._limits.needed:
            return call()
        fair = min(_FAIR_SECONDS, allowed.seconds)
        return self._limits.passages.run(call, allowed.left(), fair=fair)


def _cipher(data_key: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=b"embedding/1").derive(data_key))


def _parts(texts: list[str]) -> list[list[str]]:
    return [texts[i : i + _TEXTS_AT_ONCE] for i in range(0, len(texts), _TEXTS_AT_ONCE)]
