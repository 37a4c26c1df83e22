"""The commands that compare branches, as users run them."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.fixtures.cli import CommandLine

USER = ("--tenant", "branches", "--user", "alice")


@pytest.fixture(scope="module")
def told(cli: CommandLine) -> dict[str, str]:
    """A branch on which one memory of each kind of change stands; the ids by name."""
    ids = {}
    for name in ("wrong", "stale", "plain"):
        ids[name] = cli("remember", f"tea is {name}", *USER, "--json").json()["memory_id"]
    assert cli("fork", "what-if", *USER).code == 0
    on = (*USER, "--branch", "what-if")
    assert cli("correct", ids["wrong"], "tea is right", "--reason", "tasted", *on).code == 0
    assert cli("invalidate", ids["stale"], "--reason", "old [b]news[/b]", *on).code == 0
    assert cli("amend", ids["plain"], "--importance", "0.9", *on).code == 0
    ids["new"] = cli("remember", "tea is new", *on, "--json").json()["memory_id"]
    return ids


def test_diff_prints_what_a_branch_changed(cli: CommandLine, told: dict[str, str]) -> None:
    """The JSON has the lists of the contract, each entry with what stood before and after, the
    index, the actor and the reason."""
    found = cli("diff", "main", "what-if", *USER, "--json").json()
    assert (found["a"], found["b"], found["base"], found["base_index"]) == (
        *("main", "what-if", "main"),
        2,
    )
    lists = ("added", "corrected", "invalidated", "amended", "reinstated")
    assert [[entry["memory_id"] for entry in found[name]] for name in lists] == [
        [told["new"]],
        [told["wrong"]],
        [told["stale"]],
        [told["plain"]],
        [],
    ]
    (corrected,) = found["corrected"]
    assert (corrected["before"], corrected["after"]) == ("tea is wrong", "tea is right")
    assert corrected["actor"] == {"type": "user", "id": "alice"}
    assert (corrected["reason"], corrected["index"]) == ("tasted", 4)
    assert found["questions"] == []


def test_diff_compares_answers(cli: CommandLine, told: dict[str, str]) -> None:
    """Each question comes with both answers and with what one alone finds."""
    asked = ("--question", "what is tea?", "--question", "is tea right?")
    found = cli("diff", "main", "what-if", *USER, *asked, "--json").json()
    assert [q["question"] for q in found["questions"]] == ["what is tea?", "is tea right?"]
    first = found["questions"][0]
    assert (first["only_a"], first["only_b"]) == ([told["stale"]], [told["new"]])
    assert told["wrong"] in first["changed"]
    assert {hit["branch"] for hit in first["b"]["hits"]} == {"what-if"}


def test_diff_reads_well_for_people(cli: CommandLine, told: dict[str, str]) -> None:
    """Plain output shows the text before and after and the reason as it was written."""
    run = cli("diff", "main", "what-if", *USER, "--question", "what is tea?")
    text = run.out.decode()
    assert run.code == 0
    for part in ("tea is wrong", "→ tea is right", "tasted", "old [b]news[/b]", "only here"):
        assert part in text
    nothing = cli("diff", "what-if", "main", *USER).out.decode()
    assert "main changed nothing since index 2 of main" in nothing


def test_diff_as_of_an_index_and_bad_input(cli: CommandLine, told: dict[str, str]) -> None:
    """An as-of ends the comparison there; unknown branches and points have exit code 2."""
    then = cli("diff", "main", "what-if", *USER, "--as-of", "4", "--json").json()
    assert [len(then[name]) for name in ("corrected", "invalidated", "added")] == [1, 0, 0]
    for arguments, field in (
        (("main", "nowhere"), "branch"),
        (("main", "what-if", "--as-of", "99999"), "as_of"),
        (("main", "what-if", "--question", " "), "query"),
    ):
        run = cli("diff", *arguments, *USER, "--json")
        assert (run.code, run.error()["field"]) == (2, field)


def test_tree_prints_and_draws(cli: CommandLine, told: dict[str, str], tmp_path: Path) -> None:
    """The JSON has one node for each branch; the file holds a drawing of the same."""
    assert cli("fork", "deeper & <b>", "--from", "what-if", *USER).code == 0
    file = tmp_path / "tree.svg"
    nodes = cli("tree", *USER, "--svg", str(file), "--json").json()["nodes"]
    assert [(n["branch"], n["parent"], n["depth"], n["events"]) for n in nodes] == [
        ("main", None, 0, 3),
        ("what-if", "main", 1, 4),
        ("deeper & <b>", "what-if", 2, 0),
    ]
    titles = ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}title")
    assert [title.text for title in titles] == ["Branches", *(n["branch"] for n in nodes)]
    text = cli("tree", *USER).out.decode()
    assert "└── what-if  from index 2" in text
    assert "deeper & <b>" in text


def test_a_drawing_that_cannot_be_written_is_code_5(cli: CommandLine, tmp_path: Path) -> None:
    """The error names the file and says what to do."""
    run = cli("tree", *USER, "--svg", str(tmp_path / "none" / "tree.svg"), "--json")
    assert (run.code, run.error()["field"]) == (5, "svg")
