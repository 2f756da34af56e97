"""What an agent asks, and which keys answer it: of real screens, and never a guess."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import Choice
from cli_agent_orchestrator.providers.questions import ShownQuestion, read_question
from cli_agent_orchestrator.terminals.service import KEYS
from tests.providers.samples import SCREENS

WAITING = sorted(SCREENS.glob("*/waiting_user_answer/*.txt"))


def read(name: str) -> ShownQuestion:
    agent, _, case = name.partition("/")
    file = SCREENS / agent / "waiting_user_answer" / f"{case}.txt"
    return read_question(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "text", "choices"),
    [
        (
            "claude_code/2.1.105-permission",
            "Bash command\n\nmake test\nRun it\n\nThis command requires approval\n\n"
            "Do you want to proceed?",
            ["1 Yes", "2 Yes, and don’t ask again for: make test:*", "3 No", "Escape cancel"],
        ),
        (
            "claude_code/2.1.325-flags-apikey_dialog",
            "Detected a custom API key in your environment\n\n"
            "ANTHROPIC_API_KEY: sk-ant-...0123456789abcdefghij\n\n"
            "Do you want to use this API key?",
            ["Enter No (recommended)", "Escape cancel"],
        ),
        (
            "codex/0.125.0-60x20-permission",
            "command line to be wrapped\n\nWould you like to run the following command?\n\n"
            "Reason: May this run outside of the sandbox? It is\n"
            "needed for the job at hand.\n\n"
            "$ touch ../made.txt; echo this is a rather long command\nline to be wrapped",
            [
                "1 Yes, proceed (y)",
                "2 Yes, and don't ask again for commands that start with `touch ../made.txt` (p)",
                "3 No, and tell Codex what to do differently (esc)",
                "Escape cancel",
            ],
        ),
        (
            "copilot_cli/1.0.102-permission_prompt",
            "Write a file\n\ncat > out.txt <<'EOT'\nhello from the fake model\nEOT\n\n"
            "Do you want to run this command?",
            [
                "1 Yes",
                "2 No, and tell Copilot what to do differently (Esc to stop)",
                "Escape cancel",
            ],
        ),
        (
            "gemini_cli/0.61.0-permission_prompt2",
            "? Shell  sleep 6; echo slept\n\nsleep 6; echo slept\n\nAllow execution of [Shell]?",
            ["1 Allow once", "2 Allow for this session", "3 No, suggest changes (esc)"],
        ),
        (
            "opencode/1.18.18-question",
            "Which colour shall it be?",
            ["1 Red Red, then", "2 Blue Blue, then", "3 Type your own answer", "Escape dismiss"],
        ),
        (
            "scripted/permission_no_marked",
            "permission needed\nRun: rm -rf build",
            ["1 Yes", "2 No"],
        ),
    ],
)
def test_what_real_screens_ask(name: str, text: str, choices: list[str]) -> None:
    asked = read(name)

    assert asked.text == text
    assert [f"{choice.key} {choice.label}" for choice in asked.choices] == choices
    assert not asked.then


@pytest.mark.parametrize(
    ("name", "end"),
    [
        # Which of them is marked, a color alone tells.
        ("opencode/1.18.18-permission_prompt", "enter confirm"),
        # A number would be looked for, or be a part of the answer.
        ("claude_code/2.1.325-dialog_permissions", "Esc to cancel"),
        # Something else stands below the list.
        ("claude_code/1.0.100-theme_dialog", "3   }"),
        # What Enter does is not said, or there are two marks, or there is nothing to choose.
        ("claude_code/2.1.325-dialog_resume", "Esc to cancel"),
    ],
)
def test_choices_that_cannot_be_known_are_not_guessed(name: str, end: str) -> None:
    asked = read(name)

    assert asked.choices == ()
    assert asked.text.endswith(end)
    assert asked.text.count("\n") < 15


@pytest.mark.parametrize("file", WAITING, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_all_keys_can_be_pressed_and_stand_on_the_screen(file: Path) -> None:
    screen = file.read_text(encoding="utf-8")
    asked = read_question(screen)

    assert asked.text
    for choice in asked.choices:
        assert choice.key in KEYS
        assert choice.key.removesuffix("ape").lower() in screen.lower()


@pytest.mark.parametrize("prompt", ["", "\n[builder] 17% λ > \n", "\n> \n", "\n[reviewer] !> \n"])
def test_what_is_asked_line_by_line(prompt: str) -> None:
    asked = read_question(
        "[builder] 16% > Fix it\n\n🛠️  Using tool: execute_bash\nmake test\n\n"
        f"Allow this action? Use 't' to trust (always allow) this tool. [y/n/t]:\n{prompt}"
    )

    assert asked.choices == (Choice("y", "yes"), Choice("n", "no"), Choice("t", "trust"))
    assert asked.then == ("Enter",)
    assert asked.text.endswith(
        "make test\n\nAllow this action? Use 't' to trust (always allow) this tool. [y/n/t]:"
    )


def test_at_a_prompt_with_a_draft_nothing_is_offered() -> None:
    assert read_question("Allow this action? [y/n/t]:\n\n[builder] 17% > ye\n").choices == ()


LIST = " Proceed?\n ❯ 1. Yes\n   2. No\n"


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param(" Proceed?\n   1. Yes\n   2. No\n", id="nothing is marked"),
        pytest.param(" Proceed?\n ❯ 1. Yes\n ❯ 2. No\n", id="two are marked"),
        pytest.param(" Proceed?\n ❯ 1. Yes\n   3. No\n", id="a number is missing"),
        pytest.param(" Proceed?\n ❯ 2. Yes\n   3. No\n", id="the first is missing"),
        pytest.param(" Proceed?\n ❯ 1. Yes\n     2. No\n", id="not one below the other"),
        pytest.param(LIST + "● It is done.\n", id="an answer stands below"),
        pytest.param(
            LIST + " Esc to cancel\n ❯ No, exit\n   Yes\n", id="another list stands below"
        ),
        pytest.param(LIST + "────\n❯ \n────\n", id="the input box stands below"),
        pytest.param(LIST + " Esc to cancel\n   3. More\n", id="the list goes on below"),
        pytest.param(" Proceed?\n   1. Yes\n ❯ 2. Type something.\n", id="a number would be text"),
        pytest.param(
            " Which?\n" + "".join(f" {'❯ ' if n == 1 else '  '}{n:2}. x\n" for n in range(1, 11)),
            id="two digits",
        ),
    ],
)
def test_a_list_that_may_be_something_else(screen: str) -> None:
    assert read_question(LIST).choices == (Choice("1", "Yes"), Choice("2", "No"))
    assert not [choice for choice in read_question(screen).choices if choice.key.isdecimal()]


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param(" ❯ Yes\n   No\n Esc to cancel\n", id="nobody says what Enter does"),
        pytest.param(" ❯ Yes\n   No\n Enter to select, type to filter\n", id="a search"),
        pytest.param(" ❯ Yes\n Enter to select\n", id="no other to choose"),
        pytest.param("   Yes\n   No\n Enter to select\n", id="nothing is marked"),
        pytest.param(" ❯ Yes\n ❯ No\n   Maybe\n Enter to select\n", id="two are marked"),
        pytest.param(" ❯ Yes\n   No\n Preview\n Enter to select\n", id="more below it"),
        pytest.param(" ❯ Yes\n   No\n\n   text\n Enter to select\n", id="a gap in it"),
    ],
)
def test_a_marked_line_that_enter_may_not_take(screen: str) -> None:
    good = read_question(" Proceed?\n   No\n ❯ Yes\n     at once\n Enter to select\n")
    assert good.choices == (Choice("Enter", "Yes"),)
    assert good.text == "Proceed?"
    alone = read_question("   No\n ❯ Yes\n     Enter to select\n")
    assert (alone.text, alone.choices) == ("", (Choice("Enter", "Yes"),))
    assert read_question(screen).choices == ()


def test_without_choices_the_end_of_the_screen_is_the_text() -> None:
    asked = read_question("● one\n\n│ two\n╰─────\n")
    assert (asked.text, asked.choices, asked.shown) == ("● one\ntwo", (), "● one\ntwo")


def test_of_a_long_question_its_end_is_shown() -> None:
    lines = [f" line {number}" for number in range(40)]
    assert read_question("\n".join(lines) + "\n ❯ 1. Yes\n").text == "\n".join(
        line.strip() for line in lines[-30:]
    )


def test_only_the_last_list_counts() -> None:
    asked = read_question(f"● Words:\n ❯ 1. Old\n   2. Older\n\n────────────\n{LIST}")

    assert asked.text == "Proceed?"
    assert asked.choices == (Choice("1", "Yes"), Choice("2", "No"))


def test_what_is_shown_tells_the_mark_and_not_what_stands_above() -> None:
    moved = LIST.replace("❯ 1", "  1").replace("  2", "❯ 2")

    assert read_question(f"✻ 3s\n────────\n{LIST}").shown == read_question(LIST).shown
    assert read_question(moved).choices == read_question(LIST).choices
    assert read_question(moved).shown != read_question(LIST).shown


@given(st.text() | st.lists(st.sampled_from(["❯ ", "1. a", "2. b", "  ", "\n", "enter", "│", "┃"])))
def test_every_screen_is_read(screen: str | list[str]) -> None:
    asked = read_question("".join(screen))

    assert all(choice.key in KEYS and choice.label for choice in asked.choices)
    assert len({choice.key for choice in asked.choices}) == len(asked.choices)
