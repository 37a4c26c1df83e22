"""Models from what callers give: a model of its type, or a mapping with its fields."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown
from memoriale.domain.values import check_json

M = TypeVar("M", bound=BaseModel)


def parsed(name: str, model: type[M], value: "M | Mapping[str, Any] | None") -> M:
    """
    A model from a mapping.

    Args:
        name: What the errors call it.
        model: Its type.
        value: The model itself, or its fields; None counts as none.

    Raises:
        InputError: The first field that is wrong, with what is allowed.
    """
    if isinstance(value, model):
        return value
    if value is not None and not isinstance(value, Mapping):
        raise InputError(
            f"{name} must be a mapping or a {model.__name__}.",
            code="bad_value",
            field=name,
            value=type(value).__name__,
            allowed=list(model.model_fields),
        )
    try:
        return model.model_validate(dict(value or {}))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join([name, *(shown(str(part)) for part in first["loc"])])
        raise InputError(
            f"{field}: {first['msg']}.",
            code="bad_value",
            field=field,
            value=type(first.get("input")).__name__,
            allowed=list(model.model_fields),
        ) from None


def parsed_messages(messages: "Iterable[ChatMessage | Mapping[str, Any]]") -> list[ChatMessage]:
    """
    The messages of a conversation, each of which can be stored as it is: in all that it holds
    there is no NaN, infinity, NUL or lone surrogate.

    Raises:
        InputError: As ``parsed`` and ``check_json``; ``messages[2].content`` is such a field.
    """
    turns = []
    for place, message in enumerate(messages):
        turn = parsed(f"messages[{place}]", ChatMessage, message)
        check_json(f"messages[{place}]", turn.model_dump(exclude_defaults=True))
        turns.append(turn)
    return turns
