"""What every view must do. A view's test class names how to make one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memoriale.domain.errors import ConflictError
from memoriale.projections.view import Digest, View
from tests.fixtures.events import ALICE, BOB, START, History


def eventful_history() -> History:
    """Every topic that a memory can have, three branches, two owners, an append of three."""
    history = History()
    note = history.remembered("Alice prefers e-mail", tags=("contact",), importance=0.5)
    fact = history.remembered("Bob lives in Rome", kind="fact", owner=BOB, valid_from=START)
    child = history.forked("what-if")
    history.corrected(note, "Alice prefers the phone", branch=child)
    grandchild = history.forked("what-if-2", parent=child)
    history.amended(note, branch=grandchild, metadata={"n": [1, {"deep": None}]})
    with history.together():
        history.amended(note, importance=0.75, expires_at=history.time(500))
        history.invalidated(note)
        history.denied()
    history.reinstated(note)
    history.corrected(fact, "Bob lives in Milan")
    history.invalidated(fact, branch=child)
    history.remembered("a message", kind="message", owner=BOB, payload={"speaker": "Bob"})
    return history


class ViewContract(ABC):
    """Subclass it as ``class TestMyView(ViewContract)`` and say how the view is made."""

    @abstractmethod
    def make_view(self, folder: Path) -> View:
        """The view in a folder: opened if it is there, else made. The folder exists."""

    @contextmanager
    def opened(self, folder: Path) -> Iterator[View]:
        folder.mkdir(exist_ok=True)
        with closing(self.make_view(folder)) as view:
            yield view

    def posted(self, folder: Path, history: History, size: int = 1_000) -> Digest:
        """Posts the whole history in batches of about ``size`` rows. Returns the digest."""
        with self.opened(folder) as view:
            for batch in history.batches(view.position(), history.head(), size):
                view.apply(batch, batch.position)
            assert view.position() == history.head()
            return view.digest()

    def test_a_new_view_has_seen_nothing(self, tmp_path: Path) -> None:
        """A new view stands at position 0."""
        with self.opened(tmp_path) as view:
            assert view.position() == 0
            assert view.name

    def test_the_position_is_the_number_of_events_seen(self, tmp_path: Path) -> None:
        """After each batch the view stands at the batch's end."""
        history = eventful_history()
        with self.opened(tmp_path) as view:
            for batch in history.batches(0, history.head(), 2):
                view.apply(batch, batch.position)
                assert view.position() == batch.end

    def test_it_goes_on_where_it_stood_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Position and content outlive the handle, and posting goes on from there."""
        history = eventful_history()
        clean = self.posted(tmp_path / "clean", history)
        folder = tmp_path / "view"
        for batch in history.batches(0, history.head(), 3):
            with self.opened(folder) as view:
                assert view.position() == batch.position
                view.apply(batch, batch.position)
        with self.opened(folder) as view:
            assert view.digest() == clean

    @pytest.mark.parametrize("size", [1, 2, 5])
    def test_how_the_log_is_cut_does_not_matter(self, tmp_path: Path, size: int) -> None:
        """Batches of any size give the same content."""
        history = eventful_history()
        whole = self.posted(tmp_path / "whole", history)
        assert self.posted(tmp_path / "cut", history, size) == whole

    def test_a_wrong_expected_position_is_refused(self, tmp_path: Path) -> None:
        """A writer that expects another position changes nothing."""
        history = eventful_history()
        with self.opened(tmp_path) as view:
            view.apply(history.batch(0, 2), 0)
            before = view.digest()
            for expected in (0, 1, 3):
                with pytest.raises(ConflictError):
                    view.apply(history.batch(2, 4), expected)
            assert (view.position(), view.digest()) == (2, before)

    def test_a_batch_that_begins_elsewhere_is_refused(self, tmp_path: Path) -> None:
        """Neither a gap nor a repetition is posted."""
        history = eventful_history()
        with self.opened(tmp_path) as view:
            view.apply(history.batch(0, 2), 0)
            before = view.digest()
            for start in (0, 1, 3):
                with pytest.raises(ConflictError):
                    view.apply(history.batch(start, 5), 2)
            assert (view.position(), view.digest()) == (2, before)

    def test_the_digest_tells_other_content(self, tmp_path: Path) -> None:
        """Histories that differ in one header value have different digests."""
        one, other = History(), History()
        one.remembered("the same text", importance=0.5)
        other.remembered("the same text", importance=0.501)
        assert self.posted(tmp_path / "one", one) != self.posted(tmp_path / "other", other)

    def test_the_digest_tells_other_owners(self, tmp_path: Path) -> None:
        """Histories that differ in an owner have different digests."""
        one, other = History(), History()
        one.remembered("the same text", owner=ALICE)
        other.remembered("the same text", owner=BOB)
        assert self.posted(tmp_path / "one", one) != self.posted(tmp_path / "other", other)

    def test_the_digest_counts_the_position(self, tmp_path: Path) -> None:
        """An event that changes no memory changes the digest all the same."""
        one, other = History(), History()
        for history in (one, other):
            history.remembered("the same text")
        other.denied()
        assert self.posted(tmp_path / "one", one) != self.posted(tmp_path / "other", other)

    def test_reading_the_digest_changes_nothing(self, tmp_path: Path) -> None:
        """Two digests in a row are equal and count rows."""
        history = eventful_history()
        first = self.posted(tmp_path, history)
        with self.opened(tmp_path) as view:
            assert view.digest() == view.digest() == first
        assert first.rows > 0

    def test_erased_bodies_can_be_posted(self, tmp_path: Path) -> None:
        """Events whose keys were destroyed are posted like any others."""
        history = eventful_history()
        for memory_id in list(history.memories):
            history.erase(memory_id)
        history.remembered("written after the erasure")
        whole = self.posted(tmp_path / "whole", history)
        assert self.posted(tmp_path / "cut", history, 1) == whole

    def test_a_whole_log_of_other_events_can_be_posted(self, tmp_path: Path) -> None:
        """Events that are no events of a memory move the position only."""
        history = History()
        for _ in range(3):
            history.denied()
        assert self.posted(tmp_path / "one", history, 1) == self.posted(tmp_path / "all", history)

    def test_closing_twice_is_harmless(self, tmp_path: Path) -> None:
        """A second close does nothing."""
        with self.opened(tmp_path) as view:
            view.close()
