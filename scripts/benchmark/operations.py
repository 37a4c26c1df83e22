"""What an operation costs: from messages that are added to their facts being found."""

import json
import random

from stage import TENANT, Stage, median_ms, result, sentence

from memoriale.adapters.library.operations.making import agent_memory
from memoriale.domain.chat import ChatMessage, ModelReply
from memoriale.domain.operations.scopes import Scope

TIMES = 100
SCOPE: Scope = {"user_id": "ada-adds", "agent_id": "bench"}


class AtOnce:
    """A model that answers at once with one fact: the last line of what it is asked about."""

    model_id = "at-once"

    def __init__(self) -> None:
        self.fact = ""

    def generate(self, messages: list[ChatMessage], **settings: object) -> ModelReply:
        """The fact that was set."""
        facts = {"facts": [{"content": self.fact}]}
        return ModelReply(text=json.dumps(facts), model=self.model_id)


def add_recall(stage: Stage) -> dict[str, object]:
    """An add with one fact until a search of its scope finds it, beside a remember and a recall."""
    ledger = stage.filled().ledger
    chosen = random.Random(5)
    texts = [f"{sentence(chosen, 12)} word{n}" for n in range(4 * TIMES)]
    alice = ledger.memory(tenant=TENANT, user="ada-remembers", agent="bench")

    def remembered(n: int) -> object:
        alice.remember(texts[n], kind="item")
        return alice.recall(f"word{n}", top_k=1)

    model = AtOnce()
    with agent_memory(ledger, tenant=TENANT, llm=model) as memory:

        def added(n: int) -> object:
            model.fact = texts[n]
            done = memory.add([{"role": "user", "content": texts[n]}], SCOPE).result(60)
            found = memory.search(f"word{n}", SCOPE, 1).result(60)
            assert [one.id for one in found] == [*done.stored_ids]
            return found

        median_ms(remembered, TIMES // 4)
        floor = median_ms(lambda n: remembered(n + TIMES), TIMES)
        median_ms(added, TIMES // 4)
        ours = median_ms(lambda n: added(n + TIMES), TIMES)
    against = "remember and recall of the same, without a model"
    return result("ms p50", floor, ours, against, higher_is_better=False)
