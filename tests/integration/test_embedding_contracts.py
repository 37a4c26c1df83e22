"""Every embedder that ships passes one suite."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.embeddings.cache import EmbeddingCache
from memoriale.adapters.embeddings.cached import CachedEmbedder
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.embeddings.http import HttpEmbedder
from memoriale.adapters.embeddings.onnx import OnnxEmbedder
from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.projections.embedding import Embedder, embed_owned, embed_passages
from tests.contracts.embedder import TEXTS, EmbedderContract
from tests.fixtures.embedding_server import EmbeddingServer
from tests.fixtures.onnx_models import TinyModel


class TestHashEmbedder(EmbedderContract):
    """Feature hashing."""

    def make(self) -> Embedder:
        return HashEmbedder()


class TestWordLlamaEmbedder(EmbedderContract):
    """Static vectors."""

    def make(self) -> Embedder:
        return WordLlamaEmbedder()


class TestOnnxEmbedder(EmbedderContract):
    """A model in files, whose tokens' vectors are pooled."""

    model = TinyModel()

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = self.model.write(tmp_path / "tiny")

    def make(self) -> Embedder:
        return OnnxEmbedder(str(self.folder))


class TestOnnxEmbedderOfAnotherKind(TestOnnxEmbedder):
    """A model that pools by itself, with prefixes, whose weights lie beside it."""

    model = TinyModel(
        output="sentence_embedding",
        weights_beside=True,
        configs={"config_sentence_transformers.json": {"prompts": {"query": "query "}}},
    )


class TestHttpEmbedder(EmbedderContract):
    """A model behind an endpoint."""

    @pytest.fixture(autouse=True)
    def _server(self, embedding_server: EmbeddingServer) -> None:
        self.server = embedding_server

    def make(self) -> Embedder:
        return HttpEmbedder("small", self.server.endpoint)


class TestCachedEmbedder(EmbedderContract):
    """Any of them with a cache before it."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        with FileKeyStore(tmp_path / "keys") as store:
            self.identities = Identities(store, "acme")
            self.cache = EmbeddingCache(tmp_path / "cache" / "one.sqlite")
            yield

    def make(self) -> Embedder:
        return CachedEmbedder(HashEmbedder(), self.cache, self.identities)

    def test_owned_and_nobodys_texts_have_the_same_vectors(self) -> None:
        """Owners change where a vector is kept, not what it is."""
        owners: list[UUID] = [self.identities.tenant().pseudonym, *(uuid4() for _ in TEXTS[1:])]
        for _ in range(2):
            owned = embed_owned(self.make(), owners, TEXTS)
            assert (owned == embed_passages(self.make(), TEXTS)).all()
