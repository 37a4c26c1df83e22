"""An anchor that is a branch of a git repository: one commit for each round, fast-forward only."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memoriale.adapters.anchors.anchor import (
    ROOT,
    UNREACHABLE,
    AnchorConflictError,
    Held,
    Results,
    conflict,
    is_path,
    path_of,
    same_statement,
)
from memoriale.adapters.anchors.git_command import Git, GitError
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError

_ATTEMPTS: Final = 3


_NOT_THERE: Final = MemorialeError("it is not there yet")


class GitAnchor:
    """
    A branch that only ever grew since this installation first saw it.

    A bare copy in the home remembers the last commit seen. A branch that no longer descends from
    it, that is gone, or in which a checkpoint was changed or removed, is a conflict.

    Args:
        place: Address and branch.
        copy: Folder of the bare copy; made when it is missing.
    """

    def __init__(self, place: Place, copy: Path) -> None:
        self.place = place
        self._git = Git(copy)
        self._remote = f"refs/heads/{place.fragment}"
        self._seen = f"refs/seen/{place.fragment}"

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """Adds checkpoints, all in one commit."""
        try:
            with self._translated():
                return self._put(checkpoints)
        except MemorialeError as error:
            return {checkpoint.origin: error for checkpoint in checkpoints}

    def newest(self, origins: Sequence[str]) -> Mapping[str, Held]:
        """The largest checkpoint of each origin."""
        found: dict[str, Held] = {}
        with self._translated():
            tip = self._followed()
            for origin in origins:
                paths = self._paths(tip, origin)
                if paths and (held := self._read(tip, paths[-1])):
                    found[origin] = held
        return found

    def logs(self) -> list[str]:
        """Every log of which there is anything."""
        with self._translated():
            tip = self._followed()
            if tip is None:
                return []
            listed = self._git.text("ls-tree", "-z", "--name-only", tip, f"{ROOT}/")
            return sorted(name for name in listed.split("\0") if name)

    def held(self, log: str) -> Iterator[Held]:
        """Every checkpoint of a log."""
        with self._translated():
            tip = self._followed()
            for path in self._paths(tip, log):
                if found := self._read(tip, path):
                    yield found

    def _put(self, checkpoints: Sequence[Published]) -> Results:
        for _ in range(_ATTEMPTS):
            tip = self._followed()
            results = {c.origin: self._there(tip, c) for c in checkpoints}
            new = [c for c in checkpoints if results[c.origin] is _NOT_THERE]
            if not new or self._pushed(self._committed(tip, new)):
                return {o: None if r is _NOT_THERE else r for o, r in results.items()}
        raise self._unavailable("others push to its branch all the time")

    def _there(self, tip: str | None, checkpoint: Published) -> MemorialeError | None:
        found = self._read(tip, path_of(checkpoint))
        if found is None:
            return _NOT_THERE
        same = same_statement(checkpoint.note, found.note)
        return None if same else conflict(self.place, path_of(checkpoint))

    def _followed(self) -> str | None:
        """The branch's last commit, fetched and marked as seen, if the branch only grew."""
        self._git.make()
        seen, tip = self._git.commit(self._seen), self._fetched()
        if tip == seen or tip is None:
            if seen is not None and tip is None:
                raise self._rewritten("its branch is gone")
            return tip
        if seen is not None and not self._git.descends(tip, seen):
            raise self._rewritten(f"its branch no longer holds commit {seen}")
        if changed := self._git.changed(seen, tip, ROOT):
            raise self._rewritten(f"{changed} was changed or removed")
        self._git.run("update-ref", self._seen, tip)
        return tip

    def _fetched(self) -> str | None:
        listed = self._git.text("ls-remote", "--", self.place.address, self._remote)
        if not listed.strip():
            return None
        self._git.run("fetch", "--quiet", "--no-tags", "--", self.place.address, self._remote)
        return self._git.commit(listed.split()[0])

    def _committed(self, tip: str | None, checkpoints: Sequence[Published]) -> str:
        files = {path_of(checkpoint): checkpoint.note for checkpoint in checkpoints}
        return self._git.added(tip, files, f"Checkpoints of {len(files)} logs")

    def _pushed(self, commit: str) -> bool:
        try:
            self._git.run("push", "--quiet", "--", self.place.address, f"{commit}:{self._remote}")
        except GitError as error:
            if error.was_rejected:
                return False
            raise
        self._git.run("update-ref", self._seen, commit)
        return True

    def _paths(self, tip: str | None, prefix: str) -> list[str]:
        if tip is None:
            return []
        listed = self._git.text("ls-tree", "-r", "-z", "--name-only", tip, f"{prefix}/")
        return sorted(filter(is_path, listed.split("\0")))

    def _read(self, tip: str | None, path: str) -> Held | None:
        note = None if tip is None else self._git.file(tip, path)
        return None if note is None else Held(path, note)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            raise self._unavailable(error.said) from error
        except OSError as error:
            raise self._unavailable(f"{error.strerror} ({error.filename})") from error

    def _rewritten(self, what: str) -> AnchorConflictError:
        return AnchorConflictError(
            f"the history of {self.place.shown} was rewritten: {what}.",
            code="anchor_rewritten",
            field="anchors",
            value=self.place.shown,
        )

    def _unavailable(self, said: str) -> UnavailableError:
        return UnavailableError(
            f"the anchor {self.place.shown} cannot be used: {said}.",
            code=UNREACHABLE,
            field="anchors",
            value=self.place.shown,
        )
