"""What happened last, out of everything that ever happened to a resource."""

import random

from stage import TENANT, Stage, median_ms, result, sentence

RESOURCE = "narrator"
SESSIONS = 100
ENTRIES = 100
TIMES = 100


def episodic(stage: Stage) -> dict[str, object]:
    """The last 100 entries of a resource with as many as the size says, in 100 sessions."""
    memory = stage.ledger.memory(tenant=TENANT, resource=RESOURCE)
    for number in range(SESSIONS):
        named = stage.ledger.memory(tenant=TENANT, resource=RESOURCE, session=f"s-{number}")
        named.sessions.get_or_create_session()
    chosen = random.Random(12)
    for start in range(0, stage.events, 1_000):
        memory.remember_many(
            {
                "content": f"{sentence(chosen, 12)} ({start + n})",
                "resource": RESOURCE,
                "session": f"s-{n % SESSIONS}",
                "owner": "session" if n % 2 else "resource",
            }
            for n in range(1_000)
        )
    log = memory.services.log

    def last(n: int) -> object:
        found = memory.episodic(limit=ENTRIES)
        assert len(found) == ENTRIES
        return found

    floor = median_ms(lambda n: log.mapper.decode(log.reader.last(ENTRIES)), TIMES)
    median_ms(last, 5)
    ours = median_ms(last, TIMES)
    against = f"the log's last {ENTRIES} events, opened; {stage.events:,} entries"
    return result("ms p50", floor, ours, against, higher_is_better=False)
