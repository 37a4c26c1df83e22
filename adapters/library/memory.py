"""``Memory``: what one principal may do on one branch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.application.writing import Change
from memoriale.adapters.library.bound import PRINCIPAL_FIELDS, wants_proof
from memoriale.adapters.library.comparisons import Comparisons
from memoriale.adapters.library.episodes import Episodic
from memoriale.adapters.library.fields import (
    AmendFields,
    ChangeFields,
    InvalidateFields,
    RememberFields,
)
from memoriale.adapters.library.looking import Looking
from memoriale.adapters.library.merging import Merges
from memoriale.adapters.library.subscriptions import Subscribing
from memoriale.adapters.library.with_stores import WithStores
from memoriale.domain import commands
from memoriale.domain.access import Visibility
from memoriale.domain.branches import Branch, check_own_name
from memoriale.domain.errors import InputError, MemorialeError, MissingRightError
from memoriale.domain.fields import several
from memoriale.domain.principal import Principal, Right
from memoriale.domain.receipt import Receipt
from memoriale.domain.text import check_text

if TYPE_CHECKING:
    from memoriale.adapters.application.recalling import Recall
    from memoriale.adapters.importing.report import ImportReport
    from memoriale.adapters.importing.runner import Progress

Answers = list[Receipt | MemorialeError]
"""For each item its receipt, or the error that refused it."""
Branches = list[Branch]


class Memory(Comparisons, Episodic, Looking, Merges, Subscribing, WithStores):
    """
    A handle bound to one principal and one branch: cheap, immutable, safe to share between
    threads. Made by ``Ledger.memory``.

    Every method raises ``InputError`` for a wrong argument (nothing was stored),
    ``MissingRightError`` for a missing right, ``UnavailableError`` when the database or a file
    cannot be used, and ``ForkedHandleError`` in a child after ``os.fork``.
    """

    def branch(self, name: str) -> "Memory":
        """
        The same principal on another branch.

        Args:
            name: A branch that the principal may use; ``main`` always exists.
        """
        self.allow("branch", Right.USE)
        self._resolved(name)
        return Memory(self.services, self._settings, self.principal, name)

    def fork(
        self,
        name: str,
        *,
        at: AsOf = None,
        resource: str | None = None,
        reason: str | None = None,
    ) -> "Memory":
        """
        Makes a branch of this one, which copies nothing, and returns a handle on it.

        Args:
            name: Unique among the owner's branches, for ever; at most 256 bytes, and not with two
                underscores at its beginning.
            at: Point of this branch that the new one begins from: an index, a time, or None
                for now.
            resource: Another resource, which inherits what this principal sees up to then; the
                handle is then that resource's, so this takes the right ``operate`` as well.
            reason: Why; sealed.
        """
        parent = self._resolved()
        self.allow("fork", Right.USE)
        if not any(getattr(self.principal, f) for f in PRINCIPAL_FIELDS):
            self.allow("fork", Right.REVIEW)
        if resource not in (None, self.principal.resource):
            self.allow("fork", Right.OPERATE)
        pin = self.services.reading.pin(at, field="at")
        child = None
        principal = self.principal
        if resource is not None:
            principal = replace(principal, user=None, agent=None, session=None, resource=resource)
            child = principal.identity("resource")
        reason = None if reason is None else check_text("reason", reason)
        self.services.branching.fork(
            self.principal, check_own_name(name), parent, pin.index, child=child, reason=reason
        )
        return Memory(self.services, self._settings, principal, name)

    def branches(self, *, discarded: bool = False) -> Branches:
        """The branches that the principal may use, ``main`` first; discarded ones if asked."""
        self.allow("branches", Right.USE)
        return self.services.branching.visible(self.principal, discarded=discarded)

    def remember(self, content: str, **given: Unpack[RememberFields]) -> Receipt:
        """
        Makes a memory. It is durable when this returns.

        Args:
            content: What to remember; not blank, at most ``MEMORIALE_MAX_CONTENT_BYTES``.
            **given: ``kind`` (default ``note``) · ``owner``: type of the owner (user, agent,
                resource, session, team; default by kind) · ``subject``: aspect of a fact; the
                current fact of equal subject is replaced · ``supersedes``: ids of memories of the
                same owner and kind to replace · ``importance``, ``confidence``: 0..1 · ``tags``:
                list of texts · ``namespace``: path · ``metadata``: JSON object · ``visibility``:
                owner, user, agent, team, tenant, or global: for all tenants, without owner and
                ``about``, from branch ``main``, right ``admin`` · ``about``: users whom it is
                about (default: the owner if a user) · ``valid_from``, ``valid_until``: when it
                is true in the world · ``expires_at``: no longer recalled from then on ·
                ``created_at``: time claimed by the source · ``source``, ``source_tier``,
                ``source_run``, ``evidence``: provenance · ``retention_class`` · ``language``,
                ``model``, ``prompt_version``: codes stored in clear · ``speaker``, ``role``,
                ``caption``: of a message · ``details``: further fields of a registered kind ·
                ``reason`` · ``idempotency_key``: a repeated call with the same key
                and arguments returns the first receipt · ``actor``: outside id of who says so ·
                ``correlation_id``, ``causation_id`` · ``receipt``: ``durable`` (default), or
                ``sealed`` to wait until the event is under a checkpoint; the receipt then has
                a ``proof``.

        Raises:
            ConflictError: Others kept replacing the same subject.
            UnsealedError: It is stored, but could not be sealed.
        """
        self.allow("remember", Right.USE)
        principal, rest = self._acting(given)
        sealed = wants_proof(rest.pop("receipt", None))
        command = self.remember_command(content, rest)
        if command.visibility is Visibility.GLOBAL:
            self.allow("remember", Right.ADMIN)
            receipt = self.for_all.remember(principal, self._resolved(), command)
        else:
            receipt = self.services.writing.remember(principal, self._resolved(), command)
        return self._proved(receipt) if sealed else receipt

    def remember_many(self, items: Iterable[str | Mapping[str, Any]]) -> Answers:
        """
        Makes many memories, each stored or refused by itself, in order.

        Args:
            items: Texts, or mappings with ``content`` and the arguments of ``remember``; also
                ``user``, ``agent``, ``resource``, ``session`` and ``team`` to say whose each is
                (right ``operate`` when that is not this principal).

        Returns:
            For each item its receipt, or the error that refused it.
        """
        self.allow("remember", Right.USE)
        if isinstance(items, str | bytes | Mapping):
            raise InputError(
                "items must be a list of texts or mappings; put a single one into a list.",
                code="bad_value",
                field="items",
                value=type(items).__name__,
                allowed="a list",
            )
        asked = list(items)
        if any(self._is_anothers(item) for item in asked):
            self.allow("import", Right.OPERATE)
        return self.store_many(asked)

    def import_lines(
        self, lines: Iterable[bytes | str], *, progress: "Progress | None" = None
    ) -> "ImportReport":
        """
        Makes a memory of each JSON line; repeating it stores nothing twice.

        Args:
            lines: One JSON object each; bytes are UTF-8.
            progress: Called after each batch.

        Returns:
            How many were read, remembered, skipped and rejected, and why. Rights: ``use`` and
            ``operate``.

        Raises:
            ImportInterruptedError: The database cannot be used any more; its ``report`` says how
                far the import came.
        """
        from memoriale.adapters.importing.runner import import_lines

        return import_lines(self, lines, progress=progress)

    def store_many(self, items: Iterable[str | Mapping[str, Any]]) -> Answers:
        """``remember_many`` for surfaces of this package that have asked for the right."""
        answers: list[MemorialeError | None] = []
        good: list[tuple[Principal, commands.Remember]] = []
        for item in items:
            try:
                principal, given = self._for_item(item)
                good.append((principal, self.remember_command(given.pop("content", None), given)))
                answers.append(None)
            except InputError as error:
                answers.append(error)
        branch = self._resolved()
        for_all = [one for one in good if one[1].visibility is Visibility.GLOBAL]
        own = [one for one in good if one[1].visibility is not Visibility.GLOBAL]
        remember_many = self.services.writing.remember_many
        stored = iter(remember_many([p for p, _ in own], branch, [c for _, c in own]))
        globals_ = iter(self._store_for_all(for_all, branch))
        said = iter([globals_ if c.visibility is Visibility.GLOBAL else stored for _, c in good])
        return [next(next(said)) if answer is None else answer for answer in answers]

    def _store_for_all(
        self, asked: Sequence[tuple[Principal, commands.Remember]], branch: BranchView
    ) -> Answers:
        if not asked:
            return []
        try:
            self.allow("remember", Right.ADMIN)
        except MissingRightError as error:
            return [error for _ in asked]
        return self.for_all.remember_many([p for p, _ in asked], branch, [c for _, c in asked])

    def correct(
        self, memory_id: UUID | str, content: str, **given: Unpack[ChangeFields]
    ) -> Receipt:
        """
        Replaces a memory's content; the old one stays in history.

        Args:
            memory_id: A current memory of the caller's own; another's that it can see needs the
                right ``review``, a global one ``admin``.
            content: The better content.
            **given: ``reason``, ``actor`` (outside id of who says so), ``idempotency_key``,
                ``correlation_id``, ``causation_id``.
        """
        principal, rest = self._acting(given)
        command = commands.correct(self._settings.limits, memory_id, content, **rest)
        return self._change("correct", principal, command)

    def amend(self, memory_id: UUID | str, **given: Unpack[AmendFields]) -> Receipt:
        """
        Changes ``importance``, ``tags``, ``metadata``, ``valid_from``, ``valid_until`` or
        ``expires_at`` of a memory; None clears a field. Else as ``correct``.
        """
        principal, rest = self._acting(given)
        command = commands.amend(self._settings.limits, memory_id, **rest)
        return self._change("amend", principal, command)

    def invalidate(self, memory_id: UUID | str, **given: Unpack[InvalidateFields]) -> Receipt:
        """
        Makes a memory no longer current.

        Args:
            memory_id: As for ``correct``.
            **given: ``because``: forgotten (default), contradicted, expired, retracted, pruned,
                compacted, consolidated or superseded; else as ``correct``.

        Raises:
            RefusedError: Housekeeping (pruned, expired, compacted, consolidated) under a hold.
        """
        principal, rest = self._acting(given)
        command = commands.invalidate(self._settings.limits, memory_id, **rest)
        return self._change("invalidate", principal, command)

    def reinstate(self, memory_id: UUID | str, **given: Unpack[ChangeFields]) -> Receipt:
        """Makes an invalidated memory current again, replacing one of equal subject."""
        principal, rest = self._acting(given)
        command = commands.reinstate(self._settings.limits, memory_id, **rest)
        return self._change("reinstate", principal, command)

    def recall(
        self,
        query: str,
        *,
        top_k: int = 5,
        kinds: Sequence[str] = (),
        namespace: str | None = None,
        tags: Sequence[str] = (),
        min_score: float | None = None,
        min_rank_score: float | None = None,
        as_of: AsOf = None,
        valid_at: datetime | str | None = None,
        rank: str = "relevance",
        legs: str = "hybrid",
        explain: bool = False,
        wait: float | None = None,
        strict: bool = False,
    ) -> "Recall":
        """
        The memories that answer a question best, from those that the principal may see.

        Args:
            query: The question; at most 16,384 characters.
            top_k: How many at most, 1..1000.
            kinds: Only these kinds; none means all that recall finds.
            namespace: Look from this path: memories at it or above it, and those without one.
                Default: the principal's.
            tags: Only memories with all of these.
            min_score: Least ``similarity`` (cosine, 0..1).
            min_rank_score: Least ``score``.
            as_of: Answer as then: an index, which leaves global memories out; ``i@g``, the
                ``pin`` of an answer with them; or an aware time or its text.
            valid_at: Only what is true in the world at this time; default: the time of the
                answer.
            rank: ``relevance``, or ``composite`` of similarity, recency and importance.
            legs: ``hybrid``, ``keyword`` or ``vector`` alone.
            explain: Say in each hit's ``explanation`` what its score is made of.
            wait: Seconds to wait for the view; default ``MEMORIALE_WAIT``.
            strict: Raise ``BehindError`` instead of answering from a view that is behind.

        Returns:
            A sequence of hits, best first, with ``index``, ``global_index``, ``pin``, ``now``,
            ``degraded``, ``behind`` and ``rebuilt``.
        """
        from memoriale.adapters.application.recalling import Question

        self.allow("recall", Right.USE)
        question = Question(
            query=query,
            top_k=top_k,
            kinds=several("kinds", kinds),
            namespace=namespace or self.principal.namespace,
            tags=several("tags", tags),
            min_score=min_score,
            min_rank_score=min_rank_score,
            as_of=as_of,
            valid_at=valid_at,
            rank=rank,
            legs=legs,
            explain=explain,
            wait=self._settings.wait if wait is None else wait,
            strict=strict,
        )
        branch = self._resolved()
        found = self.services.recalling.recall(self.principal, branch, question)
        self.given(
            "recall",
            ((hit.memory_id, hit.index) for hit in found),
            index=found.index,
            as_of=as_of,
            behind=found.behind,
            degraded=found.degraded,
            branch=branch,
            question=query,
            global_index=found.global_index,
            shared=[hit.memory_id for hit in found if hit.is_global],
        )
        return found

    def _change(self, name: str, principal: Principal, command: Change) -> Receipt:
        self.allow(name, Right.USE)
        branch = self._resolved()
        try:
            return self.services.writing.change(principal, branch, command)
        except InputError as error:
            if error.code != "unknown_memory" or not self.for_all.has(command.memory_id):
                raise
        self.allow(name, Right.ADMIN)
        return self.for_all.change(principal, branch, command)
