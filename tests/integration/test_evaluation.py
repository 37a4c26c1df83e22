"""The retrieval score: evidence is read leniently, recall at k is counted as it is defined."""

import json
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from memoriale.adapters.evaluation.questions import questions_of
from memoriale.adapters.evaluation.scores import Answered, summary
from memoriale.adapters.importing.locomo import parse_conversations


def test_malformed_evidence_counts_where_it_names_a_turn() -> None:
    """Several ids in one text, odd forms and doubled ids are read; what names no turn is not."""
    turns = [{"speaker": "A", "dia_id": f"D1:{n}", "text": "x"} for n in range(1, 5)]
    qa = [
        {"question": "a?", "evidence": ["D1:1; D1:2", "D:1:3", "D1:2"], "category": 1},
        {"question": "b?", "evidence": ["D9:9", "D", 7], "category": 2},
        {"question": "c?", "evidence": "D1:04", "category": "x"},
        {"answer": "no question"},
        "text",
    ]
    value = {"sample_id": "s", "conversation": {"session_1": turns}, "qa": qa}
    found = questions_of(parse_conversations(json.dumps(value).encode())[0])
    assert [(q.question, q.evidence, q.category) for q in found] == [
        ("a?", ("D1:1", "D1:2", "D1:3"), 1),
        ("b?", (), 2),
        ("c?", ("D1:4",), 0),
    ]


def test_recall_is_the_share_of_the_evidence_among_the_first_k() -> None:
    """Scores are means over questions, in all and by category; latencies are nearest ranks."""
    answered = [
        Answered(1, ("a", "b"), ("a", "x", "y", "z", "b", "c"), 0.001),
        Answered(4, ("q",), ("x",) * 10 + ("q",), 0.003),
        Answered(4, ("a",), ("a",), 0.002),
    ]
    report = summary(answered, 10)
    assert {k: v for k, v in report.items() if k != "by_category"} == {
        "questions": 3,
        "recall@1": 0.5,
        "recall@5": 0.6667,
        "recall@10": 0.6667,
        "p50_ms": 2.0,
        "p95_ms": 3.0,
    }
    assert report["by_category"] == {
        "multi-hop": {"questions": 1, "recall@1": 0.5, "recall@5": 1.0, "recall@10": 1.0},
        "single-hop": {"questions": 2, "recall@1": 0.5, "recall@5": 0.5, "recall@10": 0.5},
    }


def evaluate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "memoriale.adapters.evaluation", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_shipped_history_is_scored_through_the_public_api() -> None:
    """One JSON line for each conversation and one over all, with a recall that finds most."""
    with as_file(files("memoriale.adapters.demo") / "history.json") as history:
        run = evaluate(str(history.parent), "--top-k", "10", "--json")
    assert run.returncode == 0, run.stderr
    first, last = (json.loads(line) for line in run.stdout.splitlines())
    assert (first["sample_id"], first["turns"]) == ("harbour-street", 323)
    assert last["questions"] == first["questions"] == 30
    assert [key for key in last if key.startswith("recall@")] == [
        "recall@1",
        "recall@5",
        "recall@10",
    ]
    assert last["recall@10"] > 0.6
    assert last["p95_ms"] >= last["p50_ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--legs", "nose"], "legs"),
        (["--top-k", "0"], "top_k"),
        ([], "folder"),
    ],
)
def test_wrong_arguments_are_told(tmp_path: Path, arguments: list[str], field: str) -> None:
    """A folder without conversations, and values that do not exist, end with exit code 2."""
    run = evaluate(str(tmp_path), *arguments, "--json")
    assert run.returncode == 2
    assert json.loads(run.stderr)["error"]["field"] == field


def test_the_embedder_that_is_named_is_measured() -> None:
    """One that there is not is told, not replaced by the default one."""
    with as_file(files("memoriale.adapters.demo") / "history.json") as history:
        run = evaluate(str(history.parent), "--embedder", "no.such:thing", "--json")
    assert run.returncode == 2
    assert json.loads(run.stderr)["error"]["field"] == "MEMORIALE_EMBEDDER"
