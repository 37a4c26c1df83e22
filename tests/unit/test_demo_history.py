"""The shipped demo conversation keeps to the LoCoMo format and to fictional contacts."""

import json
import re
import unicodedata
from collections import Counter
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from typing import Any, NotRequired, TypedDict

import pytest


class Turn(TypedDict):
    """One utterance of a session, as stored."""

    speaker: str
    dia_id: str
    text: str
    blip_caption: NotRequired[str]


class Question(TypedDict):
    """One question with the ids of the turns that answer it."""

    question: str
    answer: str
    evidence: list[str]
    category: int


class History(TypedDict):
    """The whole file."""

    sample_id: str
    conversation: dict[str, Any]
    qa: list[Question]


@pytest.fixture(scope="module")
def raw() -> bytes:
    return files("memoriale.adapters.demo").joinpath("history.json").read_bytes()


@pytest.fixture(scope="module")
def history(raw: bytes) -> History:
    parsed: History = json.loads(raw)
    return parsed


@pytest.fixture(scope="module")
def sessions(history: History) -> dict[int, list[Turn]]:
    numbers = (re.fullmatch(r"session_(\d+)", key) for key in history["conversation"])
    return {int(m[1]): history["conversation"][m[0]] for m in numbers if m}


@pytest.fixture(scope="module")
def turns(sessions: dict[int, list[Turn]]) -> list[Turn]:
    return [turn for session in sessions.values() for turn in session]


@pytest.fixture(scope="module")
def starts(history: History, sessions: dict[int, list[Turn]]) -> list[datetime]:
    dates = (history["conversation"][f"session_{n}_date_time"] for n in sessions)
    form = "%I:%M %p on %d %B, %Y"
    return [datetime.strptime(date, form).replace(tzinfo=UTC) for date in dates]


def test_the_file_is_readable_utf_8(raw: bytes) -> None:
    """The file is UTF-8 without byte order mark, replacement characters or escaped letters."""
    text = raw.decode("utf-8")
    assert not text.startswith("\ufeff")
    assert "\ufffd" not in text
    assert "\\u" not in text
    assert text.endswith("}\n")


def test_the_file_holds_nothing_beside_the_format(
    history: History, sessions: dict[int, list[Turn]]
) -> None:
    """The file holds sample id, speakers, dated sessions and questions, and no other key."""
    dated = {f"session_{n}{suffix}" for n in sessions for suffix in ("", "_date_time")}
    assert set(history) == {"sample_id", "conversation", "qa"}
    assert history["sample_id"] == "harbour-street"
    assert set(history["conversation"]) == {"speaker_a", "speaker_b"} | dated


def test_the_history_has_the_promised_size(
    sessions: dict[int, list[Turn]], turns: list[Turn]
) -> None:
    """Ten to twelve sessions, numbered from one without a gap, hold 280 to 340 turns."""
    assert list(sessions) == list(range(1, len(sessions) + 1))
    assert 10 <= len(sessions) <= 12
    assert 280 <= len(turns) <= 340


def test_sessions_are_dated_in_order(starts: list[datetime]) -> None:
    """Session dates parse, strictly rise, and span about eight months."""
    assert all(earlier < later for earlier, later in pairwise(starts))
    assert 210 <= (starts[-1] - starts[0]).days <= 275


def test_turn_ids_name_session_and_position(sessions: dict[int, list[Turn]]) -> None:
    """A turn's id is D, its session's number, a colon and its position counted from one."""
    for number, session in sessions.items():
        expected = [f"D{number}:{position}" for position in range(1, len(session) + 1)]
        assert [turn["dia_id"] for turn in session] == expected


def test_both_speakers_talk_in_every_session(
    history: History, sessions: dict[int, list[Turn]]
) -> None:
    """Every session is spoken by exactly the two named speakers."""
    named = {history["conversation"]["speaker_a"], history["conversation"]["speaker_b"]}
    assert len(named) == 2
    assert all({turn["speaker"] for turn in session} == named for session in sessions.values())


def test_turns_hold_text_and_at_most_a_caption(turns: list[Turn]) -> None:
    """A turn holds speaker, id and trimmed text, and some turns a caption."""
    required = {"speaker", "dia_id", "text"}
    assert all(required <= set(turn) <= required | {"blip_caption"} for turn in turns)
    assert all(turn["text"] and turn["text"] == turn["text"].strip() for turn in turns)
    captions = [turn["blip_caption"] for turn in turns if "blip_caption" in turn]
    assert len(captions) >= 3
    assert all(captions)


def test_no_turn_repeats_another(turns: list[Turn]) -> None:
    """No two turns say the same, whatever their case and normal form."""
    counted = Counter(unicodedata.normalize("NFKC", turn["text"]).casefold() for turn in turns)
    assert [text for text, count in counted.items() if count > 1] == []


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("[\u0600-\u06ff]{3}", id="arabic"),
        pytest.param("[\u3040-\u309f]{2}", id="japanese"),
        pytest.param("\u201e[^\u201c]*\u201c", id="german-quotation"),
        pytest.param("[\U0001f300-\U0001faff]", id="emoji"),
        pytest.param("cafe\u0301", id="combining-acute"),
        pytest.param("nai\u0308ve", id="combining-diaeresis"),
        pytest.param("caf\u00e9", id="precomposed"),
    ],
)
def test_the_history_mixes_scripts(turns: list[Turn], pattern: str) -> None:
    """The history contains each script and normal form that the demo wants to find again."""
    assert any(re.search(pattern, turn["text"]) for turn in turns)


def test_addresses_are_fictional(raw: bytes) -> None:
    """Every e-mail address ends in a reserved example domain, and no web address occurs."""
    text = raw.decode("utf-8")
    addresses = re.findall(r"[\w.+-]+@([\w.-]*\w)", text)
    assert addresses
    assert set(addresses) <= {"example.com", "example.org"}
    assert not re.search(r"https?:|www\.", text)


def test_telephone_numbers_are_fictional(raw: bytes) -> None:
    """Whatever looks like a telephone number lies in the reserved range 555-0100 to 555-0199."""
    candidates = re.findall(r"\+?\d[\d ()/-]{5,}\d", raw.decode("utf-8"))
    assert candidates
    assert [number for number in candidates if not re.fullmatch(r"555-01\d\d", number)] == []


def test_questions_cover_the_scored_categories(history: History) -> None:
    """There are 24 to 30 different questions, with an answer, over categories one to four."""
    questions = history["qa"]
    assert 24 <= len(questions) <= 30
    assert len({question["question"] for question in questions}) == len(questions)
    assert all(set(q) == {"question", "answer", "evidence", "category"} for q in questions)
    assert all(question["question"].endswith("?") and question["answer"] for question in questions)
    assert {question["category"] for question in questions} == {1, 2, 3, 4}


def test_evidence_names_existing_turns(history: History, turns: list[Turn]) -> None:
    """Each question names one or more existing turns, each once and in the order of the talk."""
    position = {turn["dia_id"]: place for place, turn in enumerate(turns)}
    for question in history["qa"]:
        places = [position[dia_id] for dia_id in question["evidence"]]
        assert places
        assert places == sorted(set(places))


def test_some_questions_follow_a_fact_over_time(history: History) -> None:
    """At least three multi-hop questions take their evidence from different sessions."""
    spread = [
        question["question"]
        for question in history["qa"]
        if question["category"] == 1
        and len({dia_id.partition(":")[0] for dia_id in question["evidence"]}) > 1
    ]
    assert len(spread) >= 3
