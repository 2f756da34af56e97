"""Codex: the scenarios of its status; what it asks, answers, records and is started with."""

import json
import re
import textwrap
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers import codex
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions
from cli_agent_orchestrator.providers.codex import (
    ACTIVE_WORK_UI_PATTERN,
    USER_PREFIX_PATTERN,
    detect_status,
    split_cells,
)
from tests.providers.samples import (
    COMPLETED,
    IDLE,
    PROCESSING,
    UNKNOWN,
    WAITING,
    capture,
    launch_request,
    signal,
)

COMPOSER = "›\n  100% context left\n"
MODEL_ROW = "  gpt-5.1-codex default · /home/me/app\n"
PLACEHOLDER_COMPOSER = f"› Ask Codex to do anything\n\n{MODEL_ROW}"
DIALOG = (
    "  Would you like to run the following command?\n\n  $ make test\n\n"
    "› 1. Yes, proceed (y)\n  2. No, and tell Codex what to do differently (esc)\n\n"
    "  Press enter to confirm or esc to cancel\n"
)

BANNER = "  >_ OpenAI Codex (v0.166.0)\n     /home/me/app\n\n  Tip: sleep well.\n\n"
SPECIFIC = "  Which name?\n\n  › Type it\n\n  enter to submit answer | esc to quit\n"
HINT = "tab to add notes | enter to submit answer | esc to interrupt"
WORKING = "Working (5s • esc to interrupt)\n"
LOOK = "› 1. Go\n\n• Look:\n  one\n  two\n  three\n  four"


def asked(width: int) -> str:
    """Return a question whose hint is broken into rows."""
    rows = textwrap.indent(textwrap.fill(HINT, width), "  ")
    return f"  Which one?\n\n  › 1. Red\n    2. Blue\n\n{rows}\n"


def exploring(turn: str) -> str:
    return f"› Go\n\n{turn}\n\n{COMPOSER}"


SCREENS = {
    "no composer: a message": ("› Fix it\n", UNKNOWN),
    "no composer: an answer": ("› Fix it\n\n• I will look at it.\n", UNKNOWN),
    "no composer: a tool": ("• Ran make\n  └ ok\n", UNKNOWN),
    "no composer: a banner": ("╭───╮\n│ >_ OpenAI Codex (v0.125.0) │\n╰───╯\n", UNKNOWN),
    "a message and a warning": (f"› Fix it\n\n⚠ A warning\n\n{COMPOSER}", IDLE),
    "text without a mark": (f"Some line of the start\n\n{COMPOSER}", IDLE),
    "an answer whose head has gone": (f"  the end of it\n\n{COMPOSER}", COMPLETED),
    "a banner": (BANNER + PLACEHOLDER_COMPOSER, IDLE),
    "a banner below a warning": (f"WARNING: a\n\n{BANNER}{PLACEHOLDER_COMPOSER}", IDLE),
    "a question with a row below its hint": (f"› Fix it\n\n{DIALOG}\n  1 warning\n", WAITING),
    "a list of things to do as a draft": (f"› 1. Fix it\n  2. Test it\n\n{MODEL_ROW}", IDLE),
    "a question with an unknown hint": ("› 1. Yes\n  2. No\n\n  Eingabe: ja\n", UNKNOWN),
    "a question without options": (f"› Ask me\n\n{SPECIFIC}", WAITING),
    "work above a footer": (f"• {WORKING}\n  ? for shortcuts\n", PROCESSING),
    "work below a message": (f"› do it\n\n• {WORKING}\n  100% context left\n", PROCESSING),
    "work right above a footer": (f"{WORKING}  ? for shortcuts\n", PROCESSING),
    **{f"a hint in rows of {width}": (asked(width), WAITING) for width in range(20, 61, 5)},
    "an answer about Enter": (f"{LOOK}\n  or press enter to\n  confirm\n  five\n", UNKNOWN),
    "an answer about Enter in a row": (f"{LOOK} press enter to confirm now\n  five\n", UNKNOWN),
    "an exploration": (exploring("• I look.\n\n• Exploring the tree"), PROCESSING),
    "an exploration that is over": (exploring("• Exploring the tree\n\n• Done."), COMPLETED),
    "one with something said": (exploring("• Exploring the tree\n  It is big."), COMPLETED),
    "a footer of two rows": ("• Done.\n\n› Ask\n\n  gpt-5.1-codex\n  tab to queue\n", COMPLETED),
    "a draft like an option": ("› 1. Fix it\n\n  ? for shortcuts   100% context left\n", IDLE),
}


@pytest.mark.parametrize(
    "narrative",
    [
        "• I will stop running commands now.",
        "I will stop running commands now.",
        "• The service is working, the job was executing.\n\n  Thinking and processing are over.",
    ],
)
def test_narrative_keyword_does_not_block_idle_detection(narrative: str) -> None:
    """Scenario: Narrative keyword does not block idle detection"""
    assert detect_status(f"› Tell me\n\n{narrative}\n\n{COMPOSER}").at_rest


@pytest.mark.parametrize(
    "work",
    [
        "• Working (3s • esc to interrupt)",
        "◦ Working (1m 02s • esc to interrupt)",
        "• Working (1s • esc to interrupt) · 1 background terminal running · /ps to view",
        "• Reconnecting... 2/5 (8s • esc to interrupt)\n  └ Stream disconnected",
        "• Working (0s • esc to interrupt)\n  ↳ a message that waits",
        "(12s • esc to interrupt)",
        "esc to interrupt",
        "• Working\nesc to interrupt",
        "• Thinking (esc to interrupt)",
        "• Exploring",
        "• Exploring\n  └ Read slow.fifo\n    Search x in src",
        "◦ Exploring\n  └ Read slow.fifo",
        "• Exploring the source tree",
        "• Exploring...",
        "• Exploring\n  └ Read a.py\n\n• A word in between.",
    ],
)
@pytest.mark.parametrize("composer", [COMPOSER, PLACEHOLDER_COMPOSER])
def test_active_work_ui_correctly_blocks_idle_detection(work: str, composer: str) -> None:
    """Scenario: Active work UI correctly blocks idle detection"""
    assert detect_status(f"› Fix it\n\n{work}\n\n{composer}") is PROCESSING
    assert detect_status(f"{work}\n{composer}") is PROCESSING


def test_work_below_the_idle_prompt_of_a_previous_turn_is_processing() -> None:
    """Scenario: Active work UI correctly blocks idle detection"""
    assert detect_status(f"{COMPOSER}\n› Fix it\n• Exploring\n  └ Read x\n") is PROCESSING


@pytest.mark.parametrize("narrative", ["", "• "])
def test_narrative_exploring_does_not_block_idle_detection(narrative: str) -> None:
    """Scenario: Narrative "exploring" does not block idle detection"""
    screen = f"› Look\n\n{narrative}I was exploring the codebase.\n\n{COMPOSER}"
    assert detect_status(screen).at_rest
    assert not re.search(ACTIVE_WORK_UI_PATTERN, screen, re.MULTILINE)


def test_a_sentence_that_begins_with_exploring_is_narrative() -> None:
    """Scenario: Narrative "exploring" does not block idle detection"""
    assert detect_status(f"› Look\n\n• Exploring it was fun.\n\n{COMPOSER}") is COMPLETED


def test_user_prefix_pattern_does_not_match_across_newlines() -> None:
    """Scenario: USER_PREFIX_PATTERN does not match across newlines"""
    assert not re.search(USER_PREFIX_PATTERN, "›\n100% context left\n", re.MULTILINE)
    assert re.search(USER_PREFIX_PATTERN, "hello\n› Reply with READY\n", re.MULTILINE)
    assert re.search(USER_PREFIX_PATTERN, "›\tReply with READY\n", re.MULTILINE)


def test_standalone_chevron_prompt_is_not_misdetected_as_user_input() -> None:
    """Scenario: Standalone chevron prompt not misdetected as user input"""
    assert detect_status("• READY\n\n›\n100% context left\n") is COMPLETED
    assert detect_status(">_ OpenAI Codex (v0.104.0)\n\n›\n100% context left\n") is IDLE


@pytest.mark.parametrize("answer", ["• READY", "READY"])
def test_standalone_chevron_with_prior_assistant_produces_completed(answer: str) -> None:
    """Scenario: Standalone chevron with prior assistant produces completed"""
    screen = f"› Reply with READY\n{answer}\n›\n\n  ? for shortcuts   100% context left\n"
    assert detect_status(screen) is COMPLETED


def test_the_patterns_are_plain_strings_with_the_parts_that_are_promised() -> None:
    assert "esc to interrupt" in ACTIVE_WORK_UI_PATTERN
    assert r"•\s+Exploring\b" in ACTIVE_WORK_UI_PATTERN
    assert r"›[ \t]+\S" in USER_PREFIX_PATTERN


def test_a_row_that_is_indented_by_one_column_is_no_cell_of_its_own() -> None:
    [cell] = split_cells(["• Said.", " ■ more"])
    assert cell.lines == ("• Said.", " ■ more")


@given(below=st.text(), gap=st.text("\t ", max_size=3))
def test_a_lone_chevron_never_is_user_input(below: str, gap: str) -> None:
    match = re.search(USER_PREFIX_PATTERN, f"›{gap}\n{below}", re.MULTILINE)
    assert match is None or match.start() > 0


VERSIONS = ["0.101.0", "0.125.0", "0.166.0"]


def screen(path: str) -> str:
    return capture(f"codex/{path}")


def dialog(version: str, case: str) -> str:
    return screen(f"waiting_user_answer/{version}-{case}.txt")


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


OTHER_OPTIONS = dialog("0.101.0", "trust_dialog").replace("Yes, continue", "Yes, and never ask")
PERMISSION = "  Run this?\n\n› 1. Yes\n  2. Yes, and never ask again\n"
LIKE_THE_NOTICE = {
    f"an answer like a notice: {number}": f"› go\n\n• Look:\n{said}\n\n{PERMISSION}\n{CONFIRM}"
    for number, said in enumerate(
        (NUDGE, f"{NUDGE}\n{KEEP.replace('›', ' ')}", f"{NUDGE}\n\n{KEEP}\n{CONFIRM}\n\n")
    )
}
QUESTIONS = {
    "other options": (OTHER_OPTIONS, ("trust this folder", "")),
    **{name: (text, None) for name, text in LIKE_THE_NOTICE.items()},
}
SCREENS |= {name: (text, WAITING) for name, text in LIKE_THE_NOTICE.items()}

TYPED = {
    f"{row} ({mode})": (f"• Done.\n\n\n{row}\n\n  gpt-5.1-codex default · /home/me {mode}\n", text)
    for mode in ("     Bash mode", "     Shell mode    ⚠ 2 warnings · f2 to view")
    for row, text in {"! ls -l": "!ls -l", "!": "!", "› !ls": "!ls"}.items()
}
SCREENS |= {name: (text, COMPLETED) for name, (text, _) in TYPED.items()}
DRAFTS = {
    **TYPED,
    "no composer": ("• Done.\n\n! look\n\n  gpt-5.1-codex default · /home/me\n", None),
}


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


def go(rest: str) -> str:
    return f"› Go\n\n• Said.\n\n  Twice.\n\n{rest}\n\n{PLACEHOLDER_COMPOSER}"


# What the agent did is no answer.
CHROME = [
    "• Ran make\n  │ -j2\n  └ ok",
    "• Explored\n  └ Read notes.txt",
    "• Added notes.txt (+2 -0)\n    1 +hello",
    "• Questions 1/1 answered\n  • Which color?",
    "• Working (3s • esc to interrupt)",
    "• Exploring\n  └ Read notes.txt",
    "◦ Running make",
    "────────────",
    "⚠ Something",
]
ASKED = "  Run this?\n\n› 1. Yes\n  2. No\n\n  Press enter to confirm\n"
PLAIN = "Hello! This is a plain answer from the fake model."
DONE = "Done. The command finished and hello.txt was written."
ANSWERS = {
    **{chrome: (go(chrome), "Said.\n\nTwice.") for chrome in CHROME},
    "like a tool, below a blank row": (go("• The tree:\n\n  └ a.txt"), "The tree:\n\n└ a.txt"),
    "that of an older turn": (go("› And?\n\n■ boom"), ""),
    "above a permission": (dialog("0.125.0", "approval_exec"), "I will run a command now."),
    "above a question": (dialog("0.166.0", "ask_user"), "I will run a command now."),
    "a dialog of the start": (dialog("0.166.0", "hooks_dialog"), ""),
    "a dialog alone": ("› 1. Yes\n  Press enter to confirm\n", ""),
    "paragraphs above a dialog": (
        f"› Go\n\n• Old.\n\n\n• Said.\n\n  Twice.\n\n  Thrice.\n\n\n{ASKED}",
        "Said.\n\nTwice.\n\nThrice.",
    ),
    **{
        f"{version} {case}": (screen(f"{status}/{version}-{case}.txt"), expected)
        for version in VERSIONS
        for status, case, expected in (
            ("completed", "completed_simple", PLAIN),
            ("completed", "completed_reasoning", PLAIN),
            ("completed", "completed_explored", DONE),
            ("idle", "idle_fresh", ""),
            ("error", "error_401", ""),
            ("processing", "processing_thinking", ""),
        )
    },
}


def record(kind: str, **payload: object) -> str:
    return stamped(None, kind, **payload)


def stamped(at: object, kind: str, **payload: object) -> str:
    event = {"type": "event_msg", "payload": {"type": kind, **payload}}
    return json.dumps({"timestamp": at, **event})


def does(kind: str, **payload: object) -> str:
    return json.dumps({"type": "response_item", "payload": {"type": kind, **payload}})


def calls(name: str, arguments: str) -> str:
    return does("function_call", name=name, arguments=arguments)


def head(source: object) -> str:
    return json.dumps({"type": "session_meta", "payload": {"id": "1", "source": source}})


SILENT_END = "task_complete without a message"
PATCH = "*** Begin Patch\n*** Update File: src/basket.py\n@@\n-a\n+b\n*** End Patch"
ACTIONS = {
    calls("exec_command", '{"cmd": "make test"}'): "exec_command: make test",
    calls("shell", '{"command": ["bash", "-lc", "make test"]}'): "shell: make test",
    calls("update_plan", "["): "update_plan",
    calls("update_plan", "[1]"): "update_plan",
    does("custom_tool_call", name="apply_patch", input=PATCH): "apply_patch: src/basket.py",
    does("custom_tool_call", name="apply_patch", input="?"): "apply_patch",
    does("custom_tool_call", name="view_image", input="x"): "view_image",
    does("local_shell_call", action={"command": ["ls", "-l"]}): "shell: ls -l",
    does("local_shell_call", action={"command": ["sh", "-c"]}): "shell: sh -c",
    does("web_search_call"): "web_search_call",
}
SIGNALS = {
    record("task_started", turn_id="1"): signal("working", "task_started"),
    record("user_message", message="hi"): signal("submitted", "user_message"),
    record("item_completed", item={"type": "UserMessage"}): signal("submitted", "user_message"),
    record("task_complete", last_agent_message="Done."): signal(
        "finished", "task_complete", answer="Done."
    ),
    record("task_complete", last_agent_message=None, started_at=1): signal("finished", SILENT_END),
    record("task_complete", last_agent_message=None): signal("stopped", SILENT_END),
    record("task_complete", last_agent_message=None, error={"message": "401"}): signal(
        "failed", "task_complete: 401"
    ),
    record("turn_aborted", reason="interrupted"): signal(
        "interrupted", "turn_aborted: interrupted"
    ),
    record("error", message="429"): signal("failed", "error: 429"),
    # A line tells when it happened, if that is a time.
    stamped("1970-01-01T00:01:00.500Z", "task_started"): signal("working", "task_started", at=60.5),
    **{stamped(at, "task_started"): signal("working", "task_started") for at in ("soon", 7)},
    stamped("9" * 400, "task_started"): signal("working", "task_started"),
    # The head of a record tells whether it is that of another session.
    head("cli"): None,
    head("vscode"): None,
    head("exec"): signal("foreign", "session_meta"),
    head({"subagent": {"thread_spawn": {"depth": 1}}}): signal("foreign", "session_meta"),
    head({"subagent": "review"}): signal("foreign", "session_meta"),
    # What it does is told, what it says and thinks is not.
    **{
        line: signal("acting", json.loads(line)["payload"]["type"], action=action)
        for line, action in ACTIONS.items()
    },
    does("message", content=[]): None,
    does("task_complete"): None,
}


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


@example(folder="/home/me/\N{GRINNING FACE}", prompt="del \x7f")
@given(folder=st.text(st.characters(codec="utf-8")), prompt=st.text(st.characters(codec="utf-8")))
def test_folder_and_profile_arrive_whatever_is_in_them(folder: str, prompt: str) -> None:
    argv = codex.launch(request(folder=folder, prompt=prompt)).argv
    read = settings(argv)
    assert argv[argv.index("-C") + 1] == folder
    assert read["check_for_update_on_startup"] is False
    assert read["projects"] == {folder: {"trust_level": "trusted"}}
    assert read.get("developer_instructions") == (prompt if prompt.strip() else None)
