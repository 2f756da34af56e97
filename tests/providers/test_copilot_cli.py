"""Copilot CLI: its screens, what may never change them, its hooks, and how it is started."""

import json
import subprocess
from pathlib import Path

import pytest

from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import Permissions, SignalKind
from cli_agent_orchestrator.providers.described import PACKAGED
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    capture,
    launch_request,
    signal,
)

COPILOT = get_provider("copilot_cli")
PLUGIN = PACKAGED / "copilot_plugin"
TABS = " [Current]  Sessions   Issues   Pull requests   Gists\n"
BANNER = f"{TABS}\n  ╭─╮╭─╮\n  ╰─╯╰─╯  Copilot v1.0.102 uses AI.\n\n ● Tip: /help\n   └ Show it\n"
RULE = "─" * 120


def box(footer: str, draft: str = "❯") -> str:
    return f"\n /home/me/app\n{RULE}\n{draft}\n{RULE}\n {footer}\n"


AT_REST = box("← open sidebar · Interactive · / commands")
DIALOG = (
    "╭──────────╮\n│ Do you want to run this command?    │\n│ ❯ 1. Yes     │\n"
    "│   2. No      │\n│ ↑/↓ to navigate · enter to select · esc to cancel │\n╰──────────╯\n"
)
ASKED = " ❯ Fix it    12:30\n"
FAILED = f"{ASKED}\n ✗ Authentication failed\n"
RETRYING = " ● Request failed due to a transient API error. Retrying...\n"
REST = f"{'   the end of a long answer':119}┃\n{'':119}┃\n"
SCREENS = {
    "a tool that ran": (f"{ASKED}\n $ Shell List\n   ls\n{AT_REST}", COMPLETED),
    "a banner alone": (BANNER + AT_REST, IDLE),
    "a note alone": (f"{BANNER}\n ● New version available\n{AT_REST}", IDLE),
    "a message alone": (f"{BANNER}{ASKED}{RETRYING}{AT_REST}", IDLE),
    "a box alone": (AT_REST, IDLE),
    "an answer whose head has scrolled away": (TABS + REST + AT_REST, COMPLETED),
    "an answer whose message has scrolled away": (f"{TABS} ● The answer\n{AT_REST}", COMPLETED),
    "a failure": (FAILED + AT_REST, ERROR),
    "the text of a stopped turn in the box": (FAILED + box("x", draft="❯ Fix it again"), IDLE),
    **{
        f"a failure with details ({indent})": (f"{FAILED}{indent}Check it.\n{AT_REST}", ERROR)
        for indent in ("  ", "   ", "     ")
    },
}
SAID = f"\n ● I will.\n\n $ Shell List\n   ls\n\n{' ● Done:':119}┃\n\n   • one\n   end\n"
ANSWERS = {
    "what was said last": (
        f"{TABS}{ASKED}{SAID}\n ● Operation cancelled by user\n{AT_REST}",
        "Done:\n\n• one\nend",
    ),
    "nothing yet": (f" ● Old.\n\n{ASKED}{AT_REST}", ""),
}


def message(**data: object) -> str:
    return json.dumps({"type": "assistant.message", "data": data})


def notification(kind: str) -> str:
    return json.dumps({"hook": "notification", "input": {"notification_type": kind}})


SIGNALS = {
    '{"hook": "userPromptSubmitted"}': signal("submitted", "userPromptSubmitted"),
    '{"hook": "postToolUse"}': signal("working", "postToolUse"),
    '{"hook": "errorOccurred"}': signal("working", "errorOccurred"),
    notification("permission_prompt"): signal("waiting", "notification: permission_prompt"),
    notification("shell_completed"): None,
    '{"hook": "agentStop"}': signal("finished", "agentStop"),
    message(content="Done.", toolRequests=[]): signal(
        "finished", "assistant.message", answer="Done."
    ),
    message(content="I will.", toolRequests=[{"name": "bash"}]): None,
}


TRUST = capture("copilot_cli/waiting_user_answer/1.0.102-trust_dialog.txt")
SIGN_IN = "Please use /login to sign in to use Copilot"
QUESTIONS = {
    "trust for good": (TRUST.replace("❯ 1. Yes ", "❯ 1. Always"), ("trust this folder", "")),
    "a question of a turn": (DIALOG, None),
    "a quoted question": (f"{TABS} ❯ Do it    12:30\n\n ● {SIGN_IN}\n{AT_REST}", None),
}


def run_hook(event: str, given: object, tmp_path: Path, **env: str) -> tuple[str, list[str]]:
    """Run the command of a hook as Copilot does; return what it says and the lines it leaves."""
    hooks = json.loads((PLUGIN / "hooks.json").read_text(encoding="utf-8"))["hooks"]
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
    assert [signal.kind for line in lines if (signal := COPILOT.read_signal(line))] == [kind]


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
    signals = [read for line in left if (read := COPILOT.read_signal(line))]
    assert signals[-1] == signal("finished", "agentStop")
    assert [one.answer for one in signals if one.answer] == ([answer] if answer else [])


def test_the_profile_is_handed_over_at_the_start_of_a_session(tmp_path: Path) -> None:
    launch = COPILOT.launch(
        launch_request("/bin/copilot", Permissions.FULL, prompt=' Say "it\'s $HOME".\n')
    )
    context = launch.env["CAO_SESSION_CONTEXT"]
    said, _ = run_hook("sessionStart", {"source": "new"}, tmp_path, CAO_SESSION_CONTEXT=context)
    assert json.loads(said) == {"additionalContext": 'Say "it\'s $HOME".'}
    without = COPILOT.launch(launch_request("/bin/copilot", Permissions.FULL, prompt=" \n"))
    assert without.env == {"CAO_EVENT_FILE": "/state/x.jsonl", "CAO_SESSION_CONTEXT": ""}


def test_the_plugin_names_its_hooks() -> None:
    plugin = json.loads((PLUGIN / "plugin.json").read_text(encoding="utf-8"))
    assert (PLUGIN / plugin["hooks"]).is_file()
