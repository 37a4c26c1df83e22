"""Making memories and asking for them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import content_of, metadata_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import (
    Because,
    Caller,
    Common,
    OnBranch,
    Patience,
    Times,
)
from memoriale.adapters.command_line.output import Page
from memoriale.adapters.command_line.receipts import print_receipt

if TYPE_CHECKING:
    from memoriale.adapters.application.recalling import Recall
    from memoriale.projections.recall.query import Hit


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(remember)
    app.command()(recall)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a memory is."""

    kind: Annotated[str, Option(help="note, fact or message.")] = "note"
    owner: Annotated[
        str | None,
        Option(metavar="TYPE", help="user, agent, resource, session or team. Default: by kind."),
    ] = None
    visibility: Annotated[
        str | None,
        Option(help="owner, user, agent, team, tenant, or global: right admin. Default: owner."),
    ] = None
    subject: Annotated[
        str | None, Option(help="What a fact is about; the current one about it is replaced.")
    ] = None
    supersedes: Annotated[
        list[str] | None, Option(metavar="ID", help="A memory to replace. May be repeated.")
    ] = None
    about: Annotated[
        list[str] | None, Option(metavar="USER", help="Whom it is about. May be repeated.")
    ] = None
    importance: options.Importance = None
    confidence: Annotated[float | None, Option(help="0..1.")] = None
    tag: options.Tags = None
    metadata: options.Metadata = None

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {
            "kind": self.kind,
            "owner": self.owner,
            "visibility": self.visibility,
            "subject": self.subject,
            "supersedes": self.supersedes or None,
            "about": self.about or None,
            "importance": self.importance,
            "confidence": self.confidence,
            "tags": self.tag or None,
            "metadata": metadata_of(self.metadata),
        }


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a memory comes from and how long it is kept."""

    source: Annotated[str | None, Option(help="Where it comes from.")] = None
    evidence: Annotated[
        list[str] | None, Option(metavar="TEXT", help="What it rests on. May be repeated.")
    ] = None
    retention: Annotated[
        str | None, Option(metavar="CLASS", help="How long to keep it; kept in clear.")
    ] = None
    speaker: Annotated[str | None, Option(help="Who said a message.")] = None
    role: Annotated[str | None, Option(help="As what the speaker spoke.")] = None
    caption: Annotated[str | None, Option(help="What a message's picture shows.")] = None

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {
            "source": self.source,
            "evidence": self.evidence or None,
            "retention_class": self.retention,
            "speaker": self.speaker,
            "role": self.role,
            "caption": self.caption,
        }


@grouped
def remember(
    text: options.Content,
    what: Description,
    when: Times,
    whence: Provenance,
    because: Because,
    caller: Caller,
    on: OnBranch,
    common: Common,
    receipt: Annotated[
        str, Option("--receipt", metavar="WHEN", help="durable, or sealed: with its proof.")
    ] = "durable",
) -> None:
    """
    Remember a text. It is durable when the command returns.

    Exit code 6 when it is stored, but could not be sealed as asked for.

    Right: use.
    """
    from memoriale.domain.receipt import UnsealedError

    run = Invocation(common)
    given = {**what.given(), **when.given(), **whence.given(), **because.given()}
    content = content_of(text, run.settings.max_content_bytes)
    with run.memory(caller, on.branch) as memory:
        try:
            made = memory.remember(content, **given, receipt=receipt)
        except UnsealedError as error:
            print_receipt(run.output, error.receipt, "remembered")
            raise
    print_receipt(run.output, made, "remembered")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which memories may answer, and in which order."""

    top_k: Annotated[int, Option(metavar="N", help="At most so many.")] = 5
    kind: options.Kinds = None
    tag: options.OnlyTags = None
    min_score: Annotated[float | None, Option(help="Least similarity, 0..1.")] = None
    min_rank_score: Annotated[float | None, Option(help="Least score, 0..1.")] = None
    rank: Annotated[str, Option(help="relevance or composite.")] = "relevance"
    legs: Annotated[str, Option(help="hybrid, keyword or vector alone.")] = "hybrid"
    explain: Annotated[bool, Option("--explain", help="Say what each score is made of.")] = False

    def given(self) -> dict[str, Any]:
        """As arguments of the library."""
        return {
            "top_k": self.top_k,
            "kinds": self.kind or (),
            "tags": self.tag or (),
            "min_score": self.min_score,
            "min_rank_score": self.min_rank_score,
            "rank": self.rank,
            "legs": self.legs,
            "explain": self.explain,
        }


@grouped
def recall(
    query: Annotated[str, Argument(metavar="QUERY", help="The question.")],
    selection: Selection,
    caller: Caller,
    on: OnBranch,
    patience: Patience,
    common: Common,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
) -> None:
    """
    Recall the memories that answer a question best.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, on.branch) as memory:
        found = memory.recall(
            query,
            as_of=as_of,
            valid_at=valid_at,
            wait=patience.wait,
            strict=patience.strict,
            **selection.given(),
        )
        names = {branch.id: branch.name or str(branch.id) for branch in memory.branches()}
    run.output.result(answer_as_json(found, names), lambda page: _show(page, found))


def answer_as_json(found: "Recall", names: dict[UUID, str]) -> dict[str, Any]:
    """
    An answer as JSON values.

    Args:
        found: The answer.
        names: Names of branches by id.
    """
    from memoriale.adapters.application.presenting import as_json

    hits = [
        {
            **as_json(hit),
            "branch": "main" if hit.is_global else names.get(hit.branch, str(hit.branch)),
        }
        for hit in found.hits
    ]
    return {
        "index": found.index,
        "global_index": found.global_index,
        "pin": found.pin,
        "now": found.now.isoformat(),
        "degraded": list(found.degraded),
        "behind": found.behind,
        "rebuilt": found.rebuilt,
        "hits": hits,
    }


def _made_of(hit: "Hit") -> list[str]:
    if hit.explanation is None:
        return []
    parts, ranks = hit.explanation.parts, hit.explanation.ranks
    return [
        f"{name} {value:.2f} x {hit.explanation.weights[name]:g}"
        + (f" (place {ranks[name]})" if name in ranks else "")
        for name, value in parts.items()
    ]


def _show(page: Page, found: "Recall") -> None:
    if not found.hits:
        page.line("Nothing answers that.")
    else:
        page.entries(
            (
                f"{hit.score:.2f}",
                hit.content,
                [*_made_of(hit), hit.kind, hit.recorded_at, hit.memory_id],
            )
            for hit in found.hits
        )
    rebuilt = ", view rebuilt" if found.rebuilt else ""
    page.line(f"as of index {found.pin}{rebuilt}")
    if "disk" in found.degraded:
        page.line(
            f"The view is {found.behind} events behind, because its disk is full or may not be "
            "written; replay says which."
        )
    elif found.behind:
        page.line(f"The view is {found.behind} events behind; ask again, or with a longer --wait.")
