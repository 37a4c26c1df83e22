"""Keys that sign, and what is to be said when a backup was restored."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import note_in
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Common

Actor = Annotated[str | None, Option(help="The user who does it. Default: MEMORIALE_ACTOR.")]

Recorded = Annotated[
    str | None, Option("--tenant", help="In whose access log it is recorded. Default: the setting.")
]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    group = Typer(help="The key that signs checkpoints.", rich_markup_mode=None)
    group.command("list")(key_list)
    group.command("rotate")(key_rotate)
    app.add_typer(group, name="key")
    app.command()(restored)


@grouped
def key_list(common: Common, tenant: Recorded = None) -> None:
    """
    Show every public key that ever signed checkpoints here, oldest first.

    Give the lines to auditors. Keys of persons are not shown.

    Right: admin.
    """
    run = Invocation(common)
    with run.ledger() as ledger:
        keys = ledger.signing_keys(tenant=run.tenant(tenant))
    rows = [[key.key, key.signs] for key in keys]
    value = {"keys": [key.as_dict() for key in keys]}
    run.output.result(value, lambda page: page.table(["key", "signs now"], rows))


@grouped
def key_rotate(
    common: Common,
    lost: Annotated[
        bool, Option("--lost", help="The former key is gone; only the new one signs.")
    ] = False,
    actor: Actor = None,
    tenant: Recorded = None,
) -> None:
    """
    Sign checkpoints with a new key from now on.

    The present checkpoints are signed with both keys, so that whoever trusts the former one can
    go over to the new one. Only the signing key is rotated, no key of a person.

    Right: admin.
    """
    from memoriale.adapters.notes.verifier_keys import VerifierKey
    from memoriale.adapters.sealing.signing_key import NAME

    run = Invocation(common)
    with run.ledger() as ledger:
        rotation = ledger.rotate_signing_key(
            tenant=run.tenant(tenant), lost=lost, actor=actor or run.settings.actor
        )
    former = None if rotation.former is None else str(VerifierKey(NAME, rotation.former))
    value = {"former": former, "key": str(VerifierKey(NAME, rotation.key))}
    run.output.result(value, lambda page: page.fields(value))


@grouped
def restored(
    common: Common,
    reason: Annotated[str, Option("--reason", metavar="TEXT", help="Why; kept sealed.")],
    checkpoint: Annotated[
        list[Path] | None,
        Option(
            "--checkpoint", metavar="FILE", help="The last one kept elsewhere. May be repeated."
        ),
    ] = None,
    actor: Actor = None,
    tenant: Recorded = None,
) -> None:
    """
    Declare that the database came back from a backup.

    Every log goes on in a new incarnation, and it is on record how many sealed events are gone.

    Right: admin.
    """
    run = Invocation(common)
    notes = [note_in("checkpoint", path) for path in checkpoint or ()]
    with run.ledger() as ledger:
        logs = ledger.restored(
            reason,
            tenant=run.tenant(tenant),
            checkpoints=notes,
            actor=actor or run.settings.actor,
        )
    value = {"logs": [{**asdict(log), "log_id": str(log.log_id)} for log in logs]}
    rows = [
        [one.tenant, one.log, one.incarnation, one.events, one.sealed, one.lost] for one in logs
    ]
    names = ["tenant", "log", "incarnation", "events", "sealed before", "lost"]
    run.output.result(value, lambda page: page.table(names, rows))
