"""What an add says of how things hang together, put into a graph by a job of its own."""

from collections.abc import Mapping
from typing import Any, Final

from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.extraction.extractor import Extractor
from memoriale.adapters.extraction.graphs import GRAPH, graph_extractor
from memoriale.adapters.extraction.jobs import PREFIX, As, Counted, Models, acting, conversation_of
from memoriale.adapters.extraction.prompting import own_prompt
from memoriale.domain.stores.graph import GraphStore

RELATE_JOB: Final = f"{PREFIX}items_graph"
OWN_RELATE_JOB: Final = f"{PREFIX}items_own_graph"
"""The same into a graph store of the program's own; who has none leaves it alone."""


def relating_handlers(
    as_: As, models: Models, graph: GraphStore | None = None
) -> dict[str, Handler]:
    """
    What is done for the graphs of adds.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model.
        graph: A graph store of the program's own, instead of the ledger's.
    """
    extractor = GRAPH if graph is None else graph_extractor(graph)
    type_ = RELATE_JOB if graph is None else OWN_RELATE_JOB
    return {type_: lambda work: relate(extractor, work, as_, models)}


def relate(extractor: Extractor[Any], work: Work, as_: As, models: Models) -> Mapping[str, Any]:
    """Asks the model and adds to the graph of the user; what is there already is not doubled."""
    arguments = work.job.arguments
    instructions = arguments.get("prompt")
    asked = None
    if instructions is not None:
        asked = own_prompt(extractor.name, extractor.version, instructions)
    return extractor(
        acting(work, as_),
        Counted(models(), work),
        conversation_of(work.job, work.key),
        arguments["config"],
        own=asked,
    )
