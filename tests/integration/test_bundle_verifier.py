"""``memoriale-verify``: a good bundle holds, and no byte of it is changed unnoticed."""

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoriale_verify
from memoriale.adapters.bundling import bundle as bundling
from memoriale.domain.leaf import LEAF_DOMAIN
from memoriale.domain.record import LEAF_COLUMNS, Row
from tests.fixtures.bundle_runs import SIZE, Verified
from tests.fixtures.bundles import ACCESS_ID, KEY, Logs, access, history, origin_of, verifier
from tests.fixtures.events import LOG_ID


def test_a_good_bundle_holds(verified: Verified, good_bundle: bytes) -> None:
    """Both logs are checked to their ends, with the root that was signed."""
    report = verified(good_bundle)
    assert (report["exit"], report["ok"], report["problems"]) == (0, True, [])
    memory, accesses = report["logs"]
    assert (memory["kind"], memory["leaves"], memory["checkpoints"]) == ("memory", SIZE, 5)
    assert (accesses["kind"], accesses["leaves"], accesses["checkpoints"]) == ("access", 3, 1)
    assert (report["keys"], report["not_checked"]) == ("given", [])
    assert report["first_bad_index"] is None


def test_the_same_logs_give_the_same_bytes(
    good_bundle: bytes, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """A bundle has no time, no order of chance and no name of a machine in it."""
    sizes: dict[int, list[Any]] = {size: [KEY] for size in (1, 255, 256, 300)}
    assert Logs(tmp_path, bundled_rows, access(), sizes).bundle() == good_bundle


def test_without_a_key_from_elsewhere_it_says_so(verified: Verified, good_bundle: bytes) -> None:
    """A bundle that only agrees with itself is told from one that was checked with a key."""
    report = verified(good_bundle, key="")
    assert (report["exit"], report["keys"]) == (0, "from the bundle itself")


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257])
def test_logs_of_any_size_hold(verified: Verified, tmp_path: Path, size: int) -> None:
    """An empty log, and one that ends at, before and behind the end of a tile."""
    report = verified(Logs(tmp_path / "logs", history(size), access(0)).bundle())
    assert (report["exit"], report["problems"]) == (0, [])
    assert [log["leaves"] for log in report["logs"]] == [size, 0]


def test_a_log_of_three_levels_holds(
    verified: Verified, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """66,000 events have tiles on three levels."""
    row, many = bundled_rows[0], list[Row]()
    for index in range(66_000):
        recorded = replace(
            row.recorded,
            index=index,
            append_first=index,
            append_last=index,
            recorded_at=row.recorded.recorded_at.replace(microsecond=index),
        )
        many.append(replace(row, recorded=recorded))
    report = verified(Logs(tmp_path / "logs", many, access()).bundle())
    assert (report["exit"], report["logs"][0]["leaves"]) == (0, 66_000)


def test_bodies_in_many_files_hold(
    verified: Verified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundled_rows: list[Row]
) -> None:
    """Bodies are split over files by their size, and read on from one to the next."""
    monkeypatch.setattr(bundling, "STATES_IN_A_FILE", 1_000)
    bundle = Logs(tmp_path / "logs", bundled_rows, access()).bundle()
    assert bundle.count(b"/states/") > 2 * 10
    assert verified(bundle)["exit"] == 0


def test_a_bundle_without_bodies_is_incomplete(
    verified: Verified, tmp_path: Path, bundled_rows: list[Row]
) -> None:
    """What is not in it is named; nothing wrong was found in the rest."""
    report = verified(Logs(tmp_path / "logs", bundled_rows, access()).bundle(states=False))
    assert (report["exit"], report["ok"]) == (6, True)
    assert report["not_checked"] == [
        f"{origin_of(LOG_ID)}: sealed states",
        f"{origin_of(ACCESS_ID)}: sealed states",
    ]


def outcome(bundle: bytes) -> int:
    """The exit code for a bundle."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        path.write_bytes(bundle)
        try:
            code: int = memoriale_verify.verify(str(path), [verifier()], [])["exit_code"]
        except (memoriale_verify.Usage, *memoriale_verify.UNREADABLE):
            return memoriale_verify.USAGE
        return code


@given(st.data())
def test_no_byte_is_changed_unnoticed(small_bundle: bytes, data: st.DataObject) -> None:
    """One bit changed anywhere in the file is a violation, or no bundle any more."""
    bundle = bytearray(small_bundle)
    bundle[data.draw(st.integers(0, len(bundle) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert outcome(bytes(bundle)) in (1, 2)


def test_no_byte_of_the_archive_itself_is_changed_unnoticed(small_bundle: bytes) -> None:
    """Dates, versions, sizes and offsets that readers of archives pass over count too."""
    headers = [at for at in range(len(small_bundle)) if small_bundle[at : at + 2] == b"PK"]
    places = [at + n for at in headers for n in range(46) if at + n < len(small_bundle)]
    for at in places[:: max(1, len(places) // 200)]:
        bundle = bytearray(small_bundle)
        bundle[at] ^= 0x10
        assert outcome(bytes(bundle)) in (1, 2), at


@given(st.integers(0, 2**32))
def test_no_bundle_is_cut_off_unnoticed(small_bundle: bytes, cut: int) -> None:
    """What a broken transfer leaves is no bundle."""
    assert outcome(small_bundle[: cut % len(small_bundle)]) in (1, 2)


def test_bytes_before_or_behind_are_noticed(small_bundle: bytes) -> None:
    """Nothing can be hidden around the archive."""
    assert outcome(small_bundle) == 0
    assert outcome(b"\0" + small_bundle) in (1, 2)
    assert outcome(small_bundle + b"\0") in (1, 2)


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense" * 100])
def test_what_is_no_bundle_is_bad_usage(verified: Verified, content: bytes) -> None:
    """Code 2, and a line that says so."""
    report = verified(content)
    assert report["exit"] == 2
    assert report["error"].startswith("memoriale-verify: ")


def test_bad_arguments_are_bad_usage(
    verified: Verified, good_bundle: bytes, tmp_path: Path
) -> None:
    """A key that is none, a checkpoint that is not there, another format."""
    assert "is no verifier key" in verified(good_bundle, key="memoriale+00000000+AAAA")["error"]
    missing = verified(good_bundle, "--checkpoint", str(tmp_path / "none"))
    assert (missing["exit"], "none" in missing["error"]) == (2, True)
    other = good_bundle.replace(b"memoriale-bundle/1", b"memoriale-bundle/9")
    assert verified(other)["exit"] == 2


def test_people_are_told_the_same(
    good_bundle: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without --json each log has a line, and the last line is the verdict."""
    path = tmp_path / "bundle.zip"
    for bundle, verdict in (
        (good_bundle, "it holds"),
        (good_bundle[:-1] + b"x", "IT DOES NOT HOLD"),
    ):
        path.write_bytes(bundle)
        monkeypatch.setattr(sys, "argv", ["memoriale-verify", str(path)])
        with pytest.raises(SystemExit):
            memoriale_verify.main()
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"memory log of acme: {SIZE} of {SIZE} events, ")
        assert lines[-1] == verdict


def test_its_places_are_those_of_the_ledger() -> None:
    """The stand-alone file has its own copy of the format; this holds it to the ledger's."""
    names = [column.name for column in LEAF_COLUMNS]
    assert len(names) == memoriale_verify.FIELDS
    assert LEAF_DOMAIN == memoriale_verify.TAG
    assert {name: names.index(name) + 1 for name in memoriale_verify.PLACES} == (
        memoriale_verify.PLACES
    )
