"""Every type of job that this release knows, with what is done for it."""

from memoriale.adapters.application.jobs import Handler
from memoriale.adapters.extraction.jobs import As, Models, extraction_handlers
from memoriale.adapters.extraction.summarizing import summary_handlers
from memoriale.adapters.library.operations.adding import add_handlers
from memoriale.adapters.library.operations.relating import relating_handlers
from memoriale.adapters.library.stores.job_handlers import handlers
from memoriale.domain.errors import InputError
from memoriale.domain.stores.graph import GraphStore


def known_handlers(as_: As, models: Models, graph: GraphStore | None = None) -> dict[str, Handler]:
    """
    The handlers by type of job.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model; raises ``InputError`` when none is configured.
        graph: A graph store of the program's own.
    """
    return {
        **handlers(as_),
        **extraction_handlers(as_, models, graph),
        **summary_handlers(as_, models),
        **add_handlers(as_, models),
        **relating_handlers(as_, models),
    }


def handlers_without_model(as_: As, models: Models) -> dict[str, Handler]:
    """
    What is done where there is no language model: a summary is then made of excerpts.

    Args:
        as_: Makes the handle that a job acts with.
        models: As for ``known_handlers``.
    """
    return {**handlers(as_), **summary_handlers(as_, models)}


def able_handlers(
    as_: As, models: Models, graph: GraphStore | None = None
) -> tuple[dict[str, Handler], InputError | None]:
    """
    What can be done here. A job that would only fail for want of a model is no part of it, so it
    stays queued.

    Args:
        as_, models, graph: As for ``known_handlers``; the model is made once.

    Returns:
        The handlers by type of job, and why there is no model; None when there is one.
    """
    try:
        model = models()
    except InputError as error:
        return handlers_without_model(as_, models), error
    return known_handlers(as_, lambda: model, graph), None
