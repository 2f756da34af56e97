"""An event loop whose time passes at once: who waits goes on when nobody else does."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Skipping(selectors.SelectSelector):
    """Does not wait for the next moment, but lets it come."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        self.skipped += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop at whose clock nobody but its own timers turns."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped


class VirtualClock:
    """The clock of such a loop."""

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


# Any: what asyncio says of coroutines
def run_at_once(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run something in a loop whose time passes at once; no thread may be waited for in it."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
