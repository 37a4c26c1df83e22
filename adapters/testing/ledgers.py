"""Ledgers for tests: an embedded database in a temporary home, and nothing left at the end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from memoriale.adapters.composition import build
from memoriale.adapters.demo.home import temporary_home
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.settings import Settings
from memoriale.domain.principal import ALL_RIGHTS, Right

EMBEDDER = "memoriale.adapters.embeddings.hashing:make"


@contextmanager
def temporary_ledger(
    *,
    clock: Callable[[], datetime] | None = None,
    rights: Iterable[Right | str] = ALL_RIGHTS,
    wait: float = 30.0,
) -> Iterator[Ledger]:
    """
    An empty ledger of its own, with the embedder ``HashEmbedder``, whatever the environment and
    ``memoriale.toml`` say. At the end its server is stopped and everything is removed.

    Args:
        clock: The time of reads, such as a ``FixedClock``; default: the database's.
        rights: As for ``memoriale.open``.
        wait: Seconds that a read waits for a view, long enough for a busy machine.
    """
    with temporary_home() as home:
        settings = Settings.model_construct(
            home=home, embedder=EMBEDDER, embedded_idle=0.0, wait=wait
        )
        with Ledger(build(settings, clock=clock), rights) as ledger:
            yield ledger
