"""Episodes and their tree, as users run them."""

import pytest

from tests.fixtures.cli import CommandLine

RESOURCE = ("--tenant", "episodes", "--resource", "crawler")


@pytest.fixture(scope="module")
def told(cli: CommandLine) -> list[int]:
    """Three notes of a resource, a fork, and one more on the branch; their indices."""
    found = [cli("remember", f"note {n}", *RESOURCE, "--json").json()["index"] for n in range(3)]
    cli("fork", "side", *RESOURCE)
    on = (*RESOURCE, "--branch", "side")
    return [*found, cli("remember", "on side", *on, "--json").json()["index"]]


def test_entries_are_printed_oldest_first(cli: CommandLine, told: list[int]) -> None:
    """The newest by limit, with cursors in both directions."""
    found = cli("episodic", "--limit", "2", *RESOURCE, "--json").json()
    assert [e["content"] for e in found["entries"]] == ["note 1", "note 2"]
    first = found["entries"][0]
    assert (first["index"], first["event"], first["branch"]) == (
        *(told[1], "memory.remembered", "main"),
    )
    assert {"at", "session"} <= first.keys()
    assert (found["earlier"], found["next"]) == (told[1], None)
    earlier = ("--before", str(found["earlier"]))
    assert [
        e["content"] for e in cli("episodic", *earlier, *RESOURCE, "--json").json()["entries"]
    ] == ["note 0"]
    after = cli("episodic", "--after", str(told[0]), "--limit", "1", *RESOURCE, "--json").json()
    assert ([e["content"] for e in after["entries"]], after["next"]) == (["note 1"], told[1])


def test_a_span_and_a_lineage_are_options(cli: CommandLine, told: list[int]) -> None:
    """``--since`` and ``--until`` take indices; ``--lineage`` is read on a branch."""
    span = ("--since", str(told[1]), "--until", str(told[1]))
    found = cli("episodic", *span, *RESOURCE, "--json").json()
    assert [e["content"] for e in found["entries"]] == ["note 1"]
    then = cli("episodic", "--as-of", str(told[0]), *RESOURCE, "--json").json()
    assert ([e["content"] for e in then["entries"]], then["index"]) == (["note 0"], told[0])
    on = ("--lineage", "--branch", "side")
    entries = cli("episodic", *on, *RESOURCE, "--json").json()["entries"]
    assert entries[-1]["content"] == "on side"
    text = cli("episodic", *RESOURCE).out.decode()
    assert "memory.remembered: note 2" in text
    nobody = cli("episodic", "--tenant", "episodes", "--json")
    assert (nobody.code, nobody.error()["field"]) == (2, "resource")


def test_the_tree_is_drawn(cli: CommandLine, told: list[int]) -> None:
    """Nodes with parents and entries in JSON; a drawing for people."""
    found = cli("episodic-tree", *RESOURCE, "--json").json()
    main, side = found["nodes"]
    assert (main["name"], side["name"], side["parent"]) == ("main", "side", main["id"])
    assert (side["at"], side["depth"], found["cycles"]) == (told[2], 1, [])
    assert main["children"] == [side["id"]]
    assert side["entries"][-1]["content"] == "on side"
    text = cli("episodic-tree", *RESOURCE).out.decode()
    for part in ("main", "side", "note 2", f"from index {told[2]}"):
        assert part in text
