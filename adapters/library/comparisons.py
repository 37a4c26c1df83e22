"""What a handle says about branches side by side."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.comparing import (
    BranchDiff,
    BranchNode,
    QuestionDiff,
    compare_answers,
)
from memoriale.adapters.application.reading import AsOf, Pin
from memoriale.adapters.composition import Tenant
from memoriale.domain.branches import Branch
from memoriale.domain.fields import several
from memoriale.domain.principal import Principal, Right
from memoriale.domain.text import check_query

if TYPE_CHECKING:
    from memoriale.adapters.library.memory import Memory


class Handle(Protocol):
    """What these methods need of ``Memory``."""

    services: Tenant
    principal: Principal

    def allow(self, command: str, *rights: Right) -> None:
        """Checks rights and records their use."""

    def branch(self, name: str) -> "Memory":
        """The same principal on another branch."""

    def branches(self) -> list[Branch]:
        """The branches that the principal may use."""

    def given(
        self,
        command: str,
        memories: Iterable[tuple[UUID, int]],
        *,
        index: int,
        as_of: AsOf = None,
        branch: BranchView | None = None,
    ) -> None:
        """Puts what the caller is about to be given on record."""


class Comparisons:
    """The part of ``Memory`` that compares branches."""

    def diff(
        self: Handle, a: str, b: str, *, questions: Sequence[str] = (), as_of: AsOf = None
    ) -> BranchDiff:
        """
        What branch ``b`` changed since it and branch ``a`` parted, for what the principal may
        see; folded from the log, so it holds what was written up to this call.

        Args:
            a: Name of the branch to compare with.
            b: Name of the branch whose changes to list.
            questions: Questions to recall on both branches, at most five hits each.
            as_of: Compare as then: an index, or an aware time or its text.

        Returns:
            ``added``, ``corrected``, ``amended``, ``invalidated`` and ``reinstated``, each in
            index order; a memory can stand in several. One that was made and ended on ``b`` is
            in none. ``also_changed`` marks what ``a`` has changed as well.
        """
        asked = check_questions(questions)
        self.allow("diff", Right.USE)
        resolve = self.services.branching.resolve
        one, other = resolve(self.principal, a), resolve(self.principal, b)
        pin = self.services.reading.pin(as_of)
        answers = tuple(_answers(self, question, a, b, pin) for question in asked)
        found = self.services.comparing.diff(self.principal, one, other, pin.index, answers)
        entries = [entry for listed in found.entries.values() for entry in listed]
        memories = [(entry.memory_id, entry.index) for entry in entries]
        self.given("diff", memories, index=found.index, as_of=as_of, branch=other)
        return found

    def tree(self: Handle) -> list[BranchNode]:
        """
        The branches that the principal may use as a tree: each before those that left it, these
        in the order in which they were made.
        """
        self.allow("tree", Right.USE)
        branches = self.services.branching.visible(self.principal)
        return self.services.comparing.tree(self.principal, branches)


def check_questions(questions: Sequence[str]) -> list[str]:
    """
    Questions for both branches.

    Raises:
        InputError: A single text in place of a list, or a question that cannot be asked.
    """
    return [check_query(question) for question in several("questions", questions)]


def _answers(handle: Handle, question: str, a: str, b: str, pin: Pin) -> QuestionDiff:
    # Both as of one index, so that nothing recorded between the two counts as a difference.
    then = None if pin.index < 0 else pin.index
    one, other = (handle.branch(name).recall(question, as_of=then) for name in (a, b))
    return compare_answers(question, one, other)
