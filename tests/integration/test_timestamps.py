"""Time stamps: a real authority, and what is made of a bad one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memoriale.adapters.anchors.anchor import AnchorConflictError
from memoriale.adapters.anchors.places import parse_places
from memoriale.adapters.anchors.timestamps import TimestampAnchor
from memoriale.domain.errors import UnavailableError
from tests.fixtures.local_log import LocalLog
from tests.fixtures.timestamp_authority import (
    TimestampAuthority,
    make_certificates,
    needs_openssl,
)

pytestmark = needs_openssl
MakeLog = Callable[..., LocalLog]


def anchor_of(log: LocalLog, uri: str) -> TimestampAnchor:
    return TimestampAnchor(parse_places([uri]).places[0], log.trees)


def kept(log: LocalLog) -> list[Path]:
    return list(log.trees.of(log.origin).glob("timestamps/*/*.tsr"))


def test_a_checkpoint_is_stamped_once(make_log: MakeLog, authority: TimestampAuthority) -> None:
    """The stamp says when, is kept beside the checkpoint, and is not asked for again."""
    log = make_log()
    anchor, checkpoint = anchor_of(log, authority.uri), log.sealed(3)
    assert anchor.stamp(checkpoint).time is None
    assert anchor.put([checkpoint]) == {log.origin: None}
    stamp = anchor.stamp(checkpoint)
    assert stamp.problem is None
    assert stamp.time is not None
    assert abs(stamp.time - datetime.now(UTC)) < timedelta(minutes=5)
    assert len(kept(log)) == 1
    assert anchor.put([checkpoint]) == {log.origin: None}
    assert len(authority.requests) == 1


def test_a_stamp_of_something_else_is_refused(
    make_log: MakeLog, authority: TimestampAuthority
) -> None:
    """An answer to another request is a violation and is not kept."""
    log = make_log()
    anchor = anchor_of(log, authority.uri)
    assert anchor.put([log.sealed(3)]) == {log.origin: None}
    authority.answer = authority.another_request
    error = anchor.put([log.sealed(4)])[log.origin]
    assert isinstance(error, AnchorConflictError)
    assert error.code == "bad_timestamp"
    assert len(kept(log)) == 1


def test_a_stamp_is_bound_to_its_checkpoint(
    make_log: MakeLog, authority: TimestampAuthority
) -> None:
    """A kept stamp that is moved to another checkpoint is told as a problem."""
    log = make_log()
    anchor = anchor_of(log, authority.uri)
    anchor.put([log.sealed(3)])
    (file,) = kept(log)
    moved = file.parents[1] / "4" / file.name
    moved.parent.mkdir()
    file.rename(moved)
    stamp = anchor.stamp(log.sealed(4))
    assert stamp.time is None
    assert "does not hold" in (stamp.problem or "")


def test_an_authority_that_nobody_trusts_is_refused(
    make_log: MakeLog, authority: TimestampAuthority, tmp_path: Path
) -> None:
    """A stamp under other roots than those configured is a violation."""
    (tmp_path / "other").mkdir()
    uri = authority.uri.replace(str(authority.roots), str(make_certificates(tmp_path / "other")))
    log = make_log()
    error = anchor_of(log, uri).put([log.sealed(3)])[log.origin]
    assert isinstance(error, AnchorConflictError)
    assert kept(log) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [((500, b""), "answered 500"), ((200, b"nonsense"), "no time stamp"), ((200, b""), "no time")],
)
def test_odd_answers(
    make_log: MakeLog, authority: TimestampAuthority, answer: tuple[int, bytes], said: str
) -> None:
    """Anything that is no stamp leaves the checkpoint without one, and is said."""
    authority.answer = lambda request: answer
    log = make_log()
    error = anchor_of(log, authority.uri).put([log.sealed(3)])[log.origin]
    assert isinstance(error, UnavailableError)
    assert said in error.message
    assert kept(log) == []


def test_missing_roots_are_told(make_log: MakeLog, authority: TimestampAuthority) -> None:
    """Without the file of certificates nothing is believed, and the error names the file."""
    log = make_log()
    authority.roots.unlink()
    error = anchor_of(log, authority.uri).put([log.sealed(3)])[log.origin]
    assert isinstance(error, UnavailableError)
    assert str(authority.roots) in error.message
