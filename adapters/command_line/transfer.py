"""Bringing memories in and taking the log out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.progress import progress_bar

if TYPE_CHECKING:
    from memoriale.adapters.exporting.runner import ExportReport
    from memoriale.adapters.importing.report import ImportReport

_LISTED = 20


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command("import")(import_memories)
    app.command("export")(export_log)
    app.command()(demo)


@grouped
def import_memories(
    file: Annotated[str, Argument(metavar="FILE", help="- reads standard input.")],
    caller: Caller,
    on: OnBranch,
    common: Common,
    format: Annotated[str, Option("--format", help="jsonl or locomo.")] = "jsonl",
) -> None:
    """
    Import memories from a file.

    Repeating or resuming an import stores nothing twice. Lines that are refused are listed and
    do not stop the others. Exit code 2 when every line was refused.

    Right: use and operate.
    """
    from memoriale.adapters.importing.runner import import_file

    run = Invocation(common)
    with run.memory(caller, on.branch) as memory, progress_bar() as progress:
        report = import_file(memory, file, format, progress=progress)
    run.output.result(report.as_dict(), lambda page: _show_import(page, report))
    if report.rejected and not report.remembered + report.skipped:
        raise typer.Exit(2)


@grouped
def export_log(
    common: Common,
    out: Annotated[str, Option("--out", metavar="PATH", help="A file, or a folder for it.")],
    tenant: options.Tenant = None,
    format: Annotated[str, Option("--format", help="jsonl.")] = "jsonl",
    subject_user: Annotated[
        str | None, Option(metavar="USER", help="Only what is this user's or about them.")
    ] = None,
) -> None:
    """
    Export the log with its contents opened, one event a line.

    Right: privacy.
    """
    from memoriale.adapters.exporting.runner import export

    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger, progress_bar() as progress:
        report = export(
            ledger,
            tenant=name,
            out=out,
            format=format,
            subject_user=subject_user,
            progress=progress,
        )
    run.output.result(report.as_dict(), lambda page: _show_export(page, report))


@grouped
def demo(
    common: Common,
    file: Annotated[
        str | None,
        Argument(metavar="[FILE]", help="A history of the LoCoMo format. Default: a shipped one."),
    ] = None,
) -> None:
    """
    Show what memoriale does on a real history.

    It has a home of its own unless --home is given. With --json the story goes to standard
    error. Exit code 1 when a step fails.

    Right: none.
    """
    import sys

    from rich.console import Console

    from memoriale.adapters.demo.story import run as tell

    home = None if common.home is None else Path(common.home)
    console = Console(file=sys.stderr if common.json else sys.stdout, markup=False)
    code = tell(file, home, console)
    if common.json:
        Invocation(common).output.result({"ok": code == 0}, lambda page: None)
    raise typer.Exit(code)


def _show_import(page: Page, report: "ImportReport") -> None:
    page.line(
        f"read {report.read}, remembered {report.remembered}, skipped {report.skipped} stored "
        f"before, rejected {report.rejected_count}, in {report.seconds:.1f} s"
    )
    for rejection in report.rejected[:_LISTED]:
        page.line(f"line {rejection.line}: {rejection.reason}")
    if report.rejected_count > _LISTED:
        page.line(f"and {report.rejected_count - _LISTED} more; --json lists them")


def _show_export(page: Page, report: "ExportReport") -> None:
    page.line(f"{report.events} events up to index {report.index}")
    for file in report.files:
        page.line(str(file))
