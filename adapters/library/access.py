"""``ledger.access``: the auditor's questions to the access log."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Protocol
from uuid import UUID

from memoriale.adapters.application.access_entries import Access, Span, Told
from memoriale.adapters.composition import Tenant
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.fields import parse_id
from memoriale.domain.principal import Principal, Right
from memoriale.domain.text import check_outside_id
from memoriale.domain.times import parse_time, to_utc
from memoriale.domain.values import check_whole


class Asked(Protocol):
    """Chooses tenants and checks rights on them."""

    def __call__(self, tenant: str | None, command: str, *rights: Right) -> list[Tenant]:
        """The tenants that a call acts on; the use of each right is on record."""


class LedgerAccess:
    """
    Who was given which memory. Made by ``Ledger.access``.

    Every call needs the right ``audit``, its use is recorded in the same log, and it looks through
    one ``tenant``; None means every tenant for which the ledger has handed out a memory. Entries
    come oldest first and are read as they are asked for. ``since`` and ``until`` (aware times or
    their text, both included) bound when they were recorded, ``after`` is the index that they
    begin after, ``limit`` how many come at most. ``content`` opens what people wrote as well
    (right ``content``).

    Args:
        asked: Of the open ledger.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def who_saw(
        self,
        memory_id: UUID | str,
        *,
        tenant: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        after: int = -1,
        limit: int | None = None,
        content: bool = False,
    ) -> Iterator[Access]:
        """
        To whom a memory was given: who, when, in which session, for what, in which version.

        Args:
            memory_id: Its id.
            tenant, since, until, after, limit, content: See the class.
        """
        found, span = parse_id("memory_id", memory_id), _span(since, until, after, limit)
        tenants = self._tenants("who-saw", tenant, content)
        each = (services.accesses.who_saw(found, span, content=content) for services in tenants)
        return chain.from_iterable(each)

    def what_was_told(
        self,
        session: str,
        *,
        tenant: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        after: int = -1,
        limit: int | None = None,
        content: bool = False,
    ) -> Iterator[Told]:
        """
        The memories that were given in a session, in order, each in the version of then, and
        whether it was corrected or invalidated since.

        Args:
            session: Its outside id, or the pseudonym of an erased one.
            tenant, since, until, after, content: See the class.
            limit: How many answers at most; each may hold several memories.
        """
        name = check_outside_id("session", session)
        span = _span(since, until, after, limit)
        tenants = self._tenants("what-was-told", tenant, content)
        each = (s.accesses.what_was_told(name, span, content=content) for s in tenants)
        return chain.from_iterable(each)

    def by(
        self,
        principal: Principal | str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        *,
        tenant: str | None = None,
        denied: bool = False,
        after: int = -1,
        limit: int | None = None,
        content: bool = False,
    ) -> Iterator[Access]:
        """
        Entries of the access log: answers, refusals, exports, uses of rights, settings.

        Args:
            principal: Only what was done as this principal (every part that it names must fit),
                or by or for whoever has this outside id, of whatever type, or this pseudonym;
                None: everybody's.
            since, until, tenant, after, limit, content: See the class; a ``Principal`` names
                its tenant.
            denied: Only refusals.
        """
        if isinstance(principal, Principal):
            tenant = principal.tenant
        elif principal is not None:
            check_outside_id("principal", principal)
        span = _span(since, until, after, limit)
        tenants = self._tenants("accesses", tenant, content)
        each = (s.accesses.by(principal, span, denied=denied, content=content) for s in tenants)
        return chain.from_iterable(each)

    def _tenants(self, command: str, tenant: str | None, content: bool) -> list[Tenant]:
        rights = (Right.AUDIT, Right.CONTENT) if content else (Right.AUDIT,)
        chosen = self._asked(tenant, command, *rights)
        for services in chosen if content else ():
            services.log.require_its_keys()
        return chosen


def _span(
    since: datetime | str | None, until: datetime | str | None, after: int, limit: int | None
) -> Span:
    check_whole("after", after, -1, NO_LIMIT)
    if limit is not None:
        check_whole("limit", limit, 1, NO_LIMIT)
    return Span(
        since=None if since is None else to_utc(parse_time("since", since)),
        until=None if until is None else to_utc(parse_time("until", until)),
        after=after,
        limit=limit,
    )
