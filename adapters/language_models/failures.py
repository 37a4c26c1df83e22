"""What went wrong with a language model, in errors of ours."""

from collections.abc import Iterator
from typing import Final

from memoriale.adapters.embeddings.endpoint import API_KEY, BASE_URL
from memoriale.domain.errors import UnavailableError
from memoriale.domain.text import shown

VARIABLE: Final = "MEMORIALE_MODEL"
_WHY: Final = {
    "length": "its reply was cut off after {} tokens",
    "content_filter": "it refused to answer",
    "tool_call": "it called a tool that nobody offered",
    "empty": "its reply has no text",
}
STUMBLES: Final = (*(AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError),)
"""What pydantic-ai lets through, beside its own errors, when a reply is not as it expects."""


class ModelError(UnavailableError):
    """A language model gave no reply. Asking again may help."""

    default_code = "model_failed"


class RefusedByModelError(ModelError):
    """Asking again does not help before somebody changes the key, the model or the account."""

    retry = False


def no_answer(model: str, why: str, max_tokens: int) -> ModelError:
    """
    The error for a reply that came but is none.

    Args:
        model: Its name.
        why: ``empty``, or how pydantic-ai says that the reply ended.
        max_tokens: Longest reply that was asked for.
    """
    told = _WHY.get(why, "its reply did not end as it should").format(max_tokens)
    return _error(ModelError, model, told, "model_failed")


def as_ours(error: Exception, model: str, timeout: float) -> ModelError:
    """
    An error of pydantic-ai as one of ours, with the seconds that the endpoint asks to wait.

    Args:
        error: Its text may repeat the conversation or a key, and is not repeated.
        model: The model's name.
        timeout: Seconds that it had.
    """
    from pydantic_ai import exceptions as theirs

    from memoriale.adapters.language_models.client import TooLongError

    if isinstance(error, (theirs.ModelTimeoutError, theirs.ModelRequestTimeout)):
        return _error(ModelError, model, f"it gave no reply within {timeout:g} s", "timeout")
    if isinstance(error, theirs.ModelRateLimitError):
        wait = error.retry_after or 0.0
        told = f"it is asked too often{f' and wants {wait:g} s of rest' if wait else ''}"
        limited = _error(ModelError, model, told, "rate_limited")
        limited.retry_after = wait
        return limited
    if isinstance(error, theirs.ModelAuthenticationError):
        told = f"it refused the key; check {API_KEY}"
        return _error(RefusedByModelError, model, told, "refused_key")
    if isinstance(error, theirs.ModelQuotaExceededError):
        told = "the account's quota is used up"
        return _error(RefusedByModelError, model, told, "no_quota")
    if isinstance(error, theirs.ModelRequestRejectedError):
        told = f"it refused the request{_status(error)}; check {BASE_URL} and the model"
        return _error(RefusedByModelError, model, told, "model_failed")
    if any(isinstance(cause, TooLongError) for cause in _causes(error)):
        return _error(ModelError, model, "its answer is packed or too long", "model_failed")
    if isinstance(error, theirs.ModelConnectionError):
        told = "it cannot be reached, or the connection broke"
        return _error(ModelError, model, told, "model_failed")
    if isinstance(error, theirs.ModelAPIError):
        failed = _error(ModelError, model, f"it answered with an error{_status(error)}", None)
        failed.retry_after = error.retry_after or 0.0
        return failed
    told = f"its answer is not one of the protocol ({type(error).__name__})"
    return _error(ModelError, model, told, "model_failed")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    return f" ({status})" if isinstance(status, int) else ""


def _error(cls: type[ModelError], model: str, why: str, code: str | None) -> ModelError:
    return cls(
        f"the language model {shown(model)!r} failed: {why}.",
        code=code,
        field=VARIABLE,
        value=shown(model),
    )
