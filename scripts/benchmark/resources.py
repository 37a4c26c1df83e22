"""What the memory of resources costs: setting a key, and forking."""

import random

import psycopg
from psycopg.types.json import Jsonb
from pydantic import JsonValue
from stage import TENANT, Stage, median_ms, result, sentence

from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef

KEYS = 100
TIMES = 500
FORKS = 40
MEMORIES = 100_000


def working_set(stage: Stage) -> dict[str, object]:
    """A key of working memory set to a new value, against a bare upsert and its commit."""
    working = stage.filled().ledger.memory(tenant=TENANT, resource="bench").working
    values: list[JsonValue] = [
        {"step": n, "note": sentence(random.Random(n), 12)} for n in range(TIMES + 2 * KEYS)
    ]
    server = stage.ledger.infrastructure.server
    assert server is not None
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS public.working"
            " (resource text, key text, value jsonb, PRIMARY KEY (resource, key))"
        )
        upsert = (
            "INSERT INTO public.working VALUES ('bench', %s, %s)"
            " ON CONFLICT (resource, key) DO UPDATE SET value = excluded.value"
        )

        def upserted(n: int) -> object:
            return connection.execute(upsert, [f"key-{n % KEYS}", Jsonb(values[n])])

        median_ms(upserted, 2 * KEYS)
        floor = median_ms(upserted, TIMES)
    median_ms(lambda n: working.set(f"key-{n % KEYS}", values[n]), 2 * KEYS)
    ours = median_ms(lambda n: working.set(f"key-{n % KEYS}", values[n + KEYS]), TIMES)
    against = f"one-row upsert + COMMIT; {KEYS} keys"
    return result("ms p50", floor, ours, against, higher_is_better=False)


def fork_100k(stage: Stage) -> dict[str, object]:
    """A fork of a resource with 100,000 facts, fewer with ``--quick``, beside a head of the log."""
    count = MEMORIES if stage.events >= MEMORIES // 10 else stage.events
    facts = LedgerSemanticMemory(stage.ledger, tenant=TENANT)
    keys = LedgerWorkingMemory(stage.ledger, tenant=TENANT)
    parent, chosen = ResourceRef("forked"), random.Random(11)
    for start in range(0, count, 1_000):
        texts = (f"{sentence(chosen, 12)} ({start + n})" for n in range(1_000))
        facts.remember_many(parent, [MemoryFact(content=text) for text in texts])
    keys.set(parent, "plan", "fork")
    log = stage.ledger.tenant(TENANT).log
    floor = median_ms(lambda n: log.reader.head(), 200)
    ours = median_ms(lambda n: facts.fork(parent, ResourceRef(f"child-{n}")), FORKS)
    against = f"the log's head; {count:,} facts"
    return result("ms p50", floor, ours, against, higher_is_better=False)
