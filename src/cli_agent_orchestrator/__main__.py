"""`python -m cli_agent_orchestrator` is the same as `cao`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # Python looks in the current folder first, and a project must not bring modules of its own.
    del sys.path[0]

from .cli import start

if __name__ == "__main__":
    start()
