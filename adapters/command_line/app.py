"""The commands of ``memoriale``, put together."""

import typer

from memoriale.adapters.command_line import (
    accesses,
    anchors,
    branches,
    bundles,
    changes,
    checks,
    episodes,
    installation,
    keys,
    mart,
    memories,
    merging,
    operations,
    proofs,
    reading,
    subscribing,
    transfer,
)
from memoriale.adapters.command_line.stores import (
    conversations,
    experience,
    people,
    resources,
    things,
    upkeep,
)

app = typer.Typer(
    name="memoriale",
    help="An append-only ledger for the memory of AI agents: remember, recall, correct, prove.",
    add_completion=False,
    invoke_without_command=True,
    # Plain help: tables of rich would take a third of the start-up time.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def memoriale(context: typer.Context) -> None:
    """An append-only ledger for the memory of AI agents: remember, recall, correct, prove."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


for module in (
    installation,
    memories,
    operations,
    changes,
    reading,
    subscribing,
    branches,
    merging,
    episodes,
    transfer,
    mart,
    accesses,
    checks,
    proofs,
    bundles,
    anchors,
    keys,
    people,
    experience,
    things,
    conversations,
    resources,
    upkeep,
):
    module.register(app)
