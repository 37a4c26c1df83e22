"""Outside places of checkpoints: how they stand, pushing to them, who cosigned."""

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.adapters.anchors.standing import Standing, Witnessed
    from memoriale.adapters.library.anchoring import PushReport

_INCOMPLETE = 6


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(anchors)
    witness = Typer(help="Witnesses and other outside places.", rich_markup_mode=None)
    for command in (push, verify):
        witness.command()(command)
    app.add_typer(witness, name="witness")


@grouped
def anchors(
    common: Common,
    tenant: options.Tenant = None,
    keys: Annotated[
        bool, Option("--keys", help="Show the logs' verifier keys, for whoever runs a witness.")
    ] = False,
) -> None:
    """
    Show how the outside places of checkpoints stand. Nothing outside is asked.

    Right: audit.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = ledger.anchors(tenant=name)
        given = ledger.witness_keys(tenant=name)
    places = run.settings.anchor_places
    value = {
        "anchors": [one.as_dict() for one in found],
        "quorum": places.quorum,
        "every": places.every,
        "keys": given,
    }
    run.output.result(value, lambda page: _show_keys(page, given) if keys else _show(page, found))


@grouped
def push(common: Common, tenant: options.Tenant = None) -> None:
    """
    Seal, hand the checkpoints to every outside place now, and wait.

    Exit code 1 when one holds another history, 6 when one could not be reached or too few
    witnesses cosigned.

    Right: operate.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        report = ledger.push(tenant=name)
    run.output.result(report.as_dict(), lambda page: _show_pushed(page, report))
    if not report.ok:
        raise typer.Exit(1 if report.conflict else _INCOMPLETE)


@grouped
def verify(common: Common, tenant: options.Tenant = None) -> None:
    """
    Check the cosignatures of the present checkpoints. Nothing outside is asked.

    Exit code 1 when one that is kept is not what its witness signed, or a witness held another
    history; 6 when too few witnesses cosigned.

    Right: audit.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = ledger.witnessed(tenant=name)
    ok, bad = all(one.ok for one in found) and bool(found), any(one.problems for one in found)
    value = {"ok": ok and not bad, "logs": [one.as_dict() for one in found]}
    run.output.result(value, lambda page: _show_witnessed(page, found))
    if bad or not ok:
        raise typer.Exit(1 if bad else _INCOMPLETE)


def _show(page: Page, found: "list[Standing]") -> None:
    if not found:
        page.line("no anchor is configured: a change is detected only as far as this machine and")
        page.line("its home are trusted; see docs/anchors.md")
        return
    page.table(
        ["anchor", "events", "behind", "last success"],
        ([one.anchor, one.size, one.behind, one.last_success] for one in found),
    )
    for one in found:
        if one.last_error:
            page.line(f"{one.last_error_at}: {one.last_error}")
        if one.conflict and one.conflict != one.last_error:
            page.line(f"{one.conflict_at}: {one.conflict}")


def _show_keys(page: Page, keys: list[str]) -> None:
    for key in keys:
        page.line(key)


def _show_pushed(page: Page, report: "PushReport") -> None:
    for one in report.anchors:
        missing = len(one.failed) + len(one.conflicts)
        page.line(f"{one.anchor}: {len(one.taken)} of {len(one.taken) + missing} logs")
        for message in sorted({*one.failed.values(), *one.conflicts.values()}):
            page.line(f"  {message}")
    if report.witnessed:
        _show_witnessed(page, report.witnessed)


def _show_witnessed(page: Page, found: "list[Witnessed]") -> None:
    page.table(
        ["log", "events", "cosigned", "needed", "cosigned before"],
        ([one.origin, one.size, len(one.cosigned), one.needed, one.last_size] for one in found),
    )
    for one in found:
        for witness, why in {**one.missing, **one.problems}.items():
            page.line(f"{one.origin}, {witness}: {why}")
