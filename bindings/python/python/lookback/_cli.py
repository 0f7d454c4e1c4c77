"""The command line, as ``lookback`` and as ``python -m lookback``."""

from __future__ import annotations

import signal
import sys

from lookback._native import command_line


def main() -> int:
    """Runs the command line, and returns its exit code."""
    # Ctrl-C ends what does not ask for it, as it does with any command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
