"""``LedgerWorkingMemory``: working memory of resources on the ledger."""

from collections.abc import Callable, Hashable
from typing import Any

from pydantic import JsonValue

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.places import Place, Places
from memoriale.adapters.library.stores.working import WorkingStore
from memoriale.domain.resources.limits import PAGE
from memoriale.domain.resources.providers import WorkingPage
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.stores.working import WORKING


class LedgerWorkingMemory:
    """
    Working memory on the ledger: what ``Memory.working`` keeps, by ``ResourceRef``. Every change
    is an event; a fork is a branch and copies nothing.

    Args:
        ledger: An open ledger, or what opens it when it is first needed.
        tenant: Whose resources they are.
        **who: ``rights``, ``actor``, ``actor_kind``, ``on_behalf_of`` and ``purpose``, as for
            ``Ledger.memory``.
    """

    def __init__(self, ledger: Ledger | Callable[[], Ledger], *, tenant: str, **who: Any) -> None:
        self._places = Places(ledger, tenant, who)

    @property
    def tenant(self) -> str:
        """Whose resources they are."""
        return self._places.tenant

    def get(self, ref: ResourceRef, key: str, default: JsonValue = None) -> JsonValue:
        """The value of a key, or the default."""
        return _store(self._places.of(ref)).get(key, default)

    def set(self, ref: ResourceRef, key: str, value: JsonValue) -> None:
        """Sets a key, whether it is there or not; an equal value stores nothing."""
        self._places.change(ref, "working.set", lambda place: _store(place).set(key, value))

    def list(self, ref: ResourceRef, *, after: str | None = None, limit: int = PAGE) -> WorkingPage:
        """Keys after one, in the order of their UTF-8 bytes; bookkeeping is left out."""
        return _store(self._places.of(ref)).list(after=after, limit=limit)

    def delete(self, ref: ResourceRef, key: str) -> bool:
        """Removes a key; whether it was there. History keeps what it had."""
        return self._places.change(ref, "working.delete", lambda place: _store(place).delete(key))

    @property
    def forked_with(self) -> Hashable:
        """The log: working memory and facts in it are forked by one call."""
        return self._places.identity

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """Forks working memory and facts alike; see ``Places.fork``."""
        self._places.fork(parent, child)

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many keys the child has as it got them from the parent; counted at the call."""
        return self._places.inherited(parent, child, WORKING)


def _store(place: Place) -> WorkingStore:
    return WorkingStore(place.memory, guards=place.guards)
