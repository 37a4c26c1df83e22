"""Processes that write and read in turn: each read equals a fold of every event."""

import random
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import ConflictError, InputError
from memoriale.domain.memory import MemoryState, Status
from tests.fixtures.snapshots import KINDS, cold, owner_of, plain, read, same

STEPS = 60


def act(chosen: random.Random, memory: Memory, states: dict[UUID, MemoryState]) -> None:
    """One random change of what there is."""
    current = [i for i, state in states.items() if state.status is Status.CURRENT]
    ended = [i for i, state in states.items() if state.status is Status.INVALIDATED]
    what = chosen.random()
    if what < 0.35 or not current:
        memory.remember(f"text {chosen.random()}", kind=chosen.choice(KINDS))
    elif what < 0.6:
        memory.correct(chosen.choice(current), f"better {chosen.random()}", reason="typo")
    elif what < 0.75:
        memory.amend(chosen.choice(current), importance=round(chosen.random(), 3))
    elif what < 0.9 or not ended:
        memory.invalidate(chosen.choice(current), because="retracted", reason="wrong")
    else:
        memory.reinstate(chosen.choice(ended), reason="right")


@pytest.mark.parametrize("seed", range(4))
def test_two_processes_in_turn_read_what_a_plain_fold_gives(alice: Memory, seed: int) -> None:
    """Two that keep what they folded, and new ones now and then, on main and on a branch."""
    chosen = random.Random(seed)
    alice.remember("the first", kind="fact")
    branch = alice.fork("what-if")
    kept = [cold(alice, long_fold=4), cold(alice, long_fold=4)]
    for _ in range(STEPS):
        place = chosen.randrange(2)
        memory = chosen.choice([alice, branch])
        if chosen.random() < 0.1:
            kept[place] = cold(alice, long_fold=4)
        states = read(kept[place], memory)
        assert same(states, plain(memory))
        act(chosen, memory, states)
        if chosen.random() < 0.3:
            limit = chosen.randrange(alice.services.log.head())
            assert same(read(kept[1 - place], memory, limit), plain(memory, limit))
    for slices in (*kept, cold(alice, long_fold=4)):
        assert all(same(read(slices, memory), plain(memory)) for memory in (alice, branch))


def test_threads_of_one_process_read_while_others_write(alice: Memory) -> None:
    """Each read is that of the index that it tells, whatever is written meanwhile."""
    slices = cold(alice, long_fold=4)
    alice.remember("the first", kind="fact")
    owner, branch = owner_of(alice), alice.branch_view()

    def work(number: int) -> list[tuple[int, dict[UUID, MemoryState]]]:
        chosen, found = random.Random(number), []
        for _ in range(15):
            states, index, _ = slices.read(owner, KINDS, branch)
            found.append((index, dict(states)))
            try:
                act(chosen, alice, dict(states))
            except (ConflictError, InputError):
                # Somebody else was faster with the same memory.
                continue
        return found

    with ThreadPoolExecutor(4) as pool:
        reads = [one for found in pool.map(work, range(4)) for one in found]
    assert len(reads) == 60
    for index, states in reads:
        assert same(states, plain(alice, index))
