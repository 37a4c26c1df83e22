"""Semantic facts in a file of SQLite."""

import os
import sqlite3
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from memoriale.adapters.providers.embedding import check_embeddings, embedded
from memoriale.adapters.providers.in_memory import gone, in_range, not_empty, remembered
from memoriale.adapters.providers.sqlite.file import SQLiteFile
from memoriale.adapters.providers.sqlite.vectors import VectorTables
from memoriale.domain.resources.facts import MemoryFact, RememberedFact
from memoriale.domain.resources.limits import (
    PAGE,
    TOP_K,
    check_fact,
    check_facts,
    check_ids,
    check_page,
    check_top_k,
)
from memoriale.domain.resources.providers import EmbeddingProvider
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.resources.rows import fact_from_row
from memoriale.domain.text import check_query, check_tenant

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

_OWN: Final = "tenant = ? and scope = ?"
_COPIED: Final = "tenant, content, source_sandbox_id, source_entry_index, evidence, remembered_at"
_EMBEDDED_AT_ONCE: Final = 256


class SQLiteSemanticMemoryProvider:
    """
    Facts in a file that several processes may share (reference system C,
    ``SQLiteSemanticMemoryProvider``).

    Where sqlite-vec is there (extra ``sqlite``), a recall asks its index, within the resource;
    elsewhere it compares with every fact of the resource, with the same answer. What is written
    without the extension enters the index when the file is next used with it. Vectors of two
    models are never compared: a recall with a new model first embeds the facts that it asks.

    Args:
        path: The file; made when it is not there.
        embeddings: Make the vectors; asked outside of any transaction.
        tenant: Whose resources are meant; another tenant of the same file sees nothing of them.
        vector_index: False compares with every fact though the extension is there.

    Raises:
        UnavailableError: The file cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        embeddings: EmbeddingProvider,
        *,
        tenant: str,
        vector_index: bool = True,
    ) -> None:
        self.tenant = check_tenant(tenant)
        self._embeddings = check_embeddings(embeddings)
        self._file = SQLiteFile(path, vectors=vector_index)
        self._vectors = VectorTables(tenant, embeddings, indexing=self._file.searches_vectors)
        try:
            self._bring_up()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def has_vector_index(self) -> bool:
        """Whether a recall asks an index: the extension is there, and the file has one."""
        with self._file.reading() as connection:
            return self._vectors.is_indexed(connection)

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        """Stores a fact with its vector; on the disk when it returns."""
        return self.remember_many(ref, [check_fact(fact)])[0]

    def remember_many(
        self, ref: ResourceRef, facts: Sequence[MemoryFact]
    ) -> Sequence[RememberedFact]:
        """Stores all facts, or none when one of them cannot be stored."""
        return self.replace(ref, (), facts)[1]

    def replace(
        self, ref: ResourceRef, ids: Sequence[str], facts: Sequence[MemoryFact]
    ) -> tuple[int, Sequence[RememberedFact]]:
        """Retires facts and stores those that take their place, in one transaction."""
        given, retired = check_facts(facts), check_ids(ids)
        vectors = self._embedded([fact.content for fact in given], "passage") if given else None
        made = [remembered(fact, str(uuid4()), datetime.now(UTC)) for fact in given]
        if not given and not retired:
            return 0, []
        with self._file.writing() as connection:
            if self._removed(connection, ref, retired) != len(retired):
                raise gone()
            if vectors is not None:
                numbers = [self._inserted(connection, ref, fact) for fact in made]
                self._vectors.add(connection, numbers, vectors)
        return len(retired), made

    def recall(
        self, ref: ResourceRef, query: str, *, top_k: int = TOP_K
    ) -> Sequence[RememberedFact]:
        """The nearest facts, best first; of equal ones the older first."""
        check_query(query)
        check_top_k(top_k)
        if not self.list_recent(ref, 1):
            return []
        asked = self._embedded([query], "query")[0]
        self._adopt(ref)
        self._bring_up()
        with self._file.reading() as connection:
            near = self._vectors.nearest(connection, ref.key, asked, top_k)
            rows = [(self._row(connection, number), score) for number, score in near]
        return [fact_from_row(row, score=in_range(score)) for row, score in rows]

    def list_all(self, ref: ResourceRef) -> Sequence[RememberedFact]:
        """Every fact, oldest first."""
        return self._listed(ref, "asc", -1)

    def list_recent(self, ref: ResourceRef, limit: int = PAGE) -> Sequence[RememberedFact]:
        """The newest facts, newest first."""
        return self._listed(ref, "desc", check_page(limit))

    def forget(self, ref: ResourceRef, ids: Sequence[str]) -> int:
        """Forgets facts, with their vectors; how many were there."""
        wanted = check_ids(ids)
        with self._file.writing() as connection:
            return self._removed(connection, ref, wanted)

    @property
    def forked_with(self) -> Hashable:
        """Itself alone."""
        return id(self)

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """
        Copies the parent's facts with their vectors, in one transaction, to a child that has
        none. Their times and their order are kept, and no model is called.
        """
        with self._file.writing() as connection:
            own = f"select * from memoriale_facts where {_OWN}"
            if connection.execute(own, (self.tenant, child.key)).fetchone():
                raise not_empty(child)
            connection.execute(
                f"insert into memoriale_facts (id, scope, inherited_from, {_COPIED}) "
                f"select lower(hex(randomblob(16))), ?, scope, {_COPIED} "
                f"from memoriale_facts where {_OWN} order by number",
                (child.key, self.tenant, parent.key),
            )
            # The child's facts are numbered in the order of the parent's.
            numbers = [self._numbers(connection, ref) for ref in (parent, child)]
            self._vectors.copy(connection, zip(*numbers, strict=True))

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many facts the child has from the parent."""
        with self._file.reading() as connection:
            found = connection.execute(
                f"select count(*) from memoriale_facts where {_OWN} and inherited_from = ?",
                (self.tenant, child.key, parent.key),
            ).fetchone()
        return int(found[0])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _embedded(self, texts: Sequence[str], type: Any) -> "Vectors":
        with self._file.reading() as connection:
            model = self._vectors.model(connection)
        return embedded(self._embeddings, texts, type, None if model is None else model[1])

    def _bring_up(self) -> None:
        with self._file.reading() as connection:
            behind = self._vectors.is_behind(connection)
        if behind:
            with self._file.writing() as connection:
                self._vectors.bring_up(connection)

    def _adopt(self, ref: ResourceRef) -> None:
        """Embeds the facts of a resource that have vectors of other models alone."""
        while rows := self._without_vector(ref):
            vectors = self._embedded([row["content"] for row in rows], "passage")
            with self._file.writing() as connection:
                # Some may have been forgotten while the model was asked.
                here = [i for i, row in enumerate(rows) if self._is_there(connection, row[0])]
                self._vectors.add(connection, [rows[i][0] for i in here], vectors[here])

    def _without_vector(self, ref: ResourceRef) -> list[sqlite3.Row]:
        with self._file.reading() as connection:
            if self._vectors.is_alone(connection):
                return []
            model = self._vectors.model(connection)
            return connection.execute(
                f"select number, content from memoriale_facts f where {_OWN} and not exists "
                "(select 1 from memoriale_vectors v where v.model = ? and v.fact = f.number) "
                "order by number limit ?",
                (self.tenant, ref.key, -1 if model is None else model[0], _EMBEDDED_AT_ONCE),
            ).fetchall()

    def _is_there(self, connection: sqlite3.Connection, number: int) -> bool:
        found = connection.execute("select 1 from memoriale_facts where number = ?", (number,))
        return found.fetchone() is not None

    def _numbers(self, connection: sqlite3.Connection, ref: ResourceRef) -> list[int]:
        found = connection.execute(
            f"select number from memoriale_facts where {_OWN} order by number",
            (self.tenant, ref.key),
        )
        return [row["number"] for row in found.fetchall()]

    def _inserted(
        self,
        connection: sqlite3.Connection,
        ref: ResourceRef,
        fact: RememberedFact,
    ) -> int:
        source = fact.source_ref
        made = connection.execute(
            "insert into memoriale_facts (tenant, scope, id, content, source_sandbox_id, "
            "source_entry_index, evidence, remembered_at) values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.tenant,
                ref.key,
                fact.id,
                fact.content,
                source and source.sandbox_id,
                source and source.entry_index,
                fact.evidence,
                fact.remembered_at.isoformat(timespec="microseconds"),
            ),
        )
        assert made.lastrowid is not None
        return made.lastrowid

    def _removed(self, connection: sqlite3.Connection, ref: ResourceRef, ids: Sequence[str]) -> int:
        numbers = [
            row["number"]
            for id_ in ids
            for row in connection.execute(
                f"delete from memoriale_facts where {_OWN} and id = ? returning number",
                (self.tenant, ref.key, id_),
            ).fetchall()
        ]
        self._vectors.drop(connection, numbers)
        return len(numbers)

    def _row(self, connection: sqlite3.Connection, number: int) -> dict[str, Any]:
        found = connection.execute("select * from memoriale_facts where number = ?", (number,))
        return _columns(found.fetchone())

    def _listed(self, ref: ResourceRef, order: str, limit: int) -> list[RememberedFact]:
        with self._file.reading() as connection:
            rows = connection.execute(
                f"select * from memoriale_facts where {_OWN} order by number {order} limit ?",
                (self.tenant, ref.key, limit),
            ).fetchall()
        return [fact_from_row(_columns(row)) for row in rows]


def _columns(row: sqlite3.Row) -> dict[str, Any]:
    return dict(zip(row.keys(), tuple(row), strict=True))
