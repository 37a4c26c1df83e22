"""A small owner among very many: in a file of its own, because it takes longest of all."""

from collections.abc import Callable

import pytest

from memoriale.adapters.library.memory import Memory


@pytest.mark.slow
def test_a_small_owner_among_many_gets_all_of_its_own(
    as_user: Callable[[str], Memory], alice: Memory
) -> None:
    """Three memories among 100,000 of others that fit better: all three are found."""
    for text in ("my tea", "your tea", "our tea"):
        alice.remember(text)
    for _ in range(20):
        items = [{"content": f"tea tea tea {n}", "user": f"u{n % 50}"} for n in range(5_000)]
        as_user("bob").remember_many(items)
    assert sorted(hit.content for hit in alice.recall("tea", wait=600)) == [
        "my tea",
        "our tea",
        "your tea",
    ]
