"""A ledger apart from the user's own: default settings, in a home that may be thrown away."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoriale.adapters.composition import build
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.settings import Settings


@contextmanager
def ledger_at(home: Path, embedder: str | None = None) -> Iterator[Ledger]:
    """
    A ledger with default settings, whatever the environment and ``memoriale.toml`` say: what is
    shown or measured must not depend on them, nor end up in the user's database.

    Args:
        home: Its folder.
        embedder: Another than the default one.

    Raises:
        UnavailableError: The home cannot be used.
    """
    settings = Settings.model_construct(home=home.expanduser().absolute())
    if embedder is not None:
        settings = settings.model_copy(update={"embedder": embedder})
    with Ledger(build(settings)) as ledger:
        yield ledger


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A home that is removed at the end, with its database server and all that belongs to it."""
    from memoriale.adapters.embedded import stop
    from memoriale.adapters.embedded.layout import find

    home = Path(tempfile.mkdtemp(prefix="memoriale-"))
    try:
        yield home
    finally:
        layout = find(home)
        if layout is not None:
            stop(home)
            # As root the database lies outside the home.
            shutil.rmtree(layout.base, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
