"""Operations as plain data: scopes, labels, states, and what an add decides."""

from typing import Any

import pytest

from memoriale.domain.errors import InputError
from memoriale.domain.fields import Limits
from memoriale.domain.jobs import OPEN, JobStatus
from memoriale.domain.keys import Subject
from memoriale.domain.operations.op_ids import OperationIds
from memoriale.domain.operations.scopes import OperationScope, parse_scope
from memoriale.domain.operations.states import ENDED, OF_JOB

LIMITS = Limits()


@pytest.mark.parametrize(
    ("given", "owner"),
    [
        ({"user_id": "ann", "agent_id": "desk", "tags": ["x"]}, Subject("user", "ann")),
        ({"agent_id": "desk", "tags": ["x"]}, Subject("agent", "desk")),
        ({"tags": ["x"]}, Subject("tenant", "acme")),
        (OperationScope("ann"), Subject("user", "ann")),
    ],
)
def test_the_owner_is_the_user_else_the_agent(given: Any, owner: Subject) -> None:
    """And the tenant itself where only tags are given."""
    assert parse_scope(given, LIMITS).owner("acme") == owner


@pytest.mark.parametrize(
    "given",
    [
        *(None, {}, "ann", 7, {"user_id": None, "tags": []}, {"user": "ann"}, {"user_id": ""}),
        *({"user_id": 7}, {"agent_id": "x" * 257}, {"tags": "x"}, {"tags": [""]}, {"tags": [7]}),
    ],
)
def test_a_scope_that_says_nothing_or_something_else_is_refused(given: Any) -> None:
    """With the name of the field."""
    with pytest.raises(InputError) as refused:
        parse_scope(given, LIMITS)
    assert refused.value.field is not None


def test_a_scope_does_not_depend_on_the_order_of_its_tags() -> None:
    """So the same idempotency key finds the same request."""
    one, other = ({"user_id": "a", "tags": tags} for tags in (["x", "y", "x"], ["y", "x"]))
    assert parse_scope(one, LIMITS) == parse_scope(other, LIMITS)


def test_scopes_that_differ_are_written_differently_in_events() -> None:
    """Whatever users, agents and tags are called."""
    scopes = [
        OperationScope("bob"),
        OperationScope(None, "bob"),
        OperationScope(None, None, ("bob",)),
        OperationScope(None, None, ("user:bob",)),
        OperationScope("tag:bob"),
    ]
    written = [scope.event_tags() for scope in scopes]
    assert len(set(written)) == len(scopes)


def test_labels_are_told_apart_while_they_are_in_use() -> None:
    """A number is put behind, also where somebody has that one already; a label that was released
    is free again."""
    ids = OperationIds()
    taken = [ids.take(" a ", "add"), ids.take("a#2", "add"), ids.take("a", "search")]
    assert taken == ["a", "a#2", "a#3"]
    ids.release("a")
    assert ids.take("a", "add") == "a"
    assert ids.take(None, "add").startswith("add-")
    assert ids.take("  ", "search").startswith("search-")
    for wrong in (7, "x" * 257, b"a"):
        with pytest.raises(InputError, match="op_id"):
            ids.take(wrong, "add")


def test_every_state_of_a_job_is_one_of_an_operation() -> None:
    """What is still to be done has not ended, and what is not has."""
    assert set(OF_JOB) == set(JobStatus)
    for job, operation in OF_JOB.items():
        assert (job in OPEN) == (operation not in ENDED)
