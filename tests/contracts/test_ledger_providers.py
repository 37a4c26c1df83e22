"""The ledger keeps the contract of providers of resources' memory, in both its forms."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.adapters.providers.embedding import ModelEmbeddings
from memoriale.adapters.providers.postgres import (
    PostgresSemanticMemoryProvider,
    PostgresWorkingMemoryProvider,
)
from memoriale.testing import SemanticMemoryContract, WorkingMemoryContract
from tests.fixtures.postgres import Database

EMBEDDINGS = ModelEmbeddings(HashEmbedder())


class TestLedgerWorking(WorkingMemoryContract):
    @pytest.fixture
    def provider(self, shared_ledger: Ledger, tenant: str) -> LedgerWorkingMemory:
        return LedgerWorkingMemory(shared_ledger, tenant=tenant)


class TestLedgerSemantic(SemanticMemoryContract):
    @pytest.fixture
    def provider(self, shared_ledger: Ledger, tenant: str) -> LedgerSemanticMemory:
        return LedgerSemanticMemory(shared_ledger, tenant=tenant)


class TestPostgresWorking(WorkingMemoryContract):
    @pytest.fixture
    def provider(
        self, database: Database, tmp_path: Path, tenant: str
    ) -> Iterator[PostgresWorkingMemoryProvider]:
        with PostgresWorkingMemoryProvider(
            database.app_url, tenant=tenant, home=tmp_path
        ) as provider:
            yield provider


class TestPostgresSemantic(SemanticMemoryContract):
    @pytest.fixture
    def provider(
        self, database: Database, tmp_path: Path, tenant: str
    ) -> Iterator[PostgresSemanticMemoryProvider]:
        with PostgresSemanticMemoryProvider(
            database.app_url, EMBEDDINGS, tenant=tenant, home=tmp_path, wait=60
        ) as provider:
            yield provider
