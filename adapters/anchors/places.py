"""The setting ``anchors``: which outside places there are, read and checked before any is used."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from memoriale.domain.errors import InputError

Kind = Literal["folder", "objects", "git", "witness", "timestamps"]

KINDS: Final[dict[str, Kind]] = {
    "file": "folder",
    "s3": "objects",
    "gs": "objects",
    "az": "objects",
    "git+file": "git",
    "git+ssh": "git",
    "git+https": "git",
    "witness+https": "witness",
    "witness+http": "witness",
    "rfc3161+https": "timestamps",
    "rfc3161+http": "timestamps",
}
SETTING: Final = "MEMORIALE_ANCHORS"
ALLOWED: Final = (
    "folders (/path or file:///path), s3://bucket/path, gs://bucket/path, "
    "az://container/path, git+file:///repository, git+ssh://host/repository, "
    "git+https://host/repository, witness+https://host/path#verifier-key, "
    "rfc3161+https://host/path#roots.pem, quorum=K and every=SECONDS"
)
_OPTION: Final = re.compile(r"(quorum|every)=([0-9]{1,6})")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*(?<!\.lock)")
_GIT_BRANCH: Final = "memoriale"


@dataclass(frozen=True, slots=True)
class Place:
    """
    One outside place.

    Args:
        kind: What it is.
        address: Where, without the fragment: for a folder its path, for git the address that git
            understands, for a witness or an authority the address of HTTP.
        fragment: What stands after ``#``: branch, verifier key, file of root certificates.
        shown: The setting as given; it holds no secret.
    """

    kind: Kind
    address: str
    fragment: str
    shown: str

    @property
    def id(self) -> str:
        """Short name for files about it."""
        return sha256(self.shown.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Places:
    """
    All outside places.

    Args:
        places: In the order given.
        quorum: How many witnesses must have cosigned; every one where the setting does not say.
        every: Fewest seconds between two uses of one place.
    """

    places: tuple[Place, ...] = ()
    quorum: int = 0
    every: int = 0

    @property
    def witnesses(self) -> tuple[Place, ...]:
        """Those that cosign."""
        return tuple(place for place in self.places if place.kind == "witness")


def split_setting(text: str) -> list[str]:
    """The entries of a setting that is one text: commas and white space part them."""
    return [entry for entry in re.split(r"[\s,]+", text) if entry]


def parse_places(entries: Iterable[str]) -> Places:
    """
    The places of a setting.

    Args:
        entries: One place or option each.

    Raises:
        InputError: An entry is wrong (``bad_setting``).
    """
    options: dict[str, int] = {}
    places: list[Place] = []
    for entry in entries:
        if option := _OPTION.fullmatch(entry):
            if option[1] in options:
                raise _wrong(entry, f"{option[1]} stands there twice")
            options[option[1]] = int(option[2])
        else:
            places.append(_place(entry))
    _require_distinct(places)
    witnesses = sum(place.kind == "witness" for place in places)
    quorum = options.get("quorum", witnesses)
    if "quorum" in options and not 1 <= quorum <= witnesses:
        raise _wrong(f"quorum={quorum}", f"the setting names {witnesses} witnesses")
    return Places(tuple(places), quorum, options.get("every", 0))


def _require_distinct(places: Sequence[Place]) -> None:
    seen: set[tuple[str, str]] = set()
    for place in places:
        # One key at two addresses is one witness, however often it is named.
        key = (place.kind, place.fragment if place.kind == "witness" else place.address)
        if key in seen:
            raise _wrong(place.shown, "it is named twice")
        seen.add(key)


def _place(entry: str) -> Place:
    if "://" not in entry:
        if not entry.startswith(("/", "~")):
            raise _wrong(entry, "it is no absolute path, no address and no option")
        return _folder(Path(entry).expanduser(), entry)
    parts = _parts(entry)
    if parts.password is not None or (parts.username and parts.scheme != "git+ssh"):
        raise _wrong(
            f"{parts.scheme}://{parts.hostname}",
            "it holds a user or a password; credentials come from where the service's own tools "
            "look for them",
        )
    kind = KINDS.get(parts.scheme)
    if kind is None:
        raise _wrong(entry, f"{parts.scheme}:// is no kind of anchor")
    if parts.query:
        raise _wrong(entry, "no anchor has a query")
    return _MAKERS[kind](parts, entry)


def _parts(entry: str) -> SplitResult:
    try:
        parts = urlsplit(entry)
        # Asking for the port is what checks it.
        str(parts.port)
    except ValueError as error:
        raise _wrong(entry, f"it is no address: {error}") from None
    return parts


def _file(parts: SplitResult, entry: str) -> Place:
    if parts.netloc not in ("", "localhost") or parts.fragment:
        raise _wrong(entry, "it is not of the form file:///path")
    return _folder(Path(unquote(parts.path)), entry)


def _folder(path: Path, entry: str) -> Place:
    if not path.is_absolute() or "\0" in str(path):
        raise _wrong(entry, "it is not the absolute path of a folder")
    return Place("folder", str(path), "", entry)


def _objects(parts: SplitResult, entry: str) -> Place:
    if not parts.netloc or parts.fragment:
        raise _wrong(entry, f"it is not of the form {parts.scheme}://bucket/path")
    return Place("objects", entry.rstrip("/"), "", entry)


def _git(parts: SplitResult, entry: str) -> Place:
    branch = unquote(parts.fragment) or _GIT_BRANCH
    if not parts.path.strip("/") or not _BRANCH.fullmatch(branch):
        raise _wrong(entry, f"it is not of the form {parts.scheme}://host/repository#branch")
    # A host or a user that begins with a hyphen would be an option of ssh.
    if parts.scheme != "git+file" and (not parts.hostname or parts.netloc.startswith("-")):
        raise _wrong(entry, "it names no host")
    return Place("git", entry.removeprefix("git+").partition("#")[0], branch, entry)


def _witness(parts: SplitResult, entry: str) -> Place:
    from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey

    if not parts.hostname:
        raise _wrong(entry, "it names no host")
    try:
        key = VerifierKey.parse(unquote(parts.fragment))
    except InputError as error:
        raise _wrong(entry, error.message) from None
    if key.algorithm is not Algorithm.COSIGNATURE:
        raise _wrong(entry, "its key is not one that cosigns (type 4)")
    address = entry.removeprefix("witness+").partition("#")[0].rstrip("/")
    return Place("witness", address, str(key), entry)


def _timestamps(parts: SplitResult, entry: str) -> Place:
    roots = Path(unquote(parts.fragment))
    if not parts.hostname or not roots.is_absolute():
        raise _wrong(
            entry,
            "after # stands the absolute path of a file with the certificates that the authority "
            "is trusted by",
        )
    address = entry.removeprefix("rfc3161+").partition("#")[0]
    return Place("timestamps", address, str(roots), entry)


def _wrong(entry: str, why: str) -> InputError:
    return InputError(
        f"setting {SETTING} has the entry {entry[:300]!r}: {why}. Allowed: {ALLOWED}.",
        code="bad_setting",
        field=SETTING,
        value=entry[:300],
        allowed=ALLOWED,
    )


_MAKERS: Final[dict[Kind, Callable[[SplitResult, str], Place]]] = {
    "folder": _file,
    "objects": _objects,
    "git": _git,
    "witness": _witness,
    "timestamps": _timestamps,
}
