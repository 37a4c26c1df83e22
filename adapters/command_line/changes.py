"""Changing one memory."""

from typing import Annotated, Any, Final

from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import content_of, metadata_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Because, Caller, Common, OnBranch, Times
from memoriale.adapters.command_line.receipts import print_receipt
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

# What an amendment puts in place of a field that is cleared.
_CLEARED: Final[dict[str, Any]] = {
    "importance": None,
    "tags": (),
    "metadata": None,
    "valid_from": None,
    "valid_until": None,
    "expires_at": None,
}


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    for command in (correct, amend, invalidate, reinstate):
        app.command()(command)


@grouped
def correct(
    memory_id: options.MemoryId,
    text: options.Content,
    because: Because,
    caller: Caller,
    on: OnBranch,
    common: Common,
) -> None:
    """
    Replace a memory's content; the old one stays in its history.

    Right: use; review for a memory that is not the caller's own.
    """
    run = Invocation(common)
    content = content_of(text, run.settings.max_content_bytes)
    with run.memory(caller, on.branch) as memory:
        receipt = memory.correct(memory_id, content, **because.given())
    print_receipt(run.output, receipt, "corrected")


@grouped
def amend(
    memory_id: options.MemoryId,
    when: Times,
    because: Because,
    caller: Caller,
    on: OnBranch,
    common: Common,
    importance: options.Importance = None,
    tag: options.Tags = None,
    metadata: options.Metadata = None,
    clear: Annotated[
        list[str] | None,
        Option(metavar="FIELD", help=f"{', '.join(_CLEARED)}. May be repeated."),
    ] = None,
) -> None:
    """
    Change what is known about a memory, but not its content.

    Right: use; review for a memory that is not the caller's own.
    """
    run = Invocation(common)
    values = {
        **when.given(),
        "importance": importance,
        "tags": tag or None,
        "metadata": metadata_of(metadata),
    }
    changes = {name: value for name, value in values.items() if value is not None}
    cleared = _cleared(clear or [], changes)
    with run.memory(caller, on.branch) as memory:
        receipt = memory.amend(memory_id, **changes, **cleared, **because.given())
    print_receipt(run.output, receipt, "amended")


@grouped
def invalidate(
    memory_id: options.MemoryId,
    why: Because,
    caller: Caller,
    on: OnBranch,
    common: Common,
    because: Annotated[
        str,
        Option(
            metavar="CODE",
            help="forgotten, contradicted, expired, retracted, pruned, compacted, consolidated "
            "or superseded; kept in clear.",
        ),
    ] = "forgotten",
) -> None:
    """
    Make a memory no longer current: it is not recalled any more.

    Right: use; review for a memory that is not the caller's own.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        receipt = memory.invalidate(memory_id, because=because, **why.given())
    print_receipt(run.output, receipt, "invalidated")


@grouped
def reinstate(
    memory_id: options.MemoryId,
    because: Because,
    caller: Caller,
    on: OnBranch,
    common: Common,
) -> None:
    """
    Make an invalidated memory current again.

    Right: use; review for a memory that is not the caller's own.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        receipt = memory.reinstate(memory_id, **because.given())
    print_receipt(run.output, receipt, "reinstated")


def _cleared(names: list[str], changes: dict[str, Any]) -> dict[str, Any]:
    for name in names:
        if name not in _CLEARED or name in changes:
            given = " and given a value as well" if name in changes else ""
            raise InputError(
                f"clear is {shown(name)!r}{given}; allowed are {', '.join(_CLEARED)}, each either "
                "cleared or given.",
                code="bad_value",
                field="clear",
                value=shown(name),
                allowed=list(_CLEARED),
            )
    return {name: _CLEARED[name] for name in names}
