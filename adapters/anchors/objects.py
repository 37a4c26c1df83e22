"""An anchor in an object store: each checkpoint an object that is made once, never replaced."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memoriale.adapters.anchors.anchor import (
    ROOT,
    UNREACHABLE,
    Held,
    Results,
    conflict,
    is_path,
    one_by_one,
    path_of,
    same_statement,
)
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SECONDS: Final = 5
_READERS: Final = 16


class ObjectAnchor:
    """
    A bucket and a prefix in S3, Google Cloud Storage, Azure, or what speaks like them.

    The store itself refuses to overwrite (``If-None-Match``). Credentials and endpoint come from
    the variables that the service's own tools read, such as ``AWS_ACCESS_KEY_ID``.

    Args:
        place: Which one.

    Raises:
        UnavailableError: The library is not installed, or the address cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._store = self._opened()
        self._known: dict[str, str] = {}

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """Adds checkpoints, one after the other."""
        return one_by_one(checkpoints, self._result)

    def newest(self, origins: Sequence[str]) -> Mapping[str, Held]:
        """The largest checkpoint of each origin; only names after those seen are listed."""
        with self._translated():
            for origin in origins:
                names = self._names(origin, after=self._known.get(origin))
                if names:
                    self._known[origin] = names[-1]
            known = {o: self._known[o] for o in origins if o in self._known}
            return {origin: self._read(path) for origin, path in known.items()}

    def logs(self) -> list[str]:
        """Every log of which there is anything."""
        import obstore

        with self._translated():
            found = obstore.list_with_delimiter(self._store, f"{ROOT}/")
            return sorted(prefix.rstrip("/") for prefix in found["common_prefixes"])

    def held(self, log: str) -> Iterator[Held]:
        """Every checkpoint of a log."""
        with self._translated(), ThreadPoolExecutor(_READERS) as readers:
            yield from readers.map(self._read, self._names(log))

    def _result(self, checkpoint: Published) -> MemorialeError | None:
        try:
            with self._translated():
                return self._put(checkpoint)
        except UnavailableError as error:
            return error

    def _put(self, checkpoint: Published) -> MemorialeError | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, path_of(checkpoint), checkpoint.note, mode="create")
        except AlreadyExistsError:
            if not same_statement(checkpoint.note, self._read(path_of(checkpoint)).note):
                return conflict(self.place, path_of(checkpoint))
        return None

    def _names(self, prefix: str, after: str | None = None) -> list[str]:
        import obstore

        found = obstore.list(self._store, prefix + "/", offset=after, chunk_size=1000)
        paths = (entry["path"] for chunk in found for entry in chunk)
        return sorted(path for path in paths if is_path(path))

    def _read(self, path: str) -> Held:
        import obstore

        return Held(path, bytes(obstore.get(self._store, path).bytes()))

    def _opened(self) -> "ObjectStore":
        try:
            from obstore.store import from_url
        except ImportError:
            raise UnavailableError(
                f"the anchor {self.place.shown} needs the package obstore; "
                "run pip install 'memoriale[objects]'.",
                code="not_installed",
                field="anchors",
                value=self.place.shown,
            ) from None
        limit = timedelta(seconds=_SECONDS)
        with self._translated():
            return from_url(
                self.place.address,
                client_options={"timeout": limit, "connect_timeout": limit, "allow_http": True},
                retry_config={"max_retries": 1, "retry_timeout": limit},
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            # The library adds its own debugging text after the first line.
            said = str(error).strip().splitlines()[0][:300]
            raise UnavailableError(
                f"the anchor {self.place.shown} cannot be used: {said}.",
                code=UNREACHABLE,
                field="anchors",
                value=self.place.shown,
            ) from error
