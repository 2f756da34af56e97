"""The scripted agent as the server knows it; its captured screens are in `screens/scripted`."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers import scripted
from cli_agent_orchestrator.providers.base import Permissions
from cli_agent_orchestrator.scripted_agent.console import answer_rows
from tests.providers.samples import COMPLETED, PROCESSING, launch_request, signal


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
    assert scripted.detect_status(finished) is COMPLETED
    assert scripted.detect_status(busy) is PROCESSING
    assert scripted.detect_status(half_drawn) is PROCESSING
    assert scripted.startup_dialog(half_drawn) is None


ROWS = ("▌ go", "│ said", "┆ more", "∙ ran it", "▒▒ scripted agent")
SPINNER = ("▖ working", "▘ working", "▝ working", "▗ working")
SCREENS = {f"half a frame: {row}": (f"▌ go\n{row}", PROCESSING) for row in (*ROWS, *SPINNER)}
CHOICES = "▨ 1 yes · 2 no · Enter takes the marked one"
QUESTIONS = {
    "no heading": (CHOICES, None),
    "the newest of two": (
        f"▨ sign-in needed\n{CHOICES}\n▨ start-up question\n{CHOICES}",
        ("may I work in this folder", "1"),
    ),
}
DRAFTS = {
    "a placeholder": (
        "▢ ready\n\x1b[1mscripted ❯\x1b[0m \x1b[2mSay what to do, or /exit\x1b[0m\n\n",
        "",
    ),
    "the same as text": ("▢ ready\n\x1b[1mscripted ❯\x1b[0m Say what to do\n", "Say what to do"),
    "a paste": (
        "\x1b[1mscripted ❯\x1b[0m [pasted 12345 chars] and more",
        "[pasted 12345 chars] and more",
    ),
    "nothing": ("\x1b[1mscripted ❯\x1b[0m", ""),
    "a question": (CHOICES, None),
    "a quoted box": ("│ scripted ❯ quoted", None),
}
ANSWERS = {
    "that of the last message": (
        "▌ one\n│ first\n▣ turn 1 over · 0s\n▌ two\n∙ ran it\n│ second\n│\n│   end\n",
        "second\n\n  end",
    ),
    "nothing yet": ("▌ one\n│ first\n▣ turn 1 over\n▌ two\n▖ working · 0s", ""),
    "its first line is gone": ("┆ the rest of a line that is gone\n│ next", "next"),
    "a line that was too long": ("▌ one\n│ a lo\n┆ ng line\n│ end", "a long line\nend"),
}
SIGNALS = {
    '{"event": "SessionStart"}': signal("ready", "SessionStart"),
    '{"event": "UserPromptSubmit"}': signal("submitted", "UserPromptSubmit"),
    '{"event": "PermissionRequest"}': signal("waiting", "PermissionRequest"),
    '{"event": "PreToolUse", "message": "run: make"}': signal(
        "acting", "PreToolUse", action="run: make"
    ),
    '{"event": "PostToolUse"}': signal("working", "PostToolUse"),
    '{"event": "Stop"}': signal("finished", "Stop"),
    '{"event": "Stop", "message": "one\\ntwo"}': signal("finished", "Stop", answer="one\ntwo"),
    '{"event": "StopFailure"}': signal("failed", "StopFailure"),
    '{"event": "StopFailure", "message": "limit"}': signal("failed", "StopFailure: limit"),
    '{"event": "SessionEnd"}': signal("ended", "SessionEnd"),
}
