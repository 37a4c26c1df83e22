"""Messages that are looked through in the background."""

from typing import Annotated

from typer import Argument, Exit, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import messages_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    app.command()(add)


@grouped
def add(
    file: Annotated[
        str,
        Argument(
            metavar="FILE",
            help="A JSON list of messages, or one message a line; - reads standard input.",
        ),
    ],
    caller: Caller,
    common: Common,
    tag: options.Tags = None,
    op_id: Annotated[str | None, Option("--op-id", metavar="LABEL", help="A label for it.")] = None,
    idempotency_key: Annotated[
        str | None,
        Option(metavar="KEY", help="Repeating the command with it does nothing twice."),
    ] = None,
    wait: Annotated[
        bool, Option("--wait", help="Work on it now, until it has ended; else jobs run does.")
    ] = False,
) -> None:
    """
    Accept messages, from which a language model takes what is worth keeping. Exit code 5 when it
    was waited for and failed.

    Right: use.
    """
    run = Invocation(common)
    messages = messages_of(file, run.settings.max_content_bytes)
    with run.memory(caller) as memory:
        from memoriale.adapters.library.operations.accepting import accept

        accepted = accept(
            memory,
            messages,
            tags=tag,
            op_id=op_id,
            idempotency_key=idempotency_key,
            wait=wait,
        )
    value = accepted.as_dict()
    run.output.result(value, lambda page: page.fields(value))
    if accepted.status == "errored":
        raise Exit(5)
