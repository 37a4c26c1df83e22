"""What conversations teach for later work: learnings, and workflows of tools that worked."""

import json
from typing import Any, Final

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.extractor import Config, Conversation, Extractor, Reply
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.domain.chat import model_code
from memoriale.domain.stores.learnings import grounded
from memoriale.domain.stores.procedures import LEAST_CALLS, steps_of, succeeded


class LearningReply(Reply):
    """One insight with its evidence."""

    title: str
    content: str
    context: str = ""
    tags: tuple[str, ...] = ()
    evidence: str


class LearningsReply(Reply):
    """Insights."""

    learnings: tuple[LearningReply, ...] = ()


class StepReply(Reply):
    """One call by its number, and what came of it in few words."""

    call: int
    result_summary: str | None = None


class ProcedureReply(Reply):
    """A workflow: when to repeat it, what it does, and its calls in their order."""

    trigger: str
    description: str
    steps: tuple[StepReply, ...]


class ProceduresReply(Reply):
    """Workflows."""

    procedures: tuple[ProcedureReply, ...] = ()


def _nothing_known(
    memory: Memory, said: Conversation, config: Config, as_of: AsOf
) -> dict[str, str]:
    LearnedKnowledge(memory, **config)
    return {}


def _store_learnings(
    memory: Memory, answer: Answer[LearningsReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """Of the user's scope; one without evidence in the conversation is left out and counted."""
    store = LearnedKnowledge(memory, **config)
    stored, ungrounded = [], 0
    for place, learning in enumerate(answer.value.learnings):
        if not grounded(learning.evidence, said.messages):
            ungrounded += 1
            continue
        saved = store.save_learning(
            {**learning.model_dump(), "source": "llm-extracted"},
            model=model_code(answer.model),
            prompt_version=answer.prompt,
            idempotency_key=said.key(f"learning-{place}"),
        )
        stored.append(str(saved.id))
    return {"stored": stored, "ungrounded": ungrounded}


def _calls(
    memory: Memory, said: Conversation, config: Config, as_of: AsOf
) -> dict[str, str] | None:
    """The calls that succeeded, and the triggers that are known; None for too few calls."""
    calls = succeeded(said.messages)
    if len(calls) < LEAST_CALLS:
        return None
    told = [
        {"call": number, "tool": call.name, "arguments": call.arguments, "result": call.result}
        for number, call in calls.items()
    ]
    known = ProcedureMemory(memory, **config).get_procedures(as_of=as_of)
    return {
        "calls": json.dumps(told, ensure_ascii=False),
        "known": json.dumps([one.trigger for one in known], ensure_ascii=False),
    }


def _store_procedures(
    memory: Memory, answer: Answer[ProceduresReply], said: Conversation, config: Config
) -> dict[str, Any]:
    """
    Of the user's scope. Tools and arguments are those of the calls, whatever the model says; one
    with a call that did not succeed, or fewer than two, is left out and counted.
    """
    store, calls = ProcedureMemory(memory, **config), succeeded(said.messages)
    stored, ungrounded = [], 0
    for place, told in enumerate(answer.value.procedures):
        steps = steps_of(calls, [(step.call, step.result_summary) for step in told.steps])
        if steps is None:
            ungrounded += 1
            continue
        saved = store.save_procedure(
            {
                "trigger": told.trigger,
                "description": told.description,
                "steps": steps,
                "source": "llm-extracted",
            },
            model=model_code(answer.model),
            prompt_version=answer.prompt,
            idempotency_key=said.key(f"procedure-{place}"),
        )
        stored.append(str(saved.id))
    return {"stored": stored, "ungrounded": ungrounded}


LEARNINGS: Final = Extractor(
    name="learnings",
    version=1,
    reply=LearningsReply,
    asked=_nothing_known,
    store=_store_learnings,
)
PROCEDURES: Final = Extractor(
    name="procedures",
    version=1,
    reply=ProceduresReply,
    asked=_calls,
    store=_store_procedures,
)
