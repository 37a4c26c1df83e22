"""``WorkingStore``: values by key, of a resource."""

from collections.abc import Sequence

from pydantic import JsonValue

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.guards import Guard
from memoriale.domain.resources.entries import keys_after, value_text
from memoriale.domain.resources.limits import PAGE, check_after, check_key, check_page, check_value
from memoriale.domain.resources.providers import WorkingPage
from memoriale.domain.stores.working import (
    WORKING,
    SetKey,
    WorkingEntry,
    WorkingMemory,
    delete_key,
    entry_of,
    value_of,
)


class WorkingStore(Store):
    """
    Working memory: JSON values by key, of the handle's resource and its team. Every change is
    kept, so it can be read as of any point, and a fork has its own from the fork on.

    Keys have 1 to 256 characters; those that begin with ``__`` are bookkeeping: they are read by
    name, and stand in no list and no fork.

    Args:
        storage: A memory handle with a resource.
        guards: Further conditions under which a change may be stored.
    """

    def __init__(self, storage: Memory, *, guards: Sequence[Guard] = ()) -> None:
        super().__init__(storage)
        self._guards = tuple(guards)

    def get(self, key: str, default: JsonValue = None, *, as_of: AsOf = None) -> JsonValue:
        """
        The value of a key.

        Args:
            key: Which.
            default: What to answer when there is none.
            as_of: As then: an index or a time.
        """
        found = self.entry(key, as_of=as_of)
        return default if found is None else found.value

    def entry(self, key: str, *, as_of: AsOf = None) -> WorkingEntry | None:
        """The value of a key with the index of the event that set it; None when there is none."""
        checked = check_key(key)
        held = self._held("working.get", as_of)
        if held is None:
            return None
        found = held.of_key(checked)[:1]
        self._told(self.storage, "working.get", found, held.seen, as_of)
        return entry_of(found[0]) if found else None

    def set(self, key: str, value: JsonValue) -> WorkingEntry:
        """
        Sets a key, whether it is there or not. The value that it has already stores nothing.

        Args:
            key: Which.
            value: A JSON value; at most ``MEMORIALE_MAX_VALUE_BYTES`` as canonical JSON.

        Raises:
            InputError: A key or a value that cannot be kept; nothing was stored.
            ConflictError: Others kept changing the resource's working memory.
        """
        checked = check_key(key)
        kept = check_value(value, max_bytes=self.storage.settings.limits.max_value_bytes)
        command = self._command(
            self.storage,
            value_text(kept),
            kind=WORKING,
            owner="resource",
            details={"key": checked, "value": kept},
        )
        decision = SetKey(checked, kept, command)
        decided = self._decide(
            self.storage,
            self._owner(self.storage, "resource"),
            (WORKING,),
            decision,
            "working.set",
            {"key": checked, "value": kept},
            inherits=True,
            guards=self._guards,
        )
        if decision.kept is not None:
            return entry_of(decision.kept)
        assert decided.index is not None
        (memory_id,) = decided.made()
        return WorkingEntry(key=checked, value=kept, index=decided.index, memory_id=memory_id)

    def list(
        self, *, after: str | None = None, limit: int = PAGE, as_of: AsOf = None
    ) -> WorkingPage:
        """
        Keys and values, in ascending order of the keys' UTF-8 bytes.

        Args:
            after: Only keys after this one: ``next`` of the page before.
            limit: How many at most, 1..1,000.
            as_of: As then: an index or a time.
        """
        check_page(limit)
        start = check_after(after)
        held = self._held("working.list", as_of)
        if held is None:
            return WorkingPage()
        entries = held.entries()
        keys = keys_after(entries, start)
        page = {key: entries[key] for key in keys[:limit]}
        self._told(self.storage, "working.list", page.values(), held.seen, as_of)
        more = keys[limit - 1] if len(keys) > limit else None
        return WorkingPage({key: value_of(state) for key, state in page.items()}, more)

    def delete(self, key: str) -> bool:
        """
        Removes a key; history keeps what it had.

        Returns:
            Whether it was there.
        """
        checked = check_key(key)
        decided = self._decide(
            self.storage,
            self._owner(self.storage, "resource"),
            (WORKING,),
            lambda seen: delete_key(seen, checked),
            "working.delete",
            {"key": checked},
            inherits=True,
            guards=self._guards,
        )
        return bool(decided.events)

    def _held(self, command: str, as_of: AsOf) -> WorkingMemory | None:
        owner = self._owner(self.storage, "resource")
        seen = self._read(self.storage, owner, (WORKING,), command, as_of, inherits=True)
        return None if seen is None else WorkingMemory(seen)
