"""An anchor that says when: an authority's time stamp over a checkpoint (RFC 3161)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memoriale.adapters.anchors.anchor import UNREACHABLE, AnchorConflictError, Results, one_by_one
from memoriale.adapters.anchors.http import NoAnswerError, post
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.anchors.trees import Trees
from memoriale.adapters.sealing.files import publish, read
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """
    The time stamp that is kept of a checkpoint.

    Args:
        authority: The place.
        time: When the authority says that the checkpoint existed; None without a good stamp.
        problem: What is wrong with the one that is kept, if one is.
    """

    authority: Place
    time: datetime | None = None
    problem: str | None = None


class TimestampAnchor:
    """
    Asks an authority for a time stamp over the SHA-256 of the note, and keeps the answer as
    ``timestamps/<size>/<authority>.tsr`` in the folder of the log, once it was checked.

    It holds no checkpoint that could be asked for: it says that one existed at a time, no more.

    Args:
        place: Address, and file of the certificates that it is trusted by.
        trees: Where the folders of logs are.
        seconds: Patience for one request.

    Raises:
        UnavailableError: The library is not installed.
    """

    def __init__(self, place: Place, trees: Trees, seconds: float = _SECONDS) -> None:
        self.place = place
        self._trees, self._seconds = trees, seconds
        try:
            import rfc3161_client  # noqa: F401
        except ImportError:
            raise UnavailableError(
                f"the anchor {place.shown} needs the package rfc3161-client; "
                "run pip install 'memoriale[timestamps]'.",
                code="not_installed",
                field="anchors",
                value=place.shown,
            ) from None

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """Has checkpoints stamped, one after the other."""
        return one_by_one(checkpoints, self._result)

    def stamp(self, checkpoint: Published) -> Stamp:
        """
        The stamp that is kept, checked again.

        Raises:
            UnavailableError: The certificates cannot be read.
        """
        kept = read(self._file(checkpoint))
        if kept is None:
            return Stamp(self.place)
        try:
            return Stamp(self.place, self._checked(kept, checkpoint, None))
        except AnchorConflictError as error:
            return Stamp(self.place, problem=error.message)

    def _result(self, checkpoint: Published) -> MemorialeError | None:
        try:
            if self.stamp(checkpoint).time is None:
                self._get(checkpoint)
        except NoAnswerError as error:
            return self._unavailable(str(error))
        except MemorialeError as error:
            return error
        return None

    def _get(self, checkpoint: Published) -> None:
        from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

        builder = TimestampRequestBuilder().data(checkpoint.note)
        request = builder.hash_algorithm(HashAlgorithm.SHA256).cert_request(cert_request=True)
        asked = request.build()
        answer = post(
            self.place.address, asked.as_bytes(), "application/timestamp-query", self._seconds
        )
        if answer.status != 200:
            raise self._unavailable(f"it answered {answer.status}")
        self._checked(answer.body, checkpoint, asked.nonce)
        publish(self._file(checkpoint), answer.body)

    def _checked(self, response: bytes, checkpoint: Published, nonce: int | None) -> datetime:
        from rfc3161_client import VerificationError, VerifierBuilder

        stamp = self._decoded(response)
        verifier = VerifierBuilder(roots=self._roots(), nonce=nonce).build()
        try:
            verifier.verify_message(stamp, checkpoint.note)
        except VerificationError as error:
            raise AnchorConflictError(
                f"the time stamp of {self.place.shown} does not hold: {error}.",
                code="bad_timestamp",
                field="anchors",
                value=self.place.shown,
            ) from error
        return stamp.tst_info.gen_time

    def _decoded(self, response: bytes) -> "TimeStampResponse":
        from rfc3161_client import decode_timestamp_response

        try:
            stamp = decode_timestamp_response(response)
        except ValueError:
            raise self._unavailable("its answer is no time stamp") from None
        if stamp.status > 1:
            said = "; ".join(stamp.status_string)[:200]
            raise self._unavailable(f"it refused (status {stamp.status}) {said}".rstrip())
        return stamp

    def _roots(self) -> "list[Certificate]":
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return load_pem_x509_certificates(Path(self.place.fragment).read_bytes())
        except (OSError, ValueError) as error:
            raise self._unavailable(
                f"its certificates in {self.place.fragment} cannot be read: {error}"
            ) from None

    def _file(self, checkpoint: Published) -> Path:
        folder = self._trees.of(checkpoint.origin) / "timestamps" / str(checkpoint.size)
        return folder / f"{self.place.id}.tsr"

    def _unavailable(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"there is no time stamp of {self.place.shown}: {why}.",
            code=UNREACHABLE,
            field="anchors",
            value=self.place.shown,
        )
