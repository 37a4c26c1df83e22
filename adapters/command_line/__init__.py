"""The command ``memoriale``."""

import sys

from memoriale.adapters.command_line.interrupts import interruptible


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        with interruptible():
            from memoriale.adapters.command_line.running import run

            code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
