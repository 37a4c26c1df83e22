"""``subscribe``: events as they are recorded."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.interrupts import told
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.reading import print_log

if TYPE_CHECKING:
    from memoriale.adapters.application.subscribing import Subscription


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(subscribe)


@grouped
def subscribe(
    caller: Caller,
    on: OnBranch,
    common: Common,
    after: Annotated[
        int,
        Option(metavar="INDEX", min=-1, max=options.LAST_INDEX, help="Begin after this event."),
    ] = -1,
    topic: Annotated[
        list[str] | None,
        Option("--topic", metavar="TOPIC", help="Only this topic. May be repeated."),
    ] = None,
    kind: options.Kinds = None,
    owner: Annotated[
        str | None,
        Option(metavar="TYPE[:ID]", help="Only what owners of this type have, or this owner."),
    ] = None,
    key: Annotated[
        list[str] | None,
        Option("--key", metavar="ID", help="Only events of this memory. May be repeated."),
    ] = None,
    limit: Annotated[
        int | None, Option(metavar="N", min=0, help="End after so many events.")
    ] = None,
    all_owners: Annotated[
        bool,
        Option(
            "--all-owners",
            help="Every event, whoever's; --branch is then one of the tenant. Right: audit.",
        ),
    ] = False,
    content: Annotated[
        bool, Option("--content", help="With --all-owners: open the bodies. Right: content.")
    ] = False,
) -> None:
    """
    Print events that the caller may see, and each one as it is recorded.

    Each line is written at once; with --json it is one event, its body opened. Without a user,
    agent, resource, team or session it is every event, as with --all-owners. When the database
    goes away it waits for it. Ctrl-C ends it, with exit code 130; with --branch it ends by itself
    behind the discard of the branch.

    Right: use; audit for --all-owners, and content for --content.
    """
    run = Invocation(common)
    wanted: dict[str, Any] = {
        "after": after,
        "topics": topic or (),
        "kinds": kind or (),
        "owner": None if owner is None else _owner(owner),
        "keys": key or (),
    }
    whose = run.principal(caller)
    with run.ledger() as ledger:
        everything = all_owners or not any(whose[name] for name in _CALLERS)
        if everything:
            wanted |= {"content": content, "branch": on.branch}
            following = ledger.subscribe(tenant=whose["tenant"], **wanted)
        else:
            following = ledger.memory(**whose, branch=on.branch).subscribe(**wanted)
        _print(run, following, limit)


_CALLERS = ("user", "agent", "resource", "team", "session")


def _owner(given: str) -> "str | tuple[str, str]":
    type_, colon, name = given.partition(":")
    return (type_, name) if colon else type_


def _print(run: Invocation, following: "Subscription", limit: int | None) -> None:
    from itertools import islice

    with following, told(following.stop):
        print_log(run.output, islice(following, limit))
