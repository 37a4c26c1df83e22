"""Maintenance of the stores, and background work."""

from typing import Annotated

from typer import Argument, Exit, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.stores.showing import as_json

DryRun = Annotated[bool, Option("--dry-run", help="Only say what would be done.")]
JobId = Annotated[str, Argument(metavar="JOB", help="Id of a job.")]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    curate = Typer(help="Maintenance, as events: nothing is destroyed.", rich_markup_mode=None)
    curate.command("prune")(curate_prune)
    curate.command("deduplicate")(curate_deduplicate)
    curate.command("consolidate")(curate_consolidate)
    curate.command("clear")(curate_clear)
    app.add_typer(curate, name="curate")
    jobs = Typer(help="Background work.", rich_markup_mode=None)
    jobs.command("list")(jobs_list)
    jobs.command("show")(jobs_show)
    jobs.command("cancel")(jobs_cancel)
    jobs.command("retry")(jobs_retry)
    jobs.command("run")(jobs_run)
    jobs.command("compare")(jobs_compare)
    app.add_typer(jobs, name="jobs")


@grouped
def curate_prune(
    caller: Caller,
    common: Common,
    place: OnBranch,
    max_age_days: Annotated[int, Option("--max-age-days", metavar="DAYS", help="Older ones end.")],
    source: Annotated[
        list[str] | None,
        Option("--source", metavar="TIER", help="Tiers that may go. Default: what models wrote."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """
    End what is old, of every kind that the user, agent and session have.

    Right: use.
    """
    given = {} if source is None else {"sources": source}
    _curate(common, caller, place, "prune", max_age_days, dry_run=dry_run, **given)


@grouped
def curate_deduplicate(
    caller: Caller, common: Common, place: OnBranch, dry_run: DryRun = False
) -> None:
    """
    End facts of a user that say the same as another.

    Right: use.
    """
    _curate(common, caller, place, "deduplicate", dry_run=dry_run)


@grouped
def curate_consolidate(
    caller: Caller,
    common: Common,
    place: OnBranch,
    threshold: Annotated[
        float, Option("--threshold", help="Least similarity of facts that are merged, 0..1.")
    ] = 0.8,
    dry_run: DryRun = False,
) -> None:
    """
    Merge facts of a user that say the same in other words, as the language model proposes.

    Right: use.
    """
    from memoriale.adapters.language_models.factory import make_model

    settings = Invocation(common).settings
    model = make_model(settings.model, settings.openai_endpoint)
    _curate(
        common,
        caller,
        place,
        "consolidate",
        model,
        similarity_threshold=threshold,
        dry_run=dry_run,
    )


@grouped
def curate_clear(caller: Caller, common: Common, place: OnBranch, dry_run: DryRun = False) -> None:
    """
    End everything that the user, agent and session have; history keeps it.

    Right: use.
    """
    _curate(common, caller, place, "clear_all", dry_run=dry_run)


@grouped
def jobs_list(
    common: Common,
    tenant: options.Tenant = None,
    status: Annotated[str | None, Option(help="Only those that stand so.")] = None,
    limit: Annotated[int, Option(help="How many at most.")] = 50,
) -> None:
    """
    List jobs, those with the newest event first.

    Right: operate.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        found = ledger.jobs.list(tenant=run.tenant(tenant), status=status, limit=limit)
    columns = ["id", "type", "status", "attempts", "error", "next_try"]
    values = [job.as_dict() for job in found]
    rows = [[value[column] for column in columns] for value in values]
    run.output.result(
        {"jobs": values}, lambda page: page.table(columns, rows) if rows else page.line("No jobs.")
    )


@grouped
def jobs_show(job: JobId, common: Common, tenant: options.Tenant = None) -> None:
    """
    Show a job.

    Right: operate.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        value = ledger.jobs.get(job, tenant=run.tenant(tenant)).as_dict()
    run.output.result(value, lambda page: page.fields(value))


@grouped
def jobs_cancel(
    job: JobId,
    common: Common,
    tenant: options.Tenant = None,
    reason: Annotated[str | None, Option(metavar="TEXT", help="Why; kept sealed.")] = None,
) -> None:
    """
    End a job that is still to be done.

    Right: operate.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        value = ledger.jobs.cancel(job, tenant=run.tenant(tenant), reason=reason).as_dict()
    run.output.result(value, lambda page: page.fields(value))


@grouped
def jobs_retry(job: JobId, common: Common, tenant: options.Tenant = None) -> None:
    """
    Ask for a job once more that failed or was cancelled.

    Right: operate.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        value = ledger.jobs.retry(job, tenant=run.tenant(tenant)).as_dict()
    run.output.result(value, lambda page: page.fields(value))


@grouped
def jobs_run(
    common: Common,
    tenant: options.Tenant = None,
    limit: Annotated[int | None, Option(help="How many at most.")] = None,
) -> None:
    """
    Work on the jobs that are due.

    Exit code 5 when one of them failed, or when jobs wait for a language model and MEMORIALE_MODEL
    names none: those stay queued.

    Right: operate.
    """
    from memoriale.adapters.library.jobs import NoModelError

    run, left = Invocation(common), None
    with run.ledger() as ledger:
        try:
            done = ledger.jobs.run(tenant=run.tenant(tenant), limit=limit)
        except NoModelError as error:
            done, left = error.done, error
    values = [job.as_dict() for job in done]
    rows = [[v["id"], v["type"], v["status"], v["error"]] for v in values]
    columns = ["id", "type", "status", "error"]
    if done or left is None:
        run.output.result(
            {"jobs": values},
            lambda page: page.table(columns, rows) if rows else page.line("No job was due."),
        )
    if left is not None:
        raise left
    if any(job.error and job.status != "completed" for job in done):
        raise Exit(5)


@grouped
def jobs_compare(job: JobId, common: Common, tenant: options.Tenant = None) -> None:
    """
    Ask the language model once more what a job of extraction asked, and compare; stores nothing.

    Right: operate.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        found = ledger.jobs.compare(job, tenant=run.tenant(tenant)).as_dict()
    run.output.result(found, lambda page: page.fields(found))


def _curate(
    common: Common,
    caller: Caller,
    place: OnBranch,
    method: str,
    *arguments: object,
    **given: object,
) -> None:
    from memoriale.adapters.library.stores.curator import Curator

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        report = getattr(Curator(memory), method)(*arguments, **given)
    value = as_json(report)
    told = f"looked at {report.checked}, changed {report.changed}, left {len(report.skipped)}"
    run.output.result(value, lambda page: page.line(told))
