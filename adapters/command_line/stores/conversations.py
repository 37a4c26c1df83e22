"""Conversations: sessions and their summaries; what a model is told of memory, and its tools."""

from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import content_of, json_of, one_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.stores.showing import as_json, show_list, show_one
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown
from memoriale.domain.values import canonical_json

if TYPE_CHECKING:
    from memoriale.adapters.application.explaining import Explanation
    from memoriale.domain.chat import ModelProvider
    from memoriale.domain.stores.sessions import Session

SessionId = Annotated[str, Argument(metavar="SESSION", help="Id of a session.")]
FORMATS = ("openai", "anthropic", "mcp")


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    session = Typer(help="Conversations with their history and state.", rich_markup_mode=None)
    session.command("open")(session_open)
    session.command("append")(session_append)
    session.command("show")(session_show)
    session.command("list")(session_list)
    session.command("state")(session_state)
    app.add_typer(session, name="session")
    for command in (summarize, context, tools, explain):
        app.command()(command)


@grouped
def session_open(session_id: SessionId, caller: Caller, common: Common, place: OnBranch) -> None:
    """
    Open a session for the user; one that is open already is shown.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.sessions.get_or_create_session(session_id)
    run.output.result(as_json(found), lambda page: _show_session(page, found))


@grouped
def session_append(
    session_id: SessionId,
    content: Annotated[
        list[str], Argument(metavar="TEXT...", help="One message each; - reads standard input.")
    ],
    caller: Caller,
    common: Common,
    place: OnBranch,
    role: Annotated[
        str, Option(metavar="user|assistant|system|tool", help="Who says it.")
    ] = "user",
    name: Annotated[str | None, Option(help="Who speaks, where there are several.")] = None,
    idempotency_key: Annotated[
        str | None, Option(metavar="KEY", help="Repeating the command with it stores nothing.")
    ] = None,
) -> None:
    """
    Add messages to a session, all of them or none.

    Right: use.
    """
    run = Invocation(common)
    most = run.settings.max_content_bytes
    turns = [{"role": role, "content": content_of(text, most), "name": name} for text in content]
    with run.memory(caller, place.branch) as memory:
        overflow = memory.sessions.append_messages(
            session_id, turns, idempotency_key=idempotency_key
        )
    value = {"appended": len(turns), "overflow": [as_json(turn) for turn in overflow]}
    told = f"added {len(turns)}; {len(overflow)} fell out of the history"
    run.output.result(value, lambda page: page.line(told))


@grouped
def session_show(
    session_id: SessionId,
    caller: Caller,
    common: Common,
    place: OnBranch,
    as_of: options.AsOf = None,
) -> None:
    """
    Show a session with its newest messages and its state.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.sessions.get_session(session_id, as_of=as_of)
    if found is None:
        show_one(run, None, "there is no such session")
        return
    run.output.result(as_json(found), lambda page: _show_session(page, found))


@grouped
def session_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    limit: Annotated[int, Option(metavar="N", help="At most so many, 1..1000.")] = 50,
    before: Annotated[
        int | None,
        Option(metavar="INDEX", min=0, max=options.LAST_INDEX, help="`index` of the last one."),
    ] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    List the sessions that were opened for a user, the last opened first.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.sessions.list_sessions(limit=limit, before=before, as_of=as_of)
    show_list(run, "sessions", found, ["session_id", "created_at", "updated_at", "index"])


@grouped
def session_state(
    session_id: SessionId,
    caller: Caller,
    common: Common,
    place: OnBranch,
    patch: Annotated[
        str | None, Option("--set", metavar="JSON", help="A JSON object; its keys replace those.")
    ] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    Show the state of a session, or change it.

    Right: use.
    """
    run = Invocation(common)
    parsed = json_of("set", patch)
    if patch is not None and as_of is not None:
        raise InputError(
            "the past cannot be changed; take --set or --as-of.",
            code="bad_value",
            field="as_of",
            value=shown(as_of),
        )
    with run.memory(caller, place.branch) as memory:
        if patch is not None:
            state = memory.sessions.update_state(session_id, parsed)
        else:
            found = memory.sessions.get_session(session_id, as_of=as_of)
            if found is None:
                from memoriale.domain.sessions import unknown_session

                raise unknown_session(session_id)
            state = found.state
    run.output.result({"state": state}, lambda page: page.fields(state))


@grouped
def summarize(
    session_id: SessionId,
    caller: Caller,
    common: Common,
    place: OnBranch,
    limit: Annotated[int | None, Option(metavar="N", help="Of the newest N messages.")] = None,
) -> None:
    """
    Add a summary of a session's newest messages and its earlier summaries.

    The language model of MEMORIALE_MODEL writes it; without one it is made of excerpts. While
    nothing was said since, repeating the command stores nothing.

    Right: use.
    """
    run = Invocation(common)
    model = _model(run)
    with run.memory(caller, place.branch) as memory:
        messages = memory.sessions.get_history(session_id, limit)
        said = canonical_json([as_json(message) for message in messages])
        key = sha256(said).hexdigest()
        made = memory.summaries.summarize(
            session_id, messages, model, strict=True, idempotency_key=key
        )
    show_one(run, made, "nothing was said")


@grouped
def context(
    query: Annotated[str, Argument(metavar="QUERY", help="What is asked.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    max_tokens: Annotated[int | None, Option(metavar="N", help="Of the whole text.")] = None,
    priority: Annotated[
        list[str] | None,
        Option("--priority", metavar="SECTION=WEIGHT", help="0 leaves one out. May be repeated."),
    ] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    Print what a language model is to know for a question, as one block of data.

    Right: use.
    """
    run = Invocation(common)
    weights = dict(_weight(text) for text in priority or ())
    with run.memory(caller, place.branch) as memory:
        found = memory.context(query, max_tokens=max_tokens, priorities=weights, as_of=as_of)
    value = {
        "text": found.text,
        "ids": [str(memory_id) for memory_id in dict.fromkeys(i for i, _ in found.memories)],
        "tokens": found.tokens,
        "left_out": dict(found.left_out),
    }
    run.output.result(value, lambda page: page.line(found.text or "nothing is known"))


@grouped
def tools(
    caller: Caller,
    common: Common,
    place: OnBranch,
    format: Annotated[
        str, Option("--format", metavar="openai|anthropic|mcp", help="Of whose interface.")
    ] = "openai",
) -> None:
    """
    Print the tools that a language model may call, in the format of its provider.

    Right: use.
    """
    run = Invocation(common)
    one_of("format", format, FORMATS)
    with run.memory(caller, place.branch) as memory:
        found = memory.get_tools()
    rows = [[tool.name, tool.description] for tool in found]
    run.output.result(
        {"tools": [getattr(tool, f"as_{format}")() for tool in found]},
        lambda page: page.table(["name", "description"], rows),
    )


@grouped
def explain(
    memory_id: options.MemoryId,
    caller: Caller,
    on: OnBranch,
    common: Common,
    as_of: options.AsOf = None,
    all_owners: options.AllOwners = False,
) -> None:
    """
    Show where a memory comes from.

    Who said it, on what it rests, which model and prompt made it, what it replaced, what replaced
    it and what it was made from, and in which appends.

    Right: use; audit for --all-owners, and content for its text.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        found = memory.explain(memory_id, as_of=as_of, all_owners=all_owners)
    run.output.result(found.as_dict(), lambda page: _show_explanation(page, found))


def _model(run: Invocation) -> "ModelProvider | None":
    from memoriale.adapters.language_models.factory import NONE, make_model

    settings = run.settings
    none = settings.model == NONE
    return None if none else make_model(settings.model, settings.openai_endpoint)


def _weight(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    try:
        return name, float(weight)
    except ValueError:
        raise InputError(
            f"priority is {shown(text)!r}; give SECTION=WEIGHT, such as graph=0.",
            code="bad_value",
            field="priority",
            value=shown(text),
            allowed="SECTION=WEIGHT",
        ) from None


def _show_session(page: Page, session: "Session") -> None:
    value: dict[str, Any] = session.model_dump(exclude={"messages"})
    page.fields(value)
    rows = [[turn.name or turn.role, turn.text()] for turn in session.messages]
    page.table(["who", "said"], rows)


def _show_explanation(page: Page, found: "Explanation") -> None:
    value = found.as_dict()
    for name in ("versions", "superseded"):
        value.pop(name)
    value["owner"] = None if found.owner is None else f"{found.owner.type} {found.owner.id}"
    page.fields(value)
    page.table(
        ["replaced", "because", "at"],
        [[str(one.memory_id), one.reason_code, one.index] for one in found.superseded],
    )
    page.entries(
        (
            version.index,
            version.event,
            [
                version.recorded_at,
                None if version.actor is None else f"by {version.actor.type} {version.actor.id}",
                version.model,
                version.reason or version.reason_code,
                version.branch,
            ],
        )
        for version in found.versions
    )
