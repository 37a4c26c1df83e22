"""Proofs: is the log unchanged, was this event in it, did it only grow."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import note_in
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.progress import progress_bar

if TYPE_CHECKING:
    from memoriale.adapters.proving.receipts import ProvedEvent
    from memoriale.adapters.proving.verification import LogReport

Checkpoints = Annotated[
    list[Path] | None,
    Option("--checkpoint", metavar="FILE", help="One that was kept elsewhere. May be repeated."),
]
Verifiers = Annotated[
    list[str] | None,
    Option(
        "--verifier",
        metavar="KEY",
        help="Public key to trust instead of this installation's, name+hash+key. May be repeated.",
    ),
]
Out = Annotated[Path | None, Option("--out", metavar="FILE", help="Write it to this file.")]
TheLog = Annotated[str, Option("--log", metavar="LOG", help="memory or access.")]
NAMES = ("memory", "access", "deployment")


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (verify, checkpoint, consistency, receipt):
        app.command()(command)
    app.command("receipt-check")(receipt_check)


@grouped
def verify(
    common: Common,
    tenant: options.Tenant = None,
    checkpoint: Checkpoints = None,
    verifier: Verifiers = None,
    all_tenants: Annotated[
        bool, Option("--all-tenants", help="Every log that was ever sealed here.")
    ] = False,
    sealed: Annotated[
        bool, Option("--sealed", help="Exit code 6 when events are not sealed yet.")
    ] = False,
    local: Annotated[
        bool, Option("--local", help="Leave out the checkpoints that anchors hold.")
    ] = False,
) -> None:
    """
    Check every event for changes and holes.

    The memory log and the access log are read again and compared with every checkpoint that was
    signed over them, here and at the anchors. Exit code 1 when something was changed, is missing
    or is out of place; 6 when an anchor could not be read.

    Right: audit.
    """
    run = Invocation(common)
    name = None if all_tenants else run.tenant(tenant)
    notes = [note_in("checkpoint", path) for path in checkpoint or ()]
    with run.ledger() as ledger, progress_bar() as progress:
        reports = ledger.verify(
            tenant=name,
            checkpoints=notes,
            verifiers=verifier or (),
            all_tenants=all_tenants,
            anchors=not local,
            progress=progress,
        )
    value = _verified(reports, whole=all_tenants)
    run.output.result(value, lambda page: _show_verify(page, reports))
    if not value["ok"]:
        raise typer.Exit(1)
    if value["unreached"] or (sealed and value["unsealed"]):
        raise typer.Exit(6)


@grouped
def checkpoint(
    common: Common,
    tenant: options.Tenant = None,
    out: Out = None,
    log: Annotated[
        str, Option("--log", metavar="LOG", help="Of which log --out: memory, access, deployment.")
    ] = "memory",
) -> None:
    """
    Seal the logs: sign how many events they have, and the root over them.

    Keep the file outside: from then on nobody can change what it covers unseen.

    Right: audit.
    """
    from memoriale.adapters.command_line.inputs import one_of

    run = Invocation(common)
    name = run.tenant(tenant)
    one_of("log", log, NAMES)
    with run.ledger() as ledger:
        reports = ledger.checkpoint(tenant=name)
    chosen = reports[NAMES.index(log)]
    if out is not None:
        _write(out, chosen.note)
    value = {
        **chosen.as_dict(),
        "path": None if out is None else str(out),
        "checkpoints": [report.as_dict() for report in reports],
    }
    rows = [[report.log, report.size, report.root, report.origin] for report in reports]

    def show(page: Page) -> None:
        page.table(["log", "events", "root", "origin"], rows)
        if out is not None:
            page.line(f"the checkpoint of the {log} log is in {out}")

    run.output.result(value, show)


@grouped
def consistency(
    common: Common,
    old: Annotated[Path, Argument(metavar="OLD", help="The earlier checkpoint.")],
    new: Annotated[Path, Argument(metavar="NEW", help="The later one, of the same log.")],
    tenant: options.Tenant = None,
    verifier: Verifiers = None,
) -> None:
    """
    Prove that a log only grew between two checkpoints.

    Exit code 1 when a signature does not hold or history was rewritten.

    Right: audit.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    notes = note_in("old", old), note_in("new", new)
    with run.ledger() as ledger:
        found = ledger.consistency(*notes, tenant=name, verifiers=verifier or ())
    value = {"ok": True, **found.as_dict()}
    line = f"{found.origin} only grew from {found.old_size} to {found.new_size} events"
    run.output.result(value, lambda page: page.line(line))


@grouped
def receipt(
    common: Common,
    index: Annotated[int, Argument(metavar="INDEX", help="The event's place.")],
    tenant: options.Tenant = None,
    log: TheLog = "memory",
    out: Out = None,
) -> None:
    """
    Prove that an event is in the log, in a file that others can check.

    Exit code 6 when it is not sealed yet.

    Right: audit.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        proved = ledger.receipt(index, tenant=name, log=log)
    if out is not None:
        _write(out, proved.proof)
    value = {**proved.as_dict(), "path": None if out is None else str(out)}

    def show(page: Page) -> None:
        _show_proved(page, proved)
        page.line(f"the proof is in {out}" if out is not None else proved.proof)

    run.output.result(value, show)


@grouped
def receipt_check(
    common: Common,
    file: Annotated[Path, Argument(metavar="FILE", help="A proof, as 'receipt' wrote it.")],
    verifier: Verifiers = None,
) -> None:
    """
    Check a proof by itself: no database is asked.

    Exit code 1 when it does not hold.

    Right: none.
    """
    from memoriale.adapters.proving.receipts import check
    from memoriale.adapters.proving.trust import trusted
    from memoriale.adapters.sealing.signing_key import SigningKey

    run = Invocation(common)
    key = SigningKey(run.settings.signing_key_file, run.settings.signing_folder)
    proved = check(note_in("file", file), trusted(key, verifier or ()))
    value = {"ok": True, **proved.as_dict()}
    run.output.result(value, lambda page: _show_proved(page, proved))


def _verified(reports: "list[LogReport]", *, whole: bool) -> dict[str, Any]:
    logs = [{**asdict(report), "log_id": str(report.log_id)} for report in reports]
    top = logs[-1] if whole else logs[0]
    bad = next((report for report in reports if not report.ok), None)
    value = {name: top[name] for name in top if name not in ("tenant", "log", "log_id")}
    value |= {
        "ok": bad is None,
        "unsealed": top["unsealed"],
        "logs": logs,
        "first_bad_index": None if bad is None else bad.first_bad_index,
        "problem_count": sum(report.problem_count for report in reports),
        "problems": [
            {"tenant": log["tenant"], "log": log["log"], **problem}
            for log in logs
            for problem in log["problems"]
        ],
    }
    if whole:
        value |= {
            "leaves": sum(report.leaves for report in reports),
            "unsealed": sum(report.unsealed for report in reports),
            "lost": sum(report.lost for report in reports),
        }
    return value


def _show_verify(page: Page, reports: "list[LogReport]") -> None:
    names = (
        "tenant",
        "log",
        "ok",
        "leaves",
        "unsealed",
        "checkpoints",
        "anchored",
        "root",
        "first_bad_index",
    )
    page.table(
        [name.replace("_", " ") for name in names],
        ([getattr(report, name) for name in names] for report in reports),
    )
    for report in reports:
        for problem in report.problems:
            page.line(f"{report.log} log, index {problem.index}: {problem.detail}")
        for restored in report.restored:
            page.line(
                f"{report.log} log: restored from a backup with {restored['events']} events; "
                f"{restored['lost']} sealed ones were lost"
            )
    for why in sorted({why for report in reports for why in report.unreached.values()}):
        page.line(f"not compared: {why}")


def _show_proved(page: Page, proved: "ProvedEvent") -> None:
    page.line(
        f"event {proved.index} ({proved.topic}, recorded {page.time(proved.recorded_at)}) is under "
        f"the checkpoint over {proved.size} events of {proved.origin}"
    )


def _write(path: Path, text: str) -> None:
    from memoriale.adapters.command_line.inputs import write_text

    write_text("out", path, text)
