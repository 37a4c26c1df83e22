"""Appends whose connection ends before, while, or after they are stored."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from memoriale.adapters.postgres import committer as committer_module
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.domain.errors import UnavailableError
from memoriale.domain.guards import StreamAt
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import append, event
from tests.fixtures.embedded import eventually
from tests.fixtures.postgres import Database, Ledger, head_locked, waiting_backend
from tests.fixtures.proxy import Proxy, proxied


def test_ended_connection_is_replaced(database: Database, ledger: Ledger) -> None:
    """An append whose connection the server ends is repeated and stored once."""
    results: list[object] = []
    with head_locked(database, ledger):
        thread = threading.Thread(
            target=lambda: results.append(ledger.committer.submit(append(event(), event())))
        )
        thread.start()
        assert eventually(lambda: waiting_backend(database, ledger) is not None)
        with database.connect() as admin:
            admin.execute(
                "SELECT pg_terminate_backend(%s, 10000)", [waiting_backend(database, ledger)]
            )
    thread.join(30)
    assert [type(result) for result in results] == [AppendReceipt]
    assert ledger.reader.head() == 2


@contextmanager
def behind_proxy(database: Database, ledger: Ledger) -> Iterator[tuple[Proxy, Committer]]:
    """A committer of the same log whose connection goes through a proxy."""
    with (
        proxied(database.app_url) as proxy,
        Datastore(proxy.url) as datastore,
        Committer(datastore, ledger.log) as committer,
    ):
        committer.submit(append())
        yield proxy, committer


def test_lost_acknowledgement_is_found_stored(database: Database, ledger: Ledger) -> None:
    """An append that was committed while its answer got lost is returned as stored, once."""
    with behind_proxy(database, ledger) as (proxy, committer):
        proxy.lose_next_answer()
        receipt = committer.submit(append(event(), event()))
    assert proxy.cuts == 1
    assert (receipt.first, receipt.last, receipt.created) == (1, 2, False)
    assert ledger.reader.head() == 3


def test_guarded_append_survives_a_lost_acknowledgement(database: Database, ledger: Ledger) -> None:
    """Its own stored event does not count against the guard of a repeated append."""
    stream = uuid4()
    with behind_proxy(database, ledger) as (proxy, committer):
        proxy.lose_next_answer()
        receipt = committer.submit(append(event(stream, 1), guards=(StreamAt(stream, 0),)))
    assert proxy.cuts == 1
    assert (receipt.first, receipt.created) == (1, False)
    assert ledger.reader.head() == 2


def test_uncertain_append_says_so(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the database stays away after a lost answer, the error says that both may be."""
    monkeypatch.setattr(committer_module, "RETRY_SECONDS", 0.3)
    sent = append()
    with behind_proxy(database, ledger) as (proxy, committer):
        proxy.refuse_after_cut()
        with pytest.raises(UnavailableError) as caught:
            committer.submit(sent)
    assert (caught.value.code, caught.value.retry) == ("append_uncertain", True)
    assert ledger.committer.submit(sent).created is False
    assert ledger.reader.head() == 2


def test_database_that_was_never_there_fails_at_once(ledger: Ledger) -> None:
    """When nothing was sent, nothing is repeated and nothing is uncertain."""
    with (
        Datastore("postgresql://nobody@127.0.0.1:1/none") as datastore,
        Committer(datastore, ledger.log) as committer,
    ):
        with pytest.raises(UnavailableError) as caught:
            committer.submit(append())
        answers = committer.submit_many([append(), append()])
    assert caught.value.code == "database_down"
    assert [type(answer) for answer in answers] == [UnavailableError] * 2
    assert answers[0] is not answers[1]
