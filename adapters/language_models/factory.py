"""From the setting ``MEMORIALE_MODEL`` to a language model."""

from importlib import import_module
from typing import Any, Final

from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

NONE: Final = "none"
VARIABLE: Final = "MEMORIALE_MODEL"


def make_model(name: str) -> ModelProvider:
    """
    The language model of a name.

    Args:
        name: ``package.module:factory`` for a function of your own that takes nothing and
            returns a ``ModelProvider``.

    Raises:
        InputError: ``none``, or a name that nothing answers to.
    """
    if name == NONE:
        raise InputError(
            f"this needs a language model; set {VARIABLE}.",
            code="no_model",
            field=VARIABLE,
            value=NONE,
            allowed="package.module:factory",
        )
    module, _, attribute = name.partition(":")
    try:
        factory: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise _unknown(name, str(error)) from None
    model = factory()
    if not isinstance(model, ModelProvider):
        raise _unknown(name, f"it returned a {type(model).__name__}")
    return model


def _unknown(name: str, why: str) -> InputError:
    return InputError(
        f"{VARIABLE} is {shown(name)!r}, which gives no language model: {shown(why)}.",
        code="unknown_model",
        field=VARIABLE,
        value=shown(name),
        allowed="package.module:factory",
    )
