"""The options of ``agent_memory``, checked before anything begins."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from memoriale.adapters.library.operations.bridge import SharedOptions
from memoriale.adapters.library.operations.patience import MOST_RETRIES
from memoriale.adapters.library.operations.relating import OWN_RELATE_JOB, RELATE_JOB
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.stores.graph import GraphStore
from memoriale.domain.text import check_text, shown
from memoriale.domain.values import check_whole

_REFUSED: Final = {
    "adapter": "nothing has to be saved apart: what an add accepted and stored is in the ledger",
    "search_overfetch": "who may see what is part of the search itself, so nothing is fetched "
    "beyond k",
}


def refuse(options: Mapping[str, Any]) -> None:
    """
    Options of the reference that mean nothing here, and names that nobody knows.

    Raises:
        InputError: Says why.
    """
    for name in options:
        why = _REFUSED.get(name)
        if why is not None:
            raise InputError(
                f"there is no {name}: {why}. Leave it out.",
                code="not_supported",
                field=name,
                value=shown(options[name]),
                allowed="nothing",
            )
        raise InputError(
            f"agent_memory has no option {shown(name)!r}.", code="unknown_field", field=shown(name)
        )


def retries_of(given: Mapping[str, Any] | None) -> int:
    """
    Tries after the first one, from ``extraction_retry``.

    Raises:
        InputError: Another field, or a number out of range.
    """
    if given is None:
        return 3
    if not isinstance(given, Mapping) or not set(given) <= {"max_retries"}:
        raise InputError(
            "extraction_retry is a mapping with max_retries.",
            code="bad_value",
            field="extraction_retry",
            value=shown(given),
            allowed={"max_retries": f"0..{MOST_RETRIES}"},
        )
    return check_whole("extraction_retry.max_retries", given.get("max_retries", 3), 0, MOST_RETRIES)


def model_of(name: str, given: object) -> ModelProvider | None:
    """
    A language model, or None.

    Raises:
        InputError: Something else.
    """
    if given is None or isinstance(given, ModelProvider):
        return given
    raise InputError(
        f"{name} must be a language model: it has a model_id and generates replies.",
        code="bad_value",
        field=name,
        value=type(given).__name__,
        allowed="a ModelProvider",
    )


def shared_of(given: object) -> SharedOptions | None:
    """
    How events are shared; None when they are not.

    Raises:
        InputError: No mapping, an unknown field, or a wrong value of one.
    """
    if given is None or isinstance(given, SharedOptions):
        return given
    names = [field.name for field in fields(SharedOptions)]
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise InputError(
            f"shared is a mapping with {', '.join(names)}.",
            code="bad_value",
            field="shared",
            value=shown(given),
            allowed=names,
        )
    return SharedOptions(**given)


class GraphOption:
    """
    Where relations go.

    Args:
        graph: True or a ``LedgerGraph`` for the ledger's, a ``GraphStore`` of the program's own,
            or None for no graph.
        model: Extracts nodes and edges; required with a graph.
        prompt: Instructions instead of those of this release.

    Raises:
        InputError: One without the other, or something that is no graph.
    """

    def __init__(self, graph: object, model: object, prompt: object) -> None:
        self.model = model_of("graph_llm", model)
        self.own: GraphStore | None = None
        self.job: str | None = None
        self.prompt = None if prompt is None else check_text("graph_extraction_prompt", prompt)
        if graph is None or graph is False:
            if self.model is not None or self.prompt is not None:
                raise _lacks("knowledge_graph", "graph_llm and graph_extraction_prompt")
            return
        if self.model is None:
            raise _lacks("graph_llm", "knowledge_graph")
        if graph is True or isinstance(graph, LedgerGraph):
            self.job = RELATE_JOB
        elif isinstance(graph, GraphStore):
            self.job, self.own = OWN_RELATE_JOB, graph
        else:
            raise InputError(
                "knowledge_graph must be True, for the graph of the ledger, or a graph store.",
                code="bad_value",
                field="knowledge_graph",
                value=type(graph).__name__,
                allowed="True or a GraphStore",
            )


def _lacks(missing: str, given: str) -> InputError:
    return InputError(
        f"{given} need {missing}; give both or none.",
        code="missing",
        field=missing,
        allowed="with " + given,
    )
