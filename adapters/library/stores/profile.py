"""``UserProfile``: who a user is, field by field."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.domain.chat import ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import choice
from memoriale.domain.payloads import ProfileField
from memoriale.domain.rendering import in_words, quoted
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.ending import end_all
from memoriale.domain.stores.profile import (
    BUILT_IN,
    PROFILE_FIELD,
    UpdateProfile,
    UserProfileData,
    parse_patch,
    place_of,
    profile_of,
)
from memoriale.domain.text import check_text
from memoriale.domain.tools import ToolDef


class UserProfile(Store):
    """
    Profiles of users. Each field is a memory of its own, with its history.

    Taken from ``UserProfile`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its user is meant where ``user_id`` is not given.
        custom_fields: Names of further fields that the tool offers and extraction looks for.
    """

    def __init__(self, storage: Memory, *, custom_fields: Sequence[str] = ()) -> None:
        super().__init__(storage)
        self.custom_fields = tuple(check_text("custom_fields", name) for name in custom_fields)

    def get_profile(
        self, user_id: str | None = None, *, as_of: AsOf = None
    ) -> UserProfileData | None:
        """
        The profile; None when nothing is known.

        Args:
            user_id: Whose; default: the handle's user.
            as_of: As then: an index or a time.
        """
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        seen = self._read(memory, owner, (PROFILE_FIELD,), "profile.show", as_of)
        current = [] if seen is None else seen.current(PROFILE_FIELD)
        self._told(memory, "profile.show", current, seen, as_of)
        return profile_of(seen)

    def update_profile(
        self,
        user_id: str | None = None,
        patch: Mapping[str, Any] | None = None,
        *,
        source: str = "manual",
        model: str | None = None,
        prompt_version: str | None = None,
        source_run: str | None = None,
    ) -> UserProfileData | None:
        """
        Changes fields of the profile in one append.

        Args:
            user_id: Whose; default: the handle's user.
            patch: New values of ``name``, ``preferred_name``, ``role``, ``company``,
                ``location``, ``timezone``, ``language``, and of ``custom`` (an object). A field
                that is missing stays; None clears it.
            source: ``manual``, or ``auto`` when a model extracted them.
            model, prompt_version, source_run: What extracted them.

        Returns:
            The profile after it; None when nothing is known any more.

        Raises:
            InputError: An unknown field or a wrong value; nothing was stored.
        """
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        extracted = choice("source", source, ("manual", "auto")) == "auto"
        parsed = parse_patch({} if patch is None else patch)
        shared = {
            "source_tier": SourceTier.LLM_EXTRACTED if extracted else SourceTier.MANUAL,
            "model": model,
            "prompt_version": prompt_version,
            "source_run": source_run,
        }
        decision = UpdateProfile(
            parsed,
            lambda name, custom, value: self._field(memory, name, custom, value, shared),
            extracted=extracted,
        )
        self._decide(
            memory, owner, (PROFILE_FIELD,), decision, "profile.set", {"patch": dict(patch or {})}
        )
        return self.get_profile(user_id)

    def extract_and_update(
        self,
        user_id: str | None = None,
        messages: Messages = (),
        model: ModelProvider | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Fields of the profile from a conversation; see ``extract_now``."""
        return extract_now(
            "profile",
            self._as(user=user_id),
            messages,
            model,
            timezone,
            custom_fields=self.custom_fields,
        )

    def clear(self, user_id: str | None = None) -> int:
        """
        Ends every field as ``retracted``; only ``erase`` destroys.

        Returns:
            How many fields ended.
        """
        memory = self._as(user=user_id)
        decided = self._decide(
            memory,
            self._owner(memory, "user"),
            (PROFILE_FIELD,),
            lambda seen: end_all(seen, PROFILE_FIELD, ReasonCode.RETRACTED),
            "profile.clear",
            {},
        )
        return len(decided.ended())

    def get_context_string(self, user_id: str | None = None, *, as_of: AsOf = None) -> str:
        """The known fields as lines for a prompt; empty when there are none."""
        section = self.context_section(user_id, as_of=as_of)
        return self._shown(self._as(user=user_id), "profile.context", section, as_of)

    def context_section(self, user_id: str | None = None, *, as_of: AsOf = None) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        memory = self._as(user=user_id)
        owner = self._owner(memory, "user")
        seen = self._read(memory, owner, (PROFILE_FIELD,), "profile.show", as_of)
        current = [] if seen is None else seen.current(PROFILE_FIELD)
        lines = [
            line_of(
                state, f"- {quoted(state.payload.field)}: {quoted(in_words(state.payload.value))}"
            )
            for state in sorted(current, key=place_of)
            if isinstance(state.payload, ProfileField)
        ]
        return Section(name="user_profile", visible_to="user", lines=lines)

    def as_tool(self) -> ToolDef:
        """
        ``update_user_profile`` for a language model: changes fields of the handle's user, null
        clears one; answers the profile.
        """
        text = {"type": ["string", "null"]}
        custom: dict[str, Any] = {"type": ["object", "null"], "additionalProperties": True}
        if self.custom_fields:
            custom["properties"] = {name: {} for name in self.custom_fields}
        return ToolDef(
            name="update_user_profile",
            description=(
                "Changes what is known about the user. Give only the fields that change; null "
                "clears a field. Answers the whole profile."
            ),
            parameters={
                "type": "object",
                "properties": {**dict.fromkeys(BUILT_IN, text), "custom": custom},
                "additionalProperties": False,
            },
            handler=self._updated,
        )

    def get_tools(self) -> list[ToolDef]:
        """The tools of this store."""
        return [self.as_tool()]

    def _updated(self, given: Mapping[str, Any]) -> dict[str, Any]:
        profile = self.update_profile(patch=given)
        return {} if profile is None else profile.model_dump(mode="json", exclude_none=True)

    def _field(
        self,
        memory: Memory,
        name: str,
        custom: bool,
        value: JsonValue,
        shared: Mapping[str, Any],
    ) -> Remember:
        return self._command(
            memory,
            f"{name}: {in_words(value)}",
            kind=PROFILE_FIELD,
            details={"field": name, "value": value, "custom": custom},
            **shared,
        )
