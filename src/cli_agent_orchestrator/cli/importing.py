"""Imports of heavy modules, which a command puts off until it needs them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage while modules are imported.

    There is none, and looking for it takes a tenth of the time. What was imported stays, so later
    collections need not look at it either. Only for a process that is ours alone.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.freeze()
