"""The examples of the README and the docs run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.embedded import temporary_home

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.name}:{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text()))
]


def test_the_readme_has_an_example() -> None:
    """Thirty lines of Python stand in the README, so the test below is never empty."""
    assert any(example.id == "README.md:0" for example in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    """Each block of Python is a program of its own that ends without an error, in an empty home
    and with the default settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMORIALE_")}
    with temporary_home() as home:
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment | {"MEMORIALE_HOME": str(home), "MEMORIALE_EMBEDDED_IDLE": "0"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    claimed = re.findall(r"print\(.*#  ?(Alice .*|\d \d)$", code, re.MULTILINE)
    assert [line for line in claimed if line not in run.stdout] == []
