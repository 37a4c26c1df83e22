"""Fixtures for pytest."""

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.testing.ledgers import temporary_ledger


@pytest.fixture
def memoriale_clock() -> Callable[[], datetime] | None:
    """The time of the ledger's reads; override it with a ``FixedClock``. None: the database's."""
    return None


@pytest.fixture
def memoriale_ledger(
    memoriale_clock: Callable[[], datetime] | None,
) -> Iterator[Ledger]:
    """An empty ledger of the test's own, with all rights; gone when the test ends."""
    with temporary_ledger(clock=memoriale_clock) as ledger:
        yield ledger
