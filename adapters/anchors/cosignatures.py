"""Cosignatures, kept beside the checkpoint that they are of, and counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.anchors.places import Place, Places
from memoriale.adapters.anchors.trees import Trees
from memoriale.adapters.notes.lines import as_text
from memoriale.adapters.notes.signed_note import NoteSignature, SignedNote, parse_signatures
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.files import publish, read
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import InputError
from memoriale.projections.generations import disk_errors


@dataclass(frozen=True, slots=True)
class Vote:
    """
    What one witness says of one checkpoint.

    Args:
        witness: The place.
        time: When it cosigned, in seconds since 1970; None when it did not.
        problem: What is wrong with the cosignature that is kept, if one is.
    """

    witness: Place
    time: int | None = None
    problem: str | None = None


class Cosignatures:
    """
    ``cosignatures/<size>/<witness>`` in the folder of a log: lines as they stand under a note.

    Args:
        trees: Where the folders of logs are.
    """

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def keep(
        self, checkpoint: Published, witness: Place, signatures: Iterable[NoteSignature]
    ) -> None:
        """Keeps cosignatures that were checked."""
        lines = "".join(f"{signature}\n" for signature in signatures)
        publish(self._file(checkpoint, witness), lines.encode())

    def votes(self, checkpoint: Published, places: Places) -> list[Vote]:
        """What each witness says, its cosignature checked again."""
        return [self._vote(checkpoint, witness) for witness in places.witnesses]

    def sizes(self, origin: str) -> list[int]:
        """At which sizes any cosignature of a log is kept, largest first."""
        folder = self._trees.of(origin) / "cosignatures"
        with disk_errors(folder):
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _vote(self, checkpoint: Published, witness: Place) -> Vote:
        if read(self._file(checkpoint, witness)) is None:
            return Vote(witness)
        key = VerifierKey.parse(witness.fragment)
        times = [key.time(one.payload) for one in self._good(checkpoint, witness)]
        if not times:
            return Vote(witness, problem="the cosignature that is kept is not of its key")
        return Vote(witness, time=max(time or 0 for time in times))

    def _good(self, checkpoint: Published, witness: Place) -> list[NoteSignature]:
        key, text = VerifierKey.parse(witness.fragment), SignedNote.parse(checkpoint.note).text
        try:
            lines = as_text("note", read(self._file(checkpoint, witness)) or b"")
            kept = parse_signatures(lines)
        except InputError:
            return []
        mine = [one for one in kept if (one.name, one.key_id) == (key.name, key.key_id)]
        return [one for one in mine if key.holds(text, one.payload)]

    def _file(self, checkpoint: Published, witness: Place) -> Path:
        folder = self._trees.of(checkpoint.origin) / "cosignatures" / str(checkpoint.size)
        return folder / witness.id
