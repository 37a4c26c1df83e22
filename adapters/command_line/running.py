"""Runs one command; every failure becomes one line on standard error and an exit code."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import typer

from memoriale.adapters.command_line.app import app
from memoriale.domain.errors import MemorialeError

INTERRUPTED: Final = 130
INTERNAL: Final = 5


def run(arguments: Sequence[str]) -> int:
    """
    Runs a command and returns its exit code.

    Args:
        arguments: What stands after ``memoriale``.
    """
    as_json = "--json" in _options(arguments)
    try:
        command = typer.main.get_command(app)
        code = command.main(args=list(arguments), prog_name="memoriale", standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.TyperException as error:
        return _refused(_usage(error), as_json)
    except MemorialeError as error:
        return _refused(error, as_json)
    except Exception as error:
        _log_traceback()
        return _refused(_internal(error), as_json)
    return code if isinstance(code, int) else 0


class UsageError(MemorialeError):
    """The command line itself is wrong: an unknown option, a missing argument."""

    exit_code = 2
    default_code = "usage"


class InternalError(MemorialeError):
    """A defect of memoriale."""

    exit_code = INTERNAL
    default_code = "internal"


def _options(arguments: Sequence[str]) -> Sequence[str]:
    # What stands after -- is text, whatever it looks like.
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _usage(error: typer.TyperException) -> MemorialeError:
    parameter, context = getattr(error, "param", None), getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    name = option if parameter is None else parameter.name
    path = "memoriale" if context is None else context.command_path
    return UsageError(
        f"{error.format_message().strip().rstrip('.')}. See `{path} --help`.",
        field="command" if name is None else str(name).lstrip("-").replace("-", "_"),
        allowed=getattr(error, "possibilities", None) or None,
    )


def _internal(error: Exception) -> MemorialeError:
    said = " ".join(str(error).split())
    return InternalError(
        f"unexpected {type(error).__name__}: {said}. This is a defect of memoriale; set "
        "MEMORIALE_LOG_LEVEL=debug to see where.",
        value=type(error).__name__,
    )


def _refused(error: MemorialeError, as_json: bool) -> int:
    from memoriale.adapters.command_line.output import json_text, safe

    if as_json:
        line = json_text({"error": error.as_dict()})
    else:
        line = "error: " + safe(" ".join(error.message.split()))
    _complain(line)
    return error.exit_code


def _complain(line: str) -> None:
    stream: Any = sys.stderr
    if stream is not None:
        with suppress(OSError):
            stream.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
            stream.flush()


def _log_traceback() -> None:
    import logging

    logging.getLogger("memoriale").debug("unexpected error", exc_info=True)
