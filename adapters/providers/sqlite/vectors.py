"""Vectors of facts, and the index of sqlite-vec over them: one for each model."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.providers.embedding import check_width
from memoriale.domain.resources.providers import EmbeddingProvider

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

WAITING: Final = 0
"""The index does not have it yet."""
INDEXED: Final = 1
ZERO: Final = 2
"""All zeros: as near to everything as to nothing, and kept out of the index."""

_CHUNK: Final = 128
"""Vectors that sqlite-vec lays out at once for each resource; its own 1,024 waste the disk."""
_AT_ONCE: Final = 1_000


class VectorTables:
    """
    Reads and writes vectors of one model within a transaction of the caller's.

    Args:
        tenant: Whose resources are meant.
        embeddings: Names the model.
        indexing: Whether sqlite-vec is there.
    """

    def __init__(self, tenant: str, embeddings: EmbeddingProvider, *, indexing: bool) -> None:
        self._tenant, self._embeddings, self._indexing = tenant, embeddings, indexing

    def model(self, connection: sqlite3.Connection) -> tuple[int, int] | None:
        """The model's number and width, when the file has vectors of it."""
        found = connection.execute(
            "select number, width from memoriale_models where name = ?", (self._embeddings.id,)
        ).fetchone()
        return None if found is None else (found["number"], found["width"])

    def is_alone(self, connection: sqlite3.Connection) -> bool:
        """Whether the file has vectors of this model alone; then every fact has one."""
        models = connection.execute("select name from memoriale_models limit 2").fetchall()
        return [model["name"] for model in models] == [self._embeddings.id]

    def is_indexed(self, connection: sqlite3.Connection) -> bool:
        """Whether a recall asks an index."""
        model = self.model(connection)
        return self._indexing and model is not None and _has_index(connection, model[0])

    def add(self, connection: sqlite3.Connection, facts: Sequence[int], vectors: "Vectors") -> None:
        """
        Adds the vectors of facts.

        Raises:
            UnavailableError: ``bad_vectors``: the file has vectors of another width.
        """
        model = self._known(connection, vectors.shape[1])
        rows = [
            (fact, model, WAITING if vector.any() else ZERO, vector.tobytes())
            for fact, vector in zip(facts, vectors, strict=True)
        ]
        connection.executemany("insert or ignore into memoriale_vectors values (?, ?, ?, ?)", rows)
        self.bring_up(connection)

    def is_behind(self, connection: sqlite3.Connection) -> bool:
        """Whether the index lacks vectors, or has some that are gone."""
        model = self.model(connection)
        if not self._indexing or model is None:
            return False
        found = connection.execute(
            # Else SQLite would look at every vector of the model.
            "select exists(select 1 from memoriale_vectors indexed by memoriale_vectors_waiting "
            f"where model = ? and state = {WAITING})"
            " or exists(select 1 from memoriale_index_removals where model = ?)",
            (model[0], model[0]),
        ).fetchone()
        return bool(found[0]) or not _has_index(connection, model[0])

    def bring_up(self, connection: sqlite3.Connection) -> None:
        """Makes the index hold what it should, also what was written where it was not there."""
        if not self.is_behind(connection):
            return
        known = self.model(connection)
        assert known is not None
        model, width = known
        connection.execute(
            f"create virtual table if not exists {_index(model)} using vec0("
            "tenant text partition key, scope text partition key, "
            f"embedding float[{width}] distance_metric=cosine, chunk_size={_CHUNK})"
        )
        gone = connection.execute(
            "select fact from memoriale_index_removals where model = ?", (model,)
        ).fetchall()
        connection.executemany(f"delete from {_index(model)} where rowid = ?", map(tuple, gone))
        connection.execute("delete from memoriale_index_removals where model = ?", (model,))
        while rows := connection.execute(
            "select v.fact, f.tenant, f.scope, v.vector "
            "from memoriale_vectors v indexed by memoriale_vectors_waiting "
            "join memoriale_facts f on f.number = v.fact "
            f"where v.model = ? and v.state = {WAITING} limit ?",
            (model, _AT_ONCE),
        ).fetchall():
            connection.executemany(
                f"insert into {_index(model)} (rowid, tenant, scope, embedding) "
                "values (?, ?, ?, ?)",
                map(tuple, rows),
            )
            connection.executemany(
                f"update memoriale_vectors set state = {INDEXED} where model = ? and fact = ?",
                [(model, row["fact"]) for row in rows],
            )

    def drop(self, connection: sqlite3.Connection, facts: Iterable[int]) -> None:
        """Removes the vectors of facts, of every model."""
        for fact in facts:
            # Any index forgets them when it is next asked, also where it cannot be opened now.
            connection.execute(
                "insert or ignore into memoriale_index_removals select model, fact "
                f"from memoriale_vectors where fact = ? and state = {INDEXED}",
                (fact,),
            )
            connection.execute("delete from memoriale_vectors where fact = ?", (fact,))
        self.bring_up(connection)

    def copy(self, connection: sqlite3.Connection, facts: Iterable[tuple[int, int]]) -> None:
        """Gives facts the vectors of others, of every model: pairs of one that has and a new."""
        connection.executemany(
            "insert into memoriale_vectors (fact, model, state, vector) "
            f"select ?2, model, iif(state = {ZERO}, {ZERO}, {WAITING}), vector "
            "from memoriale_vectors where fact = ?1",
            facts,
        )
        self.bring_up(connection)

    def nearest(
        self, connection: sqlite3.Connection, scope: str, asked: "Vectors", top_k: int
    ) -> list[tuple[int, float]]:
        """The nearest facts of a resource with their cosine, best first; ties: the older first."""
        model = self.model(connection)
        if model is None:
            return []
        indexed = asked.any() and self._indexing and not self.is_behind(connection)
        find = self._from_index if indexed else self._from_all
        found = find(connection, model[0], scope, asked, top_k)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:top_k]

    def _from_index(
        self, connection: sqlite3.Connection, model: int, scope: str, asked: "Vectors", top_k: int
    ) -> list[tuple[int, float]]:
        rows = connection.execute(
            f"select rowid, distance from {_index(model)} "
            "where embedding match ? and k = ? and tenant = ? and scope = ?",
            (asked.tobytes(), top_k, self._tenant, scope),
        ).fetchall()
        zeros = connection.execute(
            "select v.fact from memoriale_vectors v indexed by memoriale_vectors_zero "
            "cross join memoriale_facts f on f.number = v.fact "
            f"where v.model = ? and v.state = {ZERO} and f.tenant = ? and f.scope = ? "
            "order by v.fact limit ?",
            (model, self._tenant, scope, top_k),
        ).fetchall()
        return [(row[0], 1.0 - row[1]) for row in rows] + [(row[0], 0.0) for row in zeros]

    def _from_all(
        self, connection: sqlite3.Connection, model: int, scope: str, asked: "Vectors", top_k: int
    ) -> list[tuple[int, float]]:
        import numpy

        rows = connection.execute(
            "select v.fact, v.vector from memoriale_facts f indexed by memoriale_facts_by_scope "
            "cross join memoriale_vectors v on v.fact = f.number "
            "where v.model = ? and f.tenant = ? and f.scope = ? order by v.fact",
            (model, self._tenant, scope),
        ).fetchall()
        if not rows:
            return []
        joined = b"".join(row[1] for row in rows)
        scores = numpy.frombuffer(joined, dtype=numpy.float32).reshape(len(rows), -1) @ asked
        best = numpy.argsort(-scores, kind="stable")[:top_k]
        return [(rows[i][0], float(scores[i])) for i in best]

    def _known(self, connection: sqlite3.Connection, width: int) -> int:
        model = self.model(connection)
        if model is None:
            made = connection.execute(
                "insert into memoriale_models (name, width) values (?, ?) returning number",
                (self._embeddings.id, width),
            ).fetchone()
            return int(made[0])
        check_width(self._embeddings, width, model[1])
        return model[0]


def _index(model: int) -> str:
    return f"memoriale_index_{model:d}"


def _has_index(connection: sqlite3.Connection, model: int) -> bool:
    found: Any = connection.execute(
        "select 1 from sqlite_master where name = ?", (_index(model),)
    ).fetchone()
    return found is not None
