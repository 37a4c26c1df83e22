"""For analysts: SQL, counts, published snapshots, and what the columns mean."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.adapters.application.mart import Counts, QueryResult
    from memoriale.projections.stats.dictionary import Relation


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (sql, stats, snapshot, describe):
        app.command()(command)


@grouped
def sql(
    query: Annotated[str, Argument(metavar="QUERY", help="One SELECT; see describe for tables.")],
    common: Common,
    tenant: options.Tenant = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Publish first what was recorded since the last snapshot.")
    ] = False,
    limit: Annotated[int, Option(metavar="N", help="At most so many rows, 1..100000.")] = 1_000,
    timeout: Annotated[
        float, Option(metavar="SECONDS", help="It may take so long, up to 600.")
    ] = 30.0,
) -> None:
    """
    Ask the published statistics in SQL.

    They hold no content and no names. The answer says up to which index it reaches.

    Right: analyse.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = ledger.sql(query, tenant=name, fresh=fresh, limit=limit, timeout=timeout)
    run.output.result(found.as_dict(), lambda page: _show_rows(page, found))


@grouped
def stats(
    common: Common,
    tenant: options.Tenant = None,
    wait: Annotated[
        float | None,
        Option(metavar="SECONDS", help="For the view to catch up. Default: MEMORIALE_WAIT."),
    ] = None,
) -> None:
    """
    Count what the ledger holds by topic, kind, branch, day and so on.

    Right: analyse.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = ledger.stats(tenant=name, wait=wait)
    run.output.result(found.as_dict(), lambda page: _show_counts(page, found))


@grouped
def snapshot(
    common: Common,
    tenant: options.Tenant = None,
    parquet: Annotated[
        str | None, Option(metavar="FOLDER", help="Write each table there as Parquet too.")
    ] = None,
) -> None:
    """
    Publish the statistics as a DuckDB file that never changes.

    Right: analyse.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        value = ledger.snapshot(tenant=name, parquet=parquet).as_dict()
    run.output.result(value, lambda page: page.fields(value))


@grouped
def describe(
    common: Common,
    view: Annotated[
        str | None, Argument(metavar="VIEW", help="A table or view. Default: all of them.")
    ] = None,
) -> None:
    """
    Say what the tables and columns of the statistics mean.

    Right: none; nothing of a tenant is read.
    """
    from memoriale.adapters.application.mart import describe

    run = Invocation(common)
    found = describe(view)
    run.output.result(_dictionary(found, view), lambda page: _show_dictionary(page, found))


def _show_rows(page: Page, found: "QueryResult") -> None:
    names = [column["name"] for column in found.columns]
    page.table(names, ([row[name] for name in names] for row in found.rows))
    more = ", and there are more" if found.truncated else ""
    behind = f"; {found.behind} events came since, --fresh has them" if found.behind else ""
    page.line(f"{len(found.rows)} rows{more}, up to index {found.snapshot.index}{behind}")


def _show_counts(page: Page, found: "Counts") -> None:
    summary = found.summary
    page.fields(
        {
            "events": summary.position,
            "first": summary.first_recorded_at,
            "last": summary.last_recorded_at,
            "not counted yet": found.behind or None,
        }
    )
    for name, rows in summary.tables.items():
        if rows:
            page.line(name.replace("_", " "))
            page.table([column.replace("_", " ") for column in rows[0]], map(_cells, rows))


def _cells(row: dict[str, Any]) -> list[Any]:
    return list(row.values())


def _dictionary(found: "list[Relation]", view: str | None) -> dict[str, Any]:
    tables = [relation.as_dict() for relation in found]
    columns = [
        column if view is not None else {"table": table["name"], **column}
        for table in tables
        for column in table["columns"]
    ]
    short = [{name: table[name] for name in ("name", "kind", "meaning")} for table in tables]
    return {"columns": columns, "tables": short}


def _show_dictionary(page: Page, found: "list[Relation]") -> None:
    for relation in found:
        page.line(f"{relation.name} ({relation.kind}): {relation.meaning}")
        page.table(
            ["column", "type", "unit", "meaning"],
            ([c.name, c.type, c.unit, c.meaning] for c in relation.columns),
        )
