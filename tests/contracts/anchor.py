"""What every anchor that can be read back keeps to."""

from collections.abc import Mapping
from hashlib import sha256

import pytest

from memoriale.adapters.anchors.anchor import AnchorConflictError, Archive, Held
from memoriale.adapters.sealing.publisher import Published

LOG = "memoriale/0b5a2f1c"


def sealed(size: int, *, origin: str = f"{LOG}/1", root: str = "", signed: str = "a") -> Published:
    """A checkpoint of some history."""
    digest = sha256(root.encode() or str(size).encode()).digest()
    note = f"{origin}\n{size}\n{digest.hex()}\n\n— {origin} {signed}\n"
    return Published(origin, size, digest, note.encode())


def sizes(held: Mapping[str, Held]) -> dict[str, int]:
    """Sizes by origin."""
    return {origin: one.size for origin, one in held.items()}


class ArchiveContract:
    """A test class per kind of anchor gives the fixtures ``archive`` and ``again``."""

    @pytest.fixture
    def archive(self) -> Archive:
        """An empty anchor."""
        raise NotImplementedError

    @pytest.fixture
    def again(self, archive: Archive) -> Archive:
        """The same place, opened once more."""
        raise NotImplementedError

    def test_what_was_put_is_held_and_sorted_by_size(self, archive: Archive) -> None:
        """Checkpoints come back byte for byte, by size, also beyond a thousand of them."""
        wanted = [sealed(size) for size in (1, 7, 999, 1000, 1_000_000, 123_456_789)]
        for checkpoint in wanted:
            assert archive.put([checkpoint]) == {checkpoint.origin: None}
        found = list(archive.held(LOG))
        assert [(held.size, held.note) for held in found] == [(c.size, c.note) for c in wanted]
        assert {held.origin for held in found} == {f"{LOG}/1"}

    def test_the_newest_is_the_largest(self, archive: Archive, again: Archive) -> None:
        """The largest size is the newest, whoever asks and in whatever order they were put."""
        assert archive.newest([f"{LOG}/1"]) == {}
        for size in (2, 1500, 30):
            archive.put([sealed(size)])
        for opened in (archive, again):
            assert sizes(opened.newest([f"{LOG}/1", "memoriale/un/known"])) == {f"{LOG}/1": 1500}
        again.put([sealed(1501)])
        assert sizes(archive.newest([f"{LOG}/1"])) == {f"{LOG}/1": 1501}

    def test_putting_the_same_again_is_no_error(self, archive: Archive, again: Archive) -> None:
        """A second put of the same statement changes nothing, also under another signature."""
        archive.put([sealed(5)])
        assert again.put([sealed(5, signed="b")]) == {f"{LOG}/1": None}
        assert [held.note for held in again.held(LOG)] == [sealed(5).note]

    def test_another_root_at_the_same_size_is_refused(
        self, archive: Archive, again: Archive
    ) -> None:
        """Two histories of one size: the first stays, the second is an equivocation."""
        archive.put([sealed(5)])
        refused = again.put([sealed(5, root="other")])[f"{LOG}/1"]
        assert isinstance(refused, AnchorConflictError)
        assert refused.code == "equivocation"
        assert [held.note for held in again.held(LOG)] == [sealed(5).note]

    def test_one_conflict_does_not_hold_up_the_others(self, archive: Archive) -> None:
        """Of several logs in one call, those without a conflict are stored."""
        other = f"{LOG}f/1"
        archive.put([sealed(5)])
        results = archive.put([sealed(5, root="other"), sealed(9, origin=other)])
        assert isinstance(results[f"{LOG}/1"], AnchorConflictError)
        assert results[other] is None
        assert sizes(archive.newest([other])) == {other: 9}

    def test_logs_and_incarnations_are_apart(self, archive: Archive) -> None:
        """A log's checkpoints are those of all its incarnations and of no log named alike."""
        for origin in (f"{LOG}/1", f"{LOG}/2", f"{LOG}f/1"):
            archive.put([sealed(3, origin=origin)])
        assert [held.origin for held in archive.held(LOG)] == [f"{LOG}/1", f"{LOG}/2"]
        assert list(archive.held("memoriale/unknown")) == []

    def test_logs_are_listed(self, archive: Archive, again: Archive) -> None:
        """Every log of which anything is held is told, once."""
        assert archive.logs() == []
        for origin in (f"{LOG}f/1", f"{LOG}/1", f"{LOG}/2"):
            archive.put([sealed(3, origin=origin)])
        assert again.logs() == [LOG, f"{LOG}f"]
