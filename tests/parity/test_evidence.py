"""Every row of ``docs/parity.md`` has tests behind it, and they exist."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.parity.evidence import faults, is_test

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8")
NODE: Final = "tests/parity/test_evidence.py::test_every_row_names_tests_that_exist"
CONTRACT: Final = (
    "adapters/testing/working_contract.py::WorkingMemoryContract::test_values_are_copies"
)


def test_every_row_names_tests_that_exist() -> None:
    """A row that says how it compares names at least one test, by a node id that is there."""
    assert faults(PAGE, ROOT) == []


PLANTED: Final[dict[str, tuple[Callable[[str], str], str]]] = {
    "a row without a test": (
        lambda page: page.replace(" [^b-agent-memory] |", " |", 1),
        "agentMemory names no test",
    ),
    "a footnote that is not there": (
        lambda page: page.replace(" [^b-agent-memory] |", " [^nothing] |", 1),
        "there is no [^nothing]",
    ),
    "a footnote without a test": (
        lambda page: page.replace("[^b-agent-memory]: ", "[^b-agent-memory]: none\n<!-- ", 1),
        "[^b-agent-memory] names no test",
    ),
    "a test that is gone": (
        lambda page: page.replace("_loses_no_add_and_doubles_no_effect`", "_loses_nothing`"),
        "is no test",
    ),
    "a file that is gone": (
        lambda page: page.replace("tests/unit/test_scoring.py", "tests/unit/test_score.py"),
        "is no test",
    ),
    "a footnote that nobody uses": (
        lambda page: f"{page}\n[^more]: `{NODE}`\n",
        "no row is about [^more]",
    ),
    "a footnote said twice": (
        lambda page: f"{page}\n[^b-agent-memory]: `{NODE}`\n",
        "[^b-agent-memory] is said twice",
    ),
}


@pytest.mark.parametrize(("plant", "told"), PLANTED.values(), ids=PLANTED.keys())
def test_what_is_planted_is_found(plant: Callable[[str], str], told: str) -> None:
    """Each kind of fault, put into the page as it is, is told."""
    page = plant(PAGE)
    assert page != PAGE
    assert any(told in fault for fault in faults(page, ROOT))


@pytest.mark.parametrize(
    ("node", "counts"),
    [
        (NODE, True),
        (CONTRACT, True),
        (NODE.replace("::test_every", "::every"), False),
        (NODE.partition("::")[0], False),
        ("tests/parity/evidence.py::is_test", False),
        ("tests/fixtures/ledger.py::test_nothing", False),
        (CONTRACT.replace("values_are_copies", "nothing"), False),
        (CONTRACT.replace("::WorkingMemoryContract", ""), False),
        (CONTRACT.replace("WorkingMemory", "Another"), False),
        ("../tests/parity/test_evidence.py::test_every_row_names_tests_that_exist", False),
    ],
)
def test_a_test_is_one_that_is_run(node: str, counts: bool) -> None:
    """A function of a file of tests, or of a contract that some class of tests takes over."""
    assert is_test(node, ROOT) is counts
