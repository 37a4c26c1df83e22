"""How the anchors stand: what each took, what it lacks, what went wrong; who cosigned what."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from memoriale.adapters.anchors.anchor import AnchorConflictError, Results
from memoriale.adapters.anchors.opening import Anchors
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.sealing.log_tree import origin_of
from memoriale.adapters.sealing.publisher import Published
from memoriale.adapters.sealing.sealing import Sealing, target_of


@dataclass(frozen=True, slots=True)
class LogStanding:
    """
    How far an anchor is with one log.

    Args:
        origin: Log and incarnation.
        size: Events that the last checkpoint covers that it took; None when it took none.
        behind: Sealed events that it knows nothing of.
    """

    origin: str
    size: int | None
    behind: int


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One anchor.

    Args:
        anchor: The place as configured.
        kind: ``folder``, ``objects``, ``git``, ``witness`` or ``timestamps``.
        size: Events of all logs that it knows of.
        behind: Sealed events of all logs that it knows nothing of.
        last_success: When it last took a checkpoint, RFC 3339; None for never.
        last_error: Why its last use failed; None when it did not.
        last_error_at: When.
        conflict: The last finding that it holds another history, or lost what it held.
        conflict_at: When.
        in_conflict: Whether it has not taken a checkpoint of that log since.
        logs: Each log.
    """

    anchor: str
    kind: str
    size: int
    behind: int
    last_success: str | None
    last_error: str | None
    last_error_at: str | None
    conflict: str | None
    conflict_at: str | None
    in_conflict: bool
    logs: list[LogStanding]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Witnessed:
    """
    Who cosigned the present checkpoint of one log.

    Args:
        origin: Log and incarnation.
        size: Events that it covers.
        needed: How many witnesses must have cosigned.
        cosigned: Those that did, with the time that they state, RFC 3339.
        missing: Those that did not, with the reason where one is known.
        problems: Those whose word cannot be taken: what is kept is not their cosignature, or
            they hold another history.
        last_size: Events that the newest checkpoint covers that enough witnesses cosigned.
    """

    origin: str
    size: int
    needed: int
    cosigned: dict[str, str]
    missing: dict[str, str]
    problems: dict[str, str]
    last_size: int | None

    @property
    def ok(self) -> bool:
        """Whether enough witnesses cosigned the present checkpoint."""
        return len(self.cosigned) >= self.needed > 0

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "ok": self.ok}


@dataclass(frozen=True, slots=True)
class Pushed:
    """
    What came of pushing to one anchor.

    Args:
        anchor: The place as configured.
        kind: Of anchor.
        taken: Logs whose present checkpoint it holds now.
        failed: By log, why it does not.
        conflicts: By log, how its history differs; one is enough to be a finding.
    """

    anchor: str
    kind: str
    taken: list[str]
    failed: dict[str, str]
    conflicts: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def standing(anchors: Anchors, checkpoints: Sequence[Published]) -> list[Standing]:
    """
    How each anchor stands, from what is remembered; nothing outside is asked.

    Args:
        anchors: The anchors.
        checkpoints: The present ones of the logs that are looked at.
    """
    return [_standing(anchors, place, checkpoints) for place in anchors.places.places]


def present(anchors: Anchors, sealing: Sealing, logs: Iterable[TenantLog]) -> list[Published]:
    """The present checkpoints of logs, in their present incarnation; none of an unsealed one."""
    found = [anchors.trees.latest(present_origin(sealing, log)) for log in logs]
    return [checkpoint for checkpoint in found if checkpoint is not None]


def present_origin(sealing: Sealing, log: TenantLog) -> str:
    """The origin of a log in its present incarnation."""
    return origin_of(log.log_id, sealing.sealer.leaves(target_of(log)).stand().incarnation)


def witnessed(anchors: Anchors, checkpoints: Sequence[Published]) -> list[Witnessed]:
    """
    Counts the cosignatures of checkpoints; each is checked again, nothing outside is asked.

    Args:
        anchors: The anchors.
        checkpoints: The present ones.
    """
    return [_witnessed(anchors, checkpoint) for checkpoint in checkpoints]


def pushed(results: Mapping[Place, Results]) -> list[Pushed]:
    """What came of pushing, in a form that can be shown."""
    return [_pushed(place, result) for place, result in results.items()]


def _standing(anchors: Anchors, place: Place, latest: Sequence[Published]) -> Standing:
    memory, logs = anchors.memory(place), []
    health = memory.health().seen_from({checkpoint.origin for checkpoint in latest})
    for checkpoint in latest:
        taken = memory.size(checkpoint.origin)
        behind = max(0, checkpoint.size - (taken or 0))
        logs.append(LogStanding(checkpoint.origin, taken, behind))
    return Standing(
        anchor=place.shown,
        kind=place.kind,
        size=sum(log.size or 0 for log in logs),
        behind=sum(log.behind for log in logs),
        last_success=health.last_success,
        last_error=health.last_error,
        last_error_at=health.last_error_at,
        conflict=health.conflict,
        conflict_at=health.conflict_at,
        in_conflict=health.in_conflict,
        logs=logs,
    )


def _witnessed(anchors: Anchors, checkpoint: Published) -> Witnessed:
    votes = anchors.cosignatures.votes(checkpoint, anchors.places)
    missing, problems = {}, {}
    for vote in votes:
        health = anchors.memory(vote.witness).health().seen_from({checkpoint.origin})
        problem = vote.problem or (health.conflict if health.in_conflict else None)
        if problem is not None:
            problems[vote.witness.shown] = problem
        elif vote.time is None:
            why = health.last_error or "it has not cosigned this checkpoint"
            missing[vote.witness.shown] = why
    return Witnessed(
        origin=checkpoint.origin,
        size=checkpoint.size,
        needed=anchors.places.quorum,
        cosigned={v.witness.shown: _time(v.time) for v in votes if v.time is not None},
        missing=missing,
        problems=problems,
        last_size=next(_sizes_with_quorum(anchors, checkpoint.origin), None),
    )


def _sizes_with_quorum(anchors: Anchors, origin: str) -> Iterator[int]:
    for size in anchors.cosignatures.sizes(origin):
        checkpoint = anchors.trees.at(origin, size)
        if checkpoint is not None:
            votes = anchors.cosignatures.votes(checkpoint, anchors.places)
            if sum(vote.time is not None for vote in votes) >= anchors.places.quorum:
                yield size


def _pushed(place: Place, results: Results) -> Pushed:
    errors = {origin: error for origin, error in results.items() if error is not None}
    return Pushed(
        anchor=place.shown,
        kind=place.kind,
        taken=[origin for origin, error in results.items() if error is None],
        failed={
            origin: error.message
            for origin, error in errors.items()
            if not isinstance(error, AnchorConflictError)
        },
        conflicts={
            origin: error.message
            for origin, error in errors.items()
            if isinstance(error, AnchorConflictError)
        },
    )


def _time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s after 1970"
