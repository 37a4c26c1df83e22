"""How generations of a view are made, opened, compared and looked after."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from memoriale.projections.catch_up import BATCH_SIZE
from memoriale.projections.view import View

V = TypeVar("V", bound=View)


@dataclass(frozen=True, slots=True)
class Former(Generic[V]):
    """
    A live generation of another fingerprint, as it serves until its successor is built.

    Args:
        view: To read from.
        postable: Whether new events may be posted into it meanwhile.
    """

    view: V
    postable: bool


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """
    One row in which a view and the log disagree.

    Args:
        what: ``missing``: the row is lacking; ``orphaned``: nothing in the log makes it;
            ``stale``: a column differs; ``duplicated``: its key is there more than once;
            ``vectors``: its vector is missing, damaged or of another model.
        row: Table and key.
        detail: The columns that differ, by name; never their values.
    """

    what: str
    row: str
    detail: str = ""


@dataclass(frozen=True)
class ViewKind(Generic[V]):
    """
    How generations of a view are made and opened.

    Args:
        name: The view's permanent name.
        fingerprint: Its format, and the model if it has one; a view built with another
            fingerprint is rebuilt.
        create: Makes an empty view in a folder that exists and is empty.
        open: Opens the view in a folder, or raises ``CorruptViewError``.
        exclusive: Its files can be used by one process at a time, so they are open only while
            the writer lock is held. Otherwise readers need no lock.
        batch: Rows that are posted at a time, about.
        open_former: Opens the generation in a folder that was built with another fingerprint,
            to be read while its successor is built; None when that cannot be. Without it such
            a view is rebuilt before it is read. Not for an exclusive view.
        compare: The rows in which a view differs from another one that was posted afresh, at
            the same position; in bounded memory.
        beyond: Whether a view holds rows of events that it has not applied by its position.
        maintain: Tidies the files of a view for faster reads and returns whether there was
            anything to do; the caller holds the writer lock.
    """

    name: str
    fingerprint: str
    create: Callable[[Path], V]
    open: Callable[[Path], V]
    exclusive: bool
    batch: int = BATCH_SIZE
    open_former: Callable[[Path, str], Former[V] | None] | None = None
    compare: Callable[[V, V], Iterator[Discrepancy]] | None = None
    beyond: Callable[[V], bool] | None = None
    maintain: Callable[[V], bool] | None = None
