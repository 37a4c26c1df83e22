"""Running an import: in batches, in bounded memory, and again without storing anything twice."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from memoriale.adapters.importing.files import opened, read_conversations, unreadable
from memoriale.adapters.importing.keys import LineKeys
from memoriale.adapters.importing.lines import parse_line, read_lines
from memoriale.adapters.importing.locomo import Conversation, Turn
from memoriale.adapters.importing.report import ImportInterruptedError, ImportReport, Rejection
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import ConflictError, InputError, MemorialeError, UnavailableError
from memoriale.domain.principal import Right
from memoriale.domain.receipt import Receipt
from memoriale.domain.text import shown
from memoriale.domain.values import canonical_json

FORMATS: Final = ("jsonl", "locomo")
BATCH_LINES: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
_ATTEMPTS: Final = 5

Progress = Callable[[str, int, int], None]
"""Called with what is going on, how much is done and how much there is; 0 when unknown."""


@dataclass(slots=True)
class Item:
    """
    One memory to be made.

    ``canonical`` is what its idempotency key is made from; None when the line brings a key.
    ``size`` is its length in the input.
    """

    line: int
    given: dict[str, Any]
    canonical: bytes | None
    size: int


def import_file(
    memory: Memory, path: str | Path, format: str = "jsonl", *, progress: Progress | None = None
) -> ImportReport:
    """
    Imports a file. Repeating or resuming an import stores nothing twice.

    Args:
        memory: Whose memories they become, where a line does not say; right ``operate``.
        path: The file; ``-`` is standard input.
        format: ``jsonl``: one memory a line; ``locomo``: conversations, each turn one memory of
            kind ``message`` owned by the resource that ``sample_id`` names.
        progress: Called after each batch: with ``jsonl`` in bytes, with ``locomo`` in turns.

    Returns:
        What was done; a line that is refused does not stop the others.

    Raises:
        InputError: Unknown format, no such file, or a file that is not of the LoCoMo format;
            then nothing was stored.
        MissingRightError: The principal lacks ``operate``.
        ImportInterruptedError: The database or the file cannot be used any more; its ``report``
            says how far the import came.
    """
    if format not in FORMATS:
        raise InputError(
            f"unknown format {shown(format)!r}; there are {', '.join(FORMATS)}.",
            code="unknown_format",
            field="format",
            value=shown(format),
            allowed=list(FORMATS),
        )
    run = _Import(memory)
    if format == "locomo":
        return run.locomo(read_conversations(path), progress)
    with opened(path) as stream:
        return run.lines(_readable(read_lines(stream)), _bytes_of(stream, progress))


def import_lines(
    memory: Memory, lines: Iterable[bytes | str], *, progress: Progress | None = None
) -> ImportReport:
    """
    Imports JSON lines that a program has at hand; see ``import_file``.

    Args:
        memory: As there.
        lines: One JSON object each, with or without an end of line; bytes are UTF-8.
        progress: Called after each batch, in lines.
    """
    if isinstance(lines, str | bytes):
        raise InputError(
            "lines must be a list of lines; to import a file, name it to import_file.",
            code="bad_value",
            field="lines",
            value=type(lines).__name__,
            allowed="a list of JSON lines",
        )
    run = _Import(memory)
    return run.lines(lines, _lines_of(run.report, progress))


class _Import:
    def __init__(self, memory: Memory) -> None:
        # Once for the whole import, before anything is read.
        memory.allow("import", Right.USE, Right.OPERATE)
        self._memory = memory
        identities = memory.services.log.identities
        self._keys = LineKeys(identities.tag_key(identities.tenant()))
        self._started = time.monotonic()
        self.report = ImportReport()

    def lines(self, lines: Iterable[bytes | str], progress: Callable[[], None]) -> ImportReport:
        return self._run(self._items(lines), progress)

    def locomo(self, conversations: list[Conversation], progress: Progress | None) -> ImportReport:
        total = sum(len(conversation.turns) for conversation in conversations)
        turns = [(c.sample_id, turn) for c in conversations for turn in c.turns]
        return self._run(self._turns(turns), _lines_of(self.report, progress, total))

    def _run(self, items: Iterator[Item], progress: Callable[[], None]) -> ImportReport:
        try:
            for batch in _batches(items):
                self._store(batch)
                progress()
        except UnavailableError as error:
            raise ImportInterruptedError.after(self.report, error) from error
        finally:
            self.report.seconds = time.monotonic() - self._started
        return self.report

    def _items(self, lines: Iterable[bytes | str]) -> Iterator[Item]:
        for number, line in enumerate(lines, 1):
            try:
                fields = parse_line(line, first=number == 1)
            except InputError as error:
                self.report.read += 1
                self.report.reject(Rejection.of(number, error))
                continue
            if fields is not None:
                self.report.read += 1
                yield self._item(number, fields, len(line))

    def _item(self, number: int, fields: dict[str, Any], size: int) -> Item:
        canonical = None if "idempotency_key" in fields else canonical_json(self._placed(fields))
        given = {**fields, "source_tier": "imported"}
        if "source_run_id" in given:
            given["source_run"] = given.pop("source_run_id")
        return Item(number, given, canonical, size)

    def _turns(self, turns: list[tuple[str, Turn]]) -> Iterator[Item]:
        for number, (sample_id, turn) in enumerate(turns, 1):
            self.report.read += 1
            identity = canonical_json(self._placed({"sample": sample_id, "turn": turn.dia_id}))
            given = _message(sample_id, turn) | {"idempotency_key": self._keys.one(identity)}
            yield Item(number, given, None, len(turn.content))

    def _placed(self, fields: dict[str, Any]) -> Any:
        # On another branch, or at another default namespace, the same line is another memory.
        where = {"branch": self._memory.branch_name, "at": self._memory.principal.namespace}
        return {"fields": fields, **where}

    def _store(self, batch: list[Item]) -> None:
        self._give_keys([item for item in batch if item.canonical is not None])
        failure = None
        for item, answer in zip(batch, self._answers(batch), strict=True):
            if isinstance(answer, UnavailableError):
                failure = failure or answer
            else:
                self._count(item, answer)
        # Lines that could not be read were counted while the batch was filled.
        self.report.rejected.sort(key=lambda rejection: rejection.line)
        if failure is not None:
            raise failure

    def _answers(self, batch: list[Item]) -> list[Receipt | MemorialeError]:
        answers = self._memory.store_many([item.given for item in batch])
        for _ in range(_ATTEMPTS):
            again = [n for n, answer in enumerate(answers) if isinstance(answer, ConflictError)]
            if not again:
                break
            repeated = self._memory.store_many([batch[n].given for n in again])
            for place, answer in zip(again, repeated, strict=True):
                answers[place] = answer
        return answers

    def _count(self, item: Item, answer: Receipt | MemorialeError) -> None:
        if isinstance(answer, Receipt):
            self.report.add(answer)
        elif item.canonical is not None and answer.code == "idempotency_mismatch":
            # The key was made from the line, so the line is stored: by another caller.
            self.report.skipped += 1
        else:
            self.report.reject(Rejection.of(item.line, answer))

    def _give_keys(self, items: list[Item]) -> None:
        canonicals = [item.canonical for item in items if item.canonical is not None]
        for item, key in zip(items, self._keys.counted(canonicals), strict=True):
            item.given["idempotency_key"] = key


def _message(sample_id: str, turn: Turn) -> dict[str, Any]:
    return {
        "content": turn.content,
        "kind": "message",
        "owner": "resource",
        "resource": sample_id,
        "session": f"{sample_id}/session_{turn.session}",
        "speaker": turn.speaker,
        "caption": turn.caption,
        "valid_from": turn.time,
        "metadata": {
            "dia_id": turn.dia_id,
            "session": turn.session,
            "session_date": turn.session_date,
        },
        "source_tier": "imported",
    }


def _readable(lines: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except OSError as error:
        raise unreadable(error) from error


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += item.size
        if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    # Also when it is empty, so that the progress ends at the end of the input.
    yield batch


def _bytes_of(stream: BinaryIO, progress: Progress | None) -> Callable[[], None]:
    if progress is None or not stream.seekable():
        return lambda: None if progress is None else progress("import", 0, 0)
    here = stream.tell()
    total = stream.seek(0, 2)
    stream.seek(here)
    return lambda: progress("import", stream.tell(), total)


def _lines_of(
    report: ImportReport, progress: Progress | None, total: int = 0
) -> Callable[[], None]:
    return lambda: None if progress is None else progress("import", report.read, total)
