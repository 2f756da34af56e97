"""How a run is shown: lines, JSON, and the live view of a terminal."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from rich.console import Console

from cli_agent_orchestrator.cli.live import LiveView, Recall
from cli_agent_orchestrator.cli.narration import (
    RESUME_BY_ID,
    UNFINISHED,
    Narration,
    Tone,
    beside_time,
    unfinished_words,
)
from cli_agent_orchestrator.cli.run import JsonView, PlainView
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import NotSteerable
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    AskDeclined,
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from cli_agent_orchestrator.notices.decide import Noticing, read_notice_settings
from cli_agent_orchestrator.pipeline.machine import (
    Approved,
    CyclesUsedUp,
    Delivered,
    Failed,
    Outcome,
    Passed,
    RoundsUsedUp,
    SentBack,
)
from cli_agent_orchestrator.pipeline.review import (
    ReviewAnswer,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
)
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, Turn
from cli_agent_orchestrator.pipeline.steering import Wish
from cli_agent_orchestrator.runs.loop import turn_ended
from cli_agent_orchestrator.settings.config import tmux_socket
from tests.notices.test_sending import raise_fault

SERVER = ServerChosen(1_700_000_000.0, "http://127.0.0.1:5000", "named", named=True)
NAME = "20261115-084037-k3f9"
NOON = 1_700_000_000.0
TURN = Turn("analyst_review", 1, 2)
BEGAN = TurnBegan(NOON, "analyst_review", 1, 2, 4, "0badcafe", "codex")
STARTING = AgentsStarting(NOON, {"analyst": "codex", "tester": "claude_code"})
STARTED = AgentStarted(NOON, "tester", "t1")
RUN_BEGAN = RunBegan(
    NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/p/.tmp/20250131-120000"
)

ANEW = "The run is saved, and its agents are ended. `cao resume k3f9` resumes it with new ones"


def handoff(kind: EventKind, text: str = "", status: TerminalStatus | None = None) -> HandoffEvent:
    return HandoffEvent(NOON, kind, "0badcafe", "analyst_review", text, status)


def delayed(text: str, seconds: float) -> HandoffEvent:
    return replace(handoff(EventKind.DELAYED, text), since=NOON - seconds)


def ended(outcome: Outcome) -> TurnEnded:
    archive = "/p/.tmp/20250131-120000/004-analyst_review.md"
    return turn_ended(NOON, Dispatch(TURN, "key", 4), outcome, 75.0, archive)


def told(*events: RunEvent) -> str:
    """Return what people are told of the last event."""
    narration = Narration(Path("/p"))
    lines = [narration.tell(event) for event in events]
    assert lines[-1] is not None
    return lines[-1].text


class TestWords:
    def test_what_is_started_is_told_before_it_is_there_and_counted_after(self) -> None:
        assert told(STARTING) == "Starting analyst (codex), tester (claude_code) ..."
        assert told(STARTING, STARTED) == "tester has started, 1 of 2"

    def test_agents_that_are_started_again_are_counted_anew(self) -> None:
        assert told(STARTING, STARTED, STARTING, STARTED) == "tester has started, 1 of 2"

    def test_a_delayed_delivery_says_for_how_long_and_why(self) -> None:
        assert told(BEGAN, delayed("its input box holds text", 40)) == (
            "Round 1, cycle 2, analyst_review: message not delivered for 40.0 s: "
            "its input box holds text"
        )

    def test_the_end_of_a_delay_is_told(self) -> None:
        done = handoff(EventKind.DISPATCHED)
        assert told(BEGAN, delayed("busy", 5), done).endswith("has its message now")
        narration = Narration(Path("/p"))
        lines = [narration.tell(event) for event in (BEGAN, delayed("busy", 5), BEGAN, done)]
        assert lines[-1] is None

    def test_the_beginning_says_who_and_where(self) -> None:
        assert told(RUN_BEGAN) == (
            "The run begins with one agent (codex) in session cao-1. "
            "Everything is kept in .tmp/20250131-120000"
        )

    def test_the_beginning_says_what_the_agents_may_do(self) -> None:
        began = replace(RUN_BEGAN, permissions="full")
        assert "one agent (codex; permissions: full) in session" in told(began)

    def test_a_turn_is_named_by_round_cycle_and_role(self) -> None:
        assert told(BEGAN) == "Round 1, cycle 2, analyst_review begins (codex)"

    def test_a_gate_is_named_by_round_and_stage(self) -> None:
        began = CheckBegan(NOON, "gate", 2, 9, "make test")
        ended = CheckEnded(
            NOON, "gate", 2, 9, "failed", "FAIL; exit code 1", 75.0, "/a/009-gate.md"
        )
        assert told(began) == "Round 2, gate begins: make test"
        assert told(ended) == "Round 2, gate: FAIL; exit code 1  [1 min 15 s, 009-gate.md]"

    def test_a_pause_and_its_end_are_told(self) -> None:
        assert told(Paused(NOON)) == "The run is paused"
        assert told(Unpaused(NOON)) == "The run goes on"

    def test_the_reason_why_an_approval_does_not_count_is_told(self) -> None:
        obstacles = ("cycle 1 is too early", "missing: handoff, artifacts")
        verdict = ReviewVerdict(ReviewAnswer.APPROVED, obstacles)
        text = told(ended(SentBack(verdict, 2)))
        assert "APPROVED does not count" in text
        assert "too early" in text
        assert "missing: handoff, artifacts" in text
        assert "1 min 15 s, 004-analyst_review.md" in text

    @pytest.mark.parametrize("command", ["cao resume k3f9 --replace-terminals", ""])
    def test_a_run_that_has_to_be_resumed_in_a_special_way_says_how(self, command: str) -> None:
        narration = Narration(Path("/p"))
        narration.tell(RunOpened(NOON, NAME, "/p"))
        reason = "an agent said “`cao resume k3f9 --evil`”; `cao resume k3f9 --other`"
        event = RunEnded(NOON, FinalStatus.RUNNING, 2, 3, reason, session_left="cao-1")
        line = narration.tell(replace(event, to_resume=command))
        assert line is not None
        assert ("same command again" in line.text) is not bool(command)
        assert line.text.startswith(f"The run is saved. `{command}` resumes it" if command else "")

    def test_the_reason_for_more_work_is_told_in_the_agents_own_words(self) -> None:
        failed = replace(ended(Failed(TestVerdict(TestAnswer.FAIL), 2)), reason="2 tests fail")
        assert "FAIL; round 2 follows “2 tests fail”  [1 min 15 s" in told(failed)

    def test_the_beginning_says_how_many_rounds_there_may_be(self) -> None:
        assert "Up to 8 rounds. Everything" in told(replace(RUN_BEGAN, max_rounds=8))
        assert "Up to 1 round. Everything" in told(replace(RUN_BEGAN, max_rounds=1))

    @pytest.mark.parametrize(
        ("outcome", "tone"),
        [
            (Delivered(), Tone.PLAIN),
            (Approved(ReviewVerdict(ReviewAnswer.APPROVED)), Tone.GOOD),
            (CyclesUsedUp(ReviewVerdict(ReviewAnswer.REVISE), 3), Tone.ALERT),
            (Passed(), Tone.GOOD),
            (Failed(TestVerdict(TestAnswer.FAIL), 2), Tone.BAD),
            (RoundsUsedUp(TestVerdict(TestAnswer.MISSING), 8), Tone.BAD),
        ],
    )
    def test_every_outcome_has_its_tone(self, outcome: Outcome, tone: Tone) -> None:
        line = Narration(Path("/p")).tell(ended(outcome))
        assert line is not None
        assert line.tone is tone

    def test_a_waiting_agent_is_told_at_once_with_the_command(self) -> None:
        asks = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
        assert told(BEGAN, asks).endswith("asks you\n  Look and answer: cao attach 0badcafe")
        asks = replace(asks, question="May I run make?")
        told_all = told(RunOpened(NOON, "20261115-084037-k3f9", "/p"), BEGAN, asks)
        assert "asks you: May I run make?\n" in told_all
        assert told_all.endswith(
            "\n  See the choices: cao answer k3f9\n  Press a key:     cao answer k3f9 KEY"
        )

    def test_an_answered_agent_goes_on(self) -> None:
        asks = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
        works = handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING)
        assert told(BEGAN, asks, works).endswith("analyst_review goes on")

    @pytest.mark.parametrize(
        "event",
        [
            handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING),
            handoff(EventKind.DISPATCHED),
            handoff(EventKind.FILE_SEEN, "/x"),
            handoff(EventKind.ACCEPTED, "/x"),
            handoff(EventKind.ACTION, "Bash: make test"),
        ],
    )
    def test_what_every_turn_has_is_not_worth_a_line(self, event: HandoffEvent) -> None:
        assert Narration(Path("/p")).tell(event) is None

    def test_while_it_waits_the_same_status_is_no_news(self) -> None:
        narration = Narration(Path("/p"))
        narration.tell(handoff(EventKind.WAITING_FOR_PERSON, "cao attach x"))
        status = handoff(EventKind.STATUS, status=TerminalStatus.WAITING_USER_ANSWER)
        assert narration.tell(status) is None

    @pytest.mark.parametrize(
        ("event", "words"),
        [
            (handoff(EventKind.RESUMED), "already has the prompt"),
            (handoff(EventKind.REMINDED, "reminder 1 of 1"), "reminder 1 of 1"),
            (handoff(EventKind.WARNING, "odd bytes"), "odd bytes"),
            (
                replace(handoff(EventKind.FILE_AWAITED, "it is reminded"), until=NOON + 30),
                "is at rest without its file; it is reminded in 30.0 s if it does not come",
            ),
            (handoff(EventKind.STREAM_LOST, "asking every 2 s"), "asking every 2 s"),
            (handoff(EventKind.STREAM_BACK, "is back"), "analyst_review: is back"),
            (Warned(NOON, "no approval can count"), "Warning: no approval can count"),
            (
                AskDeclined(NOON, "pause", "the run is paused already"),
                "`pause` changes nothing: the run is paused already",
            ),
            (RunEnded(NOON, FinalStatus.PASS, 1, 0), "PASS after 1 round"),
            (RunEnded(NOON, FinalStatus.FAIL, 2, 1), "FAIL after 2 rounds"),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0, proof="x", proven=True),
                "PASS, proven, after 2 rounds",
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0, proof="x", gaps="it is not"),
                "PASS, not proven: it is not; after 2 rounds",
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0, proof="proven: as it was told once"),
                "PASS, proven: as it was told once; after 2 rounds",
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0, proof="x", proven=True, look_at="1 change"),
                "PASS, proven, after 2 rounds\nLook at 1 change",
            ),
            (
                RunEnded(
                    NOON,
                    FinalStatus.PASS,
                    2,
                    0,
                    proof="x",
                    proven=True,
                    look_at="1 change",
                    before="2",
                ),
                "PASS, proven, after 2 rounds\nLook at 1 change\n"
                "Before the run and not committed: 2",
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0, proof="x", gaps="no", before="2 changes"),
                "PASS, not proven: no; after 2 rounds\nBefore the run and not committed: 2 changes",
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 1, 0, repository=("x was changed", "y")),
                "PASS after 1 round\nLook first: x was changed\nLook first: y",
            ),
            (
                FilesChanged(NOON, "tester", 1, 3, ("a", "b"), 3, 1, 2, allowed=False),
                "tester changed 3 files, which is not its task: a, b and 1 more",
            ),
            (
                CheckBegan(NOON, "tests", 1, 1, "make test", "base"),
                "Round 1, tests on the base begins: make test",
            ),
            (
                CheckBegan(NOON, "tests", 1, 5, "make test", "after_programmer"),
                "Round 1, tests after the programmer begins: make test",
            ),
            (
                CheckBegan(NOON, "ok", 1, 5, "true", "after_programmer", "designer"),
                "Round 1, ok after the designer begins: true",
            ),
            (RunEnded(NOON, FinalStatus.RUNNING, 2, 130, "signal"), "The run is saved"),
            (RunEnded(NOON, FinalStatus.RUNNING, 0, 2, "no task"), "Nothing was started"),
            (
                RunEnded(NOON, FinalStatus.PASS, 1, 0, session_left="cao-1"),
                "PASS after 1 round\nIts agents stay. To end them: cao stop --session cao-1",
            ),
            (
                RunEnded(NOON, FinalStatus.RUNNING, 1, 130, "signal", session_left="cao-1"),
                ". Its agents stay: `cao ls` lists them, `cao stop --session cao-1` ends them",
            ),
        ],
    )
    def test_everything_else_has_its_words(self, event: RunEvent, words: str) -> None:
        assert words in told(event)

    @pytest.mark.parametrize(
        ("unfinished", "words"),
        [
            (UNFINISHED, ANEW),
            (unfinished_words(resume=False), ANEW),
            (RESUME_BY_ID, ANEW),
            ("The demo was stopped", "The demo was stopped"),
        ],
    )
    def test_a_run_whose_agents_are_ended_goes_on_with_new_ones(
        self, unfinished: str, words: str
    ) -> None:
        narration = Narration(Path("/p"), "", unfinished)
        narration.tell(RunOpened(NOON, "20261115-084037-k3f9", "/p"))
        line = narration.tell(RunEnded(NOON, FinalStatus.RUNNING, 2, 143, "signal"))
        assert line is not None
        assert line.text == words

    def test_a_proven_pass_in_a_work_tree_ends_with_a_whole_command_on_each_line(self) -> None:
        run = "20261115-084037-k3f9"
        narration = Narration(Path("/p"), "cao report {id}")
        narration.tell(RunOpened(NOON, run, "/p"))
        event = RunEnded(NOON, FinalStatus.PASS, 8, 0, "", f"cao-{run}", f"cao/{run}", "x")
        doubts = "2 changes to tests or settings"
        line = narration.tell(replace(event, proven=True, look_at=doubts))
        assert line is not None
        assert line.text.split("\n") == [
            f"PASS, proven, after 8 rounds, on branch cao/{run}",
            "Look at 2 changes to tests or settings: cao report k3f9",
            "  See it on one page:        cao report k3f9",
            "  Bring it into your branch: cao apply k3f9",
            "  Open a pull request:       cao pr k3f9",
            "  Remove it:                 cao discard k3f9",
            "  End its agents, who stay:  cao stop k3f9",
        ]
        shown = f"12:00:00  {beside_time(line.text)}".split("\n")
        assert max(map(len, shown)) <= 80

    @pytest.mark.parametrize(
        ("step", "words"),
        [
            (
                CheckEnded(
                    NOON, "tests", 2, 9, "rounds_used_up",
                    "FAIL", 1.0, "/9",
                    why="`make test` ended with exit code 1",
                ),
                "tests: `make test` ended with exit code 1",
            ),
            (
                replace(
                    ended(RoundsUsedUp(TestVerdict(TestAnswer.FAIL), 2)), reason="It is\n12 short."
                ),
                "analyst_review: “It is�12 short.”",
            ),
            (ended(RoundsUsedUp(TestVerdict(TestAnswer.FAIL), 1)), "analyst_review: FAIL"),
        ],
    )  # fmt: skip
    def test_a_fail_says_why(self, step: RunEvent, words: str) -> None:
        narration = Narration(Path("/p"), "cao report")
        narration.tell(step)
        line = narration.tell(RunEnded(NOON, FinalStatus.FAIL, 2, 1))
        assert line is not None
        assert line.text == f"FAIL after 2 rounds (cao report says more)\n{words}"

    @pytest.mark.parametrize(
        ("resume", "words"),
        [
            (None, "Run the same command again to resume"),
            (True, "Run the same command again to resume"),
            (
                False,
                "Run the same command again, with --resume instead of --no-resume, to resume",
            ),
        ],
    )
    def test_a_run_that_was_stopped_names_the_command_that_really_goes_on(
        self, resume: bool | None, words: str
    ) -> None:
        assert unfinished_words(resume) == f"The run is saved. {words}"


class Shown:
    """A live view, and what it has written."""

    def __init__(self, recall: Recall | None = None) -> None:
        self._written = io.StringIO()
        console = Console(file=self._written, force_terminal=True, width=100, height=40)
        self.view = LiveView(Narration(Path("/p")), console, refresh_seconds=0.01, recall=recall)

    def __enter__(self) -> Self:
        self.view.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.view.__exit__(*raised)

    @property
    def text(self) -> str:
        """All of it, without colors."""
        return re.sub(r"\x1b\[[\d;]*m", "", self._written.getvalue())

    def until(self, words: str, times: int = 1) -> None:
        """Wait until something has been written; the picture is drawn again all the time."""
        deadline = time.monotonic() + 60
        while self.text.count(words) < times:
            assert time.monotonic() < deadline, self.text[-2000:]
            time.sleep(0.01)


class Closing(io.StringIO):
    """A terminal that is closed after the first thing is written."""

    def write(self, text: str) -> int:
        if self.tell():
            raise OSError(errno.EIO, "it is gone")
        return super().write(text)


KEYS_ARE_READ = b"\x1b[?2004h"
"""What is sent to a terminal whose keys are read: mark what is pasted."""


class TestViews:
    def test_plain_lines_have_the_time(self, capsys: pytest.CaptureFixture[str]) -> None:
        with PlainView(Path("/p")) as view:
            view.tell(SERVER)
            view.tell(BEGAN)
            view.tell(handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe"))
            view.tell(handoff(EventKind.DISPATCHED))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 4
        assert lines[1][8:] == "  Round 1, cycle 2, analyst_review begins (codex)"
        assert lines[3].endswith("CAO_API=http://127.0.0.1:5000 cao attach 0badcafe")

    @pytest.mark.parametrize(
        ("event", "fields"),
        [
            (BEGAN, {"type": "turn_began", "role": "analyst_review", "round": 1, "cycle": 2}),
            (RUN_BEGAN, {"type": "run_began", "session_name": "cao-1", "replaced": []}),
            (
                ended(Failed(TestVerdict(TestAnswer.FAIL), 2)),
                {"type": "turn_ended", "outcome": "failed", "detail": "FAIL; round 2 follows"},
            ),
            (
                handoff(EventKind.STATUS, status=TerminalStatus.IDLE),
                {"type": "status", "status": "idle", "terminal_id": "0badcafe"},
            ),
            (Warned(NOON, "odd"), {"type": "run_warning", "text": "odd"}),
            (STARTING, {"type": "agents_starting", "providers": dict(STARTING.providers)}),
            (STARTED, {"type": "agent_started", "role": "tester", "terminal_id": "t1"}),
            (
                delayed("busy", 40),
                {"type": "delayed", "text": "busy", "since": NOON - 40, "role": "analyst_review"},
            ),
            (
                RunEnded(NOON, FinalStatus.PASS, 2, 0),
                {"type": "run_ended", "final_status": "PASS", "exit_code": 0},
            ),
        ],
    )
    def test_json_has_an_object_for_every_event(
        self, capsys: pytest.CaptureFixture[str], event: RunEvent, fields: dict[str, object]
    ) -> None:
        with JsonView() as view:
            view.tell(event)
        (line,) = capsys.readouterr().out.splitlines()
        found = json.loads(line)
        assert found["at"] == NOON
        assert {name: found[name] for name in fields} == fields

    def test_a_terminal_shows_lines_and_the_run_as_it_is_below_them(self) -> None:
        with Shown() as shown:
            shown.view.tell(RUN_BEGAN)
            shown.view.tell(BEGAN)
            shown.view.tell(handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING))
            shown.until("working")
            shown.view.tell(ended(Passed()))
        assert "The run begins" in shown.text
        assert "▶ Round 1, cycle 2   total" in shown.text
        assert "PASS" in shown.text

    def test_a_terminal_breaks_long_lines_at_words_below_the_text(self) -> None:
        with Shown() as shown:
            shown.view.tell(Warned(NOON, "word " * 30 + "done"))
        rows = [re.sub(r"\x1b\[\d*[A-Z]", "", row).rstrip() for row in shown.text.split("\r\n")]
        first = next(row for row in rows if "Warning" in row)
        assert first.endswith("Warning: " + "word " * 15 + "word")
        assert "          " + "word " * 14 + "done" in rows

    @pytest.mark.parametrize("columns", [40, 60, 0])
    def test_plain_lines_are_broken_at_words_on_a_terminal_alone(self, columns: int) -> None:
        code = (
            "import pathlib, cli_agent_orchestrator.cli.run as progress\n"
            "from cli_agent_orchestrator.events import Warned\n"
            "progress.PlainView(pathlib.Path('/p')).tell(Warned(0, 'word ' * 30 + 'done'))"
        )
        ours, theirs = os.openpty()
        try:
            termios.tcsetwinsize(theirs, (24, columns))
            # What an outer terminal has left there says nothing about this one.
            env = {**os.environ, "COLUMNS": "99"}
            command = [sys.executable, "-c", code]
            subprocess.run(command, env=env, stdout=theirs, check=True, timeout=60)
            shown = os.read(ours, 1000).decode().splitlines()
            piped = subprocess.run(command, env=env, capture_output=True, check=True, timeout=60)
        finally:
            os.close(ours)
            os.close(theirs)
        assert len(piped.stdout.splitlines()) == 1
        assert (len(shown) > 1) is (columns > 0)
        assert all(row.startswith(" " * 10 + "word ") for row in shown[1:])
        assert not columns or max(map(len, shown)) <= columns

    def test_a_run_that_is_resumed_shows_why_it_was_sent_back_before(self) -> None:
        opened = RunOpened(NOON, "k3f9", "/p", seq=1)
        failed = replace(ended(Failed(TestVerdict(TestAnswer.FAIL), 2)), reason="12 short", seq=2)
        resumed = RunOpened(NOON + 60, "k3f9", "/p", resumed=True, seq=3)
        later = Warned(NOON + 61, "not yet told", seq=4)
        asked = []

        def recall(run: str) -> list[RunEvent]:
            asked.append(run)
            return [opened, failed, resumed, later]

        with Shown(recall) as shown:
            for event in (resumed, RUN_BEGAN, replace(BEGAN, round=2)):
                shown.view.tell(event)
            shown.until("▶ Round 2")
            shown.until("12 short")
        assert asked == ["k3f9"]
        assert shown.text.count("FAIL; round 2 follows") == 0, "it is no line again"

    def test_nothing_that_is_told_can_control_the_terminal(self) -> None:
        with Shown() as shown:
            shown.view.tell(Warned(NOON, "odd \x1b]0;title\x07"))
        assert "]0;title" in shown.text
        assert "\x1b]" not in shown.text

    def test_a_terminal_that_is_resized_afterward_is_no_matter_of_the_view(self) -> None:
        before = signal.getsignal(signal.SIGWINCH)
        with Shown():
            assert signal.getsignal(signal.SIGWINCH) is not before
        assert signal.getsignal(signal.SIGWINCH) is before

    def test_a_terminal_that_is_gone_ends_the_picture_and_nothing_else(self) -> None:
        console = Console(file=Closing(), force_terminal=True, width=100, height=40)
        with LiveView(Narration(Path("/p")), console, refresh_seconds=0.01) as view:
            view._ticker.join(60)
            assert not view._ticker.is_alive()

    def test_what_cannot_be_asked_of_the_run_is_said_and_cannot_control_the_terminal(self) -> None:
        def refuse(run: str, wish: Wish) -> None:
            raise NotSteerable(f"{run}: {type(wish).__name__} \x1b]0;title\x07")

        written = io.StringIO()
        console = Console(file=written, force_terminal=True, width=100, height=40)
        with LiveView(Narration(Path("/p")), console, ask=refuse) as view:
            for event in (RunOpened(NOON, "k3f9", "/p"), RUN_BEGAN, BEGAN):
                view.tell(event)
            view._hear(b"p")
        assert "cao: k3f9: Pause �]0;title" in written.getvalue()

    def test_a_question_rings_the_bell_once(self) -> None:
        asks = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
        now = replace(asks, at=time.time() + 60)
        with Shown() as shown:
            for event in (BEGAN, asks, BEGAN, now, now):
                shown.view.tell(event)
        assert shown.text.count("\a") == 1

    def test_a_fault_in_notices_keeps_the_bell_silent_and_nothing_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Noticing, "hear", raise_fault)
        with Shown() as shown:
            shown.view.tell(Warned(time.time() + 60, "odd"))
        assert "odd" in shown.text
        assert "\a" not in shown.text

    @pytest.mark.parametrize(
        ("settings", "sequences"),
        [
            ({}, ["\a", "\a"]),
            (
                {"terminal": "osc9"},
                [
                    "\x1b]9;shop: needs you: analyst_review asks you\a",
                    "\x1b]9;shop: PASS: It passed in round 1\a",
                ],
            ),
            ({"terminal": "off"}, []),
            ({"events": ["pass"]}, ["\a"]),
        ],
    )
    def test_a_notice_is_told_as_the_user_wants_it(
        self, settings: dict[str, object], sequences: list[str]
    ) -> None:
        asks = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
        now = time.time() + 60
        with Shown() as shown:
            shown.view.notify_by(read_notice_settings(settings))
            shown.view.tell(RunOpened(NOON, "k3f9", "/home/ada/shop"))
            shown.view.tell(replace(asks, at=now))
            shown.view.tell(RunEnded(now, FinalStatus.PASS, 1, 0))
        assert re.findall(r"(?:\x1b\]9;[^\a]*)?\a", shown.text) == sequences

    def test_a_terminal_counts_the_seconds_of_a_delay_and_says_it_once(self) -> None:
        with Shown() as shown:
            shown.view.tell(BEGAN)
            shown.view.tell(delayed("its box\nholds text", 40))
            shown.until("holds text", times=2)
            assert re.search(r"! not delivered for [\d:]+: its box holds text", shown.text)
            shown.view.tell(delayed("its box\nholds text", 120))
            shown.view.tell(handoff(EventKind.DISPATCHED))
            written = shown.text.count("! not delivered")
            shown.view.tell(Warned(NOON, "odd"))
        assert shown.text.count("! not delivered") == written
        assert shown.text.count("message not delivered for") == 1
        assert shown.text.count("has its message now") == 1

    def test_a_terminal_that_does_not_know_its_size_has_the_usual_one(self) -> None:
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "w") as file, os.fdopen(ours, "rb", 0) as reading:
            assert os.get_terminal_size(theirs) == (0, 0)
            console = Console(file=file, force_terminal=True, width=100, height=40)
            with LiveView(Narration(Path("/p")), console) as view:
                view.tell(Warned(NOON, "all of it on a line"))
            file.close()
            shown = b""
            while b"all of it on a line" not in shown:
                shown += reading.read(100_000)  # fails at the end

    def test_a_terminal_of_another_encoding_gets_question_marks(self) -> None:
        output = io.BytesIO()
        file = io.TextIOWrapper(output, encoding="ascii")
        console = Console(file=file, force_terminal=True, width=100)
        with LiveView(Narration(Path("/p")), console) as view:
            view.tell(STARTING)
            view.tell(Warned(NOON, "größer"))
        assert b"Starting 1 of 2" in output.getvalue()
        assert b"gr??er" in output.getvalue()

    @pytest.mark.parametrize("is_agents", [False, True])
    def test_in_an_agents_terminal_no_key_steers(self, tmp_path: Path, is_agents: bool) -> None:
        code = (
            "import fcntl, pathlib, termios\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "from cli_agent_orchestrator.cli.run import choose_view\n"
            f"state = pathlib.Path({str(tmp_path)!r})\n"
            "with choose_view(state, False, '', state_folder=state):\n"
            "    pass\n"
        )
        socket = tmux_socket(tmp_path) if is_agents else "default"
        env = {**os.environ, "TERM": "xterm", "TMUX": f"/tmp/tmux-1000/{socket},4711,0"}
        ours, theirs = os.openpty()
        try:
            os.set_blocking(ours, False)
            subprocess.run(
                [sys.executable, "-c", code],
                env=env,
                stdin=theirs,
                stdout=theirs,
                start_new_session=True,
                check=True,
            )
            assert (KEYS_ARE_READ in os.read(ours, 100_000)) is not is_agents
        finally:
            os.close(ours)
            os.close(theirs)

    @pytest.mark.parametrize(
        ("term", "view"), [("xterm", "LiveView"), ("dumb", "PlainView"), (None, "PlainView")]
    )
    def test_the_live_view_needs_a_terminal_that_can_erase(
        self, term: str | None, view: str
    ) -> None:
        code = (
            "import pathlib, cli_agent_orchestrator.cli.run as progress\n"
            "print(type(progress.choose_view(pathlib.Path('/p'), False, '')).__name__)"
        )
        env = {name: value for name, value in os.environ.items() if name != "TERM"}
        ours, theirs = os.openpty()
        try:
            subprocess.run(
                [sys.executable, "-c", code],
                env=env if term is None else {**env, "TERM": term},
                stdout=theirs,
                check=True,
                timeout=60,
            )
            assert os.read(ours, 1000).decode().strip() == view
        finally:
            os.close(ours)
            os.close(theirs)
