"""Handing checkpoints to one anchor: first look at what it holds, then add, then remember."""

from collections.abc import Iterable, Mapping, Sequence

from memoriale.adapters.anchors.anchor import Anchor, AnchorConflictError, Archive, Held, Results
from memoriale.adapters.anchors.opening import ARCHIVES, Anchors
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.notes.signed_note import SignedNote
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import InputError, MemorialeError


class Handing:
    """
    The way to one anchor. One process uses an anchor at a time.

    Args:
        anchors: All of them.
        place: Which one.
    """

    def __init__(self, anchors: Anchors, place: Place) -> None:
        self.place = place
        self.memory = anchors.memory(place)
        self._anchors, self._trees = anchors, anchors.trees
        self._anchor: Anchor | None = None
        self._archive: Archive | None = None

    def hand(self, checkpoints: Iterable[Published]) -> Results:
        """
        Adds the newest checkpoint of each log, unless the anchor took it before.

        What is wrong with the anchor or with a log is never raised: it is a result, and
        remembered.
        """
        given = {checkpoint.origin: checkpoint for checkpoint in checkpoints}
        try:
            with self.memory.held():
                results = self._tried(given)
                self._remember(results)
                return results
        except MemorialeError as error:
            # Of our own files: what they were to remember is told here alone.
            return dict.fromkeys(given, error)

    def behind(self) -> list[Published]:
        """The present checkpoints of all logs that the anchor has not taken."""
        return [one for one in self._trees.all_latest() if self._lacks(one)]

    def _lacks(self, checkpoint: Published) -> bool:
        taken = self.memory.size(checkpoint.origin)
        return taken is None or taken < checkpoint.size

    def _tried(self, given: Mapping[str, Published]) -> Results:
        try:
            return self._handed(list(given.values()))
        except MemorialeError as error:
            return dict.fromkeys(given, error)

    def _handed(self, checkpoints: Sequence[Published]) -> Results:
        self._open()
        current = [self._present(checkpoint) for checkpoint in checkpoints]
        refused = self._refused(current)
        fit = [checkpoint for checkpoint in current if checkpoint.origin not in refused]
        taken = self._anchor.put(fit) if self._anchor is not None and fit else {}
        for checkpoint in fit:
            if taken[checkpoint.origin] is None:
                self.memory.took(checkpoint.origin, checkpoint.size)
        return {**refused, **taken}

    def _open(self) -> None:
        if self._anchor is not None:
            return
        if self.place.kind in ARCHIVES:
            self._anchor = self._archive = self._anchors.archive(self.place)
        else:
            self._anchor = self._anchors.open(self.place)

    def _present(self, checkpoint: Published) -> Published:
        """The checkpoint, or a newer one that another process sealed and handed over meanwhile."""
        taken = self.memory.size(checkpoint.origin)
        if taken is None or taken <= checkpoint.size:
            return checkpoint
        latest = self._trees.latest(checkpoint.origin)
        return latest if latest is not None and latest.size > checkpoint.size else checkpoint

    def _refused(self, checkpoints: Sequence[Published]) -> dict[str, MemorialeError | None]:
        """Logs that the anchor holds another history of; before anything is added to it."""
        if self._archive is None:
            return {}
        held = self._archive.newest([checkpoint.origin for checkpoint in checkpoints])
        found = {one.origin: self._difference(one, held) for one in checkpoints}
        return {origin: error for origin, error in found.items() if error is not None}

    def _difference(
        self, checkpoint: Published, held: Mapping[str, Held]
    ) -> AnchorConflictError | None:
        newest, taken = held.get(checkpoint.origin), self.memory.size(checkpoint.origin)
        if taken is not None and (newest is None or newest.size < taken):
            return self._conflict(
                "anchor_set_back",
                f"took the checkpoint of {taken} events of {checkpoint.origin}, and no longer "
                "holds it: checkpoints were removed there",
            )
        if newest is None:
            return None
        if newest.size > checkpoint.size:
            return self._conflict(
                "log_behind_anchor",
                f"holds a checkpoint of {newest.size} events of {checkpoint.origin}, and the log "
                f"has {checkpoint.size} sealed ones: at least {newest.size - checkpoint.size} "
                "sealed events are lost, or this is an older copy",
            )
        if self._fits(newest, checkpoint):
            return None
        return self._conflict(
            "other_history",
            f"holds a checkpoint as {newest.path} that is not of this log's history: one of the "
            "two was rewritten, or somebody else wrote there; 'memoriale verify' tells which",
        )

    def _fits(self, newest: Held, checkpoint: Published) -> bool:
        try:
            stated = Checkpoint.parse(SignedNote.parse(newest.note).text)
        except InputError:
            return False
        if (stated.origin, stated.size) != (newest.origin, newest.size):
            return False
        return stated.root == self._trees.root(checkpoint, stated.size)

    def _remember(self, results: Results) -> None:
        errors = {origin: error for origin, error in results.items() if error is not None}
        if taken := results.keys() - errors.keys():
            self.memory.went_well(taken)
        if errors:
            conflicts = [o for o, e in errors.items() if isinstance(e, AnchorConflictError)]
            worst = (conflicts or list(errors))[0]
            of_all = len({error.message for error in results.values() if error}) == 1
            everywhere = of_all and len(errors) == len(results) > 1
            self.memory.went_wrong(errors[worst], None if everywhere else worst)

    def _conflict(self, code: str, what: str) -> AnchorConflictError:
        shown = self.place.shown
        return AnchorConflictError(f"{shown} {what}.", code=code, field="anchors", value=shown)
