"""
For your own tests: a ledger fixture, a fixed clock, an embedder without a model, fault points, and
the contracts that providers of resources' memory keep.

In a ``conftest.py``, ``pytest_plugins = ["memoriale.testing"]`` brings the fixtures
``memoriale_ledger`` and ``memoriale_clock``. Needs pytest.
"""

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.testing import faults
from memoriale.adapters.testing.clock import FixedClock
from memoriale.adapters.testing.ledgers import temporary_ledger
from memoriale.adapters.testing.plugin import memoriale_clock, memoriale_ledger

# Before they are imported, so that a failed assertion of theirs shows its values.
pytest.register_assert_rewrite(
    "memoriale.adapters.testing.semantic_contract", "memoriale.adapters.testing.working_contract"
)

from memoriale.adapters.testing.semantic_contract import SemanticMemoryContract  # noqa: E402
from memoriale.adapters.testing.working_contract import WorkingMemoryContract  # noqa: E402

__all__ = [
    "FixedClock",
    "HashEmbedder",
    "SemanticMemoryContract",
    "WorkingMemoryContract",
    "faults",
    "memoriale_clock",
    "memoriale_ledger",
    "temporary_ledger",
]
