"""Which views there are, and how each is made from a tenant's memory log."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.application.former_views import (
    fingerprint_width,
    open_former_recall,
    recall_fingerprint,
)
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.embeddings.cache import EmbeddingCache
from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown
from memoriale.projections.allowance import Allowance, allowing
from memoriale.projections.embedding import Embedder
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind

if TYPE_CHECKING:
    from memoriale.projections.recall.view import RecallView

FILLING_SECONDS: Final = 30.0
"""That an embedder has in one round of maintenance."""


def make_view(
    name: str,
    folder: Path,
    log: TenantLog,
    settings: Settings,
    model: Callable[[], Embedder] | None = None,
) -> PostedView[Any]:
    """
    A view of a log.

    Args:
        name: ``recall`` or ``stats``.
        folder: Its own folder.
        log: What it is posted from.
        settings: Which embedder, and where its vectors are cached.
        model: Gives that embedder, where it has been made already.

    Raises:
        InputError: An unknown view.
    """
    if name == "recall":
        kind = _recall(log, settings, model or (lambda: configured_embedder(settings)))
        return PostedView(kind, Generations(folder), log)
    if name == "stats":
        return PostedView(_stats(), Generations(folder), log)
    raise InputError(
        f"unknown view {shown(name)!r}; there are recall and stats.",
        code="unknown_view",
        field="view",
        value=shown(name),
        allowed=["recall", "stats", "all"],
    )


def view_width(views_folder: Path) -> int | None:
    """Components of the vectors of a tenant's live recall view; None when there is none."""
    live = Generations(views_folder / "recall").current()
    return None if live is None else fingerprint_width(live.fingerprint)


def configured_embedder(settings: Settings) -> Embedder:
    """
    The embedder that the settings name; nothing is cached.

    Raises:
        InputError: They name none that there is.
        UnavailableError: The width of its vectors is not known, and it cannot be asked.
    """
    return make_embedder(
        settings.embedder,
        endpoint=settings.openai_endpoint,
        widths=KnownWidths(settings.cache_folder / "widths.json"),
    )


def _recall(log: TenantLog, settings: Settings, make: Callable[[], Embedder]) -> ViewKind[Any]:
    from memoriale.adapters.embeddings.cached import CachedEmbedder, Limits
    from memoriale.projections.recall.reconciling import discrepancies, holds_rows_beyond, tidy
    from memoriale.projections.recall.view import VERSION, RecallView

    # Here, so that the time that a read waits for its view is not spent on importing.
    import_module("lancedb")
    model = make()
    cache = EmbeddingCache.of_log(settings.cache_folder, log.log_id)
    limits = Limits(model)

    def embedder() -> CachedEmbedder:
        # One for each generation, so that each knows what was computed for it.
        return CachedEmbedder(model, cache, log.identities, limits)

    return ViewKind(
        name=RecallView.name,
        fingerprint=recall_fingerprint(VERSION, model),
        create=lambda folder: RecallView.create(folder, embedder()),
        open=lambda folder: RecallView.open(folder, embedder()),
        exclusive=False,
        open_former=open_former_recall,
        compare=discrepancies,
        beyond=holds_rows_beyond,
        maintain=lambda view: _filled(view) | tidy(view),
    )


def _filled(view: "RecallView") -> bool:
    """Makes up for vectors that rows were posted without. Returns whether any were lacking."""
    view.position()
    if not view.lacking:
        return False
    with allowing(Allowance(FILLING_SECONDS, optional=True)):
        view.fill()
    return True


def _stats() -> ViewKind[Any]:
    from memoriale.projections.stats.reconciling import discrepancies, holds_rows_beyond
    from memoriale.projections.stats.view import stats_kind

    return replace(stats_kind(), compare=discrepancies, beyond=holds_rows_beyond)
