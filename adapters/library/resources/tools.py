"""Tools with which a language model uses a resource's memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memoriale.adapters.library.resources.memory import ResourceMemory
from memoriale.domain.errors import ConflictError, InputError
from memoriale.domain.resources.facts import FactVersion, MemoryFact, RememberedFact, SourceRef
from memoriale.domain.resources.limits import (
    MAX_PAGE,
    MAX_TOP_K,
    PAGE,
    TOP_K,
    check_key,
    check_ref,
    is_bookkeeping,
)
from memoriale.domain.resources.providers import (
    CorrectingSemanticMemoryProvider,
    HistoricalSemanticMemoryProvider,
    ReplacingSemanticMemoryProvider,
    is_prunable,
)
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import check_text
from memoriale.domain.tools import ToolDef, object_schema

_TEXT: Final = {"type": "string"}
_KEY: Final = {"type": "string", "minLength": 1, "maxLength": 256}
_ID: Final = {"type": "string", "description": "Its id, as recall_facts tells it."}
_SOURCE: Final = {
    "evidence": {
        "type": "string",
        "description": "Words of the source that bear it out, exactly as they stand there.",
    },
    "sandbox_id": {"type": "string", "description": "Session of the entry that it rests on."},
    "entry_index": {"type": "integer", "minimum": 0, "description": "Index of that entry."},
}
Handler = Callable[[Mapping[str, Any]], Any]


def create_memory_tools(memory: ResourceMemory, ref: ResourceRef) -> list[ToolDef]:
    """
    Tools for a language model that works for a resource (reference system C,
    ``createMemoryTools``): ``set_working_memory``, ``get_working_memory``,
    ``list_working_memory``, ``delete_working_memory``; with facts ``remember_fact`` and
    ``recall_facts``; and, where the provider can, ``forget_fact``, ``correct_fact`` and
    ``fact_history``. Bookkeeping keys are out of their reach.

    Args:
        memory: The memory.
        ref: The resource; a model cannot name another.
    """
    return [*_working_tools(memory, check_ref(ref)), *_fact_tools(memory, ref)]


def _working_tools(memory: ResourceMemory, ref: ResourceRef) -> list[ToolDef]:
    working = memory.working_memory

    def set_value(given: Mapping[str, Any]) -> Any:
        working.set(ref, _key(given), given["value"])
        return {"ok": True}

    def get_value(given: Mapping[str, Any]) -> Any:
        return {"value": working.get(ref, _key(given))}

    def list_values(given: Mapping[str, Any]) -> Any:
        page = working.list(ref, after=given.get("after"), limit=given.get("limit", PAGE))
        return {"values": dict(page), "next": page.next}

    def delete_value(given: Mapping[str, Any]) -> Any:
        return {"deleted": working.delete(ref, _key(given))}

    return [
        ToolDef(
            name="set_working_memory",
            description="Keeps a JSON value under a key; the value before it is replaced.",
            parameters=object_schema(
                {"key": _KEY, "value": {"description": "Any JSON value."}}, "key", "value"
            ),
            handler=set_value,
        ),
        ToolDef(
            name="get_working_memory",
            description="Tells the value that is kept under a key; null when there is none.",
            parameters=object_schema({"key": _KEY}, "key"),
            handler=get_value,
        ),
        ToolDef(
            name="list_working_memory",
            description="Tells keys with their values, in pages; after is next of the page before.",
            parameters=object_schema(
                {
                    "after": _TEXT,
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                }
            ),
            handler=list_values,
        ),
        ToolDef(
            name="delete_working_memory",
            description="Removes a key that is no longer needed.",
            parameters=object_schema({"key": _KEY}, "key"),
            handler=delete_value,
        ),
    ]


def _fact_tools(memory: ResourceMemory, ref: ResourceRef) -> list[ToolDef]:
    provider = memory.semantic
    if provider is None:
        return []

    def remember(given: Mapping[str, Any]) -> Any:
        return {"fact": _told(memory.remember(ref, _fact(given)))}

    def recall(given: Mapping[str, Any]) -> Any:
        found = memory.recall(ref, given["query"], top_k=given.get("top_k", TOP_K))
        return {"facts": [_told(fact) for fact in found]}

    tools = [
        ToolDef(
            name="remember_fact",
            description=(
                "Remembers a fact for later. With sandbox_id, entry_index and evidence it can be "
                "verified."
            ),
            parameters=object_schema({"content": _TEXT, **_SOURCE}, "content"),
            handler=remember,
        ),
        ToolDef(
            name="recall_facts",
            description="Tells remembered facts that answer a question, the best first.",
            parameters=object_schema(
                {
                    "query": _TEXT,
                    "top_k": {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K},
                },
                "query",
            ),
            handler=recall,
        ),
    ]
    if isinstance(provider, CorrectingSemanticMemoryProvider):
        tools.append(_correcting(provider, ref))
    elif isinstance(provider, ReplacingSemanticMemoryProvider):
        tools.append(_replacing(provider, ref))
    if is_prunable(provider):
        tools.append(_forgetting(memory, ref))
    if isinstance(provider, HistoricalSemanticMemoryProvider):
        tools.append(_history(provider, ref))
    return tools


def _correcting(provider: CorrectingSemanticMemoryProvider, ref: ResourceRef) -> ToolDef:
    def correct(given: Mapping[str, Any]) -> RememberedFact:
        new = _fact(given)
        return provider.correct(
            ref,
            check_text("id", given["id"]),
            new.content,
            source_ref=new.source_ref,
            evidence=new.evidence,
            reason=given.get("reason"),
        )

    why = {"type": "string", "description": "Why the old one is wrong."}
    return _correct_tool(correct, {**_SOURCE, "reason": why})


def _replacing(provider: ReplacingSemanticMemoryProvider, ref: ResourceRef) -> ToolDef:
    def correct(given: Mapping[str, Any]) -> RememberedFact:
        return provider.replace(ref, [check_text("id", given["id"])], [_fact(given)])[1][0]

    return _correct_tool(correct, _SOURCE)


def _correct_tool(
    correct: Callable[[Mapping[str, Any]], RememberedFact], more: Mapping[str, Any]
) -> ToolDef:
    def handler(given: Mapping[str, Any]) -> Any:
        try:
            return {"fact": _told(correct(given))}
        except ConflictError as error:
            raise InputError(
                "there is no such fact; recall_facts tells the ids.",
                code="not_found",
                field="id",
                allowed="the id of a fact that is remembered",
            ) from error

    return ToolDef(
        name="correct_fact",
        description="Puts a fact right that is wrong or out of date; the new one gets a new id.",
        parameters=object_schema({"id": _ID, "content": _TEXT, **more}, "id", "content"),
        handler=handler,
    )


def _forgetting(memory: ResourceMemory, ref: ResourceRef) -> ToolDef:
    def forget(given: Mapping[str, Any]) -> Any:
        return {"forgotten": memory.forget(ref, [check_text("id", given["id"])]) == 1}

    return ToolDef(
        name="forget_fact",
        description="Forgets a fact that should not be recalled any more.",
        parameters=object_schema({"id": _ID}, "id"),
        handler=forget,
    )


def _history(provider: HistoricalSemanticMemoryProvider, ref: ResourceRef) -> ToolDef:
    def history(given: Mapping[str, Any]) -> Any:
        return {"versions": _versions(provider.history(ref, check_text("id", given["id"])))}

    return ToolDef(
        name="fact_history",
        description="Tells what became of a fact: what it said before and after, when and why.",
        parameters=object_schema({"id": _ID}, "id"),
        handler=history,
    )


def _fact(given: Mapping[str, Any]) -> MemoryFact:
    sandbox, index = given.get("sandbox_id"), given.get("entry_index")
    if (sandbox is None) != (index is None):
        raise InputError(
            "a source needs both sandbox_id and entry_index.",
            code="missing",
            field="sandbox_id" if sandbox is None else "entry_index",
            allowed=["sandbox_id", "entry_index"],
        )
    source = None if sandbox is None or index is None else SourceRef(sandbox, index)
    return MemoryFact(content=given["content"], source_ref=source, evidence=given.get("evidence"))


def _key(given: Mapping[str, Any]) -> str:
    key = check_key(given["key"])
    if is_bookkeeping(key):
        raise InputError(
            "keys that begin with __ are kept for programs; take another.",
            code="reserved",
            field="key",
            allowed="a key that does not begin with __",
        )
    return key


def _told(fact: RememberedFact) -> dict[str, Any]:
    source = fact.source_ref
    return {
        "id": fact.id,
        "content": fact.content,
        "verification": fact.verification.value,
        "remembered_at": fact.remembered_at.isoformat(),
        "source": source and {"sandbox_id": source.sandbox_id, "entry_index": source.entry_index},
    }


def _versions(versions: Sequence[FactVersion]) -> list[dict[str, Any]]:
    return [
        {
            "id": version.id,
            "event": version.event,
            "at": version.at.isoformat(),
            "content": version.content,
            "index": version.index,
            "reason": version.reason,
        }
        for version in versions
    ]
