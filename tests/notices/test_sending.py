"""Notices are sent beside a run, which never waits for them."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from cli_agent_orchestrator.events import Paused, RunEnded, RunOpened, Unpaused
from cli_agent_orchestrator.notices.decide import NoticeKind, Noticing, RunNotice
from cli_agent_orchestrator.notices.send import MOST_WAITING, Channel, NotSent, Sender, WebHook
from tests.cli.run_events import NOON
from tests.notices.test_channels import Hook

OPENED = RunOpened(NOON, "k3f9", "/home/ada/shop")
PASSED = RunEnded(NOON, "PASS", 1, 0)
SECONDS = 20.0
"""Nothing here takes so long unless it hangs."""


class Wire(Channel):
    """A channel that does as it is told, and keeps what was sent."""

    name = "wire"

    def __init__(self, *failures: NotSent) -> None:
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


@pytest.fixture
def hook() -> Iterator[Hook]:
    with closing(Hook()) as found:
        yield found


def test_what_is_worth_it_is_sent_on_every_channel_in_order() -> None:
    one, two = Wire(), Wire()
    sender = Sender([one, two])
    for event in (OPENED, Paused(NOON), Unpaused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert [notice.kind for notice in one.sent] == ["paused", "resumed", "pass"]
    assert two.sent == one.sent
    assert sender.pop_warnings() == []


def test_only_the_kinds_that_are_wanted_are_sent() -> None:
    wire = Wire()
    sender = Sender([wire], {NoticeKind.PASS})
    for event in (OPENED, Paused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert [notice.kind for notice in wire.sent] == ["pass"]


def test_a_notice_that_may_arrive_later_is_tried_again() -> None:
    wire = Wire(NotSent("down", again=True), NotSent("down", again=True))
    sender = Sender([wire])
    sender.tell(OPENED)
    sender.tell(PASSED)
    sender.close(SECONDS)
    assert (wire.tries, len(wire.sent)) == (3, 1)
    assert sender.pop_warnings() == []


def test_one_that_cannot_arrive_is_told_once_and_not_tried_again() -> None:
    wire = Wire(NotSent("no such topic"), NotSent("no such topic"))
    sender = Sender([wire])
    for event in (OPENED, Paused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert wire.tries == 2
    assert sender.pop_warnings() == [
        "no notice by wire: no such topic; `cao notify test` tries all channels"
    ]
    assert sender.pop_warnings() == []


def raise_fault(*_: object) -> RunNotice | None:
    raise ValueError("https://hook.example/s3cr3t")


def test_a_fault_of_ours_ends_no_run_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    sender = Sender([wire])
    monkeypatch.setattr(Noticing, "hear", raise_fault)
    for event in (OPENED, Paused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert wire.sent == []
    assert sender.pop_warnings() == ["no notices: a fault in cao, ValueError"]


def test_a_channel_with_a_fault_of_ours_is_told_once_as_a_dead_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire()
    monkeypatch.setattr(wire, "send", raise_fault)
    sender = Sender([wire])
    for event in (OPENED, Paused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert sender.pop_warnings() == [
        "no notice by wire: a fault in cao, ValueError; `cao notify test` tries all channels"
    ]


def test_what_was_tried_for_long_enough_is_given_up() -> None:
    wire = Wire(NotSent("down", again=True), NotSent("down", again=True))
    sender = Sender([wire], retry_seconds=0)
    for event in (OPENED, Paused(NOON), PASSED):
        sender.tell(event)
    sender.close(SECONDS)
    assert (wire.tries, wire.sent) == (2, [])
    assert len(sender.pop_warnings()) == 1


def test_what_a_server_answers_that_stays_away_is_told(hook: Hook) -> None:
    hook.answer = 503
    sender = Sender([WebHook(f"{hook.url}/s3cr3t")], retry_seconds=0)
    sender.tell(OPENED)
    sender.tell(PASSED)
    sender.close(SECONDS)
    (warning,) = sender.pop_warnings()
    assert warning.startswith("no notice by webhook: the server answered 503; ")
    assert "s3cr3t" not in warning


def test_a_slow_channel_keeps_neither_the_run_nor_another_channel_waiting() -> None:
    slow, quick = Wire(), Wire()
    slow.name = "slow"
    slow.go_on.clear()
    sender = Sender([slow, quick])
    sender.tell(OPENED)
    sender.tell(Paused(NOON))
    sender.tell(PASSED)
    for _ in range(2):
        assert quick.arrived.acquire(timeout=SECONDS)
    assert slow.begun.wait(SECONDS)
    assert slow.sent == []
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


def test_no_channel_keeps_a_program_from_ending() -> None:
    """A server that does not answer is waited for by a thread that ends with the process."""
    slow = Wire()
    slow.go_on.clear()
    sender = Sender([slow])
    sender.tell(OPENED)
    sender.tell(PASSED)
    assert slow.begun.wait(SECONDS)
    threads = [one for one in threading.enumerate() if one.name == "notices by wire"]
    sender.close(0.0)
    assert [one.daemon for one in threads] == [True]


def test_what_waits_for_a_channel_is_bounded() -> None:
    wire = Wire()
    wire.go_on.clear()
    sender = Sender([wire])
    sender.tell(OPENED)
    sender.tell(Paused(NOON))
    assert wire.begun.wait(SECONDS)
    for _ in range(MOST_WAITING + 3):
        sender.tell(Paused(NOON))
    assert [warning.partition(";")[0] for warning in sender.pop_warnings()] == [
        "no notice by wire: too many wait already"
    ]
    wire.go_on.set()
    sender.close(SECONDS)
    assert len(wire.sent) == MOST_WAITING + 1


def test_a_run_that_tells_nothing_starts_no_thread() -> None:
    before = threading.active_count()
    sender = Sender([Wire()])
    sender.tell(OPENED)
    assert threading.active_count() == before
    sender.close(SECONDS)
