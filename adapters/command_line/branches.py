"""Branches of the log."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.memories import answer_as_json
from memoriale.adapters.command_line.options import Caller, Common
from memoriale.adapters.command_line.output import Page
from memoriale.domain.errors import UnavailableError
from memoriale.domain.text import shown

if TYPE_CHECKING:
    from memoriale.adapters.application.comparing import (
        BranchDiff,
        BranchNode,
        DiffEntry,
        QuestionDiff,
    )
    from memoriale.adapters.application.recalling import Recall
    from memoriale.domain.branches import Branch


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (fork, branches, tree, diff):
        app.command()(command)


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
def branches(
    caller: Caller,
    common: Common,
    discarded: Annotated[bool, Option("--discarded", help="Those that were ended too.")] = False,
) -> None:
    """
    List the branches that the caller may use.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        known = memory.branches(discarded=discarded)
    value = {"branches": [_as_json(branch, known) for branch in known]}
    run.output.result(value, lambda page: _show(page, value["branches"]))


@grouped
def tree(
    caller: Caller,
    common: Common,
    svg: Annotated[
        str | None, Option("--svg", metavar="FILE", help="Draw the tree into this file too.")
    ] = None,
) -> None:
    """
    Show the branches that the caller may use as a tree.

    Each with the point that it left its parent from and the number of its own events, of
    memories that the caller may see.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        nodes = memory.tree()
    if svg is not None:
        _draw(svg, nodes)
    value = {"nodes": [node.as_dict() for node in nodes], "svg": svg}
    run.output.result(value, lambda page: _show_tree(page, nodes))


@grouped
def diff(
    a: Annotated[str, Argument(metavar="A", help="The branch to compare with.")],
    b: Annotated[str, Argument(metavar="B", help="The branch whose changes to list.")],
    caller: Caller,
    common: Common,
    question: Annotated[
        list[str] | None,
        Option(metavar="TEXT", help="Compare both branches' answers too. May be repeated."),
    ] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    Show what one branch changed since it and another parted.

    Folded from the log, for what the caller may see.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller) as memory:
        found = memory.diff(a, b, questions=question or (), as_of=as_of)
        names = {branch.id: branch.name or str(branch.id) for branch in memory.branches()}
    run.output.result(_diff_as_json(found, names), lambda page: _show_diff(page, found))


def _draw(path: str, nodes: "list[BranchNode]") -> None:
    from memoriale.adapters.drawing.branch_tree import svg

    try:
        Path(path).write_text(svg(nodes), encoding="utf-8")
    except OSError as error:
        raise UnavailableError(
            f"{shown(path)} cannot be written: {error.strerror}; name another file.",
            code="unwritable",
            field="svg",
            value=shown(path),
        ) from None


def _show_tree(page: Page, nodes: "list[BranchNode]") -> None:
    page.tree(
        (
            node.depth,
            node.branch,
            [
                None if node.at is None else f"from index {node.at}",
                node.recorded_at,
                "1 event" if node.events == 1 else f"{node.events} events",
            ],
        )
        for node in nodes
    )


def _diff_as_json(found: "BranchDiff", names: dict[UUID, str]) -> dict[str, Any]:
    from memoriale.adapters.application.presenting import as_json

    lists = {name: as_json(entries) for name, entries in found.entries.items()}
    places = {"a": found.a, "b": found.b, "base": found.base, "base_index": found.base_index}
    questions = [_question_as_json(question, names) for question in found.questions]
    return {**places, "index": found.index, **lists, "questions": questions}


def _question_as_json(question: "QuestionDiff", names: dict[UUID, str]) -> dict[str, Any]:
    from memoriale.adapters.application.presenting import as_json

    return {
        "question": question.question,
        "only_a": as_json(question.only_a),
        "only_b": as_json(question.only_b),
        "changed": as_json(question.changed),
        "a": answer_as_json(question.hits_a, names),
        "b": answer_as_json(question.hits_b, names),
    }


def _show_diff(page: Page, found: "BranchDiff") -> None:
    for name, entries in found.entries.items():
        if entries:
            page.line(f"{name} on {found.b}")
            page.entries(_diff_row(entry) for entry in entries)
    if not any(found.entries.values()):
        page.line(f"{found.b} changed nothing since index {found.base_index} of {found.base}.")
    for question in found.questions:
        page.line(f"{question.question}")
        _show_answers(page, found.a, question.hits_a, question.only_a)
        _show_answers(page, found.b, question.hits_b, question.only_b)
    page.line(f"as of index {found.index}; parted at index {found.base_index} of {found.base}")


def _diff_row(entry: "DiffEntry") -> tuple[Any, Any, list[Any]]:
    changed = entry.before is not None and entry.after is not None and entry.before != entry.after
    text = f"{entry.before}\n→ {entry.after}" if changed else entry.after or entry.before
    details = [
        entry.recorded_at,
        None if entry.actor is None else f"by {entry.actor.type} {entry.actor.id}",
        entry.reason or entry.reason_code,
        ", ".join(entry.changed) or None,
        "also changed on the other branch" if entry.also_changed else None,
        entry.memory_id,
    ]
    return entry.index, text, details


def _show_answers(page: Page, branch: str, hits: "Recall", only: tuple[UUID, ...]) -> None:
    page.entries(
        (
            f"  {hit.score:.2f}",
            hit.content,
            [branch, "only here" if hit.memory_id in only else None, hit.memory_id],
        )
        for hit in hits
    )
    if not hits:
        page.line(f"  {branch}: nothing answers that.")


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
        "discarded": branch.discarded,
        "proposals": [str(p.id) for p in branch.proposals if not p.approved],
    }


def _name(branch: UUID | None, names: dict[UUID, str | None]) -> str | None:
    return None if branch is None else names.get(branch) or str(branch)


def _show(page: Page, found: list[dict[str, Any]]) -> None:
    names = ["branch", "parent", "at", "owner_type", "discarded", "id"]
    rows = ([branch[name] for name in names] for branch in found)
    page.table(["branch", "parent", "at", "owner", "discarded at", "id"], rows)
    for branch in found:
        for proposal in branch["proposals"]:
            page.line(f"a merge of {branch['branch']} waits: approve {proposal}")
