"""The commands of ``memoriale``, put together."""

import typer

from memoriale.adapters.command_line import (
    branches,
    changes,
    checks,
    memories,
    reading,
    setup,
    transfer,
)

app = typer.Typer(
    name="memoriale",
    help="An append-only ledger for the memory of AI agents: remember, recall, correct, prove.",
    add_completion=False,
    no_args_is_help=True,
    # Plain help: tables of rich would take a third of the start-up time.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def memoriale() -> None:
    """An append-only ledger for the memory of AI agents: remember, recall, correct, prove."""


for module in (setup, memories, changes, reading, branches, transfer, checks):
    module.register(app)
