"""The commands of resources' memory, run as users run them."""

import pytest

from tests.fixtures.cli import CommandLine


@pytest.fixture
def bot(cli: CommandLine, request: pytest.FixtureRequest) -> CommandLine:
    """A resource of a team, in a tenant of the test's own."""
    tenant = request.node.originalname.replace("test_", "")[:40]
    variables = {
        "MEMORIALE_TENANT": tenant,
        "MEMORIALE_RESOURCE": "bot",
        "MEMORIALE_TEAM": "blue",
    }
    return cli.under(variables)


def test_working_memory(bot: CommandLine) -> None:
    """A key is set, read, listed page by page, read as of a point, and deleted."""
    made = bot("working", "set", "plan", '{"steps": [1, 2]}', "--json").json()
    assert (made["key"], made["value"]) == ("plan", {"steps": [1, 2]})
    again = bot("working", "set", "plan", '{"steps": [1, 2]}', "--json").json()
    assert again["index"] == made["index"]
    bot("working", "set", "note", '"tea"', "--json").json()
    bot("working", "set", "__session", "1", "--json").json()
    assert bot("working", "get", "plan", "--json").json() == made
    first = bot("working", "list", "--limit", "1", "--json").json()
    assert first == {"items": [{"key": "note", "value": "tea"}], "next": "note"}
    rest = bot("working", "list", "--after", first["next"], "--json").json()
    assert rest == {"items": [{"key": "plan", "value": {"steps": [1, 2]}}], "next": None}
    assert bot("working", "delete", "plan", "--json").json() == {"key": "plan", "deleted": True}
    assert bot("working", "delete", "plan", "--json").json() == {"key": "plan", "deleted": False}
    gone = {"key": "plan", "value": None, "index": None}
    assert bot("working", "get", "plan", "--json").json() == gone
    then = bot("working", "get", "plan", "--as-of", str(made["index"]), "--json").json()
    assert then == made
    assert b"tea" in bot("working", "list").out


@pytest.mark.parametrize("value", ["null", '""', "[]", "false", '"null"'])
def test_people_tell_an_empty_value_from_a_missing_one(bot: CommandLine, value: str) -> None:
    """`working set` and `get` show every value as JSON, also one that is null or empty; a key
    that is not there has no index."""
    for shown in (bot("working", "set", "x", value), bot("working", "get", "x")):
        lines = [line.split() for line in shown.out.decode().splitlines()]
        assert lines[:2] == [["key", "x"], ["value", value]]
        assert [line[0] for line in lines[2:]] == ["index"]
    missing = bot("working", "get", "y").out.decode()
    assert [line.split() for line in missing.splitlines()] == [["key", "y"], ["value", "null"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("working", "list"), "No keys.\n"),
        (("jobs", "list"), "No jobs.\n"),
        (("jobs", "run"), "No job was due.\n"),
        (("facts", "list", "--user", "u"), "No facts.\n"),
    ],
)
def test_nothing_is_said_in_words(bot: CommandLine, words: tuple[str, ...], said: str) -> None:
    """An empty list is a sentence for people, not headings over nothing."""
    run = bot(*words)
    assert (run.code, run.out.decode()) == (0, said)


def test_lists_show_values_as_json(bot: CommandLine) -> None:
    """The table of a list shows each value as it is given to ``set``."""
    for key, value in (("plan", '{"done": true, "left": null}'), ("note", '"tea"')):
        bot("working", "set", key, value, "--json").json()
        assert value.encode() in bot("working", "list").out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("working", "set", "", "1"), "key"),
        (("working", "set", "k", "NaN"), "value"),
        (("working", "set", "k", "tea"), "value"),
        (("working", "list", "--limit", "1001"), "limit"),
        (("compact", "--max-facts", "-1"), "max_facts"),
        (("compact", "--max-age", "nan"), "max_age"),
        (("compact", "--resource", ""), "resource"),
    ],
    ids=str,
)
def test_wrong_arguments(bot: CommandLine, arguments: tuple[str, ...], field: str) -> None:
    """What cannot be kept or done ends with code 2 and names the field."""
    run = bot(*arguments, "--json")
    assert run.code == 2
    assert run.error()["field"] == field


def test_compaction(bot: CommandLine) -> None:
    """The oldest facts beyond a number are retired; a dry run only says so, and without a limit
    nothing goes."""
    for n in range(4):
        bot.remember(f"fact {n}", "--kind", "semantic")
    report = {"checked": 4, "changed": 3, "skipped": []}
    assert bot("compact", "--json").json() == {**report, "changed": 0}
    assert bot("compact", "--max-facts", "1", "--dry-run", "--json").json() == report
    assert bot("compact", "--max-facts", "1", "--json").json() == report
    assert bot("compact", "--max-age", "1", "--json").json() == {
        **report,
        "checked": 1,
        "changed": 0,
    }
    (left,) = bot("list", "--kind", "semantic", "--json").json()["memories"]
    assert left["content"] == "fact 3"
