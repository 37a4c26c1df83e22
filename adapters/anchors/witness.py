"""An anchor that cosigns: a witness as C2SP tlog-witness describes it."""

from collections.abc import Sequence
from typing import Final

from memoriale.adapters.anchors.anchor import UNREACHABLE, AnchorConflictError, Results, one_by_one
from memoriale.adapters.anchors.cosignatures import Cosignatures
from memoriale.adapters.anchors.http import Answer, NoAnswerError, post
from memoriale.adapters.anchors.memory import AnchorMemory
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.anchors.trees import Trees
from memoriale.adapters.notes.lines import as_text, encoded, number
from memoriale.adapters.notes.signed_note import NoteSignature, SignedNote, parse_signatures
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError

_SECONDS: Final = 5.0
_ATTEMPTS: Final = 3
_OK, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _UNPROCESSABLE = 200, 403, 404, 409, 422


class WitnessAnchor:
    """
    Asks a witness to cosign, with a proof that the log only grew since it last did.

    The witness is believed in nothing: its cosignature is checked before it is kept, its word
    about what it saw is held against what it cosigned before.

    Args:
        place: Address and verifier key.
        trees: Local trees.
        memory: Up to where it cosigned.
        cosignatures: Where its cosignatures are kept.
        seconds: Patience for one request.
    """

    def __init__(
        self,
        place: Place,
        trees: Trees,
        memory: AnchorMemory,
        cosignatures: Cosignatures,
        seconds: float = _SECONDS,
    ) -> None:
        self.place = place
        self._key = VerifierKey.parse(place.fragment)
        self._trees, self._memory, self._cosignatures = trees, memory, cosignatures
        self._seconds = seconds

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """Has checkpoints cosigned, one after the other."""
        return one_by_one(checkpoints, self._result)

    def _result(self, checkpoint: Published) -> MemorialeError | None:
        try:
            self._cosign(checkpoint)
        except NoAnswerError as error:
            return self._unavailable(str(error))
        except MemorialeError as error:
            return error
        return None

    def _cosign(self, checkpoint: Published) -> None:
        before = self._memory.size(checkpoint.origin)
        old = before or 0
        for _ in range(_ATTEMPTS):
            if old > checkpoint.size:
                raise self._ahead(checkpoint, old)
            answer = self._asked(checkpoint, old)
            if answer.status == _OK:
                return self._keep(checkpoint, answer.body)
            if answer.status != _CONFLICT:
                raise self._refusal(checkpoint, answer, old)
            seen = self._seen(answer.body)
            if seen == old:
                raise self._other_history(checkpoint, old)
            if before is not None and seen < before:
                raise self._set_back(checkpoint, before, seen)
            old = seen
        raise self._unavailable("it names another size with each request")

    def _asked(self, checkpoint: Published, old: int) -> Answer:
        proof = self._trees.consistency(checkpoint, old)
        lines = [f"old {old}", *map(encoded, proof), ""]
        body = "".join(f"{line}\n" for line in lines).encode() + checkpoint.note
        url = f"{self.place.address}/add-checkpoint"
        return post(url, body, "text/plain; charset=utf-8", self._seconds)

    def _keep(self, checkpoint: Published, body: bytes) -> None:
        good = [one for one in self._parsed(body) if self._holds(checkpoint, one)]
        if not good:
            raise AnchorConflictError(
                f"{self.place.shown} answered with nothing that its key {self._key.name} signed; "
                "it does not count. Either the setting names another key, or somebody else answers "
                "there.",
                code="bad_cosignature",
                field="anchors",
                value=self.place.shown,
            )
        self._cosignatures.keep(checkpoint, self.place, good)

    def _parsed(self, body: bytes) -> Sequence[NoteSignature]:
        try:
            return parse_signatures(as_text("note", body))
        except InputError as error:
            raise self._unavailable(f"its answer is not readable: {error.message}") from error

    def _holds(self, checkpoint: Published, one: NoteSignature) -> bool:
        mine = (one.name, one.key_id) == (self._key.name, self._key.key_id)
        return mine and self._key.holds(SignedNote.parse(checkpoint.note).text, one.payload)

    def _seen(self, body: bytes) -> int:
        size = number(body.decode("ascii", "replace").removesuffix("\n"))
        if size is None:
            raise self._unavailable("it answered 409 without the size that it knows")
        return size

    def _refusal(self, checkpoint: Published, answer: Answer, old: int) -> MemorialeError:
        if answer.status == _UNPROCESSABLE:
            return self._other_history(checkpoint, old)
        if answer.status == _NOT_FOUND:
            return self._refused(
                f"it does not know the log {checkpoint.origin}; give whoever runs it the log's "
                "verifier key ('memoriale anchors --keys')"
            )
        if answer.status == _FORBIDDEN:
            return self._refused(
                f"it knows the log {checkpoint.origin} under another key; give whoever runs it "
                "the present verifier key ('memoriale anchors --keys')"
            )
        return self._unavailable(f"it answered {answer.status}")

    def _ahead(self, checkpoint: Published, seen: int) -> AnchorConflictError:
        return self._conflict(
            "log_behind_anchor",
            f"{self.place.shown} cosigned {seen} events of {checkpoint.origin}, and the log has "
            f"{checkpoint.size} sealed ones: at least {seen - checkpoint.size} sealed events are "
            "lost, or this is an older copy",
        )

    def _other_history(self, checkpoint: Published, seen: int) -> AnchorConflictError:
        return self._conflict(
            "other_history",
            f"{self.place.shown} cosigned {seen} events of {checkpoint.origin} that are not the "
            f"first {seen} events of this log: one of the two was rewritten",
        )

    def _set_back(self, checkpoint: Published, before: int, seen: int) -> AnchorConflictError:
        return self._conflict(
            "witness_set_back",
            f"{self.place.shown} cosigned {before} events of {checkpoint.origin}, and now says "
            f"that it knows {seen}: it was set back, and its word is worth nothing until somebody "
            "explains that",
        )

    def _conflict(self, code: str, message: str) -> AnchorConflictError:
        return AnchorConflictError(
            f"{message}.", code=code, field="anchors", value=self.place.shown
        )

    def _refused(self, why: str) -> UnavailableError:
        """Of this log alone."""
        return self._unavailable(why, "log_refused")

    def _unavailable(self, why: str, code: str = UNREACHABLE) -> UnavailableError:
        return UnavailableError(
            f"the witness {self.place.shown} did not cosign: {why}.",
            code=code,
            field="anchors",
            value=self.place.shown,
        )
