"""Where the repository is and which of its folders become packages of memoriale."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("adapters", "domain", "projections")

needs_repository = pytest.mark.skipif(
    not (ROOT / "domain").is_dir(),
    reason="needs a clone: the source distribution has neither top-level packages nor scripts",
)
