"""The ports of a resource's memory; whoever satisfies them can stand behind it."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from pydantic import JsonValue

from memoriale.domain.resources.facts import FactVersion, MemoryFact, RememberedFact, SourceRef
from memoriale.domain.resources.ref import ResourceRef


@dataclass(frozen=True, slots=True)
class WorkingPage(Mapping[str, JsonValue]):
    """
    A page of working memory, a mapping of keys to values in ascending order of the keys' UTF-8
    bytes.

    Args:
        items_: The page.
        next: The last key of the page when there are more: the ``after`` of the next page.
    """

    items_: Mapping[str, JsonValue] = field(default_factory=dict)
    next: str | None = None

    def __getitem__(self, key: str) -> JsonValue:
        return self.items_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


@runtime_checkable
class WorkingMemoryProvider(Protocol):
    """Key-value memory by resource (reference system C, ``IWorkingMemoryProvider``)."""

    def get(self, ref: ResourceRef, key: str, default: JsonValue = None) -> JsonValue:
        """The value of a key, or the default."""

    def set(self, ref: ResourceRef, key: str, value: JsonValue) -> None:
        """Sets a key, whether it is there or not."""

    def list(self, ref: ResourceRef, *, after: str | None = None, limit: int = 100) -> WorkingPage:
        """Keys after one, at most ``limit`` (1..1,000)."""

    def delete(self, ref: ResourceRef, key: str) -> bool:
        """Removes a key; whether it was there."""


@runtime_checkable
class SemanticMemoryProvider(Protocol):
    """Facts that are found by meaning (reference system C, ``ISemanticMemoryProvider``)."""

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        """Stores a fact."""

    def recall(self, ref: ResourceRef, query: str, *, top_k: int = 5) -> Sequence[RememberedFact]:
        """The facts that answer best, best first, at most ``top_k`` (1..100)."""


@runtime_checkable
class PrunableSemanticMemoryProvider(SemanticMemoryProvider, Protocol):
    """One whose facts can be listed and forgotten; compaction and forks need it."""

    def list_all(self, ref: ResourceRef) -> Sequence[RememberedFact]:
        """Every fact, oldest first."""

    def list_recent(self, ref: ResourceRef, limit: int = 100) -> Sequence[RememberedFact]:
        """The newest facts, newest first, at most ``limit`` (1..1,000)."""

    def forget(self, ref: ResourceRef, ids: Sequence[str]) -> int:
        """Forgets facts; how many were there."""


@runtime_checkable
class BulkSemanticMemoryProvider(SemanticMemoryProvider, Protocol):
    """One that stores many facts at once."""

    def remember_many(
        self, ref: ResourceRef, facts: Sequence[MemoryFact]
    ) -> Sequence[RememberedFact]:
        """Stores all facts, or none when one of them cannot be stored."""


@runtime_checkable
class ReplacingSemanticMemoryProvider(PrunableSemanticMemoryProvider, Protocol):
    """One that puts facts in the place of others in one step: both happen, or neither."""

    def replace(
        self, ref: ResourceRef, ids: Sequence[str], facts: Sequence[MemoryFact]
    ) -> tuple[int, Sequence[RememberedFact]]:
        """
        Retires facts and stores those that take their place; how many were retired.

        Raises:
            ConflictError: One of the facts is not there any more; nothing was changed.
        """


@runtime_checkable
class CorrectingSemanticMemoryProvider(SemanticMemoryProvider, Protocol):
    """One that puts a fact right and says why."""

    def correct(
        self,
        ref: ResourceRef,
        id: str,
        content: str,
        *,
        source_ref: SourceRef | None = None,
        evidence: str | None = None,
        reason: str | None = None,
    ) -> RememberedFact:
        """
        Puts a better fact in the place of one.

        Raises:
            ConflictError: The fact is not there any more; nothing was changed.
        """


@runtime_checkable
class HistoricalSemanticMemoryProvider(SemanticMemoryProvider, Protocol):
    """One that keeps what was retired and forgotten, and tells it."""

    def history(self, ref: ResourceRef, id: str) -> Sequence[FactVersion]:
        """
        What became of a fact, oldest first, with the fact that it stood in for and the one that
        stands in its place now.

        Raises:
            InputError: ``not_found``: the resource never had it.
        """


@runtime_checkable
class ForkingProvider(Protocol):
    """
    One that gives a child everything that its parent has, in one step: all of it or nothing.
    Bookkeeping keys are not inherited.
    """

    @property
    def forked_with(self) -> Hashable:
        """Providers for which this is equal are forked together, by one call."""

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """
        Forks. The caller has made sure that the child is another resource and has nothing yet.

        Raises:
            ConflictError: Somebody was faster: the child has something.
        """

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """
        How many of the keys or facts that the child has are those that it got from the parent
        and that are as they were; counted at the call.
        """


@runtime_checkable
class EmbeddingProvider(Protocol):
    """
    Makes vectors of texts (reference system C, ``EmbeddingProvider``). ``id`` names the model;
    vectors of two models are never compared.
    """

    @property
    def id(self) -> str: ...

    def embed(
        self, texts: Sequence[str], *, type: Literal["query", "passage"] = "passage"
    ) -> Sequence[Sequence[float]]:
        """A vector for each text, all of one width."""


def is_prunable(provider: object) -> TypeGuard[PrunableSemanticMemoryProvider]:
    """Whether facts of a provider can be listed and forgotten (``isPrunable``)."""
    return isinstance(provider, PrunableSemanticMemoryProvider)


def is_bulk_rememberable(provider: object) -> TypeGuard[BulkSemanticMemoryProvider]:
    """Whether a provider stores many facts at once (``isBulkRememberable``)."""
    return isinstance(provider, BulkSemanticMemoryProvider)
