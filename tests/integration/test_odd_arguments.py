"""Arguments of the wrong shape: a single value where a list belongs, items of no known type."""

from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.settings import load_settings


@pytest.mark.parametrize("items", ["abc", b"abc", {"content": "x"}])
def test_one_item_is_no_list_of_items(
    items: Any, alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A text is not taken for its letters and a mapping not for its keys: nothing is stored."""
    for call, field in ((alice.remember_many, "items"), (alice.import_lines, "lines")):
        if field == "lines" and isinstance(items, dict):
            continue
        with pytest.raises(memoriale.InputError) as refused:
            call(items)
        assert refused.value.field == field
    assert shared_ledger.tenant(tenant).log.head() == 0


def test_an_item_of_no_known_type_is_refused_by_itself(alice: Memory) -> None:
    """Beside good items each bad one gets its own error, and the good ones are stored."""
    answers = alice.remember_many(["first", None, 5, "last"])  # type: ignore[list-item]
    assert [isinstance(answer, memoriale.InputError) for answer in answers] == [
        False,
        True,
        True,
        False,
    ]
    assert [record.content for record in alice.list().memories] == ["first", "last"]


def test_lines_that_are_no_text_are_rejected(alice: Memory) -> None:
    """A line that is neither text nor bytes is rejected with its number."""
    report = alice.import_lines(['{"content": "x"}', 1, None])  # type: ignore[list-item]
    assert (report.remembered, [r.line for r in report.rejected]) == (1, [2, 3])


@pytest.mark.parametrize("name", ["home", "views_uri", "snapshots_uri", "keystore"])
@pytest.mark.parametrize("value", ["s3://bucket/x", "", "a\0b"])
def test_a_place_that_is_no_folder_is_refused(name: str, value: str) -> None:
    """An address of an object store is not taken for a folder of that name."""
    with pytest.raises(memoriale.InputError) as refused:
        load_settings(**{name: value})
    assert refused.value.field == f"MEMORIALE_{name.upper()}"


@pytest.mark.parametrize("at", [-1, 10_000])
def test_errors_name_the_argument_that_was_given(at: int, alice: Memory) -> None:
    """A fork's point is called ``at``, and a memory to replace ``supersedes``."""
    alice.remember("x")
    with pytest.raises(memoriale.InputError) as refused:
        alice.fork("side", at=at)
    assert refused.value.field == "at"
    with pytest.raises(memoriale.InputError) as refused:
        alice.remember("y", supersedes=["0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11"])
    assert refused.value.field == "supersedes"
