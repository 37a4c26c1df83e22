"""Vectors of an operation's facts: checked before anything is stored, and compared."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from memoriale.domain.errors import InputError, MemorialeError, OperationError, UnavailableError
from memoriale.domain.values import check_whole
from memoriale.projections.embedding import Embedder, embed_owned, embed_query

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

Embed = Callable[[str], Sequence[float]]
"""From a text to its vector."""
Patient = Callable[[Callable[[], Any]], Any]
"""Calls something, and again when it fails for a while."""

MOST_COMPONENTS: Final = 65_536
_MOST_OWNERS: Final = 64


class FunctionEmbedder:
    """
    A function of the program's own as an embedder.

    Args:
        embed: Gives the vector of one text.
        width: Components of a vector.
    """

    def __init__(self, embed: Embed, width: int) -> None:
        self._embed = embed
        self.model, self.width = "function", width

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, one call each."""
        vectors: Any = [self._embed(text) for text in texts]
        return vectors  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question."""
        vector: Any = self._embed(text)
        return vector  # type: ignore[no-any-return]


def own_embedder(embed: object, dimensions: int | None) -> Embedder:
    """
    The embedder that a program brings along.

    Args:
        embed: A function from a text to its vector, or an ``Embedder``.
        dimensions: Components of a vector; a function does not say it itself.

    Raises:
        InputError: Neither of both, or a function without ``dimensions``.
    """
    if all(hasattr(embed, name) for name in ("model", "width", "embed_passages", "embed_query")):
        found: Embedder = embed  # type: ignore[assignment]
        return found
    if not callable(embed):
        raise InputError(
            "embed must be a function from a text to its vector, or an embedder.",
            code="bad_embedder",
            field="embed",
            value=type(embed).__name__,
            allowed="a function, an embedder, or None for that of the ledger",
        )
    if dimensions is None:
        raise InputError(
            "a function that embeds does not say how wide its vectors are; give dimensions.",
            code="missing",
            field="dimensions",
            allowed=f"1..{MOST_COMPONENTS}",
        )
    return FunctionEmbedder(embed, dimensions)


def check_dimensions(dimensions: object, embedder: Embedder | None) -> int | None:
    """
    How wide vectors must be; None for as wide as the embedder's.

    Raises:
        InputError: No whole number above 0, or not the width of the embedder.
    """
    if dimensions is None:
        return None
    width = check_whole("dimensions", dimensions, 1, MOST_COMPONENTS)
    if embedder is not None and embedder.width != width:
        raise InputError(
            f"dimensions is {width}; the embedder {embedder.model!r} makes vectors of "
            f"{embedder.width}.",
            code="wrong_width",
            field="dimensions",
            value=width,
            allowed=embedder.width,
        )
    return width


def check_embedded(
    embedder: Embedder,
    owner: UUID,
    texts: Sequence[str],
    *,
    concurrency: int,
    patient: Patient,
) -> None:
    """
    Has every text of a batch embedded, some at a time, so that nothing is stored whose vector
    cannot be had.

    Args:
        embedder: The model; where it can, it keeps the vectors under the owner's key.
        owner: Pseudonym of whose texts they are.
        texts: The texts.
        concurrency: How many at a time.
        patient: Tries a call again.

    Raises:
        OperationError: Says which texts failed, by number, and how the first one did.
    """

    def one(text: str) -> MemorialeError | None:
        try:
            patient(lambda: embed_owned(embedder, [owner], [text]))
        except UnavailableError as error:
            return error
        return None

    with ThreadPoolExecutor(concurrency, thread_name_prefix="memoriale-embedding") as pool:
        answers = list(pool.map(one, texts))
    failed = [(number, error) for number, error in enumerate(answers, 1) if error is not None]
    if not failed:
        return
    first = failed[0][1]
    numbers = ", ".join(str(number) for number, _ in failed)
    raise OperationError(
        f"of {len(texts)} facts these could not be embedded: {numbers}; none was stored, and the "
        f"messages are kept. {first.message}",
        code=first.code,
        field=first.field,
        value=first.value,
        allowed=first.allowed,
    ) from first


class OwnerVectors:
    """
    Texts of one owner and their vectors, for comparing. Safe to share between threads.

    Args:
        embedder: The model.
        owner: Pseudonym of the owner.
    """

    def __init__(self, embedder: Embedder, owner: UUID) -> None:
        self._embedder, self._owner = embedder, owner
        self._lock = Lock()
        self._texts: list[str] = []
        self._places: dict[UUID, int] = {}
        self._matrix: Any = None

    def nearest(self, text: str, among: Mapping[UUID, str]) -> tuple[UUID, float] | None:
        """The memory whose text is nearest to a text, with their cosine in 0..1."""
        found = self._ranked(lambda: self._unit([text])[0], among)
        return found[0] if found else None

    def ranked(self, query: str, among: Mapping[UUID, str]) -> list[tuple[UUID, float]]:
        """Memories by how near their texts are to a question, best first; the older one first."""

        def asked() -> Any:
            return _unit_rows(embed_query(self._embedder, query)[None])[0]

        return self._ranked(asked, among)

    def _ranked(
        self, vector: Callable[[], Any], among: Mapping[UUID, str]
    ) -> list[tuple[UUID, float]]:
        import numpy

        if not among:
            return []
        asked = vector()
        with self._lock:
            self._follow(among)
            ids = list(among)
            rows = self._matrix[[self._places[memory_id] for memory_id in ids]]
        cosines = numpy.clip(rows @ asked, 0.0, 1.0)
        order = numpy.argsort(-cosines, kind="stable")
        return [(ids[place], float(cosines[place])) for place in order]

    def _follow(self, among: Mapping[UUID, str]) -> None:
        """Forgets what is not there any more, and embeds what is new or has other words."""
        import numpy

        if any(memory_id not in among for memory_id in self._places):
            kept = {i: p for i, p in self._places.items() if i in among}
            self._matrix = self._matrix[list(kept.values())]
            self._texts = [self._texts[place] for place in kept.values()]
            self._places = {memory_id: place for place, memory_id in enumerate(kept)}
        stale = [
            (memory_id, text)
            for memory_id, text in among.items()
            if (place := self._places.get(memory_id)) is None or self._texts[place] != text
        ]
        if not stale:
            return
        vectors = self._unit([text for _, text in stale])
        fresh = [n for n, (memory_id, _) in enumerate(stale) if memory_id not in self._places]
        for n, (memory_id, text) in enumerate(stale):
            place = self._places.get(memory_id)
            if place is not None:
                self._texts[place], self._matrix[place] = text, vectors[n]
        for n in fresh:
            self._places[stale[n][0]] = len(self._texts)
            self._texts.append(stale[n][1])
        if fresh:
            added = vectors[fresh]
            self._matrix = (
                added if self._matrix is None else numpy.concatenate([self._matrix, added])
            )

    def _unit(self, texts: Sequence[str]) -> Any:
        owners = [self._owner] * len(texts)
        return _unit_rows(embed_owned(self._embedder, owners, texts))


class ManyOwners:
    """
    The vectors of the owners that were asked for last; none when a key was destroyed.

    Args:
        embedder: The model.
        erasures: A number that changes with every key that is destroyed.
    """

    def __init__(self, embedder: Embedder, erasures: Callable[[], int]) -> None:
        self.embedder = embedder
        self._erasures, self._seen = erasures, erasures()
        self._lock = Lock()
        self._kept: OrderedDict[UUID, OwnerVectors] = OrderedDict()

    def of(self, owner: UUID) -> OwnerVectors:
        """Those of one owner."""
        with self._lock:
            if self._seen != (now := self._erasures()):
                self._seen, self._kept = now, OrderedDict()
            found = self._kept.setdefault(owner, OwnerVectors(self.embedder, owner))
            self._kept.move_to_end(owner)
            while len(self._kept) > _MOST_OWNERS:
                self._kept.popitem(last=False)
        return found


def _unit_rows(vectors: Any) -> Any:
    """Rows of length 1; one that says nothing stays zero."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.where(lengths == 0, 1, lengths)


def texts_of(states: Iterable[Any]) -> dict[UUID, str]:
    """The texts of memories by id."""
    return {s.memory_id: s.payload.content for s in states if s.payload is not None}
