"""Where embeddings and replies of language models come from over HTTP: address and key."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

DEFAULT_URL: Final = "https://api.openai.com/v1"
BASE_URL: Final = "OPENAI_BASE_URL"
API_KEY: Final = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Endpoint:
    """
    An OpenAI-compatible service.

    Args:
        url: Address that ``/embeddings`` or ``/chat/completions`` is appended to.
        key: Sent as a bearer token; never shown. None sends none.

    Raises:
        InputError: Either cannot be what it should be.
    """

    url: str = DEFAULT_URL
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        if self.key is not None:
            _check_key(self.key)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        secret = "@" in parts.netloc or bool(parts.query)
    except ValueError:
        valid, secret = False, True
    if not valid or secret or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(
            f"{BASE_URL} is not an address of an endpoint; write it like {DEFAULT_URL}, without "
            f"a user name or a query, and the key into {API_KEY}.",
            code="bad_setting",
            field=BASE_URL,
            # An address with a secret in it is not repeated.
            value=None if secret else shown(url),
            allowed="http://host/path or https://host/path",
        )


def _check_key(key: str) -> None:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(
            f"{API_KEY} cannot be a key: it is empty or has blanks, line ends or letters beyond "
            "ASCII.",
            code="bad_setting",
            field=API_KEY,
            allowed="printable ASCII without blanks",
        )
