"""Incarnations of a log, and what sealing reads of it."""

import psycopg
import pytest
from psycopg import errors as pg

from memoriale.adapters.postgres.leaves import Leaves
from memoriale.adapters.postgres.logs import find_log, open_log
from memoriale.domain.errors import UnavailableError, ViolationError
from tests.contracts.ledger import append
from tests.fixtures.postgres import Database, Ledger, opened, unused

BEGIN = "SELECT incarnation FROM ledger.begin_incarnation(%s, %s, %s)"


def begin(database: Database, ledger: Ledger, incarnation: int, role: str) -> int:
    """Begins an incarnation as a role."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}")
        values = [ledger.log.tenant, ledger.log.log_id, incarnation]
        row = connection.execute(BEGIN, values).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("role", ["memoriale_owner", "memoriale_admin"])
def test_the_next_incarnation_begins_once(database: Database, role: str) -> None:
    """The next number begins, repeating it changes nothing, and the log keeps its id."""
    with opened(database) as ledger:
        assert begin(database, ledger, 2, role) == 2
        assert begin(database, ledger, 2, role) == 2
        again = open_log(ledger.datastore, ledger.log.tenant)
        assert (again.log_id, again.incarnation) == (ledger.log.log_id, 2)
        assert find_log(ledger.datastore, ledger.log.tenant) == again
        for wrong in (1, 4):
            with pytest.raises(pg.InvalidParameterValue):
                begin(database, ledger, wrong, role)


@pytest.mark.parametrize("role", ["memoriale_append", "memoriale_read", "memoriale_erase"])
def test_no_other_role_begins_one(database: Database, role: str) -> None:
    """The roles that the software runs as cannot begin an incarnation."""
    with opened(database) as ledger, pytest.raises(pg.InsufficientPrivilege):
        begin(database, ledger, 2, role)


def test_a_log_is_found_without_being_made(database: Database) -> None:
    """Looking for the log of an unknown tenant finds none and makes none."""
    with opened(database) as ledger:
        name = unused("tenant")
        assert find_log(ledger.datastore, name) is None
        assert find_log(ledger.datastore, name) is None
        assert find_log(ledger.datastore, ledger.log.tenant) == ledger.log


def test_leaf_hashes_are_those_of_the_receipts(database: Database) -> None:
    """The hashes come in the order of the index, joined, from any place to any other."""
    with opened(database) as ledger:
        leaves = Leaves(ledger.datastore, ledger.log.tenant, ledger.log.log_id)
        assert (leaves.stand().head, leaves.stand().incarnation) == (0, 1)
        assert list(leaves.hashes(0, 0)) == []
        receipts = [ledger.committer.submit(append()) for _ in range(5)]
        hashes = [event.leaf_hash for receipt in receipts for event in receipt.events]
        assert leaves.stand().head == len(hashes)
        assert b"".join(leaves.hashes(0, 5)) == b"".join(hashes)
        assert b"".join(leaves.hashes(1, 3)) == b"".join(hashes[1:3])


def test_a_hole_is_an_error(database: Database) -> None:
    """Leaves are never read over a missing event, nor without the head of a log."""
    with opened(database) as ledger:
        ledger.committer.submit(append())
        ledger.committer.submit(append())
        leaves = Leaves(ledger.datastore, ledger.log.tenant, ledger.log.log_id)
        with pytest.raises(UnavailableError) as refused:
            list(leaves.hashes(0, 3))
        assert refused.value.code == "hole"
        with pytest.raises(ViolationError) as unknown:
            Leaves(ledger.datastore, unused("tenant"), ledger.log.log_id).stand()
        assert unknown.value.code == "head_missing"
