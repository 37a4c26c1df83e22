"""Measuring recall over a folder of conversations, through the public API as users have it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memoriale.adapters.demo.home import ledger_at, temporary_home
from memoriale.adapters.evaluation.questions import Question, questions_of
from memoriale.adapters.evaluation.scores import CUTOFFS, SCORED_CATEGORIES, Answered, summary
from memoriale.adapters.importing.files import read_conversations
from memoriale.adapters.importing.locomo import Conversation
from memoriale.adapters.importing.runner import import_file
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

TENANT: Final = "evaluation"
LEGS: Final = ("hybrid", "keyword", "vector")
_PATIENCE: Final = 600.0


def evaluate(
    folder: Path,
    *,
    top_k: int = max(CUTOFFS),
    legs: str | None = None,
    embedder: str | None = None,
) -> Iterator[dict[str, Any]]:
    """
    Imports every conversation of a folder into a fresh temporary home with default settings,
    asks its questions of categories 1 to 4 that have evidence, and scores the answers.

    Args:
        folder: Holds ``*.json`` files in the LoCoMo format.
        top_k: How many memories to recall, 1 to 1000.
        legs: ``hybrid``, ``keyword`` or ``vector``. None measures hybrid, and the other two in
            the same run for comparison.
        embedder: As ``MEMORIALE_EMBEDDER``; default: the default one, whatever is configured.

    Returns:
        A report for each conversation, with ``sample_id`` and ``turns``, and then one over all,
        which has the other two under ``keyword`` and ``vector``.

    Raises:
        InputError: No such folder, no file in it, no question, or another ``top_k`` or ``legs``
            than allowed.
        UnavailableError: The disk, the database or the embedder cannot be used.
    """
    _check(top_k, legs)
    files = conversation_files(folder)
    measured = LEGS if legs is None else (legs,)
    answered: dict[str, list[Answered]] = {leg: [] for leg in measured}
    with temporary_home() as home, ledger_at(home, embedder) as ledger:
        for file in files:
            for conversation, memory in _imported(ledger, file):
                answers = {leg: [*_answers(memory, conversation, top_k, leg)] for leg in measured}
                for leg in measured:
                    answered[leg] += answers[leg]
                named = {"sample_id": conversation.sample_id, "turns": len(conversation.turns)}
                first = answers[measured[0]]
                yield named | (summary(first, top_k) if first else {"questions": 0})
    if not answered[measured[0]]:
        raise _nothing(folder, "no question of categories 1 to 4 with evidence")
    others = {leg: summary(answered[leg], top_k) for leg in measured[1:]}
    yield summary(answered[measured[0]], top_k) | others


def conversation_files(folder: Path) -> list[Path]:
    """
    The files to read, by name.

    Raises:
        InputError: There is no such folder, or no ``*.json`` in it.
    """
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise _nothing(folder, "no *.json")
    return files


def _imported(ledger: Ledger, file: Path) -> Iterator[tuple[Conversation, Memory]]:
    conversations = read_conversations(file)
    report = import_file(ledger.memory(tenant=TENANT), file, "locomo")
    if report.rejected:
        first = report.rejected[0]
        raise InputError(
            f"{shown(file.name)}: turn {first.line} cannot be imported: {first.reason}",
            code=first.code,
            field=first.field,
        )
    if report.last_index is not None:
        ledger.wait(report.last_index, tenant=TENANT, timeout=_PATIENCE)
    for conversation in conversations:
        yield conversation, ledger.memory(tenant=TENANT, resource=conversation.sample_id)


def _answers(
    memory: Memory, conversation: Conversation, top_k: int, legs: str
) -> Iterator[Answered]:
    asked = [q for q in questions_of(conversation) if _is_scored(q)]
    if asked:
        # Opens the view and loads the model, which is no question's own time.
        memory.recall(asked[0].question, top_k=top_k, wait=_PATIENCE, strict=True)
    for question in asked:
        started = time.perf_counter()
        # An answer that lacks something is no measurement.
        hits = memory.recall(question.question, top_k=top_k, legs=legs, strict=True)
        seconds = time.perf_counter() - started
        recalled = tuple(str(hit.metadata.get("dia_id")) for hit in hits)
        yield Answered(question.category, question.evidence, recalled, seconds)


def _is_scored(question: Question) -> bool:
    return question.category in SCORED_CATEGORIES and bool(question.evidence)


def _check(top_k: int, legs: str | None) -> None:
    if legs is not None and legs not in LEGS:
        raise InputError(
            f"legs is {shown(legs)!r}; allowed are {', '.join(LEGS)}.",
            code="bad_value",
            field="legs",
            value=shown(legs),
            allowed=list(LEGS),
        )
    if not 1 <= top_k <= 1_000:
        raise InputError(
            f"top_k is {top_k}; allowed is 1..1000.",
            code="out_of_range",
            field="top_k",
            value=top_k,
            allowed="1..1000",
        )


def _nothing(folder: Path, what: str) -> InputError:
    return InputError(
        f"{shown(str(folder))} holds {what}; name a folder of LoCoMo conversations.",
        code="nothing_to_measure",
        field="folder",
        value=shown(str(folder)),
        allowed="a folder with *.json",
    )
