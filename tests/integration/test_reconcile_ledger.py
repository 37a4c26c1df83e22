"""Reconcile on a real ledger: rights, erasure, and the embedder's vectors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import MissingRightError
from memoriale.domain.keys import Subject
from memoriale.projections.recall.view import RecallView
from memoriale.projections.reconcile import ReconcileReport
from tests.fixtures.ledger import HASHING

SECRET = "Bob keeps bees behind the barn"


def by_view(reports: list[ReconcileReport]) -> dict[str, ReconcileReport]:
    return {report.view: report for report in reports}


def recall_table(ledger: Ledger, tenant: str) -> Any:
    posted = ledger.tenant(tenant).view("recall")
    live = posted.generations.current()
    assert live is not None
    with posted.read(wait=30) as reading:
        return RecallView.open(live.folder, reading.view.embedder).table._table


def destroy(ledger: Ledger, tenant: str, user: str) -> None:
    keys = ledger.infrastructure.keys
    key = keys.find(tenant, Subject("user", user))
    assert key is not None
    assert keys.destroy(key.key_id)


def test_clean_views(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """Views of an eventful log agree with it."""
    receipt = alice.remember("Alice prefers e-mail", kind="fact", subject="contact")
    alice.correct(receipt.memory_id, "Alice prefers the phone", reason="she said so")
    branch = alice.fork("what-if")
    branch.invalidate(receipt.memory_id, reason="try")
    alice.recall("phone")
    reports = by_view(shared_ledger.reconcile(tenant=tenant))
    assert sorted(reports) == ["owner-snapshots", "persons", "recall", "stats"]
    assert all(report.ok and report.position == 4 for report in reports.values())


def test_erased_row_put_back(
    shared_ledger: Ledger, as_user: Callable[[str], Memory], tenant: str
) -> None:
    """After a user's key is destroyed the old row is a finding, and so is one put back; after a
    repair no file of the view holds the text."""
    as_user("alice").remember("Alice has a cat")
    as_user("bob").remember(SECRET)
    as_user("bob").recall("bees")
    table = recall_table(shared_ledger, tenant)
    old = table.search().where("key = 1").to_arrow()
    destroy(shared_ledger, tenant, "bob")
    first = by_view(shared_ledger.reconcile("recall", tenant=tenant, repair=True))["recall"]
    assert (first.stale, first.settled) == (1, True)
    table = recall_table(shared_ledger, tenant)
    table.delete("key = 1")
    table.add(old)
    found = by_view(shared_ledger.reconcile("recall", tenant=tenant, repair=True))["recall"]
    assert (found.stale, found.settled) == (1, True)
    assert by_view(shared_ledger.reconcile(tenant=tenant))["recall"].ok
    folder = shared_ledger.tenant(tenant).view("recall").generations.folder
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]


def test_right(shared_url: str, ledger_home: Path, tenant: str) -> None:
    """Reconcile needs the right to operate."""
    with (
        memoriale.open(
            home=ledger_home, database_url=shared_url, embedder=HASHING, rights=["use", "audit"]
        ) as ledger,
        pytest.raises(MissingRightError, match="operate"),
    ):
        ledger.reconcile(tenant=tenant)
