"""What happened: the episodes of a resource, in order and as a tree."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.domain.episodes import EpisodicBranch, EpisodicEntry, EpisodicTree

Limit = Annotated[int, Option(help="How many at most, 0..1000: the newest ones.")]
Since = Annotated[
    str | None, Option(metavar="INDEX|TIME", help="Only from this point on; RFC 3339.")
]
Until = Annotated[
    str | None,
    Option("--until", "--as-of", metavar="INDEX|TIME", help="Only up to this point; RFC 3339."),
]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(episodic)
    app.command("episodic-tree")(episodic_tree)


@grouped
def episodic(
    caller: Caller,
    on: OnBranch,
    common: Common,
    limit: Limit = 100,
    after: Annotated[
        int | None, Option(metavar="INDEX", help="The next ones after this index, oldest first.")
    ] = None,
    before: Annotated[
        int | None, Option(metavar="INDEX", help="The newest ones before this index.")
    ] = None,
    lineage: Annotated[
        bool,
        Option("--lineage", help="Those too that the branch inherits from other resources."),
    ] = False,
    since: Since = None,
    until: Until = None,
) -> None:
    """
    Show what happened to a resource and in its sessions.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        found = memory.episodic(
            limit=limit,
            branch="lineage" if lineage else "flat",
            since=since,
            until=until,
            after=after,
            before=before,
        )
    value = {
        "entries": [_as_json(entry) for entry in found],
        "next": found.next,
        "earlier": found.earlier,
        "index": found.index,
    }
    run.output.result(value, lambda page: _show(page, found.entries, found.earlier, found.next))


@grouped
def episodic_tree(
    caller: Caller,
    on: OnBranch,
    common: Common,
    limit: Limit = 100,
    since: Since = None,
    until: Until = None,
) -> None:
    """
    Show the branches that this one comes from and those that come from it.

    Each ancestor up to the point where it was left, with what happened to the resource that each
    branch is for.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        found = memory.episodic_tree(limit=limit, since=since, until=until)
    value = {
        "nodes": [_node_as_json(node) for node in found.nodes],
        "cycles": [list(cycle) for cycle in found.cycles],
        "index": found.index,
    }
    run.output.result(value, lambda page: _show_tree(page, found))


def _as_json(entry: "EpisodicEntry") -> dict[str, Any]:
    from memoriale.adapters.application.presenting import as_json

    found: dict[str, Any] = as_json(entry)
    return found


def _node_as_json(node: "EpisodicBranch") -> dict[str, Any]:
    from memoriale.adapters.application.presenting import as_json

    names = ("id", "name", "resource", "parent", "at", "depth", "more", "readable", "in_cycle")
    return {
        **{name: as_json(getattr(node, name)) for name in names},
        "children": [child.id for child in node.children],
        "entries": [_as_json(entry) for entry in node.entries],
    }


def _show(
    page: Page, entries: "tuple[EpisodicEntry, ...]", earlier: int | None, next_: int | None
) -> None:
    page.entries(_row(entry) for entry in entries)
    if not entries:
        page.line("nothing happened.")
    if earlier is not None:
        page.line(f"older ones: --before {earlier}")
    if next_ is not None:
        page.line(f"later ones: --after {next_}")


def _row(entry: "EpisodicEntry") -> tuple[Any, Any, list[Any]]:
    details = [
        entry.at,
        None if entry.session is None else f"session {entry.session}",
        entry.branch,
        None if entry.actor is None else f"by {entry.actor.type} {entry.actor.id}",
        entry.reason,
        entry.memory_id,
    ]
    text = entry.event if entry.content is None else f"{entry.event}: {entry.content}"
    return entry.index, text, details


def _show_tree(page: Page, found: "EpisodicTree") -> None:
    rows: list[tuple[int, Any, list[Any]]] = []
    for node in found.nodes:
        whose = None if node.resource is None else f"{node.resource.type} {node.resource.id}"
        left = None if node.at is None else f"from index {node.at}"
        rows.append(
            (node.depth, node.name, [whose, left, "older ones left out"][: 3 if node.more else 2])
        )
        for entry in node.entries:
            said = entry.content or entry.kind
            rows.append((node.depth + 1, f"{entry.index} {entry.event}", [said, entry.session]))
    page.tree(rows)
    for cycle in found.cycles:
        page.line(f"a ring of parents: {' → '.join([*cycle, cycle[0]])}")
