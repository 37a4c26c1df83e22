"""Bundles: the logs of a tenant in one file, for whoever checks them without us."""

from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.progress import progress_bar

if TYPE_CHECKING:
    from memoriale.adapters.bundling.collecting import BundleReport


def register(app: Typer) -> None:
    """Adds the command of this module."""
    app.command()(bundle)


@grouped
def bundle(
    common: Common,
    out: Annotated[str, Option("--out", metavar="PATH", help="A file, or a folder for it.")],
    tenant: options.Tenant = None,
    no_states: Annotated[
        bool, Option("--no-states", help="Leave the sealed bodies out; their hashes stay.")
    ] = False,
) -> None:
    """
    Write the sealed logs into one file that others check with memoriale-verify alone.

    Bodies stay sealed. Give the verifier keys that are printed on another way than the file.

    Right: audit.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger, progress_bar() as progress:
        report = ledger.bundle(out, tenant=name, states=not no_states, progress=progress)
    run.output.result(report.as_dict(), lambda page: _show(page, report))


def _show(page: Page, report: "BundleReport") -> None:
    page.table(
        ["log", "events", "root", "origin"],
        ([log["log"], log["events"], log["root"], log["origin"]] for log in report.logs),
    )
    page.line(f"{report.bytes} bytes in {report.path}")
    for key in report.verifiers:
        page.line(f"verifier key: {key}")
