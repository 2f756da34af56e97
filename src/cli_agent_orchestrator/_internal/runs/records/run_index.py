"""A small number of a run's own, by which it can keep out of the way of others: for ports.

No two runs of a user that are alive have the same. It is held by a lock, so it is free again when
the run's process ends, however that ends.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli_agent_orchestrator._internal.layout import index_folder
from cli_agent_orchestrator._internal.models import MOST_RUNS


@contextmanager
def run_index(state_folder: Path) -> Iterator[int]:
    """Hold the smallest number that no other run has, for as long as the block lasts."""
    with ExitStack() as held:
        yield _take(state_folder, held)


def _take(state_folder: Path, held: ExitStack) -> int:
    for number in range(MOST_RUNS):
        folder = index_folder(state_folder, number)
        try:
            folder.make()
            held.enter_context(folder.locked())
        except BlockingIOError:
            continue
        except OSError:
            break  # it is a help and no more
        return number
    return 0
