"""Checks: do the views say what the log says, is the installation sound."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.progress import progress_bar

if TYPE_CHECKING:
    from memoriale.projections.reconcile import ReconcileReport
    from memoriale.projections.replay import ReplayReport


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (replay, reconcile, doctor):
        app.command()(command)


@grouped
def replay(
    common: Common,
    tenant: options.Tenant = None,
    view: Annotated[str, Option(help="recall, stats, proofs or all.")] = "all",
    verify: Annotated[
        bool, Option("--verify", help="Compare with the live view; exit code 1 on a difference.")
    ] = False,
    shared: options.Shared = False,
) -> None:
    """
    Rebuild views from the log beside the live ones, and swap.

    Right: operate.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger, progress_bar() as progress:
        reports = ledger.replay(view, tenant=name, shared=shared, verify=verify, progress=progress)
    value = {"views": [asdict(report) for report in reports]}
    run.output.result(value, lambda page: _show_replay(page, reports))
    if any(report.equal is False for report in reports):
        raise typer.Exit(1)


@grouped
def reconcile(
    common: Common,
    tenant: options.Tenant = None,
    repair: Annotated[bool, Option("--repair", help="Put right what is found.")] = False,
    shared: options.Shared = False,
) -> None:
    """
    Compare the views with the log row by row.

    Exit code 1 when something was found and not repaired.

    Right: operate.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger, progress_bar() as progress:
        reports = ledger.reconcile(tenant=name, shared=shared, repair=repair, progress=progress)
    value = {"views": [asdict(report) for report in reports]}
    run.output.result(value, lambda page: _show_reconcile(page, reports))
    if not all(report.settled for report in reports):
        raise typer.Exit(1)


@grouped
def doctor(common: Common, tenant: options.Tenant = None) -> None:
    """
    Check the installation part by part, and try what must be refused.

    Exit code 1 when a part is not as it should be, 6 when none is wrong and one could not be
    looked at.

    Right: operate.
    """
    from memoriale.adapters.doctor.checks import exit_code
    from memoriale.adapters.doctor.examination import examine

    run = Invocation(common)
    checks = examine(run.settings, run.tenant(tenant))
    value = {"checks": [check.as_dict() for check in checks]}
    rows = [
        [check.name, "ok" if check.state == "ok" else check.state.upper(), check.detail]
        for check in checks
    ]
    run.output.result(value, lambda page: page.table(["check", "", "detail"], rows))
    if code := exit_code(checks):
        raise typer.Exit(code)


def _show_replay(page: Page, reports: "list[ReplayReport]") -> None:
    page.table(
        ["view", "events", "seconds", "events/s", "digest", "equal", "vectors"],
        (
            [
                report.view,
                report.events,
                report.seconds,
                round(report.events_per_second),
                None if report.digest_rebuilt is None else report.digest_rebuilt[:16],
                report.equal,
                report.vectors_recomputed,
            ]
            for report in reports
        ),
    )
    for report in reports:
        if report.equal is False:
            page.line(f"view {report.view} differed from the log")
            for difference in report.differences:
                page.line(f"  {difference}")


def _show_reconcile(page: Page, reports: "list[ReconcileReport]") -> None:
    names = ("view", "missing", "orphaned", "stale", "duplicated", "vectors", "repaired")
    page.table(list(names), ([getattr(report, name) for name in names] for report in reports))
    for report in reports:
        for finding in report.findings:
            page.line(f"{report.view}, {finding}")
        if not report.settled:
            page.line(f"view {report.view} differs from the log; 'reconcile --repair' mends it")
