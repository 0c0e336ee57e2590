"""Entry point of the command `bliss`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, even during imports."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        # Python wraps a KeyboardInterrupt that falls into the body of a class in a RuntimeError.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bliss.cli import app

    signal.signal(signal.SIGINT, handler)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
