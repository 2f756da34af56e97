"""The scripted agent as the server knows it; its captured screens are in `screens/scripted`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import scripted
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    Permissions,
    SignalKind,
)
from cli_agent_orchestrator.scripted_agent.console import answer_rows
from tests.providers.samples import capture, launch_request


def screen(name: str) -> str:
    return capture(f"scripted/{name}.txt")


def test_it_is_started_as_a_module_that_the_working_directory_cannot_replace() -> None:
    request = launch_request(
        "/venv/bin/python", Permissions.ASK, "--script", "my script.toml", version=(3, 11)
    )
    launch = scripted.launch(request)
    assert launch.argv == (
        "/venv/bin/python",
        "-P",
        "-m",
        "cli_agent_orchestrator.scripted_agent",
        "--profile",
        "tester",
        "--events",
        "/state/x.jsonl",
        "--script",
        "my script.toml",
    )
    assert launch.env == {}


@given(st.lists(st.text(), max_size=30).map("\n".join))
def test_no_answer_changes_the_status(answer: str) -> None:
    rows = ["▌ go", *answer_rows(answer, 120)]
    finished = "\n".join([*rows, "▣ turn 1 over · 0.1s", "scripted ❯ Say what to do, or /exit"])
    busy = "\n".join([*rows, "▖ working · 0s · esc stops", "scripted ❯ Say what to do, or /exit"])
    half_drawn = "\n".join(rows)
    assert scripted.detect_status(finished) is TerminalStatus.COMPLETED
    assert scripted.detect_status(busy) is TerminalStatus.PROCESSING
    assert scripted.detect_status(half_drawn) is TerminalStatus.PROCESSING
    assert scripted.startup_dialog(half_drawn) is None


@pytest.mark.parametrize(
    ("title", "status"),
    [
        ("⠋ scripted", TerminalStatus.PROCESSING),
        ("⠏ scripted", TerminalStatus.PROCESSING),
        ("[ ! ] Action Required", TerminalStatus.WAITING_USER_ANSWER),
        ("scripted", TerminalStatus.IDLE),
        ("my-host", None),
        ("", None),
    ],
)
def test_the_title_says_the_status(title: str, status: TerminalStatus | None) -> None:
    assert scripted.title_status(title) is status


@pytest.mark.parametrize(
    ("name", "title", "status"),
    [
        ("completed/answered", "⠋ scripted", TerminalStatus.PROCESSING),
        ("completed/answered", "[ ! ] Action Required", TerminalStatus.WAITING_USER_ANSWER),
        ("completed/answered", "scripted", TerminalStatus.COMPLETED),
        ("error/usage_limit", "scripted", TerminalStatus.ERROR),
        ("processing/working", "scripted", TerminalStatus.PROCESSING),
        ("idle/started", "my-host", TerminalStatus.IDLE),
    ],
)
def test_a_title_that_says_busy_or_asking_goes_before_the_screen(
    name: str, title: str, status: TerminalStatus
) -> None:
    assert scripted.detect_status(screen(name), title) is status


def test_a_start_up_question_that_may_be_passed_has_its_keys() -> None:
    dialog = scripted.startup_dialog(screen("waiting_user_answer/startup_pass"))
    assert dialog is not None
    assert (dialog.name, dialog.keys) == ("may I work in this folder", ("1",))
    assert "startup_dialog" in dialog.advice


def test_a_start_up_question_for_a_person_has_none() -> None:
    dialog = scripted.startup_dialog(screen("waiting_user_answer/startup_person"))
    assert dialog is not None
    assert (dialog.name, dialog.keys) == ("sign-in", ())
    assert "answer it in the terminal" in dialog.advice


@pytest.mark.parametrize(
    "name", ["waiting_user_answer/permission", "idle/started", "unknown/starting"]
)
def test_what_is_no_start_up_question_is_none(name: str) -> None:
    assert scripted.startup_dialog(screen(name)) is None


def test_a_question_without_its_heading_is_no_start_up_question() -> None:
    assert scripted.startup_dialog("▨ 1 yes · 2 no · Enter takes the marked one") is None


@pytest.mark.parametrize(
    ("ansi", "draft"),
    [
        ("▢ ready\n\x1b[1mscripted ❯\x1b[0m \x1b[2mSay what to do, or /exit\x1b[0m\n\n", ""),
        (
            "▢ ready\n\x1b[1mscripted ❯\x1b[0m Say what to do, or /exit\n",
            "Say what to do, or /exit",
        ),
        ("\x1b[1mscripted ❯\x1b[0m [pasted 12345 chars] and more", "[pasted 12345 chars] and more"),
        ("\x1b[1mscripted ❯\x1b[0m", ""),
        ("▨ 1 yes · 2 no · Enter takes the marked one", None),
        ("│ scripted ❯ quoted", None),
        ("", None),
    ],
)
def test_the_draft_is_what_is_not_dim(ansi: str, draft: str | None) -> None:
    assert scripted.draft(ansi) == draft


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("SessionStart", SignalKind.READY),
        ("UserPromptSubmit", SignalKind.SUBMITTED),
        ("PermissionRequest", SignalKind.WAITING),
        ("PostToolUse", SignalKind.WORKING),
        ("Stop", SignalKind.FINISHED),
        ("StopFailure", SignalKind.FAILED),
        ("SessionEnd", SignalKind.ENDED),
    ],
)
def test_events_are_signals(event: str, kind: SignalKind) -> None:
    assert scripted.read_signal(json.dumps({"event": event})) == AgentSignal(kind, event)


def test_the_end_of_a_turn_carries_the_answer() -> None:
    signal = scripted.read_signal('{"event": "Stop", "message": "one\\ntwo"}')
    assert signal == AgentSignal(SignalKind.FINISHED, "Stop", answer="one\ntwo")


def test_a_failure_says_why() -> None:
    signal = scripted.read_signal('{"event": "StopFailure", "message": "usage limit"}')
    assert signal == AgentSignal(SignalKind.FAILED, "StopFailure: usage limit")


@pytest.mark.parametrize(
    "line",
    ["", "x", "[]", "1", '{"event": "Other"}', '{"event": ["Stop"]}', '{"event"', "[" * 100_000],
)
def test_what_is_no_event_says_nothing(line: str) -> None:
    assert scripted.read_signal(line) is None


def test_the_last_answer_is_that_of_the_last_message() -> None:
    scrollback = "▌ one\n│ first\n▣ turn 1 over · 0s\n▌ two\n∙ ran it\n│ second\n│\n│   end\n"
    assert scripted.last_answer(scrollback) == "second\n\n  end"


def test_there_is_no_answer_before_the_agent_has_said_something() -> None:
    assert scripted.last_answer("▌ one\n│ first\n▣ turn 1 over\n▌ two\n▖ working · 0s") == ""
    assert scripted.last_answer("┆ the rest of a line that is gone\n│ next") == "next"


def test_a_line_that_was_too_long_is_put_together_again() -> None:
    assert scripted.last_answer("▌ one\n│ a lo\n┆ ng line\n│ end") == "a long line\nend"


@pytest.mark.parametrize(
    "row",
    [
        *("▌ go", "│ said", "┆ more", "∙ ran it", "▒▒ scripted agent"),
        *("▖ working", "▘ working", "▝ working", "▗ working"),
    ],
)
def test_a_frame_that_is_half_drawn_is_work(row: str) -> None:
    assert scripted.detect_status(f"▌ go\n{row}") is TerminalStatus.PROCESSING


def test_the_newest_of_several_questions_counts() -> None:
    end = "▨ 1 yes · 2 no · Enter takes the marked one"
    both = f"▨ sign-in needed\n{end}\n▨ start-up question\n{end}"
    dialog = scripted.startup_dialog(both)
    assert dialog is not None
    assert dialog.keys == ("1",)
