"""Adds and searches with handles: what they say, whose they are, and in which order."""

from tests.fixtures.operations import ALICE, BOB, Make, said


def test_what_is_added_is_found(remembering: Make) -> None:
    """An add tells what it took and stored, and a search of the same scope finds it at once."""
    memory = remembering()
    done = memory.add(said("Alice drinks tea"), ALICE).result(30)
    assert [fact.content for fact in done.extracted] == ["Alice drinks tea"]
    found = memory.search("what does Alice drink?", ALICE).result(30)
    assert [(one.id, one.content) for one in found] == [(done.stored_ids[0], "Alice drinks tea")]
    assert found[0].node.user_id == "alice"
    assert memory.search("what does Alice drink?", BOB).result(30) == ()
    assert memory.size.get() == 1
