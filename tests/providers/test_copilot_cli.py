"""Copilot CLI: its screens, what may never change them, its hooks, and how it is started."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given

from cli_agent_orchestrator.providers import copilot_cli
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    Permissions,
    SignalKind,
)
from cli_agent_orchestrator.providers.copilot_cli import detect_status
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    WAITING,
    capture,
    launch_request,
    prose,
)

TABS = " [Current]  Sessions   Issues   Pull requests   Gists\n"
BANNER = f"{TABS}\n  ╭─╮╭─╮\n  ╰─╯╰─╯  Copilot v1.0.102 uses AI.\n\n ● Tip: /help\n   └ Show it\n"
RULE = "─" * 120


def box(footer: str, draft: str = "❯") -> str:
    return f"\n /home/me/app\n{RULE}\n{draft}\n{RULE}\n {footer}\n"


AT_REST = box("← open sidebar · Interactive · / commands")
BUSY = box("◎ Working · 117 B esc esc interrupt")
DIALOG = (
    "╭──────────╮\n│ Do you want to run this command?    │\n│ ❯ 1. Yes     │\n"
    "│   2. No      │\n│ ↑/↓ to navigate · enter to select · esc to cancel │\n╰──────────╯\n"
)
FORM = f"{RULE}\n Which?\n ❯ Red\n   Blue\n\n ↑/↓ select · enter accept · esc cancel\n{RULE}\n"
ENDINGS = {
    COMPLETED: AT_REST,
    PROCESSING: BUSY,
    WAITING: f"\n{DIALOG}",
    ERROR: f"\n ✗ Authentication failed (HTTP 401).\n     Check your key.\n{AT_REST}",
    IDLE: f"\n ● Operation cancelled by user\n{AT_REST}",
}
SIGNS = [
    "● Operation cancelled by user",
    "✗ Authentication failed",
    "❯ Fix it",
    "◎ Working esc esc interrupt",
    "│ ❯ 1. Yes",
    "╭──────╮",
    "╰──────╯",
    "↑/↓ select · enter accept · esc cancel",
    RULE,
    "",
]
PROSE = prose(SIGNS)


def test_a_form_waits_for_a_person() -> None:
    assert detect_status(f" ❯ Ask me\n\n ○ Asking user\n\n{FORM}") is WAITING


def test_a_tool_that_ran_is_a_reply() -> None:
    assert detect_status(f" ❯ Do it    12:30\n\n $ Shell List\n   ls\n{AT_REST}") is COMPLETED


def test_a_banner_a_note_or_a_message_alone_is_no_reply() -> None:
    assert detect_status(BANNER + AT_REST) is IDLE
    assert detect_status(f"{BANNER}\n ● New version available\n{AT_REST}") is IDLE
    retrying = " ● Request failed due to a transient API error. Retrying...\n"
    assert detect_status(f"{BANNER} ❯ Fix it    12:30\n{retrying}{AT_REST}") is IDLE
    assert detect_status(AT_REST) is IDLE


def test_an_answer_whose_head_has_scrolled_away_is_completed() -> None:
    rest = f"{'   the end of a long answer':119}┃\n{'':119}┃\n"
    assert detect_status(TABS + rest + AT_REST) is COMPLETED
    assert detect_status(f"{TABS} ● The answer\n{AT_REST}") is COMPLETED


def test_the_text_of_a_stopped_turn_in_the_box_is_no_error() -> None:
    failed = " ❯ Fix it    12:30\n\n ✗ Authentication failed\n"
    assert detect_status(failed + AT_REST) is ERROR
    assert detect_status(failed + box("Interactive", draft="❯ Fix it again")) is IDLE


@pytest.mark.parametrize("indent", ["  ", "   ", "     "])
def test_all_that_is_indented_below_a_failure_is_part_of_it(indent: str) -> None:
    failed = f" ❯ Fix it    12:30\n\n ✗ Authentication failed\n{indent}Check your key.\n"
    assert detect_status(failed + AT_REST) is ERROR


@given(before=PROSE, last=PROSE)
def test_no_prose_changes_the_status(before: list[str], last: list[str]) -> None:
    screen = " ❯ Explain    12:30\n\n ● It is like this.\n"
    for line in [*before, "", *last]:
        screen += f"   {line}\n"
    for status, ending in ENDINGS.items():
        assert detect_status(screen + ending) is status


@given(PROSE)
def test_no_quoting_message_of_the_user_changes_the_status(said: list[str]) -> None:
    screen = " ❯ Explain this:    12:30\n"
    for line in said:
        screen += f"   {line}\n"
    assert detect_status(f"{screen}\n ● It is clear.\n{AT_REST}") is COMPLETED


def test_the_folder_is_trusted_for_this_session_alone() -> None:
    screen = capture("copilot_cli/waiting_user_answer/1.0.102-trust_dialog.txt")
    found = copilot_cli.startup_dialog(screen)
    assert found is not None
    assert (found.name, found.keys) == ("trust this folder", ("1",))
    other = copilot_cli.startup_dialog(screen.replace("❯ 1. Yes ", "❯ 1. Always"))
    assert other is not None
    assert other.keys == ()
    assert "remember the folder" in other.advice


def test_an_agent_that_is_not_signed_in_is_not_started() -> None:
    found = copilot_cli.startup_dialog(capture("copilot_cli/idle/1.0.102-signed_out.txt"))
    assert found is not None
    assert (found.name, found.keys) == ("sign in", ())
    assert "/login" in found.advice


def test_a_question_of_a_turn_is_no_startup_question() -> None:
    assert copilot_cli.startup_dialog(DIALOG) is None
    quoted = f"{TABS} ❯ Do it    12:30\n\n ● Please use /login to sign in to use Copilot\n{AT_REST}"
    assert copilot_cli.startup_dialog(quoted) is None


def test_the_last_answer_is_what_was_said_last_and_no_more() -> None:
    screen = (
        f"{TABS} ❯ Do it    12:30\n\n ● I will.\n\n $ Shell List\n   ls\n\n"
        f"{' ● Done:':119}┃\n\n   • one\n   end\n\n ● Operation cancelled by user\n{AT_REST}"
    )
    assert copilot_cli.last_answer(screen) == "Done:\n\n• one\nend"


def test_there_is_no_answer_before_the_agent_speaks() -> None:
    assert copilot_cli.last_answer(f" ● Old.\n\n ❯ Do it    12:30\n{AT_REST}") == ""


def message(**data: object) -> str:
    return json.dumps({"type": "assistant.message", "data": data})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"hook": "userPromptSubmitted"}',
            AgentSignal(SignalKind.SUBMITTED, "userPromptSubmitted"),
        ),
        ('{"hook": "postToolUse"}', AgentSignal(SignalKind.WORKING, "postToolUse")),
        ('{"hook": "errorOccurred"}', AgentSignal(SignalKind.WORKING, "errorOccurred")),
        (
            '{"hook": "notification", "input": {"notification_type": "permission_prompt"}}',
            AgentSignal(SignalKind.WAITING, "notification: permission_prompt"),
        ),
        ('{"hook": "notification", "input": {"notification_type": "shell_completed"}}', None),
        ('{"hook": "agentStop"}', AgentSignal(SignalKind.FINISHED, "agentStop")),
        (
            message(content="Done.", toolRequests=[]),
            AgentSignal(SignalKind.FINISHED, "assistant.message", answer="Done."),
        ),
        (message(content="I will.", toolRequests=[{"name": "bash"}]), None),
        ('{"hook": "new"}', None),
        ("[]", None),
        ("no JSON", None),
    ],
)
def test_hooks_become_signals(line: str, expected: AgentSignal | None) -> None:
    assert copilot_cli.read_signal(line) == expected


def run_hook(event: str, given: object, tmp_path: Path, **env: str) -> tuple[str, list[str]]:
    """Run the command of a hook as Copilot does; return what it says and the lines it leaves."""
    hooks = json.loads((copilot_cli.PLUGIN / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    events = tmp_path / "the events.jsonl"
    events.touch()
    # The command writes in the background; `wait` ends when it has.
    command = f"{hooks[event][0]['bash']}\nwait"
    done = subprocess.run(
        ["bash", "-c", command],
        input=json.dumps(given, separators=(",", ":")),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "CAO_EVENT_FILE": str(events), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout, events.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("userPromptSubmitted", SignalKind.SUBMITTED),
        ("postToolUse", SignalKind.WORKING),
        ("postToolUseFailure", SignalKind.WORKING),
        ("errorOccurred", SignalKind.WORKING),
    ],
)
def test_a_hook_leaves_its_name_and_nothing_of_the_prompt(
    event: str, kind: SignalKind, tmp_path: Path
) -> None:
    said, lines = run_hook(event, {"prompt": "a secret"}, tmp_path)
    assert said == ""
    assert "secret" not in lines[0]
    assert [signal.kind for line in lines if (signal := copilot_cli.read_signal(line))] == [kind]


def test_a_notification_is_left_whole(tmp_path: Path) -> None:
    given = {"message": "Run 'it' 100%s \\n", "notification_type": "permission_prompt"}
    _, [line] = run_hook("notification", given, tmp_path)
    assert json.loads(line) == {"hook": "notification", "input": given}


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (message(content='Done.\n\n"All" of it', toolRequests=[]), 'Done.\n\n"All" of it'),
        ('{"type":"user.message","data":{}}', None),
    ],
)
def test_the_end_of_a_turn_brings_its_last_message(
    last: str, answer: str | None, tmp_path: Path
) -> None:
    record = tmp_path / "session state" / "events.jsonl"
    record.parent.mkdir()
    end = '{"type":"hook.end","data":{"hookType":"agentStop"}}'
    old = message(content="Old.", toolRequests=[])
    lines = [old, end, '{"type":"user.message","data":{}}', last, end]
    record.write_text("".join(f"{line.replace(': ', ':')}\n" for line in lines), encoding="utf-8")
    _, left = run_hook("agentStop", {"cwd": "/x", "transcriptPath": str(record)}, tmp_path)
    signals = [signal for line in left if (signal := copilot_cli.read_signal(line))]
    assert signals[-1] == AgentSignal(SignalKind.FINISHED, "agentStop")
    assert [signal.answer for signal in signals if signal.answer] == ([answer] if answer else [])


def test_the_profile_is_handed_over_at_the_start_of_a_session(tmp_path: Path) -> None:
    launch = copilot_cli.launch(
        launch_request("/bin/copilot", Permissions.FULL, prompt=' Say "it\'s $HOME".\n')
    )
    context = launch.env["CAO_SESSION_CONTEXT"]
    said, _ = run_hook("sessionStart", {"source": "new"}, tmp_path, CAO_SESSION_CONTEXT=context)
    assert json.loads(said) == {"additionalContext": 'Say "it\'s $HOME".'}


def test_no_profile_is_no_context(tmp_path: Path) -> None:
    launch = copilot_cli.launch(launch_request("/bin/copilot", Permissions.FULL, prompt=" \n"))
    assert launch.env == {"CAO_EVENT_FILE": "/state/x.jsonl", "CAO_SESSION_CONTEXT": ""}


@pytest.mark.parametrize(
    ("permissions", "flags"),
    [
        (Permissions.WORKSPACE, ("--allow-all-tools",)),
        (Permissions.FULL, ("--allow-all",)),
        (Permissions.ASK, ()),
    ],
)
def test_permissions_become_flags(permissions: Permissions, flags: tuple[str, ...]) -> None:
    launch = copilot_cli.launch(launch_request("/bin/copilot", permissions, "--model", "x"))
    plugin = ("--plugin-dir", str(copilot_cli.PLUGIN))
    assert launch.argv == ("/bin/copilot", *plugin, *flags, "--model", "x")


def test_the_users_own_permissions_count() -> None:
    launch = copilot_cli.launch(launch_request("/bin/copilot", Permissions.WORKSPACE, "--yolo"))
    assert launch.argv[3:] == ("--yolo",)


def test_the_plugin_names_its_hooks() -> None:
    plugin = json.loads((copilot_cli.PLUGIN / "plugin.json").read_text(encoding="utf-8"))
    assert (copilot_cli.PLUGIN / plugin["hooks"]).is_file()
