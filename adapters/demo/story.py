"""The demo: a real history is imported, asked, corrected, forked, broken off and rebuilt."""

import time
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from memoriale.adapters.demo.home import ledger_at, temporary_home
from memoriale.adapters.demo.living import Living
from memoriale.adapters.demo.page import Page
from memoriale.adapters.demo.rebuilding import Rebuilding
from memoriale.adapters.demo.remembering import Remembering
from memoriale.adapters.demo.script import SHIPPED, script_for
from memoriale.adapters.importing.files import read_conversations

if TYPE_CHECKING:
    from rich.console import Console


def run(file: str | None, home: Path | None, console: "Console") -> int:
    """
    Tells the story.

    Args:
        file: A history in the LoCoMo format; None for the one that is shipped.
        home: Where to keep what is made, under a tenant of its own; None for a temporary home
            that is removed at the end.
        console: Where it is told.

    Returns:
        0, or 1 when digests differ or a step did not do what it says.

    Raises:
        InputError: The file is not of the LoCoMo format.
        UnavailableError: The home, the disk or the database cannot be used.
    """
    reconfigure = getattr(console.file, "reconfigure", None)
    if reconfigure is not None:
        # Where the output is not UTF-8, other scripts than Latin stand as escapes.
        reconfigure(errors="backslashreplace")
    page, started = Page(console), time.monotonic()
    with ExitStack() as stack:
        shipped = files("memoriale.adapters.demo") / "history.json"
        path = stack.enter_context(as_file(shipped)) if file is None else Path(file)
        place = stack.enter_context(temporary_home()) if home is None else home
        _tell(page, path, place, shipped=file is None, tenant=_tenant(home))
    page.ends(_end(home), time.monotonic() - started)
    return 1 if page.failures else 0


def _tell(page: Page, path: Path, home: Path, *, shipped: bool, tenant: str) -> None:
    conversation = read_conversations(path)[0]
    script = SHIPPED if shipped else script_for(conversation)
    page.title(f"memoriale with {'a history that it ships' if shipped else path.name}")
    with ledger_at(home) as ledger:
        remembering = Remembering(page, ledger, tenant, conversation, script)
        remembering.imports(path)
        remembering.asks()
        remembering.corrects()
        remembering.invalidates()
        remembering.asks_as_of_before()
        remembering.forks()
        remembering.shows_history()
        living = Living(page, ledger, tenant, conversation)
        living.operates()
        living.branches_out()
        living.looks_back()
        rebuilding = Rebuilding(page, ledger, tenant, home)
        rebuilding.kills_the_projector(conversation, script.questions[0], remembering.memory)
        rebuilding.rebuilds()
        rebuilding.verifies()


def _tenant(home: Path | None) -> str:
    # A home that is kept may hold earlier demos.
    return "demo" if home is None else f"demo-{uuid4().hex[:8]}"


def _end(home: Path | None) -> str:
    if home is None:
        return "The home of this demo was temporary and is removed."
    return f"It is kept in {home}; list its commands with: memoriale --help"
