"""Whatever is done to the machine's clock, newer evidence has the later time."""

from dataclasses import dataclass

from cli_agent_orchestrator.core.clock import SteadyClock


@dataclass
class MachineClock:
    """A clock that somebody sets, while a counter goes on."""

    unix: float = 1_000.0
    counter: float = 5.0

    def now(self) -> float:
        return self.unix

    def monotonic(self) -> float:
        return self.counter

    def pass_seconds(self, seconds: float) -> None:
        self.unix += seconds
        self.counter += seconds


def test_a_clock_that_is_set_back_does_not_take_time_back() -> None:
    machine = MachineClock()
    steady = SteadyClock(machine)
    machine.unix -= 3_600
    assert steady.now() == 1_000.0
    machine.pass_seconds(2)
    assert steady.now() == 1_002.0


def test_a_clock_that_is_set_forward_or_slept_is_followed() -> None:
    machine = MachineClock()
    steady = SteadyClock(machine)
    machine.unix += 3_600
    assert steady.now() == 4_600.0
    machine.pass_seconds(2)
    assert steady.now() == 4_602.0
