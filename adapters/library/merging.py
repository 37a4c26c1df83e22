"""What a handle does with branches when their work is done: merge, propose, approve, discard."""

from typing import TYPE_CHECKING
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.library.bound import Bound
from memoriale.domain.branches import MAIN, Branch
from memoriale.domain.errors import InputError
from memoriale.domain.fields import parse_id
from memoriale.domain.merging import Prefer, check_prefer
from memoriale.domain.principal import Right
from memoriale.domain.text import check_text, shown

if TYPE_CHECKING:
    from memoriale.adapters.application.merge_results import MergeResult
    from memoriale.adapters.application.merging import Merging, Outcome


class Merges(Bound):
    """The part of ``Memory`` that merges and ends branches."""

    def merge(
        self,
        child: str,
        *,
        into: str | None = None,
        prefer: str = "none",
        propose: bool = False,
        reason: str | None = None,
    ) -> "MergeResult":
        """
        Makes what a branch changed changes of a branch that it comes from; right ``review``.

        They are new events there, each caused by the branch's own event, in one append, or in
        several of at most 1,000 events. The branch goes on, and merging again takes over what is
        new. Both sides conflict where each changed the same memory since they parted, or the
        same aspect (subject) or key of one owner.

        Args:
            child: Name of the branch: the principal's own, the tenant's, or one that left for
                another resource from what is the principal's; or its id.
            into: Name of a branch that it comes from; default: the one that it left.
            prefer: ``none``: a conflict stores nothing; ``parent`` or ``child``: that side wins.
            propose: Ask for it, with the right ``use`` alone; ``approve`` carries it out.
            reason: Why; sealed.

        Returns:
            What was done, and every conflict. A branch with another owner than the one that it
            left: what it made becomes the memories of that one, which takes ``operate`` too.

        Raises:
            RefusedError: A branch is discarded, or a legal hold keeps what would end.
            ConflictError: Others kept changing the same memories.
        """
        from memoriale.adapters.application.merging import Merging

        wanted = check_prefer(prefer)
        why = None if reason is None else check_text("reason", reason)
        self.allow("merge", *((Right.USE,) if propose else (Right.USE, Right.REVIEW)))
        view = self._own_branch(child)
        target = self._into(view, into)
        asked = Merging(child=view.branch.id, into=target.id, prefer=wanted, reason=why)
        if propose:
            outcome = self.services.merging.propose(self.principal, asked)
        else:
            self._require_owners("merge", view, target)
            outcome = self.services.merging.merge(self.principal, asked)
        return self._told("merge", outcome, asked, view)

    def approve(self, proposal: UUID | str, *, reason: str | None = None) -> "MergeResult":
        """
        Carries out a proposed merge, whosever it is; right ``review``. What the branch changed
        after the proposal stays out; what the parent changed since and conflicts with it is
        reported, and nothing is stored. An approved one is not carried out again.

        Args:
            proposal: Its id.
            reason: Why; sealed.

        Raises:
            InputError: ``unknown_proposal``.
        """
        from memoriale.adapters.application.merging import Merging

        found = parse_id("proposal", proposal)
        why = None if reason is None else check_text("reason", reason)
        self.allow("approve", Right.USE, Right.REVIEW)
        branch, wanted = self.services.merging.find_proposal(found)
        view = BranchView(branch, self.services.branching.everything())
        asked = Merging(
            child=branch.id,
            into=wanted.into,
            prefer=Prefer(wanted.prefer),
            reason=why,
            proposal=wanted,
        )
        self._require_owners("approve", view, view.known[wanted.into])
        outcome = self.services.merging.merge(self.principal, asked)
        return self._told("approve", outcome, asked, view)

    def discard(self, name: str, *, reason: str | None = None) -> Branch:
        """
        Ends a branch: it is no longer listed, nothing is written to it or current on it, and its
        name is not used again. Its history stays, and so do reads as of a point before. A
        branch of the whole tenant takes ``review``, another owner's ``operate``.

        Args:
            name: As for ``merge``.
            reason: Why; sealed.

        Raises:
            RefusedError: It is discarded already, a branch in use left from it, or the library
                made it (``reserved``): the memory of a forked resource lies on it.
        """
        why = None if reason is None else check_text("reason", reason)
        self.allow("discard", Right.USE)
        view = self._own_branch(name)
        if view.branch.owner is None:
            self.allow("discard", Right.REVIEW)
        if not self._is_own(view.branch):
            self.allow("discard", Right.OPERATE)
        self.services.merging.discard(self.principal, view.branch.id, why)
        return self.services.branching.everything()[view.branch.id]

    def _own_branch(self, name: str) -> BranchView:
        """A branch that is the principal's, or that left for another owner from what is."""
        text = check_text("branch", name)
        known = self.services.branching.everything()
        try:
            found = [self.services.branching.resolve(self.principal, text).branch]
        except InputError as error:
            owners = self.services.log.identities.scope(self.principal).owners
            reachable = [b for b in known.values() if owners & {b.owner, b.parent_owner}]
            found = [b for b in reachable if text in (b.name, str(b.id))]
            if not found:
                raise error
        if len(found) > 1:
            raise _ambiguous(text, found)
        if found[0].parent is None:
            raise _not_main()
        return BranchView(known[found[0].id], known)

    def _into(self, view: BranchView, name: str | None) -> Branch:
        from memoriale.adapters.application.merging import ancestors

        above = list(ancestors(view.branch, view.known))
        if name is None:
            return above[0]
        text = check_text("into", name)
        for branch in above:
            if text == str(branch.id) or (text == branch.name and self._is_own(branch)):
                return branch
        raise InputError(
            f"branch {shown(text)!r} is none that {shown(view.branch.name)!r} comes from.",
            code="not_an_ancestor",
            field="into",
            value=shown(text),
            allowed=[b.name for b in above if b.name and self._is_own(b)],
        )

    def _require_owners(self, command: str, view: BranchView, into: Branch) -> None:
        """Asks for ``operate`` where memories get another owner, as a fork for another does."""
        from memoriale.adapters.application.merging import ancestors

        between = [view.branch]
        for branch in ancestors(view.branch, view.known):
            if branch.id == into.id:
                break
            between.append(branch)
        if any(branch.parent_owner not in (None, branch.owner) for branch in between):
            self.allow(command, Right.OPERATE)

    def _is_own(self, branch: Branch) -> bool:
        owners = self.services.log.identities.scope(self.principal).owners
        return branch.owner is None or branch.owner in owners

    def _called(self, branch: Branch) -> str:
        return branch.name if branch.name and self._is_own(branch) else str(branch.id)

    def _told(
        self, command: str, outcome: "Outcome", asked: "Merging", view: BranchView
    ) -> "MergeResult":
        from memoriale.adapters.application.merge_results import merge_result

        log, into = self.services.log, view.known[asked.into]
        scope = branch_scope(log.identities.scope(self.principal), view)
        found = merge_result(
            log, scope, outcome, self._called(view.branch), self._called(into), asked.prefer
        )
        told = [(s.memory_id, s.index) for c in found.conflicts for s in (*c.child, *c.parent)]
        self.given(command, told, index=log.head() - 1, branch=view)
        return found


def _ambiguous(name: str, found: list[Branch]) -> InputError:
    return InputError(
        f"{len(found)} branches are called {shown(name)!r}; name one by its id.",
        code="ambiguous",
        field="branch",
        value=shown(name),
        allowed=[str(branch.id) for branch in found],
    )


def _not_main() -> InputError:
    return InputError(
        f"{MAIN!r} comes from no branch; name one that was forked.",
        code="bad_value",
        field="branch",
        value=MAIN,
    )
