"""What is remembered of persons: notes, facts, and the fields of a profile."""

from typing import ClassVar

from pydantic import JsonValue

from memoriale.domain.payloads.base import Payload, register_payload


class Note(Payload):
    """Anything worth remembering."""


class Fact(Payload):
    """A statement about somebody. One is current for each ``subject`` of an owner and branch."""

    FORMAT: ClassVar[int] = 2

    subject: str | None = None
    """The aspect that the fact is about, such as ``preference:contact``."""
    input: str | None = None
    """The message that the fact was taken from."""


class ProfileField(Payload):
    """One field of a user's profile; ``content`` says it in words."""

    field: str
    value: JsonValue = None
    custom: bool = False
    """Whether it is one of the user's own fields, beyond the built-in ones."""


register_payload("note", Note)
register_payload("fact", Fact)
register_payload("profile_field", ProfileField)
