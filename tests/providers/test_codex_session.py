"""What Codex is started with, asks, holds in its composer, answered and recorded."""

import json
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import codex
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    LaunchRequest,
    Permissions,
    SignalKind,
)
from tests.providers.samples import capture, launch_request

VERSIONS = ["0.101.0", "0.125.0", "0.166.0"]
COMPOSER = "› Ask Codex to do anything\n\n  gpt-5.1-codex default · /home/me/app\n"


def screen(path: str) -> str:
    return capture(f"codex/{path}")


def dialog(version: str, case: str) -> str:
    return screen(f"waiting_user_answer/{version}-{case}.txt")


@pytest.mark.parametrize(
    ("version", "case", "name", "keys"),
    [
        *((version, "trust_dialog", "trust this folder", ("1",)) for version in VERSIONS),
        *((version, "update_dialog", "update notice", ("2",)) for version in VERSIONS),
        ("0.149.1", "update_dialog", "update notice", ("2",)),
        ("0.101.0", "model_migration_dialog", "new model", ("2",)),
        *((version, "login_dialog", "sign in", ()) for version in VERSIONS),
        *((version, "rate-limit-nudge", "approaching rate limits", ("2",)) for version in VERSIONS),
        ("0.149.1", "hooks_dialog", "review of hooks", ()),
        ("0.166.0", "hooks_dialog", "review of hooks", ()),
    ],
)
def test_a_startup_question_is_passed_by_the_number_of_the_safe_option(
    version: str, case: str, name: str, keys: tuple[str, ...]
) -> None:
    found = codex.startup_dialog(dialog(version, case))
    assert found is not None
    assert (found.name, found.keys) == (name, keys)
    assert found.advice


def test_a_startup_question_with_other_options_is_left_to_a_person() -> None:
    known = dialog("0.101.0", "trust_dialog")
    found = codex.startup_dialog(known.replace("Yes, continue", "Yes, and never ask again"))
    assert found is not None
    assert found.keys == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_question_about_the_work_is_no_startup_question(version: str) -> None:
    assert codex.startup_dialog(dialog(version, "approval_exec")) is None


NUDGE = "  Approaching rate limits\n  Switch to a smaller model?\n"
KEEP = "› 1. Switch\n  2. Keep current model\n"
CONFIRM = "  Press enter to confirm or esc to go back\n"


def test_only_the_notice_about_rate_limits_is_passed_at_any_time() -> None:
    notice = codex.startup_dialog(f"{NUDGE}\n{KEEP}\n{CONFIRM}")
    assert notice is not None
    assert notice.anytime
    trust = codex.startup_dialog(dialog("0.166.0", "trust_dialog"))
    assert trust is not None
    assert not trust.anytime


@pytest.mark.parametrize(
    "answer",
    [NUDGE, f"{NUDGE}\n{KEEP.replace('›', ' ')}", f"{NUDGE}\n\n{KEEP}\n{CONFIRM}\n\n"],
)
def test_no_answer_can_make_a_permission_look_like_that_notice(answer: str) -> None:
    permission = "  Run this?\n\n› 1. Yes\n  2. Yes, and never ask again\n"
    text = f"› go\n\n• Look:\n{answer}\n\n{permission}\n{CONFIRM}"
    assert codex.detect_status(text) is TerminalStatus.WAITING_USER_ANSWER
    assert codex.startup_dialog(text) is None


@pytest.mark.parametrize(
    ("row", "expected"),
    [("! ls -l", "!ls -l"), ("!", "!"), ("› !ls", "!ls")],
)
@pytest.mark.parametrize("mode", ["Bash mode", "Shell mode    ⚠ 2 warnings · f2 to view"])
def test_what_is_typed_for_a_shell_is_a_draft_with_its_mark(
    row: str, expected: str, mode: str
) -> None:
    text = f"• Done.\n\n\n{row}\n\n  gpt-5.1-codex default · /home/me/app      {mode}\n"
    assert codex.draft(text) == expected
    assert codex.detect_status(text) is TerminalStatus.COMPLETED


def test_a_line_that_begins_with_an_exclamation_mark_is_no_composer() -> None:
    assert codex.draft("• Done.\n\n! look\n\n  gpt-5.1-codex default · /home/me\n") is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("completed/{}-completed_simple", "Hello! This is a plain answer from the fake model."),
        ("completed/{}-completed_reasoning", "Hello! This is a plain answer from the fake model."),
        (
            "completed/{}-completed_explored",
            "Done. The command finished and hello.txt was written.",
        ),
        ("idle/{}-idle_fresh", ""),
        ("error/{}-error_401", ""),
        ("processing/{}-processing_thinking", ""),
    ],
)
def test_the_last_answer_is_what_was_said_last_in_the_newest_turn(
    version: str, case: str, expected: str
) -> None:
    assert codex.last_answer(screen(case.format(version) + ".txt")) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_answer_is_whole(version: str) -> None:
    lines = codex.last_answer(screen(f"completed/{version}-completed_long.txt")).split("\n")
    assert [line[2:] for line in lines] == [f"line {n} of the long answer" for n in range(1, 221)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_answer_keeps_its_paragraphs_and_leaves_out_the_time_it_took(version: str) -> None:
    answer = codex.last_answer(screen(f"completed/{version}-completed_words.txt"))
    assert answer.startswith("I was exploring the codebase.")
    assert "\n\nerror: this is only a quoted line\nError: nothing failed\n\n" in answer
    assert answer.endswith("Thinking done.")


@pytest.mark.parametrize(
    "chrome",
    [
        "• Ran make\n  │ -j2\n  └ ok",
        "• Explored\n  └ Read notes.txt",
        "• Added notes.txt (+2 -0)\n    1 +hello",
        "• Questions 1/1 answered\n  • Which color?",
        "• Working (3s • esc to interrupt)",
        "• Exploring\n  └ Read notes.txt",
        "◦ Running make",
        "────────────",
        "⚠ Something",
    ],
)
def test_what_the_agent_did_is_no_answer(chrome: str) -> None:
    scrollback = f"› Go\n\n• Said.\n\n  Twice.\n\n{chrome}\n\n{COMPOSER}"
    assert codex.last_answer(scrollback) == "Said.\n\nTwice."


def test_an_answer_may_draw_like_a_tool_below_a_blank_row() -> None:
    scrollback = f"› Go\n\n• The tree:\n\n  └ notes.txt\n\n{COMPOSER}"
    assert codex.last_answer(scrollback) == "The tree:\n\n└ notes.txt"


def test_the_answer_of_an_older_turn_is_not_the_last_answer() -> None:
    assert codex.last_answer(f"› Go\n\n• Said.\n\n› And?\n\n■ boom\n\n{COMPOSER}") == ""


def test_a_dialog_is_no_part_of_the_last_answer() -> None:
    assert codex.last_answer(dialog("0.125.0", "approval_exec")) == "I will run a command now."
    assert codex.last_answer(dialog("0.166.0", "ask_user")) == "I will run a command now."
    assert codex.last_answer(dialog("0.166.0", "hooks_dialog")) == ""
    assert codex.last_answer("› 1. Yes\n  Press enter to confirm\n") == ""


def test_an_answer_above_a_dialog_is_whole() -> None:
    asked = "  Run this?\n\n› 1. Yes\n  2. No\n\n  Press enter to confirm\n"
    said = "• Said.\n\n  Twice.\n\n  Thrice.\n\n\n"
    answer = codex.last_answer(f"› Go\n\n• Old.\n\n\n{said}{asked}")
    assert answer == "Said.\n\nTwice.\n\nThrice."


def record(kind: str, **payload: object) -> str:
    return json.dumps({"type": "event_msg", "payload": {"type": kind, **payload}})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (record("task_started", turn_id="1"), AgentSignal(SignalKind.WORKING, "task_started")),
        (record("user_message", message="hi"), AgentSignal(SignalKind.SUBMITTED, "user_message")),
        (
            record("item_completed", item={"type": "UserMessage"}),
            AgentSignal(SignalKind.SUBMITTED, "user_message"),
        ),
        (
            record("task_complete", last_agent_message="Done."),
            AgentSignal(SignalKind.FINISHED, "task_complete", answer="Done."),
        ),
        (
            record("task_complete", last_agent_message=None, started_at=1),
            AgentSignal(SignalKind.FINISHED, "task_complete without a message"),
        ),
        (
            record("task_complete", last_agent_message=None),
            AgentSignal(SignalKind.STOPPED, "task_complete without a message"),
        ),
        (
            record("task_complete", last_agent_message=None, error={"message": "401"}),
            AgentSignal(SignalKind.FAILED, "task_complete: 401"),
        ),
        (
            record("turn_aborted", reason="interrupted"),
            AgentSignal(SignalKind.INTERRUPTED, "turn_aborted: interrupted"),
        ),
        (record("error", message="429"), AgentSignal(SignalKind.FAILED, "error: 429")),
    ],
)
def test_the_session_record_tells_what_happened(line: str, expected: AgentSignal) -> None:
    assert codex.read_signal(line) == expected


@pytest.mark.parametrize(
    ("source", "foreign"),
    [
        ("cli", False),
        ("vscode", False),
        ("exec", True),
        ({"subagent": {"thread_spawn": {"depth": 1}}}, True),
        ({"subagent": "review"}, True),
    ],
)
def test_the_head_of_a_record_tells_whether_it_is_that_of_another_session(
    source: object, foreign: bool
) -> None:
    head = {"timestamp": "2026-11-16T00:04:08.266Z", "type": "session_meta"}
    signal = codex.read_signal(json.dumps({**head, "payload": {"id": "1", "source": source}}))
    assert signal == (AgentSignal(SignalKind.FOREIGN, "session_meta") if foreign else None)


def test_a_line_tells_when_it_happened() -> None:
    event = {"type": "event_msg", "payload": {"type": "task_started"}}
    stamped = json.dumps({"timestamp": "1970-01-01T00:01:00.500Z", **event})
    assert codex.read_signal(stamped) == AgentSignal(SignalKind.WORKING, "task_started", at=60.5)
    for strange in ("soon", None, 7, "9" * 400):
        odd = codex.read_signal(json.dumps({"timestamp": strange, **event}))
        assert odd == AgentSignal(SignalKind.WORKING, "task_started")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        '{"type": "event_msg", "payload": "task_started"}',
        '{"type": "response_item", "payload": {"type": "task_started"}}',
        # written with the first turn, so it does not say that Codex is ready
        '{"type": "session_meta", "payload": {"id": "1"}}',
        record("token_count"),
        record("item_completed", item={"type": "AgentMessage"}),
    ],
)
def test_a_line_that_does_not_tell_is_no_signal(line: str) -> None:
    assert codex.read_signal(line) is None


def request(
    version: tuple[int, ...] = (0, 166, 0),
    *args: str,
    folder: str = "/home/me/app",
    prompt: str = "You review.",
    permissions: Permissions = Permissions.WORKSPACE,
) -> LaunchRequest:
    return launch_request(
        "/bin/codex", permissions, *args, version=version, prompt=prompt, folder=folder
    )


def settings(argv: tuple[str, ...]) -> dict[str, object]:
    """Return what Codex reads from its `-c key=value` arguments."""
    pairs = [argv[row + 1] for row, argument in enumerate(argv) if argument == "-c"]
    merged: dict[str, object] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        merged[key] = tomllib.loads(f"value = {value}")["value"]
    return merged


def test_codex_starts_in_its_folder_and_keeps_a_scrollback() -> None:
    argv = codex.launch(request()).argv
    assert argv[0] == "/bin/codex"
    assert "--no-alt-screen" in argv
    assert argv[argv.index("-C") + 1] == "/home/me/app"
    assert settings(argv)["check_for_update_on_startup"] is False


@pytest.mark.parametrize(
    ("version", "has_title", "reports_state", "has_daemon"),
    [
        ((0, 116, 0), False, False, False),
        ((0, 117, 0), True, False, False),
        ((0, 149, 1), True, False, False),
        ((0, 150, 0), True, True, False),
        ((0, 155, 1), True, True, False),
        ((0, 156, 0), True, True, True),
        ((), True, True, True),
    ],
)
def test_a_version_is_asked_for_what_it_can_do(
    version: tuple[int, ...], has_title: bool, reports_state: bool, has_daemon: bool
) -> None:
    launch = codex.launch(request(version))
    title = settings(launch.argv).get("tui.terminal_title")
    assert title == (["spinner", "status"] if has_title else None)
    assert launch.raw_output is reports_state
    assert ("--no-daemon" in launch.argv) is has_daemon


@pytest.mark.parametrize(
    ("permissions", "flags"),
    [
        (Permissions.WORKSPACE, ("-a", "never", "-s", "workspace-write")),
        (Permissions.FULL, ("-a", "never", "-s", "danger-full-access")),
        (Permissions.ASK, ("-a", "on-request", "-s", "workspace-write")),
    ],
)
def test_permissions_become_flags(permissions: Permissions, flags: tuple[str, ...]) -> None:
    argv = codex.launch(request(permissions=permissions)).argv
    start = argv.index("-a")
    assert argv[start : start + 4] == flags


@pytest.mark.parametrize(
    "own",
    [
        *("-a", "--ask-for-approval", "-s", "--sandbox", "--sandbox=read-only"),
        *("--full-auto", "--yolo", "--dangerously-bypass-approvals-and-sandbox"),
    ],
)
def test_permission_flags_of_the_user_replace_ours(own: str) -> None:
    argv = codex.launch(request((0, 166, 0), own, "x")).argv
    assert argv[-2:] == (own, "x")
    assert "workspace-write" not in argv


@example(folder="/home/me/\N{GRINNING FACE}", prompt="del \x7f")
@given(folder=st.text(st.characters(codec="utf-8")), prompt=st.text(st.characters(codec="utf-8")))
def test_folder_and_profile_arrive_whatever_is_in_them(folder: str, prompt: str) -> None:
    read = settings(codex.launch(request(folder=folder, prompt=prompt)).argv)
    assert read["projects"] == {folder: {"trust_level": "trusted"}}
    assert read.get("developer_instructions") == (prompt if prompt.strip() else None)
