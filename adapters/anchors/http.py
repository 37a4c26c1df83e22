"""One request over HTTP, with limits on time and length."""

import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a server said.

    Args:
        status: Of HTTP; errors too.
        body: At most a mebibyte.
    """

    status: int
    body: bytes


class NoAnswerError(Exception):
    """There is no answer; the text says why, in a few words."""


def post(url: str, body: bytes, content_type: str, seconds: float) -> Answer:
    """
    The answer to a message. Redirects are not followed; proxies are those of the environment.

    Args:
        url: Where.
        body: The message.
        content_type: Of the message.
        seconds: For each wait on the network, and for the answer as a whole.

    Raises:
        NoAnswerError: The server cannot be reached, or its answer takes too long or is too long.
    """
    deadline = time.monotonic() + seconds
    request = Request(url, body, {"Content-Type": content_type, "User-Agent": "memoriale"})
    try:
        try:
            with build_opener(_NoRedirect()).open(request, timeout=seconds) as response:
                return Answer(response.status, _read(response, deadline))
        except HTTPError as error:
            with error:
                return Answer(error.code, _read(error, deadline))
    except TimeoutError:
        raise NoAnswerError(f"it did not answer within {seconds:g} seconds") from None
    except URLError as error:
        raise _unreachable(error.reason) from None
    except (OSError, HTTPException) as error:
        raise _unreachable(error) from None


class _NoRedirect(HTTPRedirectHandler):
    """Whoever is named there is not who was configured."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _read(response: Any, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise NoAnswerError(f"its answer is longer than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() >= deadline:
            raise TimeoutError
    return b"".join(parts)


def _unreachable(reason: object) -> NoAnswerError:
    if isinstance(reason, TimeoutError):
        return NoAnswerError("it did not answer in time")
    why = reason.strerror if isinstance(reason, OSError) else None
    return NoAnswerError(f"it cannot be reached: {why or type(reason).__name__}")
