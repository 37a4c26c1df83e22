"""Witnesses: real servers that cosign what only grew, and what the client makes of bad ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memoriale.adapters.anchors.anchor import AnchorConflictError
from memoriale.adapters.anchors.handing import Handing
from memoriale.adapters.anchors.opening import Anchors
from memoriale.adapters.anchors.places import parse_places
from memoriale.adapters.anchors.witness import WitnessAnchor
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError
from tests.fixtures.local_log import LocalLog
from tests.fixtures.witness import TIME, Reply, Witness

MakeWitness = Callable[..., Witness]
MakeLog = Callable[..., LocalLog]


def anchors_of(log: LocalLog, *entries: str) -> Anchors:
    home = log.trees.of(log.origin).parents[2]
    return Anchors(parse_places(entries), home / "anchors", log.trees)


def handed(anchors: Anchors, checkpoint: Published) -> MemorialeError | None:
    (place,) = anchors.places.places
    return Handing(anchors, place).hand([checkpoint])[checkpoint.origin]


def vote(anchors: Anchors, checkpoint: Published) -> tuple[int | None, str | None]:
    (found,) = anchors.cosignatures.votes(checkpoint, anchors.places)
    return found.time, found.problem


def conflict(error: MemorialeError | None, code: str) -> str:
    assert isinstance(error, AnchorConflictError), error
    assert (error.code, error.exit_code) == (code, 1)
    return error.message


def test_a_growing_log_is_cosigned(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """Every size is cosigned with the right proof, and the cosignature is kept and checked."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    anchors = anchors_of(log, witness.uri)
    sizes = [1, 2, 3, 7, 8, 9, 255, 256, 257, 600, 600]
    for size in sizes:
        checkpoint = log.sealed(size)
        assert handed(anchors, checkpoint) is None
        assert vote(anchors, checkpoint) == (TIME, None)
        assert witness.seen()[log.origin] == (size, checkpoint.root.hex())
    assert len(witness.requests) == len(sizes)


def test_the_witness_is_asked_what_it_knows(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """A home that lost its memory learns the size from the witness's answer, and goes on."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    first = anchors_of(log, witness.uri)
    assert handed(first, log.sealed(5)) is None
    forgetful = Anchors(first.places, log.trees.of(log.origin) / "elsewhere", log.trees)
    assert handed(forgetful, log.sealed(9)) is None
    assert [body.split(b"\n")[0] for body in witness.requests] == [b"old 0", b"old 0", b"old 5"]


def test_a_log_that_was_rewritten_is_not_cosigned(
    make_log: MakeLog, make_witness: MakeWitness
) -> None:
    """Another history of any size is refused by the witness and reported as a conflict."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    assert handed(anchors_of(log, witness.uri), log.sealed(6)) is None
    for size in (6, 9):
        other = make_log(f"other {size}", story="false")
        anchors = anchors_of(other, witness.uri)
        rewritten = other.sealed(size)
        said = conflict(handed(anchors, rewritten), "other_history")
        assert "rewritten" in said
        assert vote(anchors, rewritten) == (None, None)
    assert witness.seen()[log.origin][0] == 6


def test_a_log_that_was_set_back_is_reported(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """A witness that cosigned more than there is tells how many events are lost."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    assert handed(anchors_of(log, witness.uri), log.sealed(10)) is None
    older = make_log("older copy")
    said = conflict(handed(anchors_of(older, witness.uri), older.sealed(7)), "log_behind_anchor")
    assert "at least 3 sealed events are lost" in said


def test_a_witness_that_was_set_back_is_refused(
    make_log: MakeLog, make_witness: MakeWitness
) -> None:
    """A witness that offers an older size than it cosigned gets no proof from there."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    anchors = anchors_of(log, witness.uri)
    old = log.sealed(4)
    assert handed(anchors, old) is None
    assert handed(anchors, log.sealed(8)) is None
    witness.set_back(log.origin, 4, old.root)
    witness.requests.clear()
    now = log.sealed(9)
    said = conflict(handed(anchors, now), "witness_set_back")
    assert "cosigned 8" in said
    assert "knows 4" in said
    assert [body.split(b"\n")[0] for body in witness.requests] == [b"old 8"]
    assert vote(anchors, now) == (None, None)


@pytest.mark.parametrize("behaviour", ["with_a_wrong_key", "with_a_forged_key_id"])
def test_a_wrong_cosignature_does_not_count(
    make_log: MakeLog, make_witness: MakeWitness, behaviour: str
) -> None:
    """What the configured key did not sign is refused and not kept."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = getattr(witness, behaviour)
    anchors, checkpoint = anchors_of(log, witness.uri), log.sealed(3)
    conflict(handed(anchors, checkpoint), "bad_cosignature")
    assert vote(anchors, checkpoint) == (None, None)
    assert anchors.memory(anchors.places.places[0]).size(log.origin) is None


def test_a_kept_cosignature_is_checked_again(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """A cosignature that was changed on the disk, or belongs to another size, does not count."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    anchors, checkpoint = anchors_of(log, witness.uri), log.sealed(3)
    assert handed(anchors, checkpoint) is None
    (kept,) = [p for p in log.trees.of(log.origin).glob("cosignatures/3/*") if p.is_file()]
    bigger = log.sealed(4)
    other = kept.parents[1] / "4" / kept.name
    other.parent.mkdir()
    other.write_bytes(kept.read_bytes())
    assert vote(anchors, bigger) == (None, "the cosignature that is kept is not of its key")
    kept.write_bytes(b"nonsense")
    assert vote(anchors, checkpoint)[0] is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((404, ""), "does not know the log"),
        ((403, ""), "under another key"),
        ((400, ""), "answered 400"),
        ((500, "oops"), "answered 500"),
        ((409, "many\n"), "without the size"),
        ((409, ""), "without the size"),
        ((200, "\xff"), "not readable"),
        ((200, "no signature\n"), "not readable"),
        ((302, ""), "answered 302"),
    ],
)
def test_odd_answers(make_log: MakeLog, make_witness: MakeWitness, reply: Reply, said: str) -> None:
    """Whatever else a witness answers: it did not cosign, and the error says what it answered."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = lambda body: reply
    anchors, checkpoint = anchors_of(log, witness.uri), log.sealed(3)
    error = handed(anchors, checkpoint)
    assert isinstance(error, UnavailableError)
    assert said in error.message
    assert vote(anchors, checkpoint) == (None, None)


def test_sizes_that_never_fit_end_the_attempts(
    make_log: MakeLog, make_witness: MakeWitness
) -> None:
    """A witness that names another size with every request is asked three times, not for ever."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = lambda body: (409, f"{len(witness.requests)}\n")
    error = handed(anchors_of(log, witness.uri), log.sealed(30))
    assert isinstance(error, UnavailableError)
    assert len(witness.requests) == 3


def test_an_unknown_log_is_told_whom_to_ask(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """A witness that was not told of the log refuses; one that was told another key, too."""
    log = make_log()
    witness = make_witness()
    error = handed(anchors_of(log, witness.uri), log.sealed(3))
    assert isinstance(error, UnavailableError)
    assert "verifier key" in error.message
    witness.trust(make_log("other", key=bytes([1] * 32)).signer.verifier())
    error = handed(anchors_of(log, witness.uri), log.sealed(3))
    assert isinstance(error, UnavailableError)
    assert "another key" in error.message


def test_a_witness_that_is_down_is_unavailable_and_caught_up(
    make_log: MakeLog, make_witness: MakeWitness
) -> None:
    """A witness that was away gets the newest checkpoint when it is back; that covers all."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    anchors = anchors_of(log, witness.uri)
    assert handed(anchors, log.sealed(3)) is None
    witness.stop()
    for size in (4, 5):
        assert isinstance(handed(anchors, log.sealed(size)), UnavailableError)
    memory = anchors.memory(anchors.places.places[0])
    assert memory.size(log.origin) == 3
    assert "cannot be reached" in (memory.health().last_error or "")
    witness.start()
    (missed,) = Handing(anchors, anchors.places.places[0]).behind()
    assert handed(anchors, missed) is None
    assert witness.seen()[log.origin][0] == 5
    assert memory.health().last_error is None


def test_a_witness_that_is_away_is_asked_once(make_log: MakeLog, make_witness: MakeWitness) -> None:
    """What does not answer for one log is not asked about the others; a refusal of one log is
    no reason to leave out the next."""
    log = make_log()
    others = [LocalLog(log.trees.of(log.origin).parents[1], f"memoriale/{n}/1") for n in "ab"]
    witness = make_witness(others[0].signer.verifier(), log.signer.verifier())
    checkpoints = [one.sealed(2) for one in (others[1], *others[:1], log)]
    anchors = anchors_of(log, witness.uri)
    handing = Handing(anchors, anchors.places.places[0])
    results = handing.hand(checkpoints)
    assert [error is None for error in results.values()] == [False, True, True]
    assert len(witness.requests) == 3
    witness.answer = lambda body: (503, "")
    results = handing.hand([one.sealed(3) for one in (others[1], *others[:1], log)])
    assert len({error.message for error in results.values() if error}) == 1
    assert len(witness.requests) == 4


def test_a_slow_witness_is_given_up(
    make_log: MakeLog, make_witness: MakeWitness, tmp_path: Path
) -> None:
    """A witness that does not answer is unavailable after the time given to it."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = witness.stuck
    anchors, checkpoint = anchors_of(log, witness.uri), log.sealed(3)
    place = anchors.places.places[0]
    impatient = WitnessAnchor(
        place, log.trees, anchors.memory(place), anchors.cosignatures, seconds=0.2
    )
    error = impatient.put([checkpoint])[log.origin]
    assert isinstance(error, UnavailableError)
    assert "in time" in error.message or "within" in error.message
