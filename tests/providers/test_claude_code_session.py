"""Claude Code around its turns: dialogs at the start, drafts, answers."""

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import claude_code
from tests.providers.samples import capture

BOX = f"{'─' * 40}\n❯\xa0\n{'─' * 40}\n  ? for shortcuts\n"


def screen(name: str) -> str:
    return capture(f"claude_code/{name}")


def dialog(name: str) -> str:
    return screen(f"waiting_user_answer/{name}.txt")


@pytest.mark.parametrize(
    "name",
    ["2.1.325-trust_dialog", "2.1.325-flags-bypass_untrusted"],
)
def test_a_folder_is_trusted_by_moving_the_mark_first_and_then_pressing_enter(name: str) -> None:
    first = dialog(name)
    move = claude_code.startup_dialog(first)
    assert move is not None
    assert (move.name, move.keys) == ("trust this folder (choosing yes)", ("End",))
    second = first.replace(" ❯ No, exit", "   No, exit").replace(
        "   Yes, I trust this folder", " ❯ Yes, I trust this folder"
    )
    confirm = claude_code.startup_dialog(second)
    assert confirm is not None
    assert (confirm.name, confirm.keys) == ("trust this folder", ("Enter",))


@pytest.mark.parametrize("version", ["1.0.100", "2.0.67", "2.1.105"])
def test_where_yes_is_marked_enter_is_enough(version: str) -> None:
    found = claude_code.startup_dialog(dialog(f"{version}-trust_dialog"))
    assert found is not None
    assert (found.name, found.keys) == ("trust this folder", ("Enter",))
    assert "trust it" in found.advice


def test_a_mark_that_somebody_moved_is_moved_back() -> None:
    moved = dialog("2.1.105-trust_dialog").replace(" ❯ 1. Yes", "   1. Yes")
    found = claude_code.startup_dialog(moved.replace("   2. No", " ❯ 2. No"))
    assert found is not None
    assert found.keys == ("Home",)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (" ❯ No, exit\n   Yes, proceed\n", "End"),
        ("   No, exit\n ❯ Yes, proceed\n", "Enter"),
        ("   Yes, proceed\n ❯ No, exit\n", "Home"),
    ],
)
def test_what_stands_above_a_question_does_not_move_its_mark(options: str, key: str) -> None:
    question = " Do you trust the files in this folder?\n\n"
    above = f"❯ claude\n{question} ❯ No, exit\n   Yes, proceed\n\n"
    found = claude_code.startup_dialog(f"{above}{question}{options}\n Enter to confirm\n")
    assert found is not None
    assert found.keys == (key,)


@pytest.mark.parametrize(
    "heading", ["New MCP server found in .mcp.json: docs", "3 new MCP servers found in .mcp.json"]
)
def test_new_servers_of_a_project_are_left_to_a_person(heading: str) -> None:
    found = claude_code.startup_dialog(f" {heading}\n\n ❯ 1. Use it\n   2. Go on without\n")
    assert found is not None
    assert (found.name, found.keys) == ("new MCP servers", ())
    assert "decide" in found.advice


def test_a_trust_question_with_unknown_answers_is_left_to_a_person() -> None:
    text = " Quick safety check: Is this yours?\n\n ❯ Maybe\n   Never\n\n Enter to confirm\n"
    found = claude_code.startup_dialog(text)
    assert found is not None
    assert found.keys == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2.1.325-flags-apikey_dialog", "use this API key"),
        ("2.1.105-api_key_dialog", "use this API key"),
        ("2.0.67-api_key_dialog", "use this API key"),
        ("1.0.100-api_key_dialog", "use this API key"),
        ("2.1.325-flags-bypass_sandbox_dialog", "accept the risk of skipping permissions"),
        ("2.1.105-bypass_dialog", "accept the risk of skipping permissions"),
        ("2.0.67-bypass_dialog", "accept the risk of skipping permissions"),
        ("1.0.100-bypass_dialog", "accept the risk of skipping permissions"),
        ("2.1.325-theme_dialog", "first set-up"),
        ("2.1.105-theme_dialog", "first set-up"),
        ("2.0.67-theme_dialog", "first set-up"),
        ("1.0.100-theme_dialog", "first set-up"),
        ("2.1.325-settings_dialog", "settings with errors"),
        ("2.1.105-settings_dialog", "settings with errors"),
    ],
)
def test_other_questions_at_the_start_are_left_to_a_person(name: str, expected: str) -> None:
    found = claude_code.startup_dialog(dialog(name))
    assert found is not None
    assert (found.name, found.keys) == (expected, ())
    assert found.advice


@pytest.mark.parametrize(
    "name",
    [
        "waiting_user_answer/2.1.325-permission_prompt.txt",
        "waiting_user_answer/2.1.325-ask_user_question.txt",
        "waiting_user_answer/2.1.325-network_dialog.txt",
        "waiting_user_answer/1.0.100-permission_prompt.txt",
        "idle/2.1.325-idle_fresh.txt",
        "completed/2.1.325-completed_trigger_words.txt",
    ],
)
def test_what_is_not_asked_at_the_start_is_no_startup_question(name: str) -> None:
    assert claude_code.startup_dialog(screen(name)) is None


def test_an_answer_that_quotes_a_startup_question_asks_nothing() -> None:
    quoted = "  Do you trust the files in this folder?\n\n  ❯ 1. Yes, proceed\n    2. No, exit\n"
    assert claude_code.startup_dialog(f"● It says:\n\n{quoted}\n{BOX}") is None


@pytest.mark.parametrize("box", ["!\xa0ls -l", "#\xa0ls -l", "│\xa0!\xa0ls -l   │"])
def test_the_mark_of_a_mode_is_part_of_its_draft(box: str) -> None:
    shown = BOX.replace("❯\xa0", box)
    mark = "#" if "#" in box else "!"
    assert claude_code.draft(shown) == f"{mark}ls -l"
    assert claude_code.detect_status(shown) is TerminalStatus.IDLE


def test_an_empty_box_in_shell_mode_is_not_empty() -> None:
    assert claude_code.draft(BOX.replace("❯\xa0", "!\xa0")) == "!"


def test_a_suggestion_behind_a_draft_is_no_part_of_it() -> None:
    row = "\x1b[39m❯\xa0run the \x1b[7mt\x1b[0;2m\x1b[39mests\x1b[0m"
    assert claude_code.draft(BOX.replace("❯\xa0", row)) == "run the"


def test_a_draft_with_the_cursor_in_its_middle_is_whole() -> None:
    row = "\x1b[39m❯\xa0run \x1b[7mt\x1b[0m\x1b[39mhe tests"
    assert claude_code.draft(BOX.replace("❯\xa0", row)) == "run the tests"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("completed/2.1.325-completed", "Slow answer after 6 s. DONE-SLOW"),
        ("completed/2.1.325-completed_think", "Thought about it. DONE-THINK"),
        ("completed/2.1.325-classic-completed_tool", "Final answer. DONE-TOOL"),
        ("completed/2.1.325-ask_answered", "Final answer. DONE-ASK"),
        ("completed/1.0.100-completed_think", "Thought about it. DONE-THINK"),
        ("completed/1.0.100-completed_after_interrupt", "Final answer. DONE-ASK"),
        ("completed/2.0.67-completed_tool", "Final answer. DONE-RUN"),
        ("completed/2.1.105-completed_tool", "Final answer. DONE-RUN"),
        ("error/1.0.100-api_error_400", ""),
        ("idle/2.1.325-idle_fresh", ""),
        ("idle/1.0.100-idle_fresh", ""),
        ("processing/2.1.325-processing", ""),
    ],
)
def test_the_last_answer_is_what_was_said_last_in_the_newest_turn(name: str, expected: str) -> None:
    assert claude_code.last_answer(screen(f"{name}.txt")) == expected


def test_the_last_answer_keeps_its_paragraphs() -> None:
    answer = claude_code.last_answer(screen("completed/2.1.325-completed_trigger_words.txt"))
    assert answer.startswith("Here is my report.")
    assert "\n\n❯ 1. Yes\n  2. No\n\n" in answer
    assert answer.endswith("API Error: 500 was only mentioned.")


def test_a_long_answer_is_whole() -> None:
    lines = [f"line {n}" for n in range(2000)]
    text = "❯ Go\n\n● " + "\n  ".join(lines) + f"\n\n✻ Baked for 3s\n\n{BOX}"
    assert claude_code.last_answer(text).split("\n") == lines


def test_a_command_and_its_output_are_no_answer() -> None:
    text = f"❯ Go\n\n● I run it.\n\n● Bash(make\n      test)\n  ⎿ \xa0ok\n\n{BOX}"
    assert claude_code.last_answer(text) == "I run it."
