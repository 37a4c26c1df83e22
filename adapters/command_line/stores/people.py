"""What is known about users: facts, profiles, and the small notebooks."""

from typing import Annotated, Any

from typer import Argument, Exit, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import json_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.stores.showing import as_json, show_list, show_one

Target = Annotated[str, Option("--target", metavar="memory|user", help="Which notebook.")]
OldText = Annotated[str, Argument(metavar="OLD", help="Part of exactly one entry.")]
Entry = Annotated[str, Argument(metavar="TEXT", help="The entry.")]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    facts = Typer(help="Facts of a user.", rich_markup_mode=None)
    facts.command("list")(facts_list)
    facts.command("add")(facts_add)
    facts.command("forget")(facts_forget)
    app.add_typer(facts, name="facts")
    profile = Typer(help="The profile of a user.", rich_markup_mode=None)
    profile.command("show")(profile_show)
    profile.command("set")(profile_set)
    profile.command("clear")(profile_clear)
    app.add_typer(profile, name="profile")
    file = Typer(help="Small notebooks: an agent's memory, and one about a user.")
    for name, command in (
        ("show", file_show),
        ("add", file_add),
        ("replace", file_replace),
        ("remove", file_remove),
    ):
        file.command(name)(command)
    app.add_typer(file, name="file")


@grouped
def facts_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    as_of: options.AsOf = None,
    every: Annotated[bool, Option("--all", help="Also those that are no longer current.")] = False,
) -> None:
    """
    List the facts of a user.

    Right: use.
    """
    from memoriale.adapters.library.stores.facts import UserFacts

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        store = UserFacts(memory)
        found = store.get_facts(as_of=as_of) if every else store.get_active_facts(as_of=as_of)
    columns = ["id", "fact", "subject", "importance", "source", "invalidation_reason"]
    show_list(run, "facts", found, columns)


@grouped
def facts_add(
    fact: Annotated[str, Argument(metavar="TEXT", help="The fact.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    subject: Annotated[str | None, Option(help="What it is about; it replaces that fact.")] = None,
    importance: options.Importance = None,
    topic: Annotated[list[str] | None, Option("--topic", help="May be repeated.")] = None,
    supersedes: Annotated[str | None, Option(help="Text of the fact that it replaces.")] = None,
) -> None:
    """
    Add a fact; what it replaces ends as superseded.

    Right: use.
    """
    from memoriale.adapters.library.stores.facts import UserFacts

    run = Invocation(common)
    given: dict[str, Any] = {"fact": fact, "subject": subject, "topics": topic or []}
    given |= {"importance": importance, "supersedes": supersedes}
    with run.memory(caller, place.branch) as memory:
        made = UserFacts(memory).add_facts(facts=[given])
    value = {"ids": [str(memory_id) for memory_id in made]}
    told = f"added {value['ids'][0]}" if made else "known already; nothing changed"
    run.output.result(value, lambda page: page.line(told))


@grouped
def facts_forget(
    text: Annotated[list[str], Argument(metavar="TEXT...", help="Texts of the facts.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
) -> None:
    """
    Forget facts by their text: they are not shown and not learnt again. History keeps them.

    Right: use.
    """
    from memoriale.adapters.library.stores.facts import UserFacts

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        count = UserFacts(memory).forget_by_text(fact_texts=text)
    run.output.result({"forgotten": count}, lambda page: page.line(f"forgot {count}"))


@grouped
def profile_show(
    caller: Caller, common: Common, place: OnBranch, as_of: options.AsOf = None
) -> None:
    """
    Show the profile of a user.

    Right: use.
    """
    from memoriale.adapters.library.stores.profile import UserProfile

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = UserProfile(memory).get_profile(as_of=as_of)
    show_one(run, found, "nothing is known about the user")


@grouped
def profile_set(
    patch: Annotated[
        str,
        Argument(metavar="JSON", help='What changes, such as {"role": "nurse"}; null clears.'),
    ],
    caller: Caller,
    common: Common,
    place: OnBranch,
) -> None:
    """
    Change fields of the profile of a user.

    Right: use.
    """
    from memoriale.adapters.library.stores.profile import UserProfile

    run = Invocation(common)
    parsed = json_of("patch", patch)
    with run.memory(caller, place.branch) as memory:
        found = UserProfile(memory).update_profile(patch=parsed)
    show_one(run, found, "nothing is known about the user")


@grouped
def profile_clear(caller: Caller, common: Common, place: OnBranch) -> None:
    """
    End every field of the profile; history keeps them.

    Right: use.
    """
    from memoriale.adapters.library.stores.profile import UserProfile

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        count = UserProfile(memory).clear()
    run.output.result({"cleared": count}, lambda page: page.line(f"cleared {count} fields"))


@grouped
def file_show(
    caller: Caller,
    common: Common,
    place: OnBranch,
    target: Target = "memory",
    as_of: options.AsOf = None,
) -> None:
    """
    Show the entries of a notebook.

    Right: use.
    """
    from memoriale.adapters.library.stores.files import FileMemory

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        entries = FileMemory(memory).get_entries(target, as_of=as_of)
    value = {"target": target, "entries": entries}
    run.output.result(value, lambda page: page.table(["entry"], [[entry] for entry in entries]))


@grouped
def file_add(
    content: Entry, caller: Caller, common: Common, place: OnBranch, target: Target = "memory"
) -> None:
    """
    Add an entry to a notebook. Exit code 2 when it does not fit; the answer tells what is there.

    Right: use.
    """
    _change_file(common, caller, place, "add", target, None, content)


@grouped
def file_replace(
    old_text: OldText,
    content: Entry,
    caller: Caller,
    common: Common,
    place: OnBranch,
    target: Target = "memory",
) -> None:
    """
    Replace the one entry that contains a text.

    Right: use.
    """
    _change_file(common, caller, place, "replace", target, None, old_text, content)


@grouped
def file_remove(
    old_text: OldText, caller: Caller, common: Common, place: OnBranch, target: Target = "memory"
) -> None:
    """
    Remove the one entry that contains a text; history keeps it.

    Right: use.
    """
    _change_file(common, caller, place, "remove", target, None, old_text)


def _change_file(
    common: Common, caller: Caller, place: OnBranch, method: str, *arguments: str | None
) -> None:
    from memoriale.adapters.library.stores.files import FileMemory

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        reply = getattr(FileMemory(memory), method)(*arguments)
    value = as_json(reply)
    run.output.result(value, lambda page: page.line(reply.error or "done"))
    if not reply.ok:
        raise Exit(2)
