"""The program itself, seen byte by byte: keys, signals, events, files, exit codes."""

import os
import signal
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.scripted_agent.driving import (
    PtyAgent,
    event_names,
    eventually,
    read_events,
)

Start = Callable[..., PtyAgent]

READY = "▢ ready"
OVER = "▣ turn {} over"


def started(on_pty: Start, script: str | None = "", profile: str = "programmer") -> PtyAgent:
    agent = on_pty(script, profile)
    agent.wait_for("scripted ❯")
    return agent


def rule(*lines: str) -> str:
    return "\n".join(["[[rule]]", *lines])


def test_a_turn_is_told_by_title_and_events(on_pty: Start) -> None:
    agent = started(on_pty, rule("seconds = 0.3", "answer = 'done it'"))
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


def test_signals_can_be_switched_off(on_pty: Start) -> None:
    agent = started(on_pty, "title = false\nevents = false")
    agent.send("go")
    agent.wait_for(OVER.format(1))
    assert "\x1b]" not in agent.received
    assert event_names(agent.folder) == []


def test_the_stream_tells_the_state_when_the_script_says_so(on_pty: Start) -> None:
    agent = started(
        on_pty, "stream_state = true\n" + rule("turn = 1", "misbehave = { ask = 'run it' }")
    )
    agent.send("go")
    agent.wait_for("1. Yes")
    agent.type(b"1")
    agent.wait_for(OVER.format(1))
    states = [part.split("\x07")[0] for part in agent.received.split("\x1b]7501;")[1:]]
    assert states == [
        "state=idle:app=scripted",
        "state=working:app=scripted",
        "state=blocked:app=scripted:kind=permission",
        "state=working:app=scripted",
        "state=done:app=scripted",
    ]


@pytest.mark.parametrize(
    "message",
    ["two\nlines\tgrüße 漢字 🎉  ", "a\r\nb"],
    ids=["lines", "crlf"],
)
def test_a_message_arrives_byte_for_byte(on_pty: Start, message: str) -> None:
    agent = started(on_pty)
    agent.send(message)
    agent.wait_for_event("Stop")
    data = message.encode()
    assert read_events(agent.folder)[-1]["message"] == (
        f"Received {len(message)} characters, {len(data)} bytes.\nsha256 {sha256(data).hexdigest()}"
    )


def test_what_was_typed_can_be_taken_back(on_pty: Start) -> None:
    agent = started(on_pty)
    agent.type(b"wrong\x15writf\x7fe\r")
    agent.wait_for_event("Stop")
    assert sha256(b"write").hexdigest() in read_events(agent.folder)[-1]["message"]


def test_control_c_empties_the_box_before_it_quits(on_pty: Start) -> None:
    agent = started(on_pty)
    agent.type(b"wrong\x03\x03")
    agent.wait_for("Ctrl-C once more quits")
    agent.type(b"\x03")
    assert agent.wait_for_end() == 0


@pytest.mark.parametrize("data", [b"/exit\r", b"\x04", b"text\x15\x04"])
def test_the_agent_quits_when_asked_to(on_pty: Start, data: bytes) -> None:
    agent = started(on_pty)
    agent.type(data)
    assert agent.wait_for_end() == 0
    assert event_names(agent.folder) == ["SessionStart", "SessionEnd"]
    assert agent.received.endswith("\x1b[?2004l")


def test_an_empty_message_is_not_taken(on_pty: Start) -> None:
    agent = started(on_pty)
    agent.type(b"\r  \r")
    agent.type(b"real\r")
    agent.wait_for_event("Stop")
    assert event_names(agent.folder).count("UserPromptSubmit") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_ends_the_agent(on_pty: Start, number: signal.Signals) -> None:
    agent = started(on_pty, rule("misbehave = { hang = true }"))
    agent.send("go")
    agent.wait_for("working")
    agent.signal(number)
    assert agent.wait_for_end() == 128 + number
    assert event_names(agent.folder)[-1] == "SessionEnd"


def test_the_end_is_not_told_to_a_server_that_has_taken_the_file_away(on_pty: Start) -> None:
    agent = started(on_pty)
    (events,) = agent.folder.glob("*.jsonl")
    events.unlink()
    agent.signal(signal.SIGHUP)
    assert agent.wait_for_end() == 128 + signal.SIGHUP
    assert not events.exists()


def test_escape_stops_a_turn_and_fires_no_event(on_pty: Start) -> None:
    agent = started(on_pty, rule("turn = 1", "seconds = 1000"))
    agent.send("go")
    agent.wait_for("working")
    agent.type(b"\x1b")
    agent.wait_for("▢ turn 1 stopped")
    agent.send("again")
    agent.wait_for_event("Stop")
    assert event_names(agent.folder)[:3] == ["SessionStart", "UserPromptSubmit", "UserPromptSubmit"]


def test_escape_ends_a_command_and_what_it_started(on_pty: Start, tmp_path: Path) -> None:
    command = "import os, time; open('pid', 'w').write(f'{os.getpid()}.'); time.sleep(999)"
    agent = started(on_pty, rule(f'run = [["{{python}}", "-c", "{command}"]]'))
    agent.send("go")
    pid_file = tmp_path / "pid"
    eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("."), "it runs")
    agent.type(b"\x1b")
    agent.wait_for("▢ turn 1 stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text().rstrip(".")), 0)


def test_a_message_sent_to_a_busy_agent_waits_for_its_turn(on_pty: Start) -> None:
    agent = started(on_pty, rule("turn = 1", "seconds = 1000"))
    agent.send("first")
    agent.wait_for("working")
    agent.send("second")
    agent.wait_for("1 waiting")
    agent.type(b"\x1b")
    agent.wait_for(OVER.format(2))


def test_the_box_follows_the_width_of_the_terminal(on_pty: Start) -> None:
    agent = started(on_pty)
    agent.type(b"y" * 150)
    agent.wait_for("…" + "y" * 107)
    agent.resize(60)
    agent.signal(signal.SIGWINCH)
    agent.wait_for("…" + "y" * 47 + "\x1b")
