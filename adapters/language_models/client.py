"""The client that asks an OpenAI-compatible endpoint for replies of a language model."""

from collections.abc import AsyncIterator
from typing import Final

import httpx2
from openai import AsyncOpenAI

from memoriale.adapters.embeddings.endpoint import Endpoint

MOST_BYTES: Final = 8 << 20
"""Of an answer."""
_NO_KEY: Final = "none"


class TooLongError(httpx2.TransportError):
    """An answer has more bytes than anybody could have asked for, or is packed."""


def bounded_client(endpoint: Endpoint) -> AsyncOpenAI:
    """
    A client that follows no redirect, which would hand the key and the conversation to whoever is
    named, asks nothing twice, and reads no more of an answer than it needs.
    """
    http = httpx2.AsyncClient(
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
    )
    return AsyncOpenAI(
        base_url=endpoint.url, api_key=endpoint.key or _NO_KEY, http_client=http, max_retries=0
    )


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise TooLongError("packed")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MOST_BYTES:
                raise TooLongError("long")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
