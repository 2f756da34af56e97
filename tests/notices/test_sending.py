"""Notices are sent beside a run, which never waits for them."""

import threading

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.events import Paused, RunEnded, RunEvent, RunOpened, Unpaused
from cli_agent_orchestrator.notices.decide import RunNotice
from cli_agent_orchestrator.notices.send import RETRY_SECONDS, Channel, NotSent, Sender
from tests.cli.run_events import NOON

OPENED = RunOpened(NOON, "k3f9", "/home/ada/shop")
PASSED = RunEnded(NOON, "PASS", 1, 0)
SECONDS = 20.0
"""Nothing here takes so long unless it hangs."""


class Wire(Channel):
    """A channel that does as it is told, and keeps what was sent."""

    name = "wire"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.tries = 0
        self.sent: list[RunNotice] = []
        self.arrived = threading.Semaphore(0)
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def send(self, notice: RunNotice) -> None:
        self.tries += 1
        self.begun.set()
        self.go_on.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(notice)
        self.arrived.release()

    def abort(self) -> None:
        self.go_on.set()


def send(sender: Sender, *events: RunEvent) -> list[str]:
    """Tell of a run whose events these are, wait for the end, and return the warnings."""
    for event in (OPENED, *events):
        sender.tell(event)
    sender.close(SECONDS)
    return sender.pop_warnings()


def test_what_is_worth_it_is_sent_on_every_channel_in_order() -> None:
    one, two = Wire(), Wire()
    assert send(Sender([one, two]), Paused(NOON), Unpaused(NOON), PASSED) == []
    assert [notice.kind for notice in one.sent] == ["paused", "resumed", "pass"]
    assert two.sent == one.sent


def test_a_notice_that_may_arrive_later_is_tried_again() -> None:
    wire = Wire(NotSent("down", again=True), NotSent("down", again=True))
    assert send(Sender([wire]), PASSED) == []
    assert (wire.tries, len(wire.sent)) == (3, 1)


@pytest.mark.parametrize(
    ("failure", "seconds", "why"),
    [
        (NotSent("no such topic"), RETRY_SECONDS, "no such topic"),
        (NotSent("down", again=True), 0.0, "down"),
        (ValueError("https://hook.example/s3cr3t"), RETRY_SECONDS, "a fault in cao, ValueError"),
    ],
)
def test_what_cannot_arrive_is_told_once_and_not_tried_again(
    failure: Exception, seconds: float, why: str
) -> None:
    wire = Wire(failure, failure)
    sender = Sender([wire], retry_seconds=seconds)
    warning = f"no notice by wire: {why}; `cao notify test` tries all channels"
    assert send(sender, Paused(NOON), PASSED) == [warning]
    assert (wire.tries, wire.sent) == (2, [])
    assert sender.pop_warnings() == []


def test_a_fault_of_ours_ends_no_run_and_is_told_once() -> None:
    wire = Wire()
    broken = replace(OPENED, wd=object())
    warnings = send(Sender([wire]), broken, broken, PASSED)
    assert warnings == ["no notices: a fault in cao, TypeError"]
    assert wire.sent == []


def test_a_slow_channel_keeps_neither_the_run_nor_another_channel_waiting() -> None:
    slow, quick = Wire(), Wire()
    slow.name = "slow"
    slow.go_on.clear()
    sender = Sender([slow, quick])
    before = threading.active_count()
    sender.tell(OPENED)
    assert threading.active_count() == before
    sender.tell(Paused(NOON))
    sender.tell(PASSED)
    for _ in range(2):
        assert quick.arrived.acquire(timeout=SECONDS)
    assert slow.begun.wait(SECONDS)
    assert slow.sent == []
    # A server that does not answer keeps no program from ending.
    threads = [one for one in threading.enumerate() if one.name.startswith("notices by ")]
    assert [one.daemon for one in threads] == [True, True]
    sender.close(0)
    of_slow = [warning for warning in sender.pop_warnings() if "by slow" in warning]
    assert [warning.partition(";")[0] for warning in of_slow] == [
        "no notice by slow: it took too long at the end of the run"
    ]


def test_why_the_last_try_failed_is_told_if_the_end_of_the_run_cuts_the_others_off() -> None:
    wire = Wire(*[NotSent("no connection", again=True)] * 100)
    sender = Sender([wire])
    sender.tell(OPENED)
    sender.tell(PASSED)
    while wire.tries < 2:
        assert wire.begun.wait(SECONDS)
        wire.begun.clear()
    sender.close(0)
    (warning,) = sender.pop_warnings()
    assert warning.startswith("no notice by wire: no connection; ")
