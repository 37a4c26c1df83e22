"""What agents learn by working: decisions, learnings and corrections."""

from typing import Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import content_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.stores.showing import show_list, show_one

Query = Annotated[str, Argument(metavar="QUERY", help="What to look for.")]
TopK = Annotated[int | None, Option("--top-k", metavar="N", help="How many at most.")]
Scope = Annotated[str, Option("--scope", metavar="user|agent|tenant", help="Who may see it.")]
_DECISION = ["id", "decision", "reasoning", "outcome", "outcome_quality", "created_at"]
_LEARNING = ["id", "title", "content", "scope", "source", "created_at"]
_CORRECTION = ["id", "field", "original_value", "corrected_value", "reason", "entity_key"]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    groups: dict[str, tuple[str, dict[str, Any]]] = {
        "decision": (
            "Decisions of an agent.",
            {
                "log": decision_log,
                "outcome": decision_outcome,
                "list": decision_list,
                "search": decision_search,
            },
        ),
        "learning": (
            "Insights from working.",
            {
                "save": learning_save,
                "search": learning_search,
                "invalidate": learning_invalidate,
            },
        ),
        "correction": (
            "What people put right.",
            {
                "record": correction_record,
                "list": correction_list,
                "search": correction_search,
                "stats": correction_stats,
                "eval-cases": correction_eval_cases,
            },
        ),
    }
    for name, (told, commands) in groups.items():
        group = Typer(help=told, rich_markup_mode=None)
        for command, function in commands.items():
            group.command(command)(function)
        app.add_typer(group, name=name)


@grouped
def decision_log(
    decision: Annotated[str, Argument(metavar="TEXT", help="What was decided.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    reasoning: Annotated[str, Option("--reasoning", help="Why.")],
    decision_type: Annotated[str, Option("--type", metavar="NAME", help="Of what type it is.")],
    alternative: Annotated[list[str] | None, Option(help="May be repeated.")] = None,
    confidence: Annotated[float | None, Option(help="0..1.")] = None,
) -> None:
    """
    Record a decision of an agent.

    Right: use.
    """
    from memoriale.adapters.library.stores.decisions import DecisionLog

    run = Invocation(common)
    given = {
        "decision": decision,
        "reasoning": reasoning,
        "decision_type": decision_type,
        "alternatives": alternative or [],
        "confidence": confidence,
    }
    with run.memory(caller, place.branch) as memory:
        made = DecisionLog(memory).log_decision(decision=given)
    show_one(run, made, "")


@grouped
def decision_outcome(
    decision_id: options.MemoryId,
    outcome: Annotated[str, Argument(metavar="TEXT", help="What came of it.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    quality: Annotated[
        str | None, Option("--quality", metavar="good|bad|neutral", help="How it turned out.")
    ] = None,
) -> None:
    """
    Record how a decision turned out.

    Right: use.
    """
    from memoriale.adapters.library.stores.decisions import DecisionLog

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        DecisionLog(memory).record_outcome(None, decision_id, outcome, quality)
    run.output.result({"id": decision_id}, lambda page: page.line("the outcome is recorded"))


@grouped
def decision_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    limit: Annotated[int | None, Option(help="How many at most.")] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    List decisions of an agent, newest first.

    Right: use.
    """
    from memoriale.adapters.library.stores.decisions import DecisionLog

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = DecisionLog(memory).get_decisions(limit=limit, as_of=as_of)
    show_list(run, "decisions", found, _DECISION)


@grouped
def decision_search(
    query: Query, caller: Caller, common: Common, place: OnBranch, as_of: options.AsOf = None
) -> None:
    """
    Find decisions by anything written of them, the outcome too.

    Right: use.
    """
    from memoriale.adapters.library.stores.decisions import DecisionLog

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = DecisionLog(memory).search_decisions(query=query, as_of=as_of)
    show_list(run, "decisions", found, _DECISION)


@grouped
def learning_save(
    title: Annotated[str, Argument(metavar="TITLE", help="In few words.")],
    content: options.Content,
    caller: Caller,
    common: Common,
    place: OnBranch,
    applies: Annotated[str, Option("--context", help="When it applies.")] = "",
    scope: Scope = "user",
    tag: options.Tags = None,
    importance: options.Importance = None,
) -> None:
    """
    Save an insight.

    Right: use.
    """
    from memoriale.adapters.library.stores.learnings import LearnedKnowledge

    run = Invocation(common)
    given = {
        "title": title,
        "content": content_of(content, run.settings.max_content_bytes),
        "context": applies,
        "scope": scope,
        "tags": tag or [],
        "importance": importance,
    }
    with run.memory(caller, place.branch) as memory:
        made = LearnedKnowledge(memory).save_learning(given)
    show_one(run, made, "")


@grouped
def learning_search(
    query: Query,
    caller: Caller,
    common: Common,
    place: OnBranch,
    top_k: TopK = None,
    min_score: Annotated[float | None, Option(help="Least similarity, 0..1.")] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    Find insights that the caller may see.

    Right: use.
    """
    from memoriale.adapters.library.stores.learnings import LearnedKnowledge

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        store = LearnedKnowledge(memory)
        found = store.search_learnings(query, top_k, min_score=min_score, as_of=as_of)
    show_list(run, "learnings", found, _LEARNING)


@grouped
def learning_invalidate(
    learning_id: options.MemoryId,
    caller: Caller,
    common: Common,
    place: OnBranch,
    by: Annotated[
        str | None, Option("--by", metavar="ID", help="What stands in its place.")
    ] = None,
) -> None:
    """
    End an insight; history keeps it.

    Right: use.
    """
    from memoriale.adapters.library.stores.learnings import LearnedKnowledge

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        ended = LearnedKnowledge(memory).invalidate_learning(learning_id, by)
    told = "ended" if ended else "there is no such current learning"
    run.output.result({"invalidated": ended}, lambda page: page.line(told))


@grouped
def correction_record(
    original: Annotated[str, Argument(metavar="WRONG", help="What was produced; may be empty.")],
    corrected: Annotated[str, Argument(metavar="RIGHT", help="What it should have been.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    field: Annotated[str | None, Option(help="What was corrected.")] = None,
    reason: Annotated[str | None, Option(metavar="TEXT", help="Why.")] = None,
    entity: Annotated[str | None, Option(help="To whom or what it applies.")] = None,
    original_input: Annotated[
        str | None, Option("--input", metavar="TEXT", help="The input that led to it.")
    ] = None,
    tag: options.Tags = None,
    scope: Scope = "agent",
) -> None:
    """
    Record what a person put right; unverified insights that it contradicts end.

    Right: use.
    """
    from memoriale.adapters.library.stores.corrections import CorrectionStore

    run = Invocation(common)
    given = {
        "original_value": original,
        "corrected_value": corrected,
        "field": field,
        "reason": reason,
        "entity_key": entity,
        "original_input": original_input,
        "tags": tag or [],
        "scope": scope,
    }
    with run.memory(caller, place.branch) as memory:
        made = CorrectionStore(memory).record_correction(given)
    show_one(run, made, "")


@grouped
def correction_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    entity: Annotated[str | None, Option(help="Only those of this entity.")] = None,
    since: Annotated[str | None, Option(metavar="TIME", help="Recorded then or later.")] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    List corrections, oldest first.

    Right: use.
    """
    from memoriale.adapters.library.stores.corrections import CorrectionStore

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = CorrectionStore(memory).list_corrections(None, entity, since, as_of=as_of)
    show_list(run, "corrections", found, _CORRECTION)


@grouped
def correction_search(
    query: Query,
    caller: Caller,
    common: Common,
    place: OnBranch,
    top_k: TopK = None,
    entity: Annotated[str | None, Option(help="Only those of this entity.")] = None,
    as_of: options.AsOf = None,
) -> None:
    """
    Find corrections that fit a question.

    Right: use.
    """
    from memoriale.adapters.library.stores.corrections import CorrectionStore

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        store = CorrectionStore(memory)
        found = store.search_corrections(query, top_k, entity_key=entity, as_of=as_of)
    show_list(run, "corrections", found, _CORRECTION)


@grouped
def correction_stats(caller: Caller, common: Common, place: OnBranch) -> None:
    """
    Count corrections by entity and by field.

    Right: use.
    """
    from memoriale.adapters.library.stores.corrections import CorrectionStore

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        show_one(run, CorrectionStore(memory).get_stats(), "")


@grouped
def correction_eval_cases(
    caller: Caller,
    common: Common,
    place: OnBranch,
    entity: Annotated[str | None, Option(help="Only those of this entity.")] = None,
) -> None:
    """
    Print corrections whose input is known as cases for an evaluation.

    Right: use.
    """
    from memoriale.adapters.library.stores.corrections import CorrectionStore

    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        cases = CorrectionStore(memory).to_eval_cases(None, entity)
    show_list(run, "cases", cases, ["input", "expected", "field", "correction_id"])
