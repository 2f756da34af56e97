"""The program itself, seen byte by byte: keys, signals, events, files, exit codes.

How it misbehaves is also seen in tests/terminals and tests/e2e, which count on it.
"""

import os
import signal
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from cli_agent_orchestrator.scripted_agent.agent import REFUSED_ANSWER
from tests.scripted_agent.driving import (
    PtyAgent,
    event_names,
    eventually,
    read_events,
)

Start = Callable[..., PtyAgent]
Play = Callable[..., PtyAgent]

OVER = "▣ turn {} over"
WORKS_LONG = "[[rule]]\nturn = 1\nseconds = 1000"


def answer_of(agent: PtyAgent) -> str:
    agent.wait_for_event("Stop")
    return str(read_events(agent.folder)[-1]["message"])


def test_a_turn_is_told_by_title_and_events(started: Start) -> None:
    agent = started("[[rule]]\nseconds = 0.3\nanswer = 'done it'")
    agent.send("go")
    agent.wait_for(OVER.format(1))
    agent.wait_for_event("Stop")
    titles = [part.split("\x07")[0] for part in agent.received.split("\x1b]2;")[1:]]
    assert titles[0] == titles[-1] == "scripted"
    assert len({title for title in titles if title.endswith(" scripted")}) > 1
    assert read_events(agent.folder) == [
        {"event": "SessionStart"},
        {"event": "UserPromptSubmit"},
        {"event": "Stop", "message": "done it"},
    ]


def test_signals_can_be_switched_off(started: Start) -> None:
    agent = started("title = false\nevents = false")
    agent.send("go")
    agent.wait_for(OVER.format(1))
    assert "\x1b]" not in agent.received
    assert event_names(agent.folder) == []


def test_a_message_arrives_byte_for_byte(started: Start) -> None:
    agent = started()
    agent.type(b"\r  \x15\r")  # an empty one is not taken
    agent.paste("two\r\nlines\tgrüße 漢字 ")
    agent.type(b" writf\x7fe\r")
    message = "two\r\nlines\tgrüße 漢字  write"
    data = message.encode()
    assert answer_of(agent) == (
        f"Received {len(message)} characters, {len(data)} bytes.\nsha256 {sha256(data).hexdigest()}"
    )


@pytest.mark.parametrize("data", [b"/exit\r", b"text\x03\x04"])
def test_the_agent_quits_when_asked_to(started: Start, data: bytes) -> None:
    agent = started()
    agent.type(data)
    assert agent.wait_for_end() == 0
    assert event_names(agent.folder) == ["SessionStart", "SessionEnd"]
    assert agent.received.endswith("\x1b[?2004l")


def test_a_signal_ends_the_agent(play: Play) -> None:
    agent = play("misbehave = { hang = true }")
    agent.wait_for("working")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait_for_end() == 128 + signal.SIGTERM
    assert event_names(agent.folder)[-1] == "SessionEnd"


def test_escape_stops_a_turn_fires_no_event_and_lets_the_next_message_have_its_turn(
    started: Start,
) -> None:
    agent = started(WORKS_LONG)
    agent.send("first")
    agent.wait_for("working")
    agent.send("second")
    agent.wait_for("1 waiting")
    agent.type(b"\x1b")
    agent.wait_for("▢ turn 1 stopped")
    agent.wait_for(OVER.format(2))
    agent.wait_for_event("Stop")
    assert event_names(agent.folder)[:3] == ["SessionStart", "UserPromptSubmit", "UserPromptSubmit"]


def test_escape_ends_a_command_and_what_it_started(play: Play, tmp_path: Path) -> None:
    command = "import os, time; open('pid', 'w').write(f'{os.getpid()}.'); time.sleep(999)"
    agent = play(f'run = [["{{python}}", "-c", "{command}"]]')
    pid_file = tmp_path / "pid"
    eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("."), "it runs")
    agent.type(b"\x1b")
    agent.wait_for("▢ turn 1 stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text().rstrip(".")), 0)


def test_commands_really_run_without_a_shell_and_their_output_is_in_the_answer(play: Play) -> None:
    fails = "import os, sys; os.write(1, b'to stdout;'); os.write(2, b'to stderr;'); sys.exit(3)"
    echoes = "import sys; print(sys.argv[1], len(sys.stdin.read()))"
    agent = play(
        f'run = [["{{python}}", "-c", "{fails}"], ["{{python}}", "-c", "{echoes}", "$HOME; `id`"]]',
        'answer = "RESULT: {result} {exit_code}\\n{output}"',
    )
    assert answer_of(agent) == "RESULT: FAIL 3\nto stdout;to stderr;$HOME; `id` 0"
    assert event_names(agent.folder).count("PostToolUse") == 2


def test_files_are_written_and_changed_and_what_was_changed_before_is_no_error(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "old.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "done.py").write_text("a = 1 + 1\nb = 4\n")
    agent = play(
        'write = [{ path = "new/deep.py", content = "x" },',
        '{ path = "old.py", old = "= 1", new = "= 2" },',
        '{ path = "done.py", old = "= 1", new = "= 1 + 1" },',
        '{ path = "done.py", old = "= 3", new = "= 4" }]',
    )
    answer_of(agent)
    assert (tmp_path / "new" / "deep.py").read_text() == "x"
    assert (tmp_path / "old.py").read_text() == "a = 2\nb = 2\n"
    assert (tmp_path / "done.py").read_text() == "a = 1 + 1\nb = 4\n"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ('{ path = "missing.py", old = "a", new = "b" }', "missing.py cannot be changed"),
        ('{ path = "other.py", old = "a", new = "b" }', "other.py does not contain the text"),
        ('{ path = "way/out.txt", content = "x" }', "way/out.txt leads out of the working direct"),
        ('{ path = "../x", content = "x" }', "../x leads out of the working directory"),
    ],
)
def test_a_change_that_cannot_be_made_fails_the_turn(
    play: Play, tmp_path: Path, write: str, message: str
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "way").symlink_to(outside)
    (tmp_path / "other.py").write_text("x")
    agent = play(f"write = [{write}]")
    agent.wait_for_event("StopFailure")
    assert read_events(tmp_path)[-1]["message"].startswith(message)
    assert not (tmp_path / "response.md").exists()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(b"\x1b[B\x1b[A\r", "done"), (b"n", REFUSED_ANSWER), (b"\x03", REFUSED_ANSWER)],
)
def test_an_agent_goes_on_only_when_it_is_permitted(
    play: Play, tmp_path: Path, keys: bytes, answer: str
) -> None:
    agent = play("answer = 'done'", "misbehave = { ask = 'run make' }")
    agent.wait_for("1. Yes")
    agent.paste("2")  # a paste is no key
    agent.type(keys)
    assert answer_of(agent) == answer
    assert event_names(tmp_path)[2:] == ["PermissionRequest", "PostToolUse", "Stop"]
    assert (tmp_path / "response.md").exists() is (answer == "done")
