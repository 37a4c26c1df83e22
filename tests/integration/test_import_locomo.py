"""Importing conversations in the LoCoMo format: each turn becomes one memory of the sample."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.importing.locomo import parse_conversations, parse_session_date
from memoriale.adapters.importing.runner import import_file
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError

ROOT = Path(__file__).parents[2]
TURN = {"speaker": "Ann", "dia_id": "D1:1", "text": "Hello"}

Change = Callable[[dict[str, Any]], None]


def conversation(**changes: Any) -> dict[str, Any]:
    """A small conversation of two sessions."""
    sessions = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [dict(TURN), {"speaker": "Ben", "dia_id": "D1:2", "text": "Hello, Ann"}],
        "session_2_date_time": "12:05 am on 1 June, 2023",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "", "blip_caption": "a red boat"},
            {"speaker": "Ann", "dia_id": "D2:2", "text": "Nice", "img_url": ["http://x"]},
        ],
    }
    return {"sample_id": "ann-and-ben", "conversation": sessions, "qa": [], **changes}


def written(folder: Path, value: Any) -> Path:
    file = folder / "history.json"
    file.write_text(json.dumps(value))
    return file


def listed(ledger: Ledger, tenant: str, resource: str) -> list[Any]:
    return list(ledger.memory(tenant=tenant, resource=resource).list(limit=1000).memories)


def test_turns_become_messages_of_the_sample(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Owner, speaker, text, caption, valid time and metadata are those of the turns, in order; a
    picture without a word is remembered by its caption."""
    report = import_file(alice, written(tmp_path, conversation()), "locomo")
    assert (report.read, report.remembered, report.first_index, report.last_index) == (4, 4, 0, 3)
    found = listed(shared_ledger, tenant, "ann-and-ben")
    assert [record.content for record in found] == ["Hello", "Hello, Ann", "a red boat", "Nice"]
    assert {record.kind for record in found} == {"message"}
    assert [record.details.get("speaker") for record in found] == ["Ann", "Ben", "Ben", "Ann"]
    picture = found[2]
    assert picture.details["caption"] == "a red boat"
    assert picture.valid_from == datetime(2023, 6, 1, 0, 5, tzinfo=UTC)
    assert picture.metadata == {
        "dia_id": "D2:1",
        "session": 2,
        "session_date": "12:05 am on 1 June, 2023",
    }
    assert picture.source_tier == "imported"
    assert alice.list().memories == ()


def test_a_list_of_conversations_is_imported_into_one_resource_each(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """A file may hold several conversations; equal turns of two samples are two memories."""
    file = written(tmp_path, [conversation(), conversation(sample_id="others")])
    told: list[tuple[int, int]] = []
    report = import_file(alice, file, "locomo", progress=lambda _, *n: told.append(n))
    assert report.remembered == 8
    assert told[-1] == (8, 8)
    assert len(listed(shared_ledger, tenant, "ann-and-ben")) == 4
    assert len(listed(shared_ledger, tenant, "others")) == 4


def test_a_turn_is_recognised_by_sample_and_id(alice: Memory, tmp_path: Path) -> None:
    """Importing again skips every turn; new turns are added; a turn whose words have changed is
    refused instead of silently kept or stored twice."""
    import_file(alice, written(tmp_path, conversation()), "locomo")
    longer = conversation()
    longer["conversation"]["session_1"][0]["text"] = "Good evening"
    longer["conversation"]["session_2"].append({"speaker": "Ben", "dia_id": "D2:3", "text": "Bye"})
    report = import_file(alice, written(tmp_path, longer), "locomo")
    assert (report.read, report.remembered, report.skipped) == (5, 1, 3)
    assert [(r.line, r.field) for r in report.rejected] == [(1, "idempotency_key")]


def test_a_turn_without_words_is_told(alice: Memory, tmp_path: Path) -> None:
    """A turn with neither text nor caption is rejected, the others are stored."""
    wordless = conversation()
    wordless["conversation"]["session_1"][0]["text"] = " "
    report = import_file(alice, written(tmp_path, wordless), "locomo")
    assert report.remembered == 3
    assert [(r.line, r.field) for r in report.rejected] == [(1, "content")]


def _first_turn(**changes: Any) -> Change:
    return lambda value: value["conversation"]["session_1"][0].update(changes)


def _session(**changes: Any) -> Change:
    return lambda value: value["conversation"].update(changes)


MALFORMED: dict[str, tuple[Change, str]] = {
    "no sample": (lambda value: value.pop("sample_id"), "sample_id"),
    "an empty sample": (lambda value: value.update(sample_id=""), "sample_id"),
    "a number as sample": (lambda value: value.update(sample_id=7), "sample_id"),
    "no conversation": (lambda value: value.pop("conversation"), "conversation"),
    "a list as conversation": (lambda value: value.update(conversation=[]), "conversation"),
    "no sessions": (lambda value: value.update(conversation={}), "conversation"),
    "a session of text": (_session(session_2="x"), "conversation.session_2"),
    "a bad date": (
        _session(session_1_date_time="8 May"),
        "conversation.session_1_date_time",
    ),
    "no such day": (
        _session(session_1_date_time="1:00 pm on 31 June, 2023"),
        "conversation.session_1_date_time",
    ),
    "a turn of text": (_session(session_1=["x"]), "conversation.session_1[0]"),
    "no speaker": (_first_turn(speaker=None), "conversation.session_1[0].speaker"),
    "no id": (_first_turn(dia_id=""), "conversation.session_1[0].dia_id"),
    "a number as text": (_first_turn(text=7), "conversation.session_1[0].text"),
    "a lone surrogate": (_first_turn(text="\ud800"), "conversation.session_1[0].text"),
    "a caption list": (_first_turn(blip_caption=[]), "conversation.session_1[0].blip_caption"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_with_the_place(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path, name: str
) -> None:
    """The error names the path inside the file, alone or in a list, and nothing is stored."""
    change, path = MALFORMED[name]
    bad = conversation()
    change(bad)
    for value, place in ((bad, path), ([conversation(), bad], f"[1].{path}")):
        with pytest.raises(InputError) as refused:
            import_file(alice, written(tmp_path, value), "locomo")
        assert (refused.value.code, refused.value.field) == ("malformed", place)
    assert shared_ledger.tenant(tenant).log.head() == 0


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"7", b"[" * 200_000, b'{"a": NaN}'])
def test_what_is_no_conversation_is_refused(data: bytes) -> None:
    """Files that are not JSON, not UTF-8, or hold no conversation are malformed."""
    with pytest.raises(InputError) as refused:
        parse_conversations(data)
    assert refused.value.code == "malformed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:00 am on 1 January, 2024", datetime(2024, 1, 1, 0, 0, tzinfo=UTC)),
        ("12:30 PM on 29 February, 2024", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
    ],
)
def test_session_dates_are_read_as_utc(text: str, expected: datetime) -> None:
    """The format has no zone: its times are taken as UTC, whatever the local zone is."""
    assert parse_session_date(text, "x") == expected


def test_the_shipped_history_is_imported_whole(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Every turn of the shipped history becomes a memory, once."""
    with as_file(files("memoriale.adapters.demo") / "history.json") as history:
        turns = parse_conversations(history.read_bytes())[0].turns
        assert import_file(alice, history, "locomo").remembered == len(turns)
        assert import_file(alice, history, "locomo").skipped == len(turns)
    found = listed(shared_ledger, tenant, "harbour-street")
    assert [record.metadata["dia_id"] for record in found] == [turn.dia_id for turn in turns]
    assert [record.content for record in found] == [turn.text for turn in turns]


def test_a_conversation_of_locomo_is_imported_whole(alice: Memory) -> None:
    """conv-26 of the LoCoMo data set gives 419 memories, and none when it comes again."""
    given = os.environ.get("MEMORIALE_TEST_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data" / "locomo"
    file = folder / "conv-26.json"
    if not file.exists():
        pytest.skip("LoCoMo may not be shipped: set MEMORIALE_TEST_DATA to a folder that holds it")
    report = import_file(alice, file, "locomo")
    assert (report.read, report.remembered, report.skipped) == (419, 419, 0)
    report = import_file(alice, file, "locomo")
    assert (report.read, report.remembered, report.skipped) == (419, 0, 419)
