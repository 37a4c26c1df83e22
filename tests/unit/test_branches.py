"""Branches: what a lineage sees of each ancestor, and what a branch may be called."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.branches import (
    MAIN,
    NO_LIMIT,
    Branch,
    Line,
    check_branch_name,
    lineage,
    main_branch,
    project_branch,
)
from memoriale.domain.errors import InputError
from tests.fixtures.events import ALICE, LOG_ID, History

FORKS = st.lists(st.tuples(st.integers(0, 20), st.integers(-1, 50)), max_size=12)


def tree(forks: Sequence[tuple[int, int]]) -> list[Branch]:
    """Main, and one branch for each fork: a place among the earlier branches, and an index."""
    branches = [main_branch(LOG_ID)]
    for number, (place, at) in enumerate(forks, 1):
        parent = branches[place % len(branches)]
        branches.append(
            Branch(id=UUID(int=number), name=f"b{number}", parent=parent.id, at=at, owner=ALICE)
        )
    return branches


def seen(branch: Branch, branches: dict[UUID, Branch], as_of: int) -> dict[UUID, int]:
    """The plain rule: itself up to ``as_of``, and what its parent sees up to where it left."""
    found = {branch.id: as_of}
    if branch.parent is not None:
        found.update(seen(branches[branch.parent], branches, min(as_of, branch.at)))
    return found


@given(FORKS, st.integers(-1, 60) | st.just(NO_LIMIT))
def test_a_lineage_sees_each_ancestor_up_to_the_fork(
    forks: list[tuple[int, int]], as_of: int
) -> None:
    """Each ancestor is seen up to the nearest fork below it, and nothing beyond the as-of."""
    branches = {branch.id: branch for branch in tree(forks)}
    for branch in branches.values():
        lines = lineage(branch, branches, as_of)
        assert {line.branch: line.limit for line in lines} == seen(branch, branches, as_of)


@given(FORKS)
def test_a_lineage_leads_from_the_branch_to_main(forks: list[tuple[int, int]]) -> None:
    """The branch comes first, main last, no branch twice, and limits only fall on the way."""
    branches = {branch.id: branch for branch in tree(forks)}
    for branch in branches.values():
        lines = lineage(branch, branches)
        assert (lines[0].branch, lines[-1].branch) == (branch.id, LOG_ID)
        assert len({line.branch for line in lines}) == len(lines)
        limits = [line.limit for line in lines]
        assert limits == sorted(limits, reverse=True)


def test_main_sees_itself_without_limit() -> None:
    """Main has the id of its log, no parent, and no limit."""
    main = main_branch(LOG_ID)
    assert (main.id, main.name, main.parent, main.owner) == (LOG_ID, MAIN, None, None)
    assert lineage(main, {LOG_ID: main}) == (Line(LOG_ID, NO_LIMIT),)
    assert lineage(main, {LOG_ID: main}, 7) == (Line(LOG_ID, 7),)


def test_a_branch_forked_before_everything_inherits_nothing() -> None:
    """A fork at -1 sees no event of its parent."""
    branch = Branch(id=UUID(int=1), name="empty", parent=LOG_ID, at=-1, owner=None)
    lines = lineage(branch, {LOG_ID: main_branch(LOG_ID)})
    assert lines == (Line(branch.id, NO_LIMIT), Line(LOG_ID, -1))


def test_a_fork_event_is_the_branch() -> None:
    """All that a branch is stands in its fork event."""
    history = History()
    history.remembered("x")
    made = history.forked("what-if", at=0)
    branch = project_branch(None, history.events([1]))
    assert branch == Branch(
        id=made,
        name="what-if",
        parent=LOG_ID,
        at=0,
        owner=ALICE,
        owner_type="user",
        index=1,
        recorded_at=history.time(1),
        stream_id=history.events([1])[0].columns.stream_id,
        version=1,
    )


def test_a_branch_of_the_tenant_has_no_owner() -> None:
    """A fork of scope tenant holds everybody's memories."""
    history = History()
    history.forked("all", scope="tenant")
    branch = project_branch(None, history.events())
    assert branch is not None
    assert (branch.owner, branch.owner_type) == (None, None)


def test_a_branch_whose_name_was_erased_still_stands() -> None:
    """A tombstone takes the name of a branch and leaves its place in the tree."""
    history = History()
    made = history.forked("what-if")
    history.erased.add(0)
    branch = project_branch(None, history.events())
    assert branch is not None
    assert (branch.id, branch.name, branch.parent, branch.at) == (made, None, LOG_ID, -1)


def test_other_events_make_no_branch() -> None:
    """A stream without a fork event is no branch, and what was folded stays."""
    history = History()
    history.denied()
    assert project_branch(None, history.events()) is None
    main = main_branch(LOG_ID)
    assert project_branch(main, history.events()) == main


@pytest.mark.parametrize("name", ["what-if", "Main", "日本 🌿", "a/b", " main", "x" * 256])
def test_a_branch_is_named_by_any_text(name: str) -> None:
    """A name is text of up to 256 bytes, kept as given."""
    assert check_branch_name(name) == name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (MAIN, "taken"),
        ("", "empty"),
        (" \n", "empty"),
        ("é" * 129, "too_long"),
        ("a\x00", "bad_character"),
        ("\ud800", "bad_character"),
        (None, "not_text"),
        (5, "not_text"),
    ],
)
def test_other_names_are_refused(name: Any, code: str) -> None:
    """A blank, over-long or unstorable name is refused, and so is that of main."""
    with pytest.raises(InputError) as refused:
        check_branch_name(name)
    assert (refused.value.code, refused.value.field) == (code, "branch")
