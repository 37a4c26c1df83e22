"""Reads ``docs/parity.md``: what each reference name is here, and how it compares."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATES: Final = ("same", "better", "differs")
_FOOTNOTE = re.compile(r" ?\[\^([\w-]+)\]")
_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """
    A row of the page.

    Args:
        line: Where it stands.
        system: Of which reference system.
        reference: The reference's name; None for what only exists here.
        here: Names in ``memoriale``, without what stands in brackets.
        arguments: What stands in brackets, after the name: ``Class.method.argument``.
        state: One of ``STATES``; empty without a reference name.
        why: What is told about it.
        tests: The footnotes that name the tests behind it.
    """

    line: int
    system: str
    reference: str | None
    here: tuple[str, ...]
    arguments: tuple[str, ...]
    state: str
    why: str
    tests: tuple[str, ...] = ()


def read_table(page: Path) -> list[Row]:
    """Every row, in order."""
    return read_rows(page.read_text(encoding="utf-8"))


def read_rows(text: str) -> list[Row]:
    """Every row of a page's text, in order."""
    rows, system = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.fullmatch(r"## System ([ABC])", line):
            system = found[1]
        elif line.startswith("| `") or line.startswith("| –"):
            first, second, third = (cell.strip() for cell in line.strip("|").split(" | "))
            tests = tuple(_FOOTNOTE.findall(third))
            third = _FOOTNOTE.sub("", third).strip()
            state, _, why = third.partition(": ")
            reference = None if first == "–" else _SPAN.findall(first)[0]
            calls = [name.rstrip(")").partition("(") for name in _SPAN.findall(second)]
            here = tuple(name for name, _, _ in calls)
            arguments = tuple(f"{n}.{a}" for n, _, given in calls for a in given.split(", ") if a)
            stated = (state, why) if reference else ("", third)
            rows.append(Row(number, system, reference, here, arguments, *stated, tests))
    return rows


def spans(text: str) -> set[str]:
    """The code spans of a text."""
    return set(_SPAN.findall(text))
