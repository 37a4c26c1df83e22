"""The access log: who was given what, and who was refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common
from memoriale.adapters.command_line.output import Page

if TYPE_CHECKING:
    from memoriale.adapters.application.access_entries import Access, Person, Told


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command("who-saw")(who_saw)
    app.command("what-was-told")(what_was_told)
    app.command()(accesses)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Which part of the access log."""

    since: Annotated[
        str | None, Option(metavar="TIME", help="Recorded then or later; RFC 3339 with an offset.")
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Recorded then or before.")] = None
    limit: Annotated[int, Option(metavar="N", min=1, help="At most so many entries.")] = 100
    after: Annotated[
        int,
        Option(
            metavar="INDEX",
            min=-1,
            max=options.LAST_INDEX,
            help="Go on after the page that gave this `next`.",
        ),
    ] = -1
    content: Annotated[
        bool, Option("--content", help="Open what people wrote too. Right: content.")
    ] = False

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {
            "since": self.since,
            "until": self.until,
            "after": self.after,
            "limit": self.limit,
            "content": self.content,
        }

    def next(self, places: Sequence[int]) -> int | None:
        """What to go on after: the place of the last entry, if there may be more."""
        return places[-1] if len(set(places)) == self.limit else None


@grouped
def who_saw(
    memory_id: options.MemoryId, part: Part, common: Common, tenant: options.Tenant = None
) -> None:
    """
    Show to whom a memory was given.

    When, in which session and version, for what. Answers are recorded up to a second after they
    were given.

    Right: audit; content for --content.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = list(ledger.access.who_saw(memory_id, tenant=name, **part.given()))
    _print(run, {"memory_id": memory_id}, found, part)


@grouped
def what_was_told(
    session: Annotated[
        str, Argument(metavar="SESSION", help="Its id, or the pseudonym of an erased one.")
    ],
    part: Part,
    common: Common,
    tenant: options.Tenant = None,
) -> None:
    """
    Show the memories that were given in a session, in order.

    Each in the version of then, and whether it was corrected or invalidated since on that branch.
    --limit counts answers.

    Right: audit; content for --content.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = list(ledger.access.what_was_told(session, tenant=name, **part.given()))
    following = part.next([told.access for told in found])
    listed = [told.as_dict() for told in found]
    value = {"session": session, "accesses": listed, "next": following}
    run.output.result(value, lambda page: _show_told(page, found, following))


@grouped
def accesses(
    part: Part,
    common: Common,
    tenant: options.Tenant = None,
    by: Annotated[
        str | None,
        Option(metavar="ID", help="Only by or for this user, agent, session and so on."),
    ] = None,
    denied: Annotated[bool, Option("--denied", help="Only what was refused.")] = False,
) -> None:
    """
    List the access log: answers, refusals, exports, uses of rights.

    Right: audit; content for --content.
    """
    run = Invocation(common)
    name = run.tenant(tenant)
    with run.ledger() as ledger:
        found = list(ledger.access.by(by, tenant=name, denied=denied, **part.given()))
    _print(run, {}, found, part)


def _print(run: Invocation, about: dict[str, Any], found: "list[Access]", part: Part) -> None:
    following = part.next([access.index for access in found])
    listed = [access.as_dict() for access in found]
    value = {**about, "accesses": listed, "next": following}
    run.output.result(value, lambda page: _show(page, found, following))


def _show(page: Page, found: "list[Access]", following: int | None) -> None:
    page.entries((access.index, _what(access), _details(access)) for access in found)
    _end(page, found, following)


def _what(access: "Access") -> str:
    what = access.command or access.event
    if access.memories:
        memories = ", ".join(f"{m.memory_id} as of {m.version}" for m in access.memories)
        what = f"{what} gave {memories}"
    elif "right" in access.details:
        what = f"{what} refused: no right {access.details['right']}"
    elif "rights" in access.details:
        what = f"{what} with {', '.join(access.details['rights'])}"
    return what if access.question is None else f"{what}\n{access.question}"


def _details(access: "Access") -> list[Any]:
    return [
        access.at or access.recorded_at,
        f"by {_name(access.actor)}",
        *(f"as {_name(p)}" for p in (access.user, access.agent) if p not in (None, access.actor)),
        None if access.session is None else f"in {_name(access.session)}",
        access.purpose,
        access.branch,
    ]


def _show_told(page: Page, found: "list[Told]", following: int | None) -> None:
    page.entries(
        (
            told.access,
            f"{told.memory_id} as of {told.version}"
            + ("" if told.content is None else f": {told.content}"),
            [
                told.at,
                f"to {_name(told.actor)}",
                told.command,
                "still current" if told.current else "no longer current",
                None if told.since is None else f"{told.since['event']} at {told.since['index']}",
            ],
        )
        for told in found
    )
    _end(page, found, following)


def _end(page: Page, found: Sequence[object], following: int | None) -> None:
    if not found:
        page.line("Nothing of that is on record.")
    if following is not None:
        page.line(f"more with --after {following}")


def _name(person: "Person | None") -> str:
    if person is None:
        return ""
    return f"{person.type} {person.id or f'(erased) {person.pseudonym}'}"
