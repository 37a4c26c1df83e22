"""Reading memories and the log as they are."""

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.interrupts import told
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch, Patience
from memoriale.adapters.command_line.output import Output, Page

if TYPE_CHECKING:
    from memoriale.adapters.application.presenting import (
        HistoryEntry,
        MemoryPage,
        MemoryRecord,
    )
    from memoriale.adapters.application.stream import LoggedEvent


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (show, history, wait, log):
        app.command()(command)
    app.command("list")(list_memories)


@grouped
def show(
    memory_id: options.MemoryId,
    caller: Caller,
    on: OnBranch,
    common: Common,
    as_of: options.AsOf = None,
    all_owners: options.AllOwners = False,
) -> None:
    """
    Show one memory, current or not.

    Right: use; audit for --all-owners, and content for its text.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        record = memory.show(memory_id, as_of=as_of, all_owners=all_owners)
    run.output.result(record.as_dict(), lambda page: page.fields(_for_people(record)))


@grouped
def history(
    memory_id: options.MemoryId,
    caller: Caller,
    on: OnBranch,
    common: Common,
    as_of: options.AsOf = None,
    all_owners: options.AllOwners = False,
) -> None:
    """
    Show every version of a memory.

    What it said, who changed it, when and why.

    Right: use; audit for --all-owners, and content for its text.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        versions = memory.history(memory_id, as_of=as_of, all_owners=all_owners)
    found = {"memory_id": memory_id, "versions": [version.as_dict() for version in versions]}
    run.output.result(found, lambda page: _show_history(page, versions))


@grouped
def list_memories(
    caller: Caller,
    on: OnBranch,
    patience: Patience,
    common: Common,
    limit: Annotated[int, Option(metavar="N", help="At most so many, 1..1000.")] = 50,
    after: Annotated[
        int,
        Option(
            metavar="INDEX",
            min=-1,
            max=options.LAST_INDEX,
            help="Go on after the page that gave this `next`.",
        ),
    ] = -1,
    kind: options.Kinds = None,
    tag: options.OnlyTags = None,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
) -> None:
    """
    List current memories page by page.

    They come in the order in which they were made.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        found = memory.list(
            limit=limit,
            after=after,
            kinds=kind or (),
            tags=tag or (),
            as_of=as_of,
            valid_at=valid_at,
            wait=patience.wait,
            strict=patience.strict,
        )
    value = {
        "memories": [record.as_dict() for record in found.memories],
        "next": found.next,
        "index": found.index,
        "global_index": found.global_index,
        "pin": found.pin,
        "behind": found.behind,
    }
    run.output.result(value, lambda page: _show_list(page, found))


@grouped
def wait(
    index: Annotated[
        int,
        Argument(
            metavar="INDEX", min=0, max=options.LAST_INDEX, help="Place of an event in the log."
        ),
    ],
    common: Common,
    tenant: options.Tenant = None,
    view: Annotated[str, Option(help="recall or stats.")] = "recall",
    timeout: Annotated[
        float, Option(metavar="SECONDS", min=0, max=3600, help="Give up after this time.")
    ] = 5.0,
) -> None:
    """
    Wait until a view has applied an event.

    Right: use.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        position = ledger.wait(index, view=view, timeout=timeout, tenant=name)
    run.output.result(
        {"view": view, "index": index, "position": position},
        lambda page: page.line(f"view {view} stands at {position}"),
    )


@grouped
def log(
    common: Common,
    tenant: options.Tenant = None,
    after: Annotated[
        int,
        Option(metavar="INDEX", min=-1, max=options.LAST_INDEX, help="Begin after this event."),
    ] = -1,
    limit: Annotated[int | None, Option(metavar="N", min=0, help="At most so many.")] = None,
    follow: Annotated[
        bool, Option("--follow", help="Go on with each event as it is recorded.")
    ] = False,
    content: Annotated[
        bool, Option("--content", help="Open the sealed bodies too. Right: content.")
    ] = False,
) -> None:
    """
    Print the log as it is stored, oldest event first.

    With --json one event a line.

    Right: audit; content for --content.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        if not follow:
            events = ledger.events(tenant=name, after=after, content=content)
            print_log(run.output, islice(events, limit))
            return
        following = ledger.subscribe(tenant=name, after=after, content=content)
        with following, told(following.stop):
            print_log(run.output, islice(following, limit))


def print_log(output: Output, events: "Iterable[LoggedEvent]") -> None:
    """Prints events, each at once, until there are no more or nobody reads them."""
    for event in events:
        output.line(event.as_dict(), partial(_log_line, event))
        if output.closed:
            break


def _log_line(event: "LoggedEvent", page: Page) -> str:
    columns, recorded = event.row.columns, event.row.recorded
    parts = [recorded.index, page.time(recorded.recorded_at), columns.topic, columns.memory_id]
    said = (event.body or {}).get("payload", {}).get("content")
    return "  ".join(page.shown(part) for part in [*parts, said] if part is not None)


def _for_people(record: "MemoryRecord") -> dict[str, Any]:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    owner, about = values["owner"], values["about"]
    values["owner"] = None if owner is None else f"{owner.type} {owner.id}"
    values["about"] = [f"{subject.type} {subject.id}" for subject in about]
    return values


def _show_history(page: Page, versions: "list[HistoryEntry]") -> None:
    page.entries(
        (
            version.index,
            version.event if version.content is None else f"{version.event}: {version.content}",
            [
                version.recorded_at,
                None if version.actor is None else f"by {version.actor.type} {version.actor.id}",
                version.reason or version.reason_code,
                version.branch,
            ],
        )
        for version in versions
    )


def _show_list(page: Page, found: "MemoryPage") -> None:
    page.entries(
        (record.index, record.content, [record.kind, record.changed_at, record.memory_id])
        for record in found.memories
    )
    if not found.memories:
        page.line("No memories.")
    if found.next is not None:
        page.line(f"more with --after {found.next}")
    if found.behind:
        page.line(f"The view is {found.behind} events behind; ask again, or with a longer --wait.")
