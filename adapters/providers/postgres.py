"""Memory of resources in PostgreSQL: the ledger, opened by a connection string."""

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memoriale.adapters.application.posting import view_width
from memoriale.adapters.composition import build
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.adapters.providers.embedding import check_embeddings, check_width, embedded
from memoriale.adapters.settings import load_settings
from memoriale.domain.errors import InputError
from memoriale.domain.resources.providers import EmbeddingProvider
from memoriale.domain.text import shown

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

_PROBE = "memoriale"
"""Embedded once to learn how wide a provider's vectors are."""


class ProvidedEmbedder:
    """
    The embedder of a ledger over an ``EmbeddingProvider``.

    Args:
        embeddings: Makes the vectors; its ``id`` is the model's name. Asked once for the width.

    Raises:
        UnavailableError: It fails, or gives no vector.
    """

    def __init__(self, embeddings: EmbeddingProvider) -> None:
        self._embeddings = check_embeddings(embeddings)
        self.model = embeddings.id
        self.width = int(embedded(embeddings, [_PROBE], "query", None).shape[1])

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts that are searched, shape [number of texts, width]."""
        import numpy

        if not texts:
            return numpy.zeros((0, self.width), dtype=numpy.float32)
        return embedded(self._embeddings, texts, "passage", self.width)

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        vector: Vectors = embedded(self._embeddings, [text], "query", self.width)[0]
        return vector


class Opening:
    """
    A ledger that is opened when it is first needed, once; safe to share between threads.

    Args:
        conninfo: Connection string of the database, as for ``MEMORIALE_DATABASE_URL``.
        home: Folder of keys and views; default: ``MEMORIALE_HOME``.
        tenant: Whose resources it is for.
        embeddings: Make the vectors of its recall, instead of the configured embedder.
        settings: Further fields of ``Settings``.
    """

    def __init__(
        self,
        conninfo: str,
        home: str | os.PathLike[str] | None,
        tenant: str,
        embeddings: EmbeddingProvider | None,
        settings: dict[str, Any],
    ) -> None:
        given = {"database_url": _checked(conninfo), **settings}
        self._given = given if home is None else {**given, "home": Path(home)}
        self._tenant = tenant
        self._embeddings = None if embeddings is None else check_embeddings(embeddings)
        self._lock = Lock()
        self._ledger: Ledger | None = None
        self._closed = False

    def ledger(self) -> Ledger:
        """
        The ledger.

        Raises:
            InputError: It was closed, or a setting is wrong.
            UnavailableError: Database, home or embeddings cannot be used, or the embeddings are
                of another width than the view; nothing was stored.
        """
        with self._lock:
            if self._closed:
                raise InputError("this provider is closed; make a new one.", code="closed")
            if self._ledger is None:
                self._ledger = self._opened()
            return self._ledger

    def close(self) -> None:
        """Lets go of the ledger. Closing twice is allowed."""
        with self._lock:
            ledger, self._ledger, self._closed = self._ledger, None, True
        if ledger is not None:
            ledger.close()

    def _opened(self) -> Ledger:
        embedder = None if self._embeddings is None else ProvidedEmbedder(self._embeddings)
        ledger = Ledger(build(load_settings(**self._given), embedder=embedder))
        try:
            if embedder is not None and self._embeddings is not None:
                width = view_width(ledger.tenant(self._tenant).views_folder)
                if width is not None:
                    check_width(self._embeddings, embedder.width, width)
        except BaseException:
            ledger.close()
            raise
        return ledger


class PostgresWorkingMemoryProvider(LedgerWorkingMemory):
    """
    Working memory in PostgreSQL (reference system C, ``PostgresWorkingMemoryProvider``): the
    ledger, with its history, rights and forks. Opened when it is first used.

    Args:
        conninfo: Connection string of a database that ``memoriale migrate`` has prepared.
        tenant: Whose resources they are.
        home: Folder of keys and views; default: ``MEMORIALE_HOME``.
        **settings: Further fields of ``Settings``, as for ``memoriale.open``.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        tenant: str,
        home: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        self._opening = Opening(conninfo, home, tenant, None, settings)
        super().__init__(self._opening.ledger, tenant=tenant)

    def close(self) -> None:
        """Lets go of the ledger. Closing twice is allowed."""
        self._opening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class PostgresSemanticMemoryProvider(LedgerSemanticMemory):
    """
    Facts in PostgreSQL (reference system C, ``PostgresSemanticMemoryProvider``): the ledger and
    its recall. Opened when it is first used.

    Args:
        conninfo: Connection string of a database that ``memoriale migrate`` has prepared.
        embeddings: Make the vectors; default: the configured embedder. They must be as wide as
            those of the view, if there is one.
        tenant: Whose resources they are.
        home: Folder of keys and views; default: ``MEMORIALE_HOME``.
        **settings: Further fields of ``Settings``, as for ``memoriale.open``.
    """

    def __init__(
        self,
        conninfo: str,
        embeddings: EmbeddingProvider | None = None,
        *,
        tenant: str,
        home: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        self._opening = Opening(conninfo, home, tenant, embeddings, settings)
        super().__init__(self._opening.ledger, tenant=tenant)

    def close(self) -> None:
        """Lets go of the ledger. Closing twice is allowed."""
        self._opening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _checked(conninfo: object) -> str:
    if isinstance(conninfo, str) and conninfo.strip():
        return conninfo
    raise InputError(
        "conninfo must be the connection string of a database.",
        code="bad_value",
        field="conninfo",
        value=shown(type(conninfo).__name__),
        allowed="such as postgresql://user@host/database",
    )
