"""Which views there are, and how each is made from a tenant's memory log."""

from importlib import import_module
from pathlib import Path
from typing import Any

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind


def make_view(name: str, folder: Path, log: TenantLog, embedder: str) -> PostedView[Any]:
    """
    A view of a log.

    Args:
        name: ``recall`` or ``stats``.
        folder: Its own folder.
        log: What it is posted from.
        embedder: Setting ``MEMORIALE_EMBEDDER``.

    Raises:
        InputError: An unknown view.
    """
    if name == "recall":
        return PostedView(_recall(embedder), Generations(folder), log)
    if name == "stats":
        from memoriale.projections.stats.view import stats_kind

        return PostedView(stats_kind(), Generations(folder), log)
    raise InputError(
        f"unknown view {shown(name)!r}; there are recall and stats.",
        code="unknown_view",
        field="view",
        value=shown(name),
        allowed=["recall", "stats", "all"],
    )


def _recall(embedder: str) -> ViewKind[Any]:
    from memoriale.projections.recall.view import VERSION, RecallView

    # Here, so that the time that a read waits for its view is not spent on importing.
    import_module("lancedb")
    model = make_embedder(embedder)
    return ViewKind(
        name=RecallView.name,
        fingerprint=f"recall/{VERSION}/{model.model}/{model.width}",
        create=lambda folder: RecallView.create(folder, model),
        open=lambda folder: RecallView.open(folder, model),
        exclusive=False,
    )
