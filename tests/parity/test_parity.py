"""The reference list is what the documents say."""

import os
from pathlib import Path

import pytest

from tests.parity.listing import as_toml, read_all

HERE = Path(__file__).parent
DOCUMENTS = "REFERENCE_DOCUMENTS"


def test_the_list_is_made_from_the_documents() -> None:
    """The same documents give the committed list again."""
    folder = os.environ.get(DOCUMENTS)
    if not folder:
        pytest.skip(f"set {DOCUMENTS} to the folder of the reference documents")
    assert as_toml(read_all(Path(folder))) == (HERE / "reference.toml").read_text()
