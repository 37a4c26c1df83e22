"""Reading what a language model answered: strictly, so that nothing half understood is stored."""

import re
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from memoriale.domain.errors import UnavailableError
from memoriale.domain.text import shown
from memoriale.domain.values import parse_json_strictly

M = TypeVar("M", bound=BaseModel)

_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.S)


class BadReplyError(UnavailableError):
    """A model's reply cannot be used. Nothing was stored; asking again may help."""


def read_reply(text: str, model: type[M]) -> M:
    """
    The object in a reply: the whole of it, or the one fenced block in it, as strict JSON.

    Args:
        text: The reply.
        model: What it must be.

    Raises:
        BadReplyError: It is cut off, no JSON, or not such an object.
    """
    blocks = _FENCE.findall(text)
    candidate = blocks[0] if len(blocks) == 1 else text
    try:
        return model.model_validate(parse_json_strictly(candidate.strip()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise unusable(f"{where}: {first['msg']}", text) from None
    except (RecursionError, ValueError) as error:
        raise unusable(str(error), text) from None


def unusable(why: str, text: str) -> BadReplyError:
    """
    The error for a reply that cannot be used.

    Args:
        why: What is wrong with it.
        text: The reply.
    """
    return BadReplyError(
        f"the model's reply cannot be used ({shown(why)}); nothing was stored.",
        code="bad_reply",
        field="model",
        value=shown(text),
    )
