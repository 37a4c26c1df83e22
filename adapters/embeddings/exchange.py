"""Exchanging messages with an endpoint for embeddings over HTTP."""

import json
import ssl
import time
from http.client import HTTPException
from threading import local
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from memoriale.adapters.embeddings.endpoint import API_KEY, BASE_URL, Endpoint
from memoriale.domain.errors import UnavailableError

_MOST_BYTES: Final = 256 << 20
"""Of an answer."""
_PASSING: Final = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_CODES: Final = frozenset(
    (
        *("context_length_exceeded", "insufficient_quota", "invalid_api_key"),
        *("model_not_found", "rate_limit_exceeded"),
    )
)
"""Error codes that may be shown. Anything else that an endpoint says may repeat a text or a key."""


class EndpointError(UnavailableError):
    """
    The endpoint cannot be reached, or answered with an error.

    ``status`` is the HTTP status, 0 without an answer; ``passing`` says whether to ask again.
    """

    default_code = "embedder_failed"
    status = 0
    passing = False


class Exchange:
    """
    Sends requests to an endpoint; safe to share between threads. Redirects are not followed;
    proxies are taken from the environment, as usual.

    Errors hold neither what was sent, nor the key, nor what the endpoint said.

    Args:
        endpoint: Where.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._openers = local()

    def post(self, message: dict[str, Any], seconds: float) -> bytes:
        """
        The answer to a message.

        Args:
            message: Sent as JSON.
            seconds: For each wait on the network, and for the answer as a whole.

        Raises:
            EndpointError: There is no answer, or it is an error.
        """
        deadline = time.monotonic() + seconds
        try:
            with self._opener().open(self._request(message), timeout=seconds) as response:
                return _read(response, deadline)
        except HTTPError as error:
            with error:
                raise _answered(error) from None
        except URLError as error:
            raise _unreachable(error.reason) from None
        except (OSError, HTTPException) as error:
            raise _unreachable(error) from None

    def _request(self, message: dict[str, Any]) -> Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._endpoint.key is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        url = f"{self._endpoint.url.rstrip('/')}/embeddings"
        return Request(url, json.dumps(message).encode(), headers)

    def _opener(self) -> OpenerDirector:
        # One for each thread: their handlers keep state while they work.
        opener: OpenerDirector | None = getattr(self._openers, "opener", None)
        if opener is None:
            opener = self._openers.opener = build_opener(_NoRedirect())
        return opener


class _NoRedirect(HTTPRedirectHandler):
    """Following one would hand the key and the texts to whoever is named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _read(response: Any, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise _error(f"its answer is longer than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() >= deadline:
            raise TimeoutError
    return b"".join(parts)


def _answered(answer: HTTPError) -> EndpointError:
    code = _code_of(answer)
    known = f" ({code})" if code else ""
    passing = answer.code in _PASSING and code != "insufficient_quota"
    advice = "" if passing else f"; check {BASE_URL}, {API_KEY} and the model"
    error = _error(f"it answered {answer.code}{known}{advice}")
    error.status, error.passing = answer.code, passing
    error.retry_after = _retry_after(answer)
    return error


def _code_of(answer: HTTPError) -> str | None:
    try:
        told = json.loads(answer.read(1 << 16))["error"]
        codes = {told.get("code"), told.get("type")}
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    except (KeyError, TypeError, AttributeError):
        return None
    return next(iter(codes & _CODES), None)


def _retry_after(answer: HTTPError) -> float:
    told = answer.headers.get("Retry-After", "")
    return float(told) if told.isascii() and told.isdigit() and len(told) < 6 else 0.0


def _unreachable(reason: object) -> EndpointError:
    if isinstance(reason, TimeoutError):
        error = _error("it did not answer in time", "embedder_timeout")
    elif isinstance(reason, ssl.SSLCertVerificationError):
        return _error(f"its certificate is refused: {reason.verify_message}")
    else:
        why = reason.strerror if isinstance(reason, OSError) else None
        error = _error(f"it cannot be reached: {why or type(reason).__name__}")
    error.passing = True
    return error


def _error(why: str, code: str = "embedder_failed") -> EndpointError:
    message = f"the embedder's endpoint failed: {why}."
    return EndpointError(message, code=code, field="MEMORIALE_EMBEDDER")
