"""``memoriale.open`` and ``open_async``: a ledger, as the settings say."""

from typing import TYPE_CHECKING, Any

from memoriale.adapters.composition import build
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.settings import load_settings
from memoriale.domain.principal import ALL_RIGHTS

if TYPE_CHECKING:
    from memoriale.adapters.library.asynchronous import AsyncLedger


def open(*, rights: Any = None, **settings: Any) -> Ledger:
    """
    Opens a ledger.

    Without arguments it lies in ``~/.memoriale`` and starts its own PostgreSQL there.

    Args:
        rights: Rights that this program asserts; default: all of them.
        **settings: Fields of ``Settings``, such as ``home``, ``database_url``, ``embedder`` or
            ``wait``; each overrides the variable ``MEMORIALE_<NAME>`` and ``memoriale.toml``.

    Raises:
        InputError: A wrong setting; names key, value and what is allowed.
        UnavailableError: Database or home cannot be used.
    """
    infrastructure = build(load_settings(**settings))
    return Ledger(infrastructure, ALL_RIGHTS if rights is None else rights)


def open_async(*, rights: Any = None, threads: int = 8, **settings: Any) -> "AsyncLedger":
    """
    Opens a ledger for programs with an event loop: ``async with open_async() as ledger``.

    Args:
        rights: As for ``open``.
        threads: How many calls run at once, 1..256; further ones wait their turn.
        **settings: As for ``open``.

    Raises:
        InputError: A wrong number of threads; the other errors of ``open`` come when it is
            entered.
    """
    from memoriale.adapters.library.asynchronous import AsyncLedger

    return AsyncLedger(lambda: open(rights=rights, **settings), threads)
