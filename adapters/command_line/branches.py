"""Branches of the log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from typer import Argument, Option, Typer

from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.domain.branches import Branch


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(fork)
    app.command()(branches)


@grouped
def fork(
    name: Annotated[str, Argument(metavar="NAME", help="Never used by the owner before.")],
    caller: Caller,
    common: Common,
    parent: Annotated[
        str, Option("--from", "--branch", metavar="BRANCH", help="Leave from this branch.")
    ] = "main",
    at: Annotated[
        str | None,
        Option(metavar="INDEX|TIME", help="Point that the branch begins from. Default: now."),
    ] = None,
    reason: Annotated[str | None, Option(metavar="TEXT", help="Why; kept sealed.")] = None,
) -> None:
    """
    Make a branch, which copies nothing.

    Right: use; review for a branch of the whole tenant.
    """
    run = Invocation(common)
    with run.memory(caller, parent) as memory:
        memory.fork(name, at=at, reason=reason)
        known = memory.branches()
    made = max((b for b in known if b.name == name), key=lambda branch: branch.index)
    value = _as_json(made, known)
    line = f"forked {name} from {value['parent']} at index {made.at}"
    run.output.result(value, lambda page: page.line(line))


@grouped
def branches(caller: Caller, common: Common) -> None:
    """
    List the branches that the caller may use.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        known = memory.branches()
    value = {"branches": [_as_json(branch, known) for branch in known]}
    run.output.result(value, lambda page: _show(page, value["branches"]))


def _as_json(branch: "Branch", known: "Sequence[Branch]") -> dict[str, Any]:
    names = {other.id: other.name for other in known}
    forked = branch.parent is not None
    return {
        "branch": branch.name,
        "id": str(branch.id),
        "parent": _name(branch.parent, names),
        "at": branch.at if forked else None,
        "index": branch.index if forked else None,
        "owner_type": branch.owner_type,
        "recorded_at": None if branch.recorded_at is None else branch.recorded_at.isoformat(),
    }


def _name(branch: UUID | None, names: dict[UUID, str | None]) -> str | None:
    return None if branch is None else names.get(branch) or str(branch)


def _show(page: Page, found: list[dict[str, Any]]) -> None:
    rows = ([b["branch"], b["parent"], b["at"], b["owner_type"], b["id"]] for b in found)
    page.table(["branch", "parent", "at", "owner", "id"], rows)
