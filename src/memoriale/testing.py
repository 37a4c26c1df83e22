"""
For your own tests: a ledger fixture, a fixed clock, an embedder without a model, fault points.

In a ``conftest.py``, ``pytest_plugins = ["memoriale.testing"]`` brings the fixtures
``memoriale_ledger`` and ``memoriale_clock``. Needs pytest.
"""

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.testing import faults
from memoriale.adapters.testing.clock import FixedClock
from memoriale.adapters.testing.ledgers import temporary_ledger
from memoriale.adapters.testing.plugin import memoriale_clock, memoriale_ledger

__all__ = [
    "FixedClock",
    "HashEmbedder",
    "faults",
    "memoriale_clock",
    "memoriale_ledger",
    "temporary_ledger",
]
