"""The events of the ledger: what each header says in clear and what each body seals."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.domain.keys import PersonKey
from memoriale.domain.payloads import AnyPayload
from memoriale.domain.record import Columns, Recorded
from memoriale.domain.text import CODE_PATTERN

Code = Annotated[str, Field(pattern=f"^{CODE_PATTERN.pattern}$")]
"""A word from a closed set or a name that is documented as not for personal data."""
Thousandths = Annotated[int, Field(ge=0, le=1000)]
TagText = Annotated[str, Field(pattern="^[0-9a-f]{32,66}$")]
"""A keyed tag as hexadecimal text."""


class ReasonCode(StrEnum):
    """Why a memory stopped being current."""

    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    CONTRADICTED = "contradicted"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    PRUNED = "pruned"
    COMPACTED = "compacted"
    CONSOLIDATED = "consolidated"


class SourceTier(StrEnum):
    """Where a memory comes from, most trusted first."""

    HUMAN_CORRECTION = "human-correction"
    MANUAL = "manual"
    IMPORTED = "imported"
    LLM_EXTRACTED = "llm-extracted"
    SUMMARY = "summary"


class Header(BaseModel):
    """Clear part of an event: numbers, ids, codes and tags, never free text."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """Sealed part of an event. Defaults are empty and stay so: they are not stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str | None = None


class Event(BaseModel):
    """
    What happened, before it has a place in the ledger.

    Each topic is one subclass with a stable ``TOPIC`` and a ``SCHEMA_VERSION``. An older
    version is brought up by the class's ``UPCASTERS``: ``UPCASTERS[n]`` turns the header and
    body dictionaries of version n into those of version n + 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    TOPIC: ClassVar[str]
    SCHEMA_VERSION: ClassVar[int] = 1
    LOG: ClassVar[str] = "memory"
    UPCASTERS: ClassVar[dict[int, Any]] = {}

    header: Header
    body: Body | None
    """None when a key of its sealing set was destroyed: a tombstone."""


class ContentHeader(Header):
    """What remembered and corrected events say in clear about their content."""

    content_length: int = Field(ge=0)
    """Characters of the content."""
    importance: Thousandths | None = None
    confidence: Thousandths | None = None
    source_tier: SourceTier | None = None
    model: Code | None = None
    prompt_version: Code | None = None
    language: Code | None = None
    has_evidence: bool = False
    aspect: TagText | None = None
    """Tag of the aspect under the owner's key: equal aspects of one owner have equal tags."""
    supersedes: tuple[UUID, ...] = ()


class RememberedBody(Body):
    """The memory itself with everything that people wrote about it."""

    payload: AnyPayload
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    source: str | None = None
    evidence: tuple[str, ...] = ()
    given_times: dict[str, str] = Field(default_factory=dict)
    """Times as the caller gave them, with their offset, by field name."""


class Remembered(Event):
    """A memory was made."""

    TOPIC: ClassVar[str] = "memory.remembered"
    header: ContentHeader
    body: RememberedBody | None


class CorrectedBody(Body):
    """The corrected content."""

    payload: AnyPayload


class Corrected(Event):
    """A memory's content was replaced by a better one; the old one stays in history."""

    TOPIC: ClassVar[str] = "memory.corrected"
    header: ContentHeader
    body: CorrectedBody | None


class RestatedHeader(ContentHeader):
    """
    What a restatement says in clear; ``similarity`` is the cosine of both texts, and None for
    texts that differ in case and white space alone.
    """

    similarity: Thousandths | None = None


class RestatedBody(Body):
    """The words of the restatement, and every tag that the memory has from here on."""

    payload: AnyPayload
    tags: tuple[str, ...] | None = None


class Restated(Event):
    """The same was said again, maybe in other words; the earlier words stay in history."""

    TOPIC: ClassVar[str] = "memory.restated"
    header: RestatedHeader
    body: RestatedBody | None


class AmendedHeader(Header):
    """Which fields changed; numbers in clear, text in the body, times in the columns."""

    changed: tuple[Code, ...]
    importance: Thousandths | None = None


class AmendedBody(Body):
    """New values of the text fields that changed."""

    tags: tuple[str, ...] | None = None
    metadata: dict[str, JsonValue] | None = None
    given_times: dict[str, str] = Field(default_factory=dict)


class Amended(Event):
    """What is known about a memory changed, but not its content."""

    TOPIC: ClassVar[str] = "memory.amended"
    header: AmendedHeader
    body: AmendedBody | None


class InvalidatedHeader(Header):
    """Why a memory is no longer current, and by which memory it was replaced, if any."""

    reason_code: ReasonCode
    replaced_by: UUID | None = None


class Invalidated(Event):
    """A memory is no longer recalled as current."""

    TOPIC: ClassVar[str] = "memory.invalidated"
    header: InvalidatedHeader
    body: Body | None


class Reinstated(Event):
    """An invalidated memory is current again."""

    TOPIC: ClassVar[str] = "memory.reinstated"
    header: Header
    body: Body | None


class ForkedHeader(Header):
    """Where a branch begins and whose memories it holds."""

    parent: UUID
    at: int = Field(ge=-1)
    """Index of the last event of the parent that the branch sees; -1: none."""
    scope: Code
    """``owner``: holds memories of the event's owner alone; ``tenant``: of everybody."""
    parent_owner: UUID | None = None
    """Whose memories the branch inherits, when that is not its own owner."""
    parent_owner_type: Code | None = None


class ForkedBody(Body):
    """The branch's name."""

    name: str


class Forked(Event):
    """A branch was made. It copies nothing."""

    TOPIC: ClassVar[str] = "branch.forked"
    header: ForkedHeader
    body: ForkedBody | None


class DeniedHeader(Header):
    """Which command was refused for want of which right."""

    command: Code
    right: Code


class Denied(Event):
    """A call was refused."""

    TOPIC: ClassVar[str] = "access.denied"
    LOG: ClassVar[str] = "access"
    header: DeniedHeader
    body: Body | None


class RightUsedHeader(Header):
    """Which rights other than ``use`` a command used."""

    command: Code
    rights: tuple[Code, ...]


class RightUsed(Event):
    """A right other than ``use`` was used."""

    TOPIC: ClassVar[str] = "access.right_used"
    LOG: ClassVar[str] = "access"
    header: RightUsedHeader
    body: Body | None


class ExportedHeader(Header):
    """What was handed out: the format, how many events, and up to which index."""

    format: Code
    events: int = Field(ge=0)
    index: int = Field(ge=-1)
    subject: UUID | None = None
    """Pseudonym of the data subject that the export was limited to."""


class Exported(Event):
    """Memories left the ledger as a file."""

    TOPIC: ClassVar[str] = "access.exported"
    LOG: ClassVar[str] = "access"
    header: ExportedHeader
    body: Body | None


class GivenHeader(Header):
    """
    Which memories a call handed to its caller, best or oldest first; never what was asked.

    An answer with more than 500 memories stands in several events with one correlation id; those
    after the first say in ``after_rank`` how many memories stand before theirs.
    """

    command: Code
    """``recall``, ``list``, ``show``, ``history`` or ``diff``."""
    at: int = Field(ge=0)
    """When, by the clock of the process that answered: microseconds since 1970 in UTC."""
    index: int = Field(ge=-1)
    """Index of the memory log that the answer was given as of: its pin."""
    pinned: bool = False
    """Whether the caller asked as of a point; else the answer was the present one."""
    behind: int = Field(ge=0)
    """Events that the view had not posted yet."""
    degraded: tuple[Code, ...] = ()
    """Why the answer may have missed something."""
    after_rank: int | None = Field(default=None, ge=1)
    memory_ids: tuple[UUID, ...] = Field(default=(), max_length=500)
    versions: tuple[int, ...] = Field(default=(), max_length=500)
    """For each memory the index of the memory log that its version begins with."""
    global_index: int | None = Field(default=None, ge=0)
    """The pin in the log of ``_global``; none where global memories played no part."""
    global_places: tuple[int, ...] = Field(default=(), max_length=500)
    """Which of ``memory_ids``, from 0, are global: their versions are indices of that log."""


class GivenBody(Body):
    """What was asked, where the setting is ``full``; sealed for the person who asked."""

    question: str | None = None


def _without_global(header: dict[str, Any], body: Any) -> tuple[dict[str, Any], Any]:
    return {**header, "global_index": None, "global_places": ()}, body


class Recalled(Event):
    """Memories were handed to a caller; since the second form, global ones among them."""

    TOPIC: ClassVar[str] = "access.recalled"
    SCHEMA_VERSION: ClassVar[int] = 2
    UPCASTERS: ClassVar[dict[int, Any]] = {1: _without_global}
    LOG: ClassVar[str] = "access"
    header: GivenHeader
    body: GivenBody | None


class SettingChangedHeader(Header):
    """A governing setting, its value from here on, and the one before."""

    setting: Code
    value: Code
    before: Code


class SettingChanged(Event):
    """A setting that governs what a log holds has another value from here on."""

    TOPIC: ClassVar[str] = "setting.changed"
    LOG: ClassVar[str] = "access"
    header: SettingChangedHeader
    body: Body | None


EVENT_TYPES: Final[tuple[type[Event], ...]] = (
    Remembered,
    Corrected,
    Restated,
    Amended,
    Invalidated,
    Reinstated,
    Forked,
    Denied,
    RightUsed,
    Exported,
    Recalled,
    SettingChanged,
)

TOPICS: Final[dict[str, type[Event]]] = {cls.TOPIC: cls for cls in EVENT_TYPES}
"""The topics that may be decoded. A stored topic that is not here is refused, never imported."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """
    An event ready to be sealed and stored.

    ``sealed_for`` is its sealing set: the keys of the persons it is about, else its owner's.
    Destroying any of them erases the body.
    """

    event: Event
    columns: Columns
    sealed_for: tuple[PersonKey, ...]

    @property
    def originator_id(self) -> UUID:
        return self.columns.stream_id

    @property
    def originator_version(self) -> int:
        return self.columns.stream_version


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event with its place in the ledger."""

    event: Event
    columns: Columns
    recorded: Recorded

    @property
    def originator_id(self) -> UUID:
        return self.columns.stream_id

    @property
    def originator_version(self) -> int:
        return self.columns.stream_version

    @property
    def index(self) -> int:
        return self.recorded.index
