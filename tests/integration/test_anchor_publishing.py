"""Publishing to anchors: off the writer's path, remembered, caught up, conflicts told."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from memoriale.adapters.anchors.anchor import AnchorConflictError, path_of
from memoriale.adapters.anchors.handing import Handing
from memoriale.adapters.anchors.opening import Anchors
from memoriale.adapters.anchors.places import parse_places
from memoriale.adapters.anchors.publishing import AnchorPublisher, push
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError
from tests.fixtures.local_log import ORIGIN, LocalLog
from tests.fixtures.witness import Witness

MakeLog = Callable[..., LocalLog]
MakeWitness = Callable[..., Witness]
OTHER = "memoriale/77/1"


def anchors_of(log: LocalLog, *entries: str) -> Anchors:
    home = log.trees.of(log.origin).parents[2]
    return Anchors(parse_places(entries), home / "anchors", log.trees)


def handed(anchors: Anchors, checkpoint: Published) -> MemorialeError | None:
    (place,) = anchors.places.places
    return Handing(anchors, place).hand([checkpoint])[checkpoint.origin]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder outside."""
    made = tmp_path / "outside"
    made.mkdir()
    return made


def conflict(error: MemorialeError | None, code: str) -> str:
    assert isinstance(error, AnchorConflictError), error
    assert error.code == code
    return error.message


def test_an_older_copy_is_told_how_much_is_lost(make_log: MakeLog, folder: Path) -> None:
    """A log that has fewer events than the anchor knows is behind, and nothing is added."""
    log = make_log()
    assert handed(anchors_of(log, str(folder)), log.sealed(10)) is None
    older = make_log("older")
    said = conflict(handed(anchors_of(older, str(folder)), older.sealed(7)), "log_behind_anchor")
    assert "at least 3 sealed events are lost" in said
    assert not (folder / path_of(older.checkpoint(7))).exists()


def test_another_history_is_not_added(make_log: MakeLog, folder: Path) -> None:
    """A log that was rewritten below what the anchor holds is a conflict at the next sealing."""
    log = make_log()
    assert handed(anchors_of(log, str(folder)), log.sealed(10)) is None
    rewritten = make_log("rewritten", story="false")
    anchors = anchors_of(rewritten, str(folder))
    conflict(handed(anchors, rewritten.sealed(12)), "other_history")
    assert not (folder / path_of(rewritten.checkpoint(12))).exists()
    health = anchors.memory(anchors.places.places[0]).health()
    assert "not of this log's history" in (health.conflict or "")


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"a\n1\nAA==\n\nx"])
def test_a_foreign_note_is_a_conflict(make_log: MakeLog, folder: Path, content: bytes) -> None:
    """Something else under the name of a checkpoint stops that log's publishing, and is told."""
    log = make_log()
    checkpoint = log.sealed(5)
    target = folder / path_of(checkpoint)
    target.parent.mkdir(parents=True)
    target.write_bytes(content)
    conflict(handed(anchors_of(log, str(folder)), log.sealed(6)), "other_history")


def test_an_anchor_that_lost_checkpoints_is_a_conflict(make_log: MakeLog, folder: Path) -> None:
    """An anchor that no longer holds what it took was set back, and that is said."""
    log = make_log()
    anchors = anchors_of(log, str(folder))
    assert handed(anchors, log.sealed(3)) is None
    gone = log.sealed(5)
    assert handed(anchors, gone) is None
    (folder / path_of(gone)).unlink()
    said = conflict(handed(anchors, log.sealed(6)), "anchor_set_back")
    assert "checkpoint of 5 events" in said


def test_a_missing_tile_is_told_and_nothing_added(make_log: MakeLog, folder: Path) -> None:
    """Without its tiles the home cannot compare with what the anchor holds: the round fails."""
    log = make_log()
    anchors = anchors_of(log, str(folder))
    assert handed(anchors, log.sealed(3)) is None
    checkpoint = log.sealed(5)
    for tile in log.trees.of(log.origin).glob("tile/0/*.p/*"):
        tile.unlink()
    error = handed(anchors, checkpoint)
    assert isinstance(error, UnavailableError)
    assert not (folder / path_of(checkpoint)).exists()


def test_publishing_returns_at_once_and_goes_on_behind(
    make_log: MakeLog, make_witness: MakeWitness, folder: Path
) -> None:
    """A witness that hangs holds up neither the caller nor another anchor."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = witness.stuck
    publisher = AnchorPublisher(anchors_of(log, witness.uri, str(folder)))
    checkpoint = log.sealed(5)
    publisher.publish([checkpoint])
    later = log.sealed(8)
    publisher.publish([later])
    while not (folder / path_of(later)).exists():
        threading.Event().wait(0.01)
    assert witness.seen() == {}
    witness.released.set()
    publisher.close(wait=30)
    assert witness.seen()[log.origin][0] == 8


def test_closing_does_not_wait_for_ever(
    make_log: MakeLog, make_witness: MakeWitness, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a process waits its time for an anchor that hangs; the next process catches up."""
    log = make_log()
    witness = make_witness(log.signer.verifier())
    witness.answer = witness.stuck
    publisher = AnchorPublisher(anchors_of(log, witness.uri))
    publisher.publish([log.sealed(5)])
    publisher.close(wait=0.1)
    assert "did not answer in time" in caplog.text
    assert witness.seen() == {}
    witness.released.set()
    publisher.close(wait=30)
    assert witness.seen()[log.origin][0] == 5


def test_what_an_anchor_missed_is_caught_up_at_the_next_seal(
    make_log: MakeLog, folder: Path
) -> None:
    """After a failure the next sealing brings the newest checkpoint of every log."""
    log = make_log()
    other = LocalLog(log.trees.of(ORIGIN).parents[1], origin=OTHER)
    mount = folder / "mount"
    first = AnchorPublisher(anchors_of(log, str(mount)))
    missed = other.sealed(4)
    first.publish([missed])
    first.close()
    mount.mkdir()
    second = AnchorPublisher(anchors_of(log, str(mount)))
    checkpoint = log.sealed(6)
    second.publish([checkpoint])
    second.close()
    assert (mount / path_of(missed)).read_bytes() == missed.note
    assert (mount / path_of(checkpoint)).read_bytes() == checkpoint.note
    third = AnchorPublisher(anchors_of(log, str(mount)))
    third.publish([log.sealed(7)])
    third.close()
    assert (mount / path_of(log.checkpoint(7))).is_file()


def test_an_earlier_incarnation_is_left_alone(make_log: MakeLog, folder: Path) -> None:
    """After a declared restore nothing more is handed over for the incarnation before, whose last
    checkpoint here may be an older one than the anchor has."""
    log = make_log()
    anchors = anchors_of(log, str(folder))
    log.sealed(4)
    restored = LocalLog(log.trees.of(ORIGIN).parents[1], origin=ORIGIN[:-1] + "2")
    present = restored.sealed(2)
    LocalLog(log.trees.of(ORIGIN).parents[1], origin=OTHER[:-1] + "9").sealed(3)
    tenth = LocalLog(log.trees.of(ORIGIN).parents[1], origin=OTHER[:-1] + "10").sealed(5)
    behind = Handing(anchors, anchors.places.places[0]).behind()
    assert sorted(behind, key=lambda one: one.size) == [present, tenth]


def test_every_spares_an_anchor(make_log: MakeLog, folder: Path) -> None:
    """With every=SECONDS an anchor is used once in that time, by however many processes."""
    log = make_log()
    for size in (1, 2, 3):
        publisher = AnchorPublisher(anchors_of(log, str(folder), "every=3600"))
        publisher.publish([log.sealed(size)])
        while size == 1 and not (folder / path_of(log.checkpoint(1))).exists():
            threading.Event().wait(0.01)
        publisher.close()
    held = [p.name for p in sorted(folder.rglob("*")) if p.is_file()]
    assert held == ["001"]
    results = push(anchors_of(log, str(folder), "every=3600"), [log.checkpoint(3)])
    assert [dict(result) for result in results.values()] == [{ORIGIN: None}]
    held = [p.name for p in sorted(folder.rglob("*")) if p.is_file()]
    assert held == ["001", "003"]


def test_push_asks_all_and_tells_each(
    make_log: MakeLog, make_witness: MakeWitness, folder: Path
) -> None:
    """Pushing now takes the checkpoint of every log everywhere, and says what went wrong where."""
    log = make_log()
    other = LocalLog(log.trees.of(ORIGIN).parents[1], origin=OTHER)
    checkpoints = [one.sealed(4) for one in (log, other)]
    witness = make_witness(log.signer.verifier())
    results = push(anchors_of(log, str(folder), witness.uri), checkpoints)
    by_folder, by_witness = results.values()
    assert by_folder == {ORIGIN: None, OTHER: None}
    assert by_witness[ORIGIN] is None
    assert "does not know the log" in (by_witness[OTHER] or UnavailableError("")).message
