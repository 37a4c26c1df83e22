"""Working memory under the rules that hold for every provider, also for one's own."""

from pydantic import JsonValue

from memoriale.domain.resources.limits import (
    PAGE,
    check_after,
    check_key,
    check_page,
    check_ref,
    check_value,
    is_bookkeeping,
)
from memoriale.domain.resources.providers import WorkingMemoryProvider, WorkingPage
from memoriale.domain.resources.ref import ResourceRef


class CheckedWorkingMemory:
    """
    Keys and values of resources (reference system C, ``Memory.workingMemory``).

    Args:
        provider: Where they are.
    """

    def __init__(self, provider: WorkingMemoryProvider) -> None:
        self.provider = provider

    def get(self, ref: ResourceRef, key: str, default: JsonValue = None) -> JsonValue:
        """The value of a key, or the default."""
        return self.provider.get(check_ref(ref), check_key(key), default)

    def set(self, ref: ResourceRef, key: str, value: JsonValue) -> None:
        """
        Sets a key, whether it is there or not.

        Raises:
            InputError: A key that is blank or over 256 characters, or a value that is no JSON or
                over 65,536 bytes.
        """
        self.provider.set(check_ref(ref), check_key(key), check_value(value))

    def list(self, ref: ResourceRef, *, after: str | None = None, limit: int = PAGE) -> WorkingPage:
        """
        A page of keys with their values, in the order of the keys' UTF-8 bytes. Keys that begin
        with two underscores are in none.

        Args:
            ref: The resource.
            after: The ``next`` of the page before.
            limit: 1..1,000.
        """
        page = self.provider.list(check_ref(ref), after=check_after(after), limit=check_page(limit))
        shown = {key: value for key, value in page.items() if not is_bookkeeping(key)}
        return WorkingPage(shown, page.next)

    def delete(self, ref: ResourceRef, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self.provider.delete(check_ref(ref), check_key(key))
