"""Memory of resources that lives as long as its process: for tests and trying things out."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING
from uuid import uuid4

from pydantic import JsonValue

from memoriale.adapters.providers.embedding import check_embeddings, check_width, embedded
from memoriale.domain.errors import ConflictError
from memoriale.domain.resources.entries import keys_after
from memoriale.domain.resources.facts import MemoryFact, RememberedFact, Verification
from memoriale.domain.resources.limits import (
    PAGE,
    TOP_K,
    check_after,
    check_fact,
    check_facts,
    check_ids,
    check_key,
    check_page,
    check_top_k,
    check_value,
    is_bookkeeping,
)
from memoriale.domain.resources.providers import EmbeddingProvider, WorkingPage
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import check_query, check_tenant

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    inherited_from: str | None = None


class InMemoryWorkingMemoryProvider:
    """
    Working memory in this process. Safe to share between threads.

    Args:
        tenant: Whose resources they are.
    """

    def __init__(self, *, tenant: str) -> None:
        self.tenant = check_tenant(tenant)
        self._lock = RLock()
        self._values: dict[str, dict[str, _Value]] = {}

    def get(self, ref: ResourceRef, key: str, default: JsonValue = None) -> JsonValue:
        """The value of a key, or the default."""
        check_key(key)
        with self._lock:
            found = self._values.get(ref.key, {}).get(key)
        return default if found is None else _loaded(found.text)

    def set(self, ref: ResourceRef, key: str, value: JsonValue) -> None:
        """Sets a key, whether it is there or not."""
        check_key(key)
        # As text, so that what the caller does to the value later changes nothing here.
        text = json.dumps(check_value(value), ensure_ascii=False)
        with self._lock:
            self._values.setdefault(ref.key, {})[key] = _Value(text)

    def list(self, ref: ResourceRef, *, after: str | None = None, limit: int = PAGE) -> WorkingPage:
        """Keys after one, in the order of their UTF-8 bytes; bookkeeping is left out."""
        after, limit = check_after(after), check_page(limit)
        with self._lock:
            held = dict(self._values.get(ref.key, {}))
        keys = keys_after(held, after)
        page = {key: _loaded(held[key].text) for key in keys[:limit]}
        return WorkingPage(page, keys[limit - 1] if len(keys) > limit else None)

    def delete(self, ref: ResourceRef, key: str) -> bool:
        """Removes a key; whether it was there."""
        check_key(key)
        with self._lock:
            return self._values.get(ref.key, {}).pop(key, None) is not None

    @property
    def forked_with(self) -> Hashable:
        """Itself alone."""
        return id(self)

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """Copies the parent's keys to a child that has none."""
        with self._lock:
            if any(not is_bookkeeping(key) for key in self._values.get(child.key, {})):
                raise not_empty(child)
            values = self._values.get(parent.key, {})
            copied = {k: v for k, v in values.items() if not is_bookkeeping(k)}
            marked = {k: replace(v, inherited_from=parent.key) for k, v in copied.items()}
            self._values.setdefault(child.key, {}).update(marked)

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many keys the child has as it got them from the parent."""
        with self._lock:
            values = list(self._values.get(child.key, {}).values())
        return sum(value.inherited_from == parent.key for value in values)


@dataclass(frozen=True, slots=True)
class _Fact:
    fact: RememberedFact
    vector: "Vectors"
    inherited_from: str | None = None


class InMemorySemanticMemoryProvider:
    """
    Facts in this process; a recall compares with every one of the resource. Safe to share
    between threads.

    Args:
        embeddings: Make the vectors.
        tenant: Whose resources they are.
    """

    has_vector_index = False

    def __init__(self, embeddings: EmbeddingProvider, *, tenant: str) -> None:
        self.tenant = check_tenant(tenant)
        self._embeddings = check_embeddings(embeddings)
        self._lock = RLock()
        self._width: int | None = None
        self._facts: dict[str, dict[str, _Fact]] = {}

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        """Stores a fact."""
        return self.remember_many(ref, [check_fact(fact)])[0]

    def remember_many(
        self, ref: ResourceRef, facts: Sequence[MemoryFact]
    ) -> Sequence[RememberedFact]:
        """Stores all facts, or none when one of them cannot be stored."""
        return self.replace(ref, (), facts)[1]

    def replace(
        self, ref: ResourceRef, ids: Sequence[str], facts: Sequence[MemoryFact]
    ) -> tuple[int, Sequence[RememberedFact]]:
        """Retires facts and stores those that take their place, or does neither."""
        given, retired = check_facts(facts), check_ids(ids)
        vectors = self._embedded([fact.content for fact in given])
        now = datetime.now(UTC)
        made = [remembered(fact, str(uuid4()), now) for fact in given]
        with self._lock:
            if made and self._width is not None:
                # Another thread may have stored the first vectors meanwhile.
                check_width(self._embeddings, vectors[0].shape[0], self._width)
            held = self._facts.setdefault(ref.key, {})
            if any(id_ not in held for id_ in retired):
                raise gone()
            for id_ in retired:
                del held[id_]
            for fact, vector in zip(made, vectors, strict=True):
                self._width = vector.shape[0]
                held[fact.id] = _Fact(fact, vector)
        return len(retired), made

    def recall(
        self, ref: ResourceRef, query: str, *, top_k: int = TOP_K
    ) -> Sequence[RememberedFact]:
        """The nearest facts, best first; of equal ones the older first."""
        check_query(query)
        check_top_k(top_k)
        with self._lock:
            held = list(self._facts.get(ref.key, {}).values())
        if not held:
            return []
        asked = embedded(self._embeddings, [query], "query", self._width)[0]
        scored = [(float(asked @ kept.vector), kept.fact) for kept in held]
        scored.sort(key=lambda pair: -pair[0])
        return [replace(fact, score=in_range(score)) for score, fact in scored[:top_k]]

    def list_all(self, ref: ResourceRef) -> Sequence[RememberedFact]:
        """Every fact, oldest first."""
        with self._lock:
            return [kept.fact for kept in self._facts.get(ref.key, {}).values()]

    def list_recent(self, ref: ResourceRef, limit: int = PAGE) -> Sequence[RememberedFact]:
        """The newest facts, newest first."""
        return self.list_all(ref)[::-1][: check_page(limit)]

    def forget(self, ref: ResourceRef, ids: Sequence[str]) -> int:
        """Forgets facts; how many were there."""
        wanted = check_ids(ids)
        with self._lock:
            held = self._facts.get(ref.key, {})
            return sum(held.pop(id_, None) is not None for id_ in wanted)

    @property
    def forked_with(self) -> Hashable:
        """Itself alone."""
        return id(self)

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """Copies the parent's facts to a child that has none; times and order are kept."""
        with self._lock:
            if self._facts.get(child.key):
                raise not_empty(child)
            copies = {}
            for kept in self._facts.get(parent.key, {}).values():
                fact = replace(kept.fact, id=str(uuid4()))
                copies[fact.id] = _Fact(fact, kept.vector, parent.key)
            self._facts[child.key] = copies

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many facts the child has from the parent."""
        with self._lock:
            held = list(self._facts.get(child.key, {}).values())
        return sum(kept.inherited_from == parent.key for kept in held)

    def _embedded(self, texts: Sequence[str]) -> "Sequence[Vectors]":
        if not texts:
            return []
        return list(embedded(self._embeddings, texts, "passage", self._width))


def remembered(fact: MemoryFact, id_: str, at: datetime) -> RememberedFact:
    """The fact as it is stored by a provider that has no ledger."""
    return RememberedFact(
        id=id_,
        content=fact.content,
        source_ref=fact.source_ref,
        evidence=fact.evidence,
        remembered_at=at,
        verification=Verification.UNCHECKED if fact.source_ref else Verification.UNSOURCED,
    )


def in_range(cosine: float) -> float:
    """A cosine as a score: 0..1."""
    return max(0.0, min(1.0, cosine))


def not_empty(child: ResourceRef) -> ConflictError:
    """The error of a fork to a resource that has something."""
    return ConflictError(
        f"the resource {child.resource_id!r} has memories already; fork to a new one.",
        code="not_empty",
        field="child",
        value=child.resource_id,
        allowed="a resource without memories",
    )


def gone() -> ConflictError:
    """The error of a replacement whose facts are not all there."""
    return ConflictError(
        "one of the facts to be replaced is not there any more; list them again.",
        code="gone",
        field="ids",
    )


def _loaded(text: str) -> JsonValue:
    value: JsonValue = json.loads(text)
    return value
