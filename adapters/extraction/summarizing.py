"""Summaries as jobs: tried with a model again and again, and made of excerpts in the end."""

from collections.abc import Mapping
from typing import Any

from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.extraction.jobs import As, Counted, Models, acting
from memoriale.adapters.library.stores.summaries import Summaries
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.jobs import MOST_ATTEMPTS
from memoriale.domain.stores.summaries import SUMMARIZE_JOB


def summary_handlers(as_: As, models: Models) -> dict[str, Handler]:
    """
    What is done for the jobs of summaries.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model.
    """
    return {SUMMARIZE_JOB: lambda work: summarize(work, as_, models)}


def summarize(work: Work, as_: As, models: Models) -> Mapping[str, Any]:
    """
    Adds the summary. A model that fails is asked again at the next attempt; at the last one, and
    where no model is configured, the summary is made of excerpts.
    """
    memory = acting(work, as_)
    arguments = work.job.arguments
    entry = Summaries(memory, **arguments["config"]).summarize(
        None,
        arguments["messages"],
        _model(work, models),
        strict=work.job.attempts + 1 < MOST_ATTEMPTS,
        idempotency_key=work.key("summary"),
    )
    assert entry is not None
    return {"stored": [str(entry.id)], "excerpts": entry.excerpts}


def _model(work: Work, models: Models) -> ModelProvider | None:
    try:
        return Counted(models(), work)
    except InputError:
        # None is configured.
        return None
