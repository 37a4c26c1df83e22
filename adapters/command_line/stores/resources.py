"""What resources keep: working memory, and the compaction of their facts."""

from typing import Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import days_of, json_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.output import json_text
from memoriale.adapters.command_line.stores.showing import as_json
from memoriale.domain.errors import InputError
from memoriale.domain.resources.limits import PAGE

Key = Annotated[str, Argument(metavar="KEY", help="1 to 256 characters.")]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    working = Typer(help="Values by key, of a resource.", rich_markup_mode=None)
    working.command("get")(working_get)
    working.command("set")(working_set)
    working.command("list")(working_list)
    working.command("delete")(working_delete)
    app.add_typer(working, name="working")
    app.command("compact")(compact)


@grouped
def working_get(
    key: Key, caller: Caller, common: Common, place: OnBranch, as_of: options.AsOf = None
) -> None:
    """
    Show the value of a key; null when there is none.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.working.entry(key, as_of=as_of)
    value, index = (None, None) if found is None else (found.value, found.index)
    _show_entry(run, key, value, index)


@grouped
def working_set(
    key: Key,
    value: Annotated[
        str, Argument(metavar="VALUE", help="As JSON: 3, '\"a text\"', '{\"a\": [1]}'.")
    ],
    caller: Caller,
    common: Common,
    place: OnBranch,
) -> None:
    """
    Set a key; the value that it has already stores nothing.

    Right: use.
    """
    run = Invocation(common)
    parsed = json_of("value", value, 'a JSON value; a text stands in quotes, such as "tea"')
    with run.memory(caller, place.branch) as memory:
        entry = memory.working.set(key, parsed)
    _show_entry(run, entry.key, entry.value, entry.index)


@grouped
def working_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    after: Annotated[str | None, Option(metavar="KEY", help="Only keys after it.")] = None,
    limit: Annotated[int, Option(help="How many at most, 1..1000.")] = PAGE,
    as_of: options.AsOf = None,
) -> None:
    """
    List keys and values, in the order of the keys' bytes.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.working.list(after=after, limit=limit, as_of=as_of)
    items = [{"key": key, "value": value} for key, value in found.items()]
    rows = [[item["key"], json_text(item["value"])] for item in items]
    run.output.result(
        {"items": items, "next": found.next},
        lambda page: page.table(["key", "value"], rows) if rows else page.line("No keys."),
    )


@grouped
def working_delete(key: Key, caller: Caller, common: Common, place: OnBranch) -> None:
    """
    Remove a key; history keeps what it had.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        deleted = memory.working.delete(key)
    told = f"deleted {key}" if deleted else f"there was no {key}"
    run.output.result({"key": key, "deleted": deleted}, lambda page: page.line(told))


@grouped
def compact(
    caller: Caller,
    common: Common,
    max_facts: Annotated[
        int | None, Option("--max-facts", metavar="COUNT", help="The oldest beyond it are retired.")
    ] = None,
    max_age: Annotated[
        float | None, Option("--max-age", metavar="DAYS", help="Older ones are retired.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """
    Retire old facts of a resource, as events; nothing is destroyed.

    Right: use.
    """
    from memoriale.adapters.library.resources.ledger_compaction import compact as compacted
    from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
    from memoriale.domain.principal import Principal
    from memoriale.domain.resources.ref import ResourceRef

    run = Invocation(common)
    principal = Principal(**run.principal(caller))
    if principal.resource is None:
        raise InputError(
            "resource is missing; give --resource, or set MEMORIALE_RESOURCE.",
            code="no_owner",
            field="resource",
            allowed="a text",
        )
    ref = ResourceRef(principal.resource, principal.team)
    age = days_of("max_age", max_age)
    with run.ledger() as ledger:
        facts = LedgerSemanticMemory(
            ledger, tenant=principal.tenant, actor=principal.actor, purpose=principal.purpose
        )
        report = compacted(facts, ref, max_facts=max_facts, max_age=age, dry_run=dry_run)
    told = f"looked at {report.checked}, changed {report.changed}, left {len(report.skipped)}"
    run.output.result(as_json(report), lambda page: page.line(told))


def _show_entry(run: Invocation, key: str, value: Any, index: int | None) -> None:
    # As JSON for people too: a value that is null, empty or a text would look like another one.
    shown = {"key": key, "value": json_text(value), "index": index}
    run.output.result({**shown, "value": value}, lambda page: page.fields(shown))
