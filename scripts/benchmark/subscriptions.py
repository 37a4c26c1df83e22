"""What following the log costs: reading it from the start, and the way of one event to a waiter."""

import statistics
import threading
import time
from itertools import islice

from stage import TENANT, Stage, result, seconds

TIMES = 200


def subscribe(stage: Stage) -> dict[str, object]:
    """All events, opened, as a subscriber gets them from index 0 on, against reading the rows."""
    ledger = stage.filled().ledger
    log = ledger.tenant(TENANT).log
    head = log.head()
    floor = head / seconds(lambda: sum(len(rows) for rows in log.reader.stream_rows(0)))
    with ledger.subscribe(tenant=TENANT, content=True) as following:
        ours = head / seconds(lambda: sum(1 for _ in islice(following, head)))
    return result("events/s", floor, ours, "reading the rows", higher_is_better=True)


def subscribe_wake(stage: Stage) -> dict[str, object]:
    """From the call of a remember until a waiting subscriber has it, against until it returns."""
    ledger = stage.ledger
    alice = ledger.memory(tenant=TENANT, user="alice", agent="bench")
    first = alice.remember("the first").index
    arrived: dict[int, float] = {}
    came = threading.Condition()

    def follow() -> None:
        for event in following:
            with came:
                arrived[event.index] = time.perf_counter()
                came.notify()

    with alice.subscribe(after=first) as following:
        follower = threading.Thread(target=follow)
        follower.start()
        stored, told = [], []
        for number in range(TIMES):
            started = time.perf_counter()
            index = alice.remember(f"event {number}").index
            stored.append(time.perf_counter() - started)
            with came:
                assert came.wait_for(lambda: index in arrived, 10)  # noqa: B023
            told.append(arrived[index] - started)
    follower.join()
    floor, ours = statistics.median(stored) * 1000, statistics.median(told) * 1000
    return result("ms p50", floor, ours, "the remember alone", higher_is_better=False)
