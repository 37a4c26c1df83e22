"""The base of payloads, and the table that says which model holds the memories of a kind."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny

from memoriale.domain.errors import InputError
from memoriale.domain.kinds import KINDS


class Payload(BaseModel):
    """
    Base of payloads. Stored for ever, so a field is only ever added with an empty default.

    ``kind`` names the row of the table of kinds; ``content`` is the text that recall searches.
    ``FORMAT`` counts how often fields were added, from 1.
    """

    FORMAT: ClassVar[int] = 1

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    content: str


_MODELS: dict[str, type[Payload]] = {}


def register_payload(kind: str, model: type[Payload]) -> None:
    """
    Says which model holds the memories of a kind. The kind must stand in ``KINDS`` first.

    Args:
        kind: Name of the kind.
        model: A frozen subclass of ``Payload``.

    Raises:
        InputError: An unknown kind, or one that has another model.
    """
    KINDS.require(kind)
    if _MODELS.setdefault(kind, model) is not model:
        raise InputError(
            f"kind {kind!r} has a payload model already; choose another name.",
            code="taken",
            field="kind",
            value=kind,
        )


def payload_model(kind: str) -> type[Payload]:
    """
    The model that holds memories of a kind.

    Raises:
        InputError: An unknown kind; the error lists the known ones.
    """
    KINDS.require(kind)
    if kind not in _MODELS:
        raise InputError(
            f"kind {kind!r} has no payload model; register one with it.",
            code="unknown_kind",
            field="kind",
            value=kind,
            allowed=list(_MODELS),
        )
    return _MODELS[kind]


def _parsed(value: Any) -> Any:
    if isinstance(value, dict):
        return payload_model(value.get("kind", "")).model_validate(value)
    return value


AnyPayload = Annotated[SerializeAsAny[Payload], BeforeValidator(_parsed)]
"""A payload of any registered kind; the field ``kind`` tells which."""
