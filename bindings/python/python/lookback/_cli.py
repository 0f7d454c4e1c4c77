"""The command line, for ``lookback`` and ``python -m lookback``."""

from __future__ import annotations

import signal
import sys

from lookback._native import command_line


def main() -> int:
    """Runs the command line, and returns its exit code."""
    # Ctrl-C ends commands that do not handle it, like any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
