"""Gemini CLI: its title, its screens, what may never change them, and how it is started."""

import pytest
from hypothesis import given

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import gemini_cli
from cli_agent_orchestrator.providers.base import Permissions
from cli_agent_orchestrator.providers.gemini_cli import detect_status, title_status
from cli_agent_orchestrator.providers.screen import Cell
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    UNKNOWN,
    WAITING,
    capture,
    launch_request,
    prose,
)

BANNER = " ▝▜▄     Gemini CLI v0.61.0\n   ▝▜▄\n\n"
RULE = "─" * 120
BOX = f"{RULE}\n Shift+Tab to accept edits\n\n >   Type your message\n\n workspace\n /home/me\n"
AT_REST = f"\n\n? for shortcuts\n{BOX}"
DIALOG = (
    "╭──────────╮\n│ ? Shell  make          │\n│ Allow execution?       │\n"
    "│ ● 1. Allow once        │\n│   2. No                │\n╰──────────╯\n"
)
ENDINGS = {
    COMPLETED: AT_REST,
    PROCESSING: f"\n\n ⠼ Thinking... (esc to cancel, 5s)\n{BOX}",
    WAITING: f"\n{DIALOG}",
    ERROR: f"\n✕ [API Error: terminated]\n\nℹ This request failed.\n  details.\n{AT_REST}",
    IDLE: f"\nℹ Request cancelled.\n{AT_REST}",
}
SIGNS = [
    "⠼ Thinking... (esc to cancel, 5s)",
    "✕ [API Error: terminated]",
    "ℹ Request cancelled.",
    "> Fix it",
    "* Type your message or @path/to/file",
    "Queued (press ↑ to edit):",
    "  a message",
    "│ ● 1. Allow once",
    "╭──────╮",
    "╰──────╯",
    RULE,
    "",
]
PROSE = prose(SIGNS)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("◇  Ready (app)", IDLE),
        ("✦  Working… (app)", PROCESSING),
        ("✦  Reading the tests (app)", PROCESSING),
        ("⏲  Working… (app)", PROCESSING),
        ("✋  Action Required (app)", WAITING),
        ("Gemini CLI (app)", None),
        ("", None),
    ],
)
def test_the_title_tells_busy_waiting_and_at_rest(
    title: str, expected: TerminalStatus | None
) -> None:
    assert title_status(title) is expected


def test_a_busy_title_tells_what_the_screen_hides() -> None:
    screen = f" > Tell me\n\n✦ The first lines\n{AT_REST}"
    assert detect_status(screen, "◇  Ready (app)") is COMPLETED
    assert detect_status(screen, "✦  Working… (app)") is PROCESSING
    assert detect_status(screen, "✋  Action Required (app)") is WAITING


def test_a_dialog_counts_more_than_a_title_at_rest() -> None:
    assert detect_status(DIALOG, "◇  Ready (app)") is WAITING


def test_a_message_that_waits_is_work() -> None:
    queue = "  Queued (press ↑ to edit):\n    Fix it\n"
    assert detect_status(f"{BANNER}\n{queue}\n? for shortcuts\n{BOX}") is PROCESSING
    hint = " Press Ctrl+O to expand pasted text\n? for shortcuts\n"
    assert detect_status(f"{BANNER}\n{queue}{hint}{BOX}") is PROCESSING


def test_a_message_that_was_taken_during_the_start_is_work_until_it_is_answered() -> None:
    taken = f"{BANNER}ℹ Initializing... Prompts will be queued.\n"
    assert detect_status(taken + AT_REST, "◇  Ready (app)") is PROCESSING
    assert detect_status(f"{taken}\n > Fix it\n\n✦ Done.\n{AT_REST}") is COMPLETED


def test_a_tool_that_ran_is_a_reply() -> None:
    assert detect_status(f" > Do it\n\n╭──╮\n│ ✓  Shell ls │\n╰──╯\n{AT_REST}") is COMPLETED


def test_a_banner_a_warning_or_a_message_alone_is_no_reply() -> None:
    assert detect_status(f"{BANNER}⚠  A warning\n   in two rows\n{AT_REST}") is IDLE
    assert detect_status(f"{BANNER} > Fix it\n{AT_REST}") is IDLE
    assert detect_status(BOX) is IDLE


def test_an_answer_whose_head_has_scrolled_away_is_completed() -> None:
    assert detect_status(f"  the end of a long answer\n{AT_REST}") is COMPLETED


@pytest.mark.parametrize("screen", [BANNER, " > Fix it\n\n✦ I will look at it.\n"])
def test_gemini_without_an_input_box_and_a_sign_of_work_is_unknown(screen: str) -> None:
    assert detect_status(screen) is UNKNOWN


@given(before=PROSE, last=PROSE)
def test_no_prose_changes_the_status(before: list[str], last: list[str]) -> None:
    screen = " > Explain\n\n✦ It is like this.\n"
    for line in [*before, "", *last]:
        screen += f"  {line}\n"
    for status, ending in ENDINGS.items():
        assert detect_status(screen + ending) is status


@given(PROSE)
def test_no_quoting_message_of_the_user_changes_the_status(said: list[str]) -> None:
    screen = " > Explain this:\n"
    for line in said:
        screen += f"   {line}\n"
    assert detect_status(f"{screen}\n✦ It is clear.\n{AT_REST}") is COMPLETED


def test_a_draft_may_be_the_last_thing_on_the_screen() -> None:
    assert gemini_cli.draft(f"{RULE}\n > line a\n   line b\n") == "line a\nline b"


def test_what_stands_right_above_the_rule_is_no_draft() -> None:
    assert gemini_cli.draft(f" > said before\n{RULE}\n > line a\n") == "line a"


@pytest.mark.parametrize(
    ("case", "name"), [("trust_dialog", "trust this folder"), ("sign_in_dialog", "sign in")]
)
def test_a_startup_question_is_left_to_a_person(case: str, name: str) -> None:
    screen = capture(f"gemini_cli/waiting_user_answer/0.61.0-{case}.txt")
    found = gemini_cli.startup_dialog(screen)
    assert found is not None
    assert (found.name, found.keys) == (name, ())
    assert "by hand" in found.advice or "folder" in found.advice


def test_a_question_of_a_turn_is_no_startup_question() -> None:
    assert gemini_cli.startup_dialog(DIALOG) is None


def test_the_last_answer_is_what_was_said_last_and_no_more() -> None:
    screen = (
        " > Do it\n\n✦ I will.\n\n╭──╮\n│ ✓  Shell ls │\n╰──╯\n\n"
        "✦ Done:\n\n   - one\n  end\n\n\n"
        f"{'? for shortcuts':>119}\n{BOX}"
    )
    assert gemini_cli.last_answer(screen) == "Done:\n\n - one\nend"


def test_there_is_no_answer_before_the_agent_speaks() -> None:
    assert gemini_cli.last_answer(f"✦ Old.\n\n > Do it\n{AT_REST}") == ""


@pytest.mark.parametrize(
    ("permissions", "version", "flags"),
    [
        (
            Permissions.WORKSPACE,
            (0, 61, 0),
            ("--approval-mode", "auto_edit", "--allowed-tools=run_shell_command"),
        ),
        (Permissions.WORKSPACE, (1, 0), ("--approval-mode", "yolo")),
        (Permissions.WORKSPACE, (), ("--approval-mode", "yolo")),
        (Permissions.FULL, (0, 61, 0), ("--approval-mode", "yolo")),
        (Permissions.ASK, (0, 61, 0), ("--approval-mode", "default")),
    ],
)
def test_permissions_become_an_approval_mode(
    permissions: Permissions, version: tuple[int, ...], flags: tuple[str, ...]
) -> None:
    launch = gemini_cli.launch(
        launch_request("/bin/gemini", permissions, "-m", "x", version=version)
    )
    assert launch.argv == ("/bin/gemini", "--skip-trust", *flags, "-m", "x")


def test_the_users_own_approval_mode_counts() -> None:
    launch = gemini_cli.launch(
        launch_request("/bin/gemini", Permissions.FULL, "--approval-mode=plan", version=(1,))
    )
    assert launch.argv == ("/bin/gemini", "--skip-trust", "--approval-mode=plan")


@pytest.mark.parametrize(
    ("heads", "replied"),
    [
        ([], False),
        (["✦ It is done."], True),
        (["ℹ A notice", "✦ It is done."], True),
        (["  the rest of an answer"], True),
        (["ℹ A notice"], False),
        (["  Gemini CLI v0.61.0", "✦ It is done."], False),
    ],
)
def test_with_the_message_out_of_sight_an_answer_is_a_reply(
    heads: list[str], replied: bool
) -> None:
    turn = [Cell((head,)) for head in heads]
    assert gemini_cli.has_reply(turn, asked=False) is replied
