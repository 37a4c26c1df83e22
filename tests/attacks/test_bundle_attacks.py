"""``memoriale-verify`` against whoever makes manifest, hashes, and even signatures again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoriale.domain.record import Row
from tests.fixtures.bundle_runs import ACCESS, MEMORY, SIZE, Verified, found
from tests.fixtures.bundles import (
    ACCESS_ID,
    DEPLOYMENT_ID,
    KEY,
    OTHER_KEY,
    Logs,
    access,
    changed,
    made_again,
    note_of,
    origin_of,
    verifier,
)
from tests.fixtures.events import LOG_ID


def flip(name: str, at: int | bytes) -> Callable[[dict[str, bytes]], None]:
    """Changes a bit of the byte at a place, or of the one behind some text."""

    def change(files: dict[str, bytes]) -> None:
        content = bytearray(files[name])
        place = at if isinstance(at, int) else content.index(at) + len(at)
        content[place] ^= 1
        files[name] = bytes(content)

    return change


def swap(one: str, other: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files[one], files[other] = files[other], files[one]

    return change


def drop(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        del files[name]

    return change


def empty(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files[name] = b""

    return change


def cut(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files[name] = files[name][:-1]

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (flip(MEMORY + "states/000000000000000", 5), ("state_changed", 0)),
        (flip(MEMORY + "tile/entries/001", 60), ("out_of_place", 256)),
        (flip(MEMORY + "tile/entries/001", 300), ("leaf_changed", 256)),
        (flip(MEMORY + "tile/0/001", 32 * 7), ("leaf_changed", 263)),
        (flip(MEMORY + "tile/1/000.p/2", 40), ("leaf_changed", 256)),
        (cut(MEMORY + "tile/0/000"), ("leaf_changed", 255)),
        (cut(MEMORY + "tile/entries/000"), ("bad_entry", 255)),
        (cut(MEMORY + "states/000000000000000"), ("state_changed", 599)),
        (flip(ACCESS + "states/000000000000000", 0), ("state_changed", 0)),
        (swap(MEMORY + "tile/0/000", MEMORY + "tile/0/001"), ("leaf_changed", 0)),
        (swap(MEMORY + "tile/entries/000", MEMORY + "tile/entries/001"), ("out_of_place", 0)),
        (swap(MEMORY + "checkpoint", ACCESS + "checkpoint"), ("foreign_origin", None)),
        (swap(MEMORY + "checkpoints/1", MEMORY + "checkpoints/255"), ("foreign_origin", None)),
        (swap(MEMORY + "checkpoint", MEMORY + "checkpoints/300"), ("foreign_origin", None)),
        (cut(MEMORY + "checkpoint"), ("malformed", None)),
        (flip(MEMORY + "checkpoint", 50), ("bad_signature", None)),
        (flip(MEMORY + "checkpoint", 60), ("bad_signature", None)),
        (flip(MEMORY + "checkpoints/300", 60), ("bad_signature", None)),
        (
            swap(MEMORY + "deployment.tlog-proof", ACCESS + "deployment.tlog-proof"),
            ("foreign_origin", None),
        ),
        (flip(MEMORY + "deployment.tlog-proof", b"\nindex 0\n"), ("not_included", None)),
        (flip(MEMORY + "deployment.tlog-proof", b"index 0"), ("not_included", None)),
        (flip(MEMORY + "deployment.tlog-proof", b"extra"), ("not_included", None)),
        (drop(MEMORY + "tile/0/000"), ("damaged_file", 255)),
        (drop(MEMORY + "tile/entries/000"), ("damaged_file", 0)),
        (drop(MEMORY + "states/000000000000000"), ("state_changed", 0)),
        (empty(MEMORY + "states/000000000000000"), ("state_changed", 0)),
        (empty(MEMORY + "tile/entries/000"), ("bad_entry", 0)),
        (empty(MEMORY + "checkpoint"), ("malformed", None)),
        (empty(MEMORY + "deployment.tlog-proof"), ("malformed", None)),
        (drop(MEMORY + "checkpoint"), ("damaged_file", None)),
        (drop(MEMORY + "deployment.tlog-proof"), ("damaged_file", None)),
        (drop("README.txt"), ("damaged_file", None)),
        (lambda files: files.update({MEMORY + "tile/0/003": b"x"}), ("unknown_file", None)),
    ],
)
def test_files_changed_by_whoever_made_the_manifest_again_are_found(
    verified: Verified,
    good_bundle: bytes,
    change: Callable[[dict[str, bytes]], None],
    expected: tuple[str, int],
) -> None:
    """Hashes of the manifest help nobody: roots, places and signatures tell, and the event."""
    report = verified(made_again(good_bundle, change))
    assert report["exit"] == 1
    assert expected in found(report)


def test_a_manifest_that_leaves_events_out_is_found(verified: Verified, good_bundle: bytes) -> None:
    """Whoever takes the last events away must also take a checkpoint that covers less."""

    def shorter(files: dict[str, bytes]) -> None:
        files[MEMORY + "checkpoint"] = files[MEMORY + "checkpoints/300"]

    report = verified(made_again(good_bundle, shorter))
    assert report["exit"] == 1
    assert ("missing", 300) in found(report)


@pytest.mark.parametrize("about", [{"logs": "x"}, {"logs": [{}]}, {"logs": None}, {"logs": 5}])
def test_a_manifest_that_says_nothing_is_no_bundle(
    verified: Verified, good_bundle: bytes, about: Any
) -> None:
    """It is refused without a trace of Python."""
    report = verified(made_again(good_bundle, lambda files: None, **about))
    assert report["exit"] == 2
    assert report["error"].startswith("memoriale-verify: ")
    assert "Traceback" not in report["error"]


def test_what_an_unknown_key_signed_is_not_believed(
    verified: Verified, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """A whole history made anew, hashes and signatures included, fails for want of the key."""
    forged = Logs(tmp_path / "logs", bundled_rows, access(), key=OTHER_KEY).bundle()
    report = verified(forged)
    assert report["exit"] == 1
    assert found(report) == [("unknown_key", None)]
    assert verified(forged, key=verifier(OTHER_KEY))["exit"] == 0


def test_earlier_keys_that_are_not_known_are_told(
    verified: Verified, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """After a rotation the new key covers all; what the old one signed counts once it is given."""
    sizes = {100: [OTHER_KEY], 200: [OTHER_KEY, KEY]}
    bundle = Logs(tmp_path / "logs", bundled_rows, access(), sizes).bundle(keys=[OTHER_KEY, KEY])
    report = verified(bundle)
    assert (report["exit"], report["not_checked"]) == (6, [f"{origin_of(LOG_ID)}: 1 keys"])
    assert verified(bundle, "--verifier", verifier(OTHER_KEY))["exit"] == 0
    assert verified(bundle, key="")["exit"] == 0


def test_a_bad_signature_of_a_known_key_beside_a_good_one_is_found(
    verified: Verified, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """Two keys signed; one of the signatures does not hold, and both keys are known."""
    sizes = {SIZE: [OTHER_KEY, KEY]}
    bundle = Logs(tmp_path / "logs", bundled_rows, access(), sizes).bundle()

    def forge(files: dict[str, bytes]) -> None:
        note = note_of(LOG_ID, bundled_rows, OTHER_KEY, KEY).split("\n")
        wrong = note_of(LOG_ID, bundled_rows[:1], OTHER_KEY).split("\n")
        files[MEMORY + "checkpoint"] = "\n".join([*note[:4], wrong[4], *note[5:]]).encode()

    report = verified(made_again(bundle, forge), "--verifier", verifier(OTHER_KEY))
    assert (report["exit"], found(report)) == (1, [("bad_signature", None)])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: changed(rows, 7, index=8), ("out_of_place", 7)),
        (lambda rows: [*rows[:7], *rows[8:]], ("out_of_place", 7)),
        (lambda rows: [*rows[:7], rows[8], rows[7], *rows[9:]], ("out_of_place", 7)),
        (lambda rows: changed(rows, 9, tenant="acme-corp"), ("out_of_place", 9)),
        (lambda rows: changed(rows, 9, log_id=ACCESS_ID), ("out_of_place", 9)),
        (
            lambda rows: changed(rows, 2, append_last=rows[2].recorded.append_last + 1),
            ("bad_append", 2),
        ),
        (lambda rows: changed(rows, 5, append_first=5), ("bad_append", 5)),
        (lambda rows: changed(rows, 3, append_first=2), ("bad_append", 3)),
        (lambda rows: changed(rows, 599, append_last=600), ("bad_append", 599)),
        (
            lambda rows: changed(rows, 597, recorded_at=rows[0].recorded.recorded_at),
            ("bad_time", 597),
        ),
        (lambda rows: changed(rows, 3, state_hash=bytes(32)), ("state_changed", 3)),
    ],
    ids=[
        "index",
        "hole",
        "order",
        "tenant",
        "log",
        "append",
        "part",
        "begin",
        "end",
        "time",
        "body",
    ],
)
def test_a_log_that_was_sealed_wrong_is_found(
    verified: Verified,
    tmp_path: Path,
    bundled_rows: list[Row],
    change: Callable[[list[Row]], list[Row]],
    expected: tuple[str, int],
) -> None:
    """Signatures do not help either when the events themselves do not follow each other."""
    report = verified(Logs(tmp_path / "logs", change(bundled_rows), access()).bundle())
    assert report["exit"] == 1
    assert expected in found(report)
    assert report["first_bad_index"] == expected[1]


def test_a_checkpoint_kept_elsewhere_must_fit(
    verified: Verified, tmp_path: Path, good_bundle: bytes, bundled_rows: list[Row]
) -> None:
    """History that was rewritten and signed again is found by whoever kept one checkpoint."""
    file = tmp_path / "kept"
    file.write_text(note_of(LOG_ID, bundled_rows[:450]))
    assert verified(good_bundle, "--checkpoint", str(file))["exit"] == 0
    other = changed(bundled_rows, 17, state_hash=bundled_rows[17].recorded.state_hash[::-1])
    file.write_text(note_of(LOG_ID, other[:450]))
    report = verified(good_bundle, "--checkpoint", str(file))
    assert (report["exit"], found(report)) == (1, [("root_differs", None)])


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (lambda rows: note_of(DEPLOYMENT_ID, rows[:5]), ("foreign_origin", None)),
        (lambda rows: note_of(LOG_ID, rows[:5], OTHER_KEY), ("unknown_key", None)),
        (lambda rows: note_of(LOG_ID, [*rows, rows[0]]), ("missing", SIZE)),
        (lambda rows: note_of(LOG_ID, rows[:5]).replace("\n5\n", "\n6\n"), ("bad_signature", None)),
        (lambda rows: "nonsense", ("malformed", None)),
    ],
    ids=["of another log", "of an unknown key", "of a longer log", "changed", "nonsense"],
)
def test_a_checkpoint_kept_elsewhere_is_checked_itself(
    verified: Verified,
    tmp_path: Path,
    good_bundle: bytes,
    bundled_rows: list[Row],
    note: Callable[[list[Row]], str],
    expected: tuple[str, int | None],
) -> None:
    """It must be signed, of a log of the bundle, and not of more events than the bundle has."""
    file = tmp_path / "kept"
    file.write_text(note(bundled_rows))
    report = verified(good_bundle, "--checkpoint", str(file))
    assert report["exit"] == 1
    assert expected in found(report)
