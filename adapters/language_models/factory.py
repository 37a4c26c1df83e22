"""From the setting ``MEMORIALE_MODEL`` to a language model."""

import re
from importlib import import_module
from typing import Any, Final

from memoriale.adapters.embeddings.endpoint import Endpoint
from memoriale.adapters.language_models.failures import VARIABLE
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

NONE: Final = "none"
ALLOWED: Final = "openai:MODEL, another model name of pydantic-ai, or package.module:factory"
EXTRA: Final = "pip install 'memoriale[llm]'"
_FACTORY: Final = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)+):(?P<name>[^\W\d]\w*)")


def make_model(name: str, endpoint: Endpoint | None = None) -> ModelProvider:
    """
    The language model of a name.

    Args:
        name: ``openai:MODEL`` for chat completions of an OpenAI-compatible endpoint, another
            ``provider:model`` of pydantic-ai, or ``package.module:factory`` for a function of
            your own that takes nothing and returns a ``ModelProvider``.
        endpoint: Where ``openai:`` asks; default: OpenAI, without a key.

    Raises:
        InputError: ``none``, a name that nothing answers to, or a package that is missing.
    """
    if name == NONE:
        raise InputError(
            f"this needs a language model; set {VARIABLE}.",
            code="no_model",
            field=VARIABLE,
            value=NONE,
            allowed=ALLOWED,
        )
    match = _FACTORY.fullmatch(name)
    if match is None:
        return _of_pydantic_ai(name, endpoint)
    return _of_factory(name, match["module"], match["name"])


def _of_factory(name: str, module: str, attribute: str) -> ModelProvider:
    try:
        factory: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise _unknown(name, str(error)) from None
    model = factory()
    if not isinstance(model, ModelProvider):
        raise _unknown(name, f"it returned a {type(model).__name__}")
    return model


def _of_pydantic_ai(name: str, endpoint: Endpoint | None) -> ModelProvider:
    provider, _, model = name.partition(":")
    if not provider or not model.strip() or not name.isprintable():
        raise _unknown(name, "it names no model")
    try:
        from pydantic_ai.exceptions import UserError

        from memoriale.adapters.language_models.pydantic_ai import PydanticAiModel
    except ImportError:
        raise _unknown(name, f"pydantic-ai is not installed; {EXTRA}", "not_installed") from None
    try:
        return PydanticAiModel(name, endpoint)
    except ImportError as error:
        raise _unknown(name, str(error), "not_installed") from None
    except UserError as error:
        raise _unknown(name, error.message) from None


def _unknown(name: str, why: str, code: str = "unknown_model") -> InputError:
    return InputError(
        f"{VARIABLE} is {shown(name)!r}, which gives no language model: {shown(why)}.",
        code=code,
        field=VARIABLE,
        value=shown(name),
        allowed=ALLOWED,
    )
