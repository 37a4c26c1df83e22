"""
A process that posts the recall view in small batches and says where it stands after each.

    python -m memoriale.adapters.demo.projector HOME TENANT BATCH
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from memoriale.adapters.demo.home import ledger_at
from memoriale.projections.posted import PostedView
from memoriale.projections.view import Batch, EventSource

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class _Told:
    """A log that prints the position of each batch before it is posted."""

    source: EventSource

    def head(self) -> int:
        return self.source.head()

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        for batch in self.source.batches(position, stop, size):
            print(batch.position, flush=True)
            yield batch


def main(home: str, tenant: str, batch: str) -> None:
    """Posts the recall view of a tenant up to the head."""
    with ledger_at(Path(home)) as ledger:
        live = ledger.tenant(tenant).view("recall")
        kind = replace(live.kind, batch=int(batch))
        view = PostedView(kind, live.generations, _Told(live.source))
        with view.read(wait=PATIENCE):
            view.forget()


if __name__ == "__main__":
    main(*sys.argv[1:])
