"""What every test run shares: the header line and the fixture modules."""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine makes a fast test slow now and then; no test asserts on time.
settings.register_profile("memoriale", deadline=None, print_blob=True)
settings.load_profile("memoriale")

# Fixture modules import each other, so they must be known before the first is imported.
pytest.register_assert_rewrite("tests.fixtures", "tests.contracts")
pytest_plugins = [
    f"tests.fixtures.{path.stem}"
    for path in sorted((Path(__file__).parent / "fixtures").glob("*.py"))
    if path.stem != "__init__"
]

SHOWN = ("memoriale", "eventsourcing", "psycopg", "lancedb", "duckdb", "pyarrow")


def pytest_report_header() -> str:
    """One line that says what the run stands on and which zone it is in."""
    versions = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    zone = os.environ.get("TZ") or time.tzname[0]
    return f"python {platform.python_version()}, {versions}, zone {zone}"
