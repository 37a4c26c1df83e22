"""The installation: set it up, look at it, stop it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.adapters.settings import Settings


_SHOWN_APART: Final = ("views", "seals", "anchors", "jobs", "totals")


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (init, status, stop, version, migrate):
        app.command()(command)
    config = Typer(help="The settings.", rich_markup_mode=None)
    config.command("show")(show_config)
    app.add_typer(config, name="config")


@grouped
def init(common: Common, tenant: options.Tenant = None) -> None:
    """
    Set up the home.

    It holds keys, views and, unless a database is given, an embedded PostgreSQL.

    Right: operate.
    """
    from memoriale.adapters.application.health import installation
    from memoriale.domain.principal import Right

    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        (services,) = ledger.asked(name, "init", Right.OPERATE)
        found = installation(ledger.infrastructure, services)
    run.output.result(found.as_dict(), lambda page: page.fields(found.as_dict()))


@grouped
def status(common: Common, tenant: options.Tenant = None) -> None:
    """
    Show what the ledger holds and how far its views are.

    Right: operate.
    """
    from memoriale.adapters.application.health import installation, status
    from memoriale.domain.principal import Right

    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        (services,) = ledger.asked(name, "status", Right.OPERATE)
        base = installation(ledger.infrastructure, services).as_dict()
        found = {**base, **status(services, run.settings.wait).as_dict()}
    run.output.result(found, lambda page: _show_status(page, found))


@grouped
def stop(common: Common) -> None:
    """
    Stop the embedded PostgreSQL at once, whoever uses it.

    Right: operate.
    """
    from memoriale.domain.principal import Right

    run = Invocation(common)
    run.require(Right.OPERATE)
    from memoriale.adapters.embedded.server import stop

    stopped = run.settings.database_url is None and stop(run.settings.home)
    line = "stopped" if stopped else "no embedded server was running"
    run.output.result({"stopped": stopped}, lambda page: page.line(line))


@grouped
def version(common: Common) -> None:
    """
    Show the version of memoriale.

    Right: none.
    """
    import memoriale

    run = Invocation(common)
    found: str = memoriale.__version__
    run.output.result({"version": found}, lambda page: page.line(f"memoriale {found}"))


@grouped
def migrate(
    common: Common,
    plan: Annotated[bool, Option("--plan", help="Say what is missing; change nothing.")] = False,
) -> None:
    """
    Bring the database to the schema of this release.

    Right: operate; the login is MEMORIALE_ADMIN_URL.
    """
    from memoriale.adapters.postgres import migrate as migration
    from memoriale.domain.principal import Right

    run = Invocation(common)
    run.require(Right.OPERATE)
    with _administrator(run.settings) as url:
        names = [step.name for step in migration.plan(url)] if plan else migration.migrate(url)
    what = "pending" if plan else "applied"
    line = f"{what}: {', '.join(names) or 'nothing'}"
    run.output.result({what: names}, lambda page: page.line(line))


@grouped
def show_config(common: Common) -> None:
    """
    Show every setting as this process has it; addresses without their password.

    Right: none.
    """
    run = Invocation(common)
    values = run.settings.shown()
    rows = [(name, value) for name, value in values.items()]
    run.output.result(values, lambda page: page.table(["setting", "value"], rows))


@contextmanager
def _administrator(settings: "Settings") -> Iterator[str]:
    """The connection string of a login that may migrate."""
    if settings.database_url is not None:
        yield (settings.admin_url or settings.database_url).get_secret_value()
        return
    from memoriale.adapters.embedded.server import start

    server = start(settings.home, idle_seconds=settings.embedded_idle)
    try:
        yield server.superuser_url
    finally:
        server.release()


def _show_status(page: Page, found: dict[str, Any]) -> None:
    page.fields({n: v for n, v in found.items() if n not in _SHOWN_APART})
    page.table(
        ["view", "position", "behind"],
        ([view["view"], view["position"], view["behind"]] for view in found["views"]),
    )
    for seal in found["seals"]:
        if seal["problem"]:
            page.line(f"the {seal['log']} log is not sealed: {seal['problem']}")
    for anchor in found["anchors"]:
        conflict = "; it holds another history" if anchor["in_conflict"] else ""
        page.line(f"anchor {anchor['anchor']}: {anchor['behind']} events behind{conflict}")
    if not found["anchors"]:
        page.line("no anchor: a change is detected only as far as this home is trusted")
    totals = found["totals"]
    counted = {**totals["memories"], **totals["events"]}
    page.table(["what", "number"], counted.items())
    for job in found["jobs"]:
        page.line(f"open job {job['id']}: {job['status']}")
