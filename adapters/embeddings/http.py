"""An embedder behind HTTP: any endpoint that speaks OpenAI's protocol for embeddings."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.embeddings.endpoint import Endpoint
from memoriale.adapters.embeddings.exchange import EndpointError, Exchange
from memoriale.adapters.embeddings.prefixes import prefixes_of
from memoriale.adapters.embeddings.widths import MOST, KnownWidths
from memoriale.domain.errors import UnavailableError
from memoriale.projections.embedding import check_vectors

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

_MOST_TEXTS: Final = 128
_MOST_CHARACTERS: Final = 100_000
"""Of one request. Hosted endpoints take 300,000 tokens, and a character is seldom more than two."""
_SHORTEST: Final = 1_000
"""Characters under which a refused text is not cut any shorter."""
_TOO_LARGE: Final = 413
_TOO_MUCH: Final = (400, _TOO_LARGE, 422)
"""What endpoints answer to too many texts, or to a text longer than the model takes."""


@dataclass(frozen=True)
class Patience:
    """
    How long to try.

    Args:
        attempts: Most requests for one piece of work.
        seconds: For one of them.
        pause: Seconds before the second one; doubled before each further one.
        longest: Seconds that a pause lasts at most, also when the endpoint asks for more.
    """

    attempts: int
    seconds: float
    pause: float
    longest: float = 30.0


PASSAGES: Final = Patience(attempts=4, seconds=30.0, pause=0.25)
QUESTION: Final = Patience(attempts=2, seconds=5.0, pause=0.1, longest=1.0)


class HttpEmbedder:
    """
    A model behind an OpenAI-compatible endpoint. Its vectors have length 1.

    Busy endpoints (429), failing ones (5xx) and broken connections are asked again, after pauses
    that double. A text longer than the model takes is cut. Texts never stand in errors.

    Args:
        name: The endpoint's name of the model.
        endpoint: Where.
        widths: Widths learnt before; an unknown one is asked for at once, and kept.
        passages: Patience for passages.
        question: Patience for a question.

    Raises:
        UnavailableError: The width is not known yet, and the endpoint does not tell it.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        *,
        widths: KnownWidths | None = None,
        passages: Patience = PASSAGES,
        question: Patience = QUESTION,
    ) -> None:
        self._name, self._exchange = name, Exchange(endpoint)
        self._passages, self._question = passages, question
        self._prefixes = prefixes_of(name)
        self._most_texts = _MOST_TEXTS
        self._widths = widths or KnownWidths(None)
        # Hashed, because the file that this is kept in has no business with addresses.
        self._known_as = f"openai/{name}@{sha256(endpoint.url.encode()).hexdigest()[:16]}"
        self.model = f"openai/{name}"
        self.width = self._widths.get(self._known_as) or self._learnt_width()
        self.model = f"openai/{name}/{self.width}"

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]; zeros for blank ones."""
        return self._embedded(texts, self._prefixes.passage, self._passages)

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        vector: Vectors = self._embedded([text], self._prefixes.query, self._question)[0]
        return vector

    def _embedded(self, texts: Sequence[str], prefix: str, patience: Patience) -> "Vectors":
        import numpy

        vectors = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        for places in _batches(texts, self._most_texts):
            found = self._batch([prefix + texts[place] for place in places], patience)
            vectors[places] = self._checked(found, len(places))
        return _of_length_one(vectors)

    def _batch(self, texts: list[str], patience: Patience) -> list[Any]:
        """Vectors of a few texts; what the endpoint says is too much is halved."""
        try:
            return self._asked(texts, patience)
        except EndpointError as refusal:
            if refusal.status not in _TOO_MUCH:
                raise
            if len(texts) == 1 and len(texts[0]) <= _SHORTEST:
                raise
            if refusal.status == _TOO_LARGE:
                self._most_texts = max(1, min(self._most_texts, len(texts) // 2))
        if len(texts) == 1:
            return self._batch([texts[0][: len(texts[0]) // 2]], patience)
        half = len(texts) // 2
        return [*self._batch(texts[:half], patience), *self._batch(texts[half:], patience)]

    def _asked(self, texts: list[str], patience: Patience) -> list[Any]:
        message = {"model": self._name, "input": texts}
        pause = patience.pause
        for left in reversed(range(patience.attempts)):
            try:
                answer = self._exchange.post(message, patience.seconds)
                break
            except EndpointError as error:
                if not error.passing or not left:
                    raise
                wanted = max(pause * random.uniform(0.75, 1.25), error.retry_after)
            time.sleep(min(wanted, patience.longest))
            pause *= 2
        return self._vectors(answer, len(texts))

    def _vectors(self, answer: bytes, count: int) -> list[Any]:
        """The vectors of an answer, in the order of the texts."""
        try:
            items = json.loads(answer)["data"]
            found = {
                item.get("index", place): item["embedding"] for place, item in enumerate(items)
            }
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise self._bad("an answer that is not what the protocol says") from None
        if len(items) != count:
            raise self._bad(f"{len(items)} vectors for {count} texts")
        if found.keys() != set(range(count)):
            raise self._bad("vectors that belong to no text")
        return [found[place] for place in range(count)]

    def _checked(self, vectors: list[Any], count: int) -> "Vectors":
        import numpy

        try:
            # A number that float32 cannot hold becomes infinite here, and infinity is refused.
            with numpy.errstate(over="ignore"):
                return check_vectors(vectors, self, count)
        except OverflowError:
            raise self._bad("a number that is too large") from None
        except UnavailableError:
            # Perhaps another model stands behind the address now: the next process asks anew.
            if any(isinstance(v, list) and len(v) != self.width for v in vectors):
                self._widths.drop(self._known_as)
            raise

    def _learnt_width(self) -> int:
        (vector,) = self._asked([f"{self._prefixes.query}width"], self._question)
        width = len(vector) if isinstance(vector, list) else 0
        if not 1 <= width <= MOST:
            raise self._bad(f"a vector of {width} numbers")
        self._widths.put(self._known_as, width)
        return width

    def _bad(self, found: str) -> UnavailableError:
        return UnavailableError(
            f"the endpoint of the embedder {self.model!r} returned {found}.",
            code="bad_vectors",
            field="MEMORIALE_EMBEDDER",
            value=self.model,
        )


def _batches(texts: Sequence[str], most: int) -> Iterator[list[int]]:
    """Places of the texts of each request; blank texts are in none, endpoints refuse them."""
    places: list[int] = []
    room = _MOST_CHARACTERS
    for place, text in enumerate(texts):
        if not text.strip():
            continue
        if places and (len(places) >= most or len(text) > room):
            yield places
            places, room = [], _MOST_CHARACTERS
        places.append(place)
        room -= len(text)
    if places:
        yield places


def _of_length_one(vectors: "Vectors") -> "Vectors":
    import numpy

    lengths = numpy.linalg.norm(vectors.astype(numpy.float64), axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: Vectors = (vectors / lengths).astype(numpy.float32)
    return unit
