"""A resource's memory as a part of a prompt: quoted data that cannot be taken for orders."""

import json
from collections.abc import Sequence
from typing import Final

from memoriale.adapters.library.resources.memory import ResourceMemory
from memoriale.domain.rendering import bullet
from memoriale.domain.resources.facts import RememberedFact, Verification
from memoriale.domain.resources.limits import MAX_PAGE, TOP_K, check_ref
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.stores.context import Line, Section, build_context
from memoriale.domain.text import check_characters
from memoriale.domain.tokens import CharacterCounter, TokenCounter
from memoriale.domain.values import check_whole

KEYS: Final = 20
_SECTIONS: Final = {"working_memory": 1.0, "semantic_memory": 1.0}
_MARKS: Final = {
    Verification.VERIFIED: "verified",
    Verification.LINKED: "unverified: its source is there, without evidence",
    Verification.EVIDENCE_ABSENT: "unverified: its source does not say so",
    Verification.NOT_FOUND: "unverified: its source was not found",
    Verification.UNCHECKED: "unverified: its source was not looked up",
    Verification.UNSOURCED: "unverified: no source",
}


def build_context_snippet(
    memory: ResourceMemory,
    ref: ResourceRef,
    *,
    query: str | None = None,
    top_k: int = TOP_K,
    max_working_memory_keys: int = KEYS,
    max_tokens: int | None = None,
    counter: TokenCounter | None = None,
) -> str:
    """
    What a resource remembers, as text for a prompt (reference system C,
    ``buildContextSnippet``).

    Keys come in the order of their UTF-8 bytes, the same as in lists, and it is said when there
    are more; facts come best first, each with what the check of its source found. Bookkeeping
    keys are never told. Stored text is quoted on one line each.

    Args:
        memory: The memory.
        ref: The resource.
        query: What facts are wanted about; without one, or with a blank one, no fact is told.
        top_k: At most so many facts, 1..100.
        max_working_memory_keys: At most so many keys, 0..1,000.
        max_tokens: Of the whole text; lines that do not fit are left out from the end.
        counter: Counts tokens; default: characters divided by 3.

    Returns:
        The text; empty when there is nothing to tell.
    """
    check_ref(ref)
    most = check_whole("max_working_memory_keys", max_working_memory_keys, 0, MAX_PAGE)
    if max_tokens is not None:
        check_whole("max_tokens", max_tokens, 1, 2**31 - 1)
    asked = "" if query is None else check_characters("query", query).strip()
    facts = memory.recall(ref, asked, top_k=top_k) if asked and memory.semantic else ()
    whose = "resource" if ref.team_id is None else "team"
    told = build_context(
        [_working(memory, ref, most, whose), _semantic(facts, whose)],
        (counter or CharacterCounter()).count,
        max_tokens=max_tokens,
        priorities=_SECTIONS,
    )
    return told.text


def _working(memory: ResourceMemory, ref: ResourceRef, most: int, whose: str) -> Section:
    if most == 0:
        return Section(name="working_memory", visible_to=whose, lines=())
    page = memory.working_memory.list(ref, limit=most)
    lines = [
        Line(bullet(f"{key}: {json.dumps(value, ensure_ascii=False)}"))
        for key, value in page.items()
    ]
    notes = () if page.next is None else ("(There are more keys.)",)
    return Section(name="working_memory", visible_to=whose, lines=lines, notes=notes)


def _semantic(facts: Sequence[RememberedFact], whose: str) -> Section:
    lines = [Line(bullet(fact.content, _MARKS[fact.verification])) for fact in facts]
    return Section(name="semantic_memory", visible_to=whose, lines=lines)
