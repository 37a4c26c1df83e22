"""The public conformance suite ``agent-memory-integrity``: its nine edits of a store's records."""

import pytest
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT, SnapshotRollbackAttack
from agmi.check import LABELS, run, verdict

from tests.attacks.agmi_adapter import LedgerAdapter, Trusting, WithoutAnchor
from tests.fixtures.postgres import Server

NINE = [f"T{number}" for number in range(1, 10)]


def test_the_suite_is_the_one_of_nine_edits() -> None:
    """T1 to T9, as the suite names them."""
    assert [LABELS[attack.name][:2] for attack in AT_REST_ATTACKS_WITH_SNAPSHOT] == NINE


@pytest.mark.parametrize("attack", AT_REST_ATTACKS_WITH_SNAPSHOT, ids=lambda one: LABELS[one.name])
def test_an_edit_is_noticed(attack: type, server: Server, template: str) -> None:
    """The edit landed, and verify reports it; before it the same store was green."""
    adapter = LedgerAdapter(server, template)
    result = attack().run(adapter)
    assert verdict(result, adapter) == "REPORTED", result


def test_without_the_anchor_a_rollback_is_accepted(server: Server, template: str) -> None:
    """What the suite says is not said of every store: here the ninth edit is not noticed."""
    adapter = WithoutAnchor(server, template)
    assert verdict(SnapshotRollbackAttack().run(adapter), adapter) == "ACCEPTED"


def test_a_store_that_checks_nothing_accepts_all_nine(server: Server, template: str) -> None:
    """The suite can fail: each edit lands, and a store that looks at nothing takes it."""
    assert [row["verdict"] for row in run(Trusting(server, template))] == ["ACCEPTED"] * 9
