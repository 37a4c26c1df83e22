"""The providers of resources' memory keep their contract: in memory and in files of SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.providers.embedding import ModelEmbeddings
from memoriale.adapters.providers.in_memory import (
    InMemorySemanticMemoryProvider,
    InMemoryWorkingMemoryProvider,
)
from memoriale.adapters.providers.sqlite.semantic import SQLiteSemanticMemoryProvider
from memoriale.adapters.providers.sqlite.working import SQLiteWorkingMemoryProvider
from memoriale.domain.resources.ref import ResourceRef
from memoriale.testing import SemanticMemoryContract, WorkingMemoryContract

EMBEDDINGS = ModelEmbeddings(HashEmbedder())


class TestInMemoryWorking(WorkingMemoryContract):
    @pytest.fixture
    def provider(self) -> InMemoryWorkingMemoryProvider:
        return InMemoryWorkingMemoryProvider(tenant="acme")


class TestSQLiteWorking(WorkingMemoryContract):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> Iterator[SQLiteWorkingMemoryProvider]:
        with SQLiteWorkingMemoryProvider(tmp_path / "new" / "memory.db", tenant="acme") as made:
            yield made


class TestInMemorySemantic(SemanticMemoryContract):
    @pytest.fixture
    def provider(self) -> InMemorySemanticMemoryProvider:
        return InMemorySemanticMemoryProvider(EMBEDDINGS, tenant="acme")


class TestSQLiteSemanticWithExtension(SemanticMemoryContract):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> Iterator[SQLiteSemanticMemoryProvider]:
        path = tmp_path / "memory.db"
        with SQLiteSemanticMemoryProvider(path, EMBEDDINGS, tenant="acme") as made:
            yield made
            assert made.has_vector_index or not made.list_all(ResourceRef("build-7"))


class TestSQLiteSemanticWithoutExtension(SemanticMemoryContract):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> Iterator[SQLiteSemanticMemoryProvider]:
        path = tmp_path / "memory.db"
        with SQLiteSemanticMemoryProvider(
            path, EMBEDDINGS, tenant="acme", vector_index=False
        ) as made:
            yield made
            assert not made.has_vector_index
