"""How the demo looks: numbered headings, questions, hits, and what each step has shown."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.command_line.output import safe

if TYPE_CHECKING:
    from rich.console import Console

    from memoriale.projections.recall.query import Hit

SHOWN_HITS: Final = 3
SHOWN_CHARACTERS: Final = 160


class Page:
    """
    Prints to a console. Texts of memories are made safe and never read as markup.

    Args:
        console: Where to.
    """

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._steps = 0
        self.failures: list[str] = []
        """What did not hold."""

    def title(self, text: str) -> None:
        """The first line."""
        self._line(text, "bold underline")

    def ends(self, text: str, seconds: float) -> None:
        """The last lines: how long it took, and what failed."""
        self.space()
        self._line(f"Done in {seconds:.0f} s. {text}")
        for failure in self.failures:
            self._line(f"FAILED: {failure}", "bold red")

    def heading(self, text: str) -> None:
        """Begins a step."""
        self._steps += 1
        self.space()
        self._line(f"{self._steps}. {text}", "bold")

    def space(self) -> None:
        """An empty line."""
        self._console.print()

    def says(self, text: str) -> None:
        """A sentence of explanation."""
        self._line(text, indent=3)

    def question(self, text: str) -> None:
        """What is asked."""
        self.space()
        self._line(f"? {text}", "bold cyan", indent=3)

    def hits(self, hits: Sequence["Hit"], shown: int = SHOWN_HITS) -> None:
        """The best hits: score, date, speaker and the beginning of the text."""
        if not hits:
            self._line("nothing", indent=5)
        rows = [
            (
                f"{hit.score:.2f}",
                "" if hit.valid_from is None else f"{hit.valid_from:%d %b %Y}",
                hit.speaker or "",
                _cut(hit.content),
            )
            for hit in hits[:shown]
        ]
        self.table((), rows)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows of texts, with headings if there are any."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        rows = [tuple(str(cell) for cell in row) for row in rows]
        if not rows:
            return
        table = Table(box=None, show_header=bool(columns), padding=(0, 1), header_style="dim")
        for number in range(len(rows[0])):
            last = number == len(rows[0]) - 1
            heading = columns[number] if columns else ""
            table.add_column(heading, no_wrap=not last, ratio=1 if last else None)
        for row in rows:
            table.add_row(*(Text(safe(cell)) for cell in row))
        self._console.print(Padding(table, (0, 0, 0, 4)))

    def check(self, holds: bool, text: str) -> None:
        """Whether a step did what it says; a failure is kept for the end."""
        mark, style = ("✓", "green") if holds else ("✗", "bold red")
        self._line(f"{mark} {text}", style, indent=3)
        if not holds:
            self.failures.append(text)

    def require(self, holds: bool, text: str) -> None:
        """As ``check``, but silent when it holds."""
        if not holds:
            self.check(holds, text)

    def _line(self, text: str, style: str = "", indent: int = 0) -> None:
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text(safe(text), style=style), (0, 0, 0, indent), expand=False))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"
