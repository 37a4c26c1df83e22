"""A user's profile: one memory for each field, so that each has its own history."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import ProfileField
from memoriale.domain.steps import End, Make, Replace, Revive, Slice, Step
from memoriale.domain.text import canonical_text_v1, shown
from memoriale.domain.values import check_metadata

PROFILE_FIELD: Final = "profile_field"
BUILT_IN: Final = (
    "name",
    "preferred_name",
    "role",
    "company",
    "location",
    "timezone",
    "language",
)

Patch = Mapping[tuple[str, bool], JsonValue]
"""New values by field and whether it is a custom one; None clears."""


class UserProfileData(BaseModel):
    """A user's profile. A field that is not known is None; ``custom`` holds the user's own."""

    model_config = ConfigDict(frozen=True)

    name: str | None = None
    preferred_name: str | None = None
    role: str | None = None
    company: str | None = None
    location: str | None = None
    timezone: str | None = None
    language: str | None = None
    custom: dict[str, JsonValue] = Field(default_factory=dict)
    updated_at: datetime


def parse_patch(patch: Mapping[str, Any]) -> Patch:
    """
    A patch from a mapping of built-in fields, and of ``custom`` to a mapping of its own.

    Raises:
        InputError: An unknown field, or a built-in one that is neither text nor None.
    """
    given = check_metadata("patch", patch)
    custom = given.pop("custom", None) or {}
    if not isinstance(custom, dict):
        raise _bad("patch.custom", custom, "an object, or null")
    parsed: dict[tuple[str, bool], JsonValue] = {}
    for name, value in given.items():
        if name not in BUILT_IN:
            raise _bad(f"patch.{shown(name)}", name, [*BUILT_IN, "custom"])
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise _bad(f"patch.{name}", value, "text that is not blank, or null to clear it")
        parsed[name, False] = value
    return {**parsed, **{(name, True): value for name, value in custom.items()}}


class UpdateProfile:
    """
    The decision to change fields of a profile.

    A field that is not named stays; None clears it as ``forgotten``; an equal value changes
    nothing. A value that was cleared does not come back from what a model extracted.

    Args:
        patch: New values.
        command_of: A checked command from a field, whether it is custom, and its value.
        extracted: Whether a model extracted them.
    """

    def __init__(
        self,
        patch: Patch,
        command_of: Callable[[str, bool, JsonValue], Remember],
        *,
        extracted: bool = False,
    ) -> None:
        self.patch, self.command_of, self.extracted = patch, command_of, extracted

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        fields = _latest(seen)
        steps: list[Step] = []
        for (name, custom), value in self.patch.items():
            steps += self._set(fields.get((name, custom)), name, custom, value)
        return steps

    def _set(
        self, state: MemoryState | None, name: str, custom: bool, value: JsonValue
    ) -> list[Step]:
        current = state is not None and state.status is Status.CURRENT
        if value is None:
            return self._clear(state) if state is not None and current else []
        if state is None:
            return [Make(command=self.command_of(name, custom, value))]
        if current and _value(state) == value:
            return []
        if not current and self.extracted and _was_forgotten(state, value):
            return []
        replace = Replace(memory_id=state.memory_id, command=self.command_of(name, custom, value))
        return [replace] if current else [Revive(memory_id=state.memory_id), replace]

    def _clear(self, state: MemoryState) -> list[Step]:
        return [End(memory_id=state.memory_id, because=ReasonCode.FORGOTTEN)]


def profile_of(seen: Slice | None) -> UserProfileData | None:
    """The profile as folded; None when no field is known."""
    current = [] if seen is None else seen.current(PROFILE_FIELD)
    if not current:
        return None
    fields = [(s.payload, s) for s in current if isinstance(s.payload, ProfileField)]
    return UserProfileData(
        **{payload.field: payload.value for payload, _ in fields if not payload.custom},  # type: ignore[arg-type]
        custom={payload.field: payload.value for payload, _ in fields if payload.custom},
        updated_at=max(state.changed_at for state in current),
    )


def place_of(state: MemoryState) -> tuple[bool, int, int]:
    """Where a field stands in a list: the built-in ones in their order, then the custom ones."""
    payload = state.payload
    assert isinstance(payload, ProfileField)
    place = BUILT_IN.index(payload.field) if payload.field in BUILT_IN else len(BUILT_IN)
    return payload.custom, place, state.first_index


def _latest(seen: Slice) -> dict[tuple[str, bool], MemoryState]:
    """For each field the memory that holds it: the current one, else the last that did."""
    found: dict[tuple[str, bool], MemoryState] = {}
    order = sorted(seen.states.values(), key=lambda s: (s.status is Status.CURRENT, s.index))
    for state in order:
        if isinstance(state.payload, ProfileField):
            found[state.payload.field, state.payload.custom] = state
    return found


def _value(state: MemoryState) -> JsonValue:
    return state.payload.value if isinstance(state.payload, ProfileField) else None


def _was_forgotten(state: MemoryState, value: JsonValue) -> bool:
    former = _value(state)
    same = former == value or (
        isinstance(former, str)
        and isinstance(value, str)
        and canonical_text_v1(former) == canonical_text_v1(value)
    )
    return same and state.reason_code is ReasonCode.FORGOTTEN


def _bad(field: str, value: object, allowed: Any) -> InputError:
    return InputError(
        f"{field} is {shown(value)}; allowed is {allowed}.",
        code="bad_value",
        field=field,
        value=shown(value),
        allowed=allowed,
    )
