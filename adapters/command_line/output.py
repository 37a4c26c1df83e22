"""What commands print: JSON for programs, or short tables for people."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from memoriale.domain.errors import UnavailableError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_BIDI_CONTROLS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_WIDTH_OF_FILES: Final = 10_000


def safe(text: str) -> str:
    """
    Text that cannot move the cursor, change colours or turn the reading direction of what
    follows: such characters stand as escapes, line breaks and tabs as they are.
    """
    return "".join(_shown(character) for character in text)


def json_text(value: Any) -> str:
    """One line of JSON; never NaN, and lone surrogates stay escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode()


class Output:
    """
    Standard output of one command.

    Args:
        as_json: Print JSON and nothing else.
        timezone: Zone in which people read times.
    """

    def __init__(self, *, as_json: bool, timezone: str) -> None:
        self.as_json = as_json
        self.closed = False
        """Whether the reader has gone, as ``head`` does; then nothing more is worth printing."""
        self._timezone = timezone

    def result(self, value: Mapping[str, Any], show: Callable[["Page"], None]) -> None:
        """
        The whole result of a command.

        Args:
            value: As JSON values.
            show: Lays it out for people.
        """
        if self.as_json:
            self._write(json_text(value) + "\n")
            return
        page = Page(self._timezone)
        show(page)
        self._write(page.text())

    def line(self, value: Mapping[str, Any], show: Callable[["Page"], str]) -> None:
        """One line of a stream; arguments as for ``result``."""
        text = json_text(value) if self.as_json else safe(show(Page(self._timezone)))
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        if self.closed:
            return
        if sys.stdout is None:
            raise _output_failed("it is closed")
        encoding = "utf-8" if self.as_json else sys.stdout.encoding
        try:
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stdout.flush()
        except BrokenPipeError:
            self.closed = True
            _discard_output()
        except OSError as error:
            _discard_output()
            raise _output_failed(str(error.strerror)) from error


class Page:
    """
    What people see of a result; every text is made safe.

    Args:
        timezone: Zone of the times.
    """

    def __init__(self, timezone: str) -> None:
        self._timezone = timezone
        self._parts: list[RenderableType] = []

    def line(self, text: str = "") -> None:
        """A line of text."""
        from rich.text import Text

        self._parts.append(Text(safe(text)))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows under headings; None is shown as an empty cell."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for column in columns:
            table.add_column(Text(safe(column)), overflow="fold")
        for row in rows:
            table.add_row(*(Text(safe(self.shown(cell))) for cell in row))
        self._parts.append(table)

    def fields(self, values: Mapping[str, Any]) -> None:
        """Names and values, without those that are None or empty."""
        from rich.table import Table
        from rich.text import Text

        table = _grid(Table)
        for name, value in values.items():
            if value not in (None, "", [], (), {}):
                shown = Text(safe(self.shown(value)))
                table.add_row(Text(name.replace("_", " "), style="bold"), shown)
        self._parts.append(table)

    def entries(self, rows: Iterable[tuple[Any, Any, Sequence[Any]]]) -> None:
        """For each row what it is found by, its text, and below it the details in one line."""
        from rich.table import Table
        from rich.text import Text

        table = _grid(Table)
        for key, text, details in rows:
            below = " · ".join(self.shown(detail) for detail in details if detail is not None)
            cell = Text(safe(self.shown(text)) + "\n")
            table.add_row(Text(self.shown(key), style="bold"), cell.append(safe(below), "dim"))
        self._parts.append(table)

    def tree(self, rows: Iterable[tuple[int, Any, Sequence[Any]]]) -> None:
        """For each row its depth, its name and the details behind it; a parent comes first."""
        from rich.text import Text
        from rich.tree import Tree

        path = [Tree("", hide_root=True)]
        for depth, name, details in rows:
            behind = " · ".join(self.shown(detail) for detail in details if detail is not None)
            label = Text(safe(self.shown(name)), style="bold")
            del path[depth + 1 :]
            path.append(path[-1].add(label.append("  " + safe(behind), "not bold dim")))
        self._parts.append(path[0])

    def shown(self, value: Any) -> str:
        """A value in words of people: times in their zone, lists with commas."""
        if value is None:
            return ""
        if isinstance(value, datetime):
            return self.time(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:.3f}".rstrip("0").rstrip(".")
        if isinstance(value, list | tuple):
            return ", ".join(self.shown(item) for item in value)
        if isinstance(value, dict):
            return json_text(value)
        return str(value)

    def time(self, value: datetime) -> str:
        """A time in the zone of the reader, to the second."""
        from zoneinfo import ZoneInfo

        local = value.astimezone(ZoneInfo(self._timezone))
        return local.isoformat(sep=" ", timespec="seconds")

    def text(self) -> str:
        """All of it, with colours only when standard output is a terminal."""
        import io

        console = _console(io.StringIO())
        for part in self._parts:
            console.print(part, soft_wrap=False)
        written: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in written.split("\n"))


def _grid(table: "type[Table]") -> "Table":
    grid = table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _console(file: Any) -> "Console":
    from rich.console import Console

    if _is_terminal(sys.stdout):
        return Console(
            file=file,
            markup=False,
            highlight=False,
            force_terminal=True,
            width=Console(file=sys.stdout).width,
            no_color="NO_COLOR" in os.environ,
        )
    # A file has no width: nothing is folded, so that programs find ids and addresses whole.
    return Console(
        file=file, markup=False, highlight=False, color_system=None, width=_WIDTH_OF_FILES
    )


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())


def _shown(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if character in _BIDI_CONTROLS or 0xD800 <= code < 0xE000 or code in (0x2028, 0x2029):
        return f"\\u{code:04x}"
    return character


def _output_failed(why: str) -> UnavailableError:
    return UnavailableError(
        f"standard output cannot be written: {why}. What was to be stored is stored.",
        code="output_failed",
        field="stdout",
    )


def _discard_output() -> None:
    # The interpreter flushes standard output once more at its end; let that go nowhere.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
