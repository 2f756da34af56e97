"""Whatever is done to the machine's clock, newer evidence has the later time."""

import pytest

from cli_agent_orchestrator.core.clock import SteadyClock


class MachineClock:
    """A clock that somebody sets, while a counter goes on."""

    unix = 1_000.0
    counter = 5.0

    def now(self) -> float:
        return self.unix

    def monotonic(self) -> float:
        return self.counter


@pytest.mark.parametrize(
    ("moved", "then"),
    [(-3_600, 1_000.0), (3_600, 4_600.0)],
    ids=["set back: time is not taken back", "set forward, or slept: it is followed"],
)
def test_a_clock_that_is_set(moved: float, then: float) -> None:
    machine = MachineClock()
    steady = SteadyClock(machine)
    machine.unix += moved
    assert steady.now() == then
    machine.unix += 2
    machine.counter += 2
    assert steady.now() == then + 2
