"""Small always-shown notebooks of an agent and of a user, with hard limits in characters."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict

from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import FileEntry
from memoriale.domain.steps import End, Make, Replace, Slice, Step

FILE_ENTRY: Final = "file_entry"
MEMORY_CHARACTERS: Final = 2_200
USER_CHARACTERS: Final = 1_375

FileMemoryTarget = Literal["memory", "user"]
TARGETS: Final[tuple[str, ...]] = get_args(FileMemoryTarget)


class FileReply(BaseModel):
    """
    What became of a change. When ``ok`` is False nothing was stored, ``error`` says why, and
    ``usage`` (characters used and allowed) and ``current_entries`` tell what there is.
    """

    model_config = ConfigDict(frozen=True)

    ok: bool
    error: str | None = None
    usage: str | None = None
    current_entries: tuple[str, ...] | None = None


def entries_of(seen: Slice | None, target: str) -> list[MemoryState]:
    """The current entries of a notebook, oldest first."""
    current = [] if seen is None else seen.current(FILE_ENTRY)
    return [s for s in current if isinstance(s.payload, FileEntry) and s.payload.target == target]


def texts_of(entries: list[MemoryState]) -> list[str]:
    """Their texts."""
    return [state.payload.content for state in entries if state.payload is not None]


@dataclass(slots=True)
class ChangeFile:
    """
    The decision to add, replace or remove an entry of a notebook.

    An entry that is there already changes nothing. ``old_text`` must be part of exactly one
    entry, which is then replaced or removed whole. A notebook never holds more characters than
    its limit, separators not counted.

    Args:
        target: Which notebook.
        limit: Its limit in characters (Unicode code points).
        content: The new entry, checked; None removes.
        old_text: Part of the entry to replace or remove; None adds.
    """

    target: str
    limit: int
    content: Remember | None = None
    old_text: str | None = None
    reply: FileReply = field(default_factory=lambda: FileReply(ok=True))

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``. ``reply`` tells what became of it."""
        entries = entries_of(seen, self.target)
        self.reply = FileReply(ok=True)
        if self.old_text is None:
            return self._add(entries)
        found = [e for e in entries if self.old_text in (e.payload.content if e.payload else "")]
        if not self.old_text or len(found) != 1:
            return self._refuse(entries, _unmatched(self.old_text, len(found)))
        if self.content is None:
            return [End(memory_id=found[0].memory_id, because=ReasonCode.RETRACTED)]
        return self._replace(entries, found[0])

    def _add(self, entries: list[MemoryState]) -> list[Step]:
        assert self.content is not None
        texts = texts_of(entries)
        if self.content.content in texts:
            return []
        if not self._fits(texts, self.content.content):
            return self._refuse(entries, self._overflow(texts))
        return [Make(command=self.content)]

    def _replace(self, entries: list[MemoryState], state: MemoryState) -> list[Step]:
        assert self.content is not None
        if state.payload is not None and state.payload.content == self.content.content:
            return []
        others = texts_of([e for e in entries if e is not state])
        if self.content.content in others:
            return [End(memory_id=state.memory_id, because=ReasonCode.RETRACTED)]
        if not self._fits(others, self.content.content):
            return self._refuse(entries, self._overflow(texts_of(entries)))
        return [Replace(memory_id=state.memory_id, command=self.content)]

    def _fits(self, texts: list[str], new: str) -> bool:
        return sum(map(len, texts)) + len(new) <= self.limit

    def _overflow(self, texts: list[str]) -> str:
        assert self.content is not None
        return (
            f"{self.target} is full: {sum(map(len, texts))} of {self.limit} characters are used "
            f"and the new entry has {len(self.content.content)}. Merge or shorten entries with "
            "replace, or remove some, and try again."
        )

    def _refuse(self, entries: list[MemoryState], error: str) -> list[Step]:
        texts = texts_of(entries)
        self.reply = FileReply(
            ok=False,
            error=error,
            usage=f"{sum(map(len, texts))}/{self.limit}",
            current_entries=tuple(texts),
        )
        return []


def _unmatched(old_text: str, count: int) -> str:
    if not old_text:
        return "old_text is empty; give a part of the entry that is meant."
    if count == 0:
        return "no entry contains old_text; give a part of one, exactly as it stands there."
    return f"{count} entries contain old_text; give a longer part, so that only one does."
