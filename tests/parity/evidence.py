"""What stands behind the rows of ``docs/parity.md``: footnotes that name tests."""

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.parity.table import read_rows, spans

CONTRACTS: Final = "adapters/testing/"
"""Where tests of providers stand that are run by the classes of ``tests/contracts``."""
_DEFINED = re.compile(r"^\[\^([\w-]+)\]: (.*)$", re.MULTILINE)


def faults(page: str, root: Path) -> list[str]:
    """
    What is wrong with the tests that a page names: a row without one, a test that is not there, a
    footnote that is missing, said twice or not used.

    Args:
        page: Its text.
        root: Of the repository.
    """
    found: list[str] = []
    defined = _DEFINED.findall(page)
    notes = dict(defined)
    found += [f"[^{label}] is said twice" for label, _ in defined if _count(defined, label) > 1]
    used: set[str] = set()
    for row in read_rows(page):
        if row.state and not row.tests:
            found.append(f"line {row.line}: {row.reference} names no test")
        found += [f"line {row.line}: there is no [^{n}]" for n in row.tests if n not in notes]
        used.update(row.tests)
    found += [f"no row is about [^{label}]" for label in notes if label not in used]
    for label, text in notes.items():
        tests = sorted(spans(text))
        if not tests:
            found.append(f"[^{label}] names no test")
        found += [f"[^{label}]: {test} is no test" for test in tests if not is_test(test, root)]
    return found


def is_test(node: str, root: Path) -> bool:
    """Whether ``file::function`` or ``file::Class::function`` is a test that is run."""
    file, _, rest = node.partition("::")
    *classes, function = rest.split("::")
    path = root / file
    if not function.startswith("test_") or not path.is_file():
        return False
    body: Sequence[ast.stmt] = _parsed(path).body
    for name in classes:
        inside = [one for one in body if isinstance(one, ast.ClassDef) and one.name == name]
        if not inside:
            return False
        body = inside[0].body
    if not any(isinstance(one, ast.FunctionDef) and one.name == function for one in body):
        return False
    if file.startswith(CONTRACTS):
        return len(classes) == 1 and classes[0] in _inherited(root)
    return path.name.startswith("test_") and path.is_relative_to(root / "tests")


def _count(defined: list[tuple[str, str]], label: str) -> int:
    return sum(one == label for one, _ in defined)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _inherited(root: Path) -> frozenset[str]:
    """The contracts that classes of tests take over."""
    found: set[str] = set()
    for path in (root / "tests" / "contracts").glob("test_*.py"):
        for one in _parsed(path).body:
            if isinstance(one, ast.ClassDef) and one.name.startswith("Test"):
                found.update(base.id for base in one.bases if isinstance(base, ast.Name))
    return frozenset(found)
