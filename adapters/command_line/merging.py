"""Ending work on a branch: merge, approve, discard."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option, Typer

from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common
from memoriale.adapters.command_line.output import Output, Page

if TYPE_CHECKING:
    from memoriale.adapters.application.merge_results import MergeResult, MergeSide

Reason = Annotated[str | None, Option(metavar="TEXT", help="Why; kept sealed.")]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (merge, approve, discard):
        app.command()(command)


@grouped
def merge(
    child: Annotated[str, Argument(metavar="CHILD", help="The branch, by its name or id.")],
    caller: Caller,
    common: Common,
    into: Annotated[
        str | None,
        Option(
            "--into",
            "--branch",
            metavar="BRANCH",
            help="A branch that it comes from. Default: the one that it left.",
        ),
    ] = None,
    prefer: Annotated[
        str, Option(help="Who wins where both changed the same: parent, child or none.")
    ] = "none",
    propose: Annotated[
        bool, Option("--propose", help="Ask for it; 'approve' carries it out.")
    ] = False,
    reason: Reason = None,
) -> None:
    """
    Make a branch's changes changes of the one that it left.

    With a conflict and no preference nothing is stored, and the exit code is 1.

    Right: review and use; use alone with --propose; operate for another owner's branch.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        result = memory.merge(child, into=into, prefer=prefer, propose=propose, reason=reason)
    _print(run.output, result)


@grouped
def approve(
    proposal: Annotated[str, Argument(metavar="ID", help="The proposal's id.")],
    caller: Caller,
    common: Common,
    reason: Reason = None,
) -> None:
    """
    Carry out a proposed merge.

    What came since and conflicts is reported; then nothing is stored, and the exit code is 1.

    Right: review and use; operate for another owner's branch.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        result = memory.approve(proposal, reason=reason)
    _print(run.output, result)


@grouped
def discard(
    name: Annotated[str, Argument(metavar="NAME", help="The branch, by its name or id.")],
    caller: Caller,
    common: Common,
    reason: Reason = None,
) -> None:
    """
    End a branch; its history stays.

    It is no longer listed, takes no writes, and its name is not used again.

    Right: use; review for a branch of the whole tenant; operate for another owner's.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        ended = memory.discard(name, reason=reason)
    value = {"branch": ended.name, "id": str(ended.id), "index": ended.discarded}
    run.output.result(
        value, lambda page: page.line(f"discarded {ended.name} at index {ended.discarded}")
    )


def _print(output: Output, result: "MergeResult") -> None:
    output.result(result.as_dict(), lambda page: _show(page, result))
    if result.status == "conflict":
        raise typer.Exit(1)


def _show(page: Page, result: "MergeResult") -> None:
    for conflict in result.conflicts:
        about = "" if conflict.subject is None else f" about {conflict.subject}"
        page.line(f"both sides changed a {conflict.kind}{about}")
        page.entries(_sides(result, conflict.child, conflict.parent))
        if conflict.hidden:
            page.line(f"  {conflict.hidden} more that this caller may not see")
    page.line(_said(result))


def _sides(
    result: "MergeResult", child: "tuple[MergeSide, ...]", parent: "tuple[MergeSide, ...]"
) -> Iterator[tuple[Any, Any, list[Any]]]:
    for branch, sides in ((result.child, child), (result.into, parent)):
        for side in sides:
            by = None if side.actor is None else f"by {side.actor.type} {side.actor.id}"
            details = [branch, side.recorded_at, by, side.reason, side.memory_id]
            yield side.index, side.content or f"({side.status})", details


def _said(result: "MergeResult") -> str:
    places = f"{result.child} into {result.into}"
    if result.status == "conflict":
        return f"nothing was merged of {places}; choose with --prefer parent or --prefer child."
    if result.status == "proposed":
        return f"proposed to merge {places}; approve {result.proposal}"
    if result.status == "unchanged":
        return f"nothing to merge of {places}."
    names = ("added", "corrected", "amended", "invalidated", "reinstated")
    counts = [f"{getattr(result, n)} {n}" for n in names if getattr(result, n)]
    return f"merged {places} at index {result.index}: {', '.join(counts) or 'nothing taken'}"
