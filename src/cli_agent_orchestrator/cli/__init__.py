"""The command line: the only place that builds objects, prints and exits."""

import sys


def start() -> None:
    """Run `cao`: a Ctrl-C ends it without a traceback, also while its modules are imported."""
    try:
        from .main import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)
