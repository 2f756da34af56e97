"""How Claude Code is started, and what its hooks leave behind, run by a real shell."""

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.providers import claude_code
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    LaunchRequest,
    Permissions,
    SignalKind,
)
from cli_agent_orchestrator.providers.claude_hooks import (
    HOOKS_SINCE,
    hook_command,
    hook_settings,
    read_signal,
)
from cli_agent_orchestrator.providers.screen import action_line
from tests.providers.samples import launch_request, signal

NEWEST = (2, 1, 325)
RECORDINGS = Path(__file__).parent / "events" / "claude_code"
PROMPT = 'You are the tester.\nSay "it\'s" $HOME.'


def request(
    permissions: Permissions = Permissions.WORKSPACE,
    version: tuple[int, ...] = NEWEST,
    prompt: str = PROMPT,
    args: tuple[str, ...] = (),
) -> LaunchRequest:
    program = "/opt/bin/claude"
    return launch_request(program, permissions, *args, version=version, prompt=prompt)


def settings_of(argv: tuple[str, ...]) -> dict[str, Any]:  # JSON
    found: dict[str, Any] = json.loads(argv[argv.index("--settings") + 1])
    return found


def test_it_gets_its_profile_as_an_argument_keeps_its_scrollback_and_knows_no_tmux() -> None:
    launch = claude_code.launch(request(args=("--model", "opus")))
    assert launch.argv[:6] == ("env", "-u", "TMUX", "-u", "TMUX_PANE", "/opt/bin/claude")
    assert launch.env["CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN"] == "1"
    assert launch.argv[launch.argv.index("--append-system-prompt") + 1] == PROMPT
    assert launch.argv[-4] == "--settings", "an option that takes many words stands before it"
    assert launch.argv[-2:] == ("--model", "opus"), "the user's own arguments come last"
    assert "--append-system-prompt" not in claude_code.launch(request(prompt="  \n")).argv
    assert launch.pieces is None, "only later versions mark a long paste"
    assert claude_code.launch(request(version=(2, 1, 328))).pieces is claude_code.pieces


WORKSPACE, FULL, ASK = Permissions.WORKSPACE, Permissions.FULL, Permissions.ASK
SANDBOX = {"sandbox": {"enabled": True, "allowUnsandboxedCommands": False}}


@pytest.mark.parametrize(
    ("permissions", "version", "expected"),
    [
        (WORKSPACE, NEWEST, SANDBOX),
        # In these versions it breaks commands.
        *((WORKSPACE, version, {}) for version in ((), (2, 1, 324))),
        (FULL, NEWEST, {"skipDangerousModePermissionPrompt": True}),
        (ASK, NEWEST, {}),
    ],
)
def test_permissions_become_settings(
    permissions: Permissions, version: tuple[int, ...], expected: dict[str, object]
) -> None:
    launch = claude_code.launch(request(permissions, version))
    settings = settings_of(launch.argv)
    assert settings.pop("hooks")
    assert settings == expected
    assert ("IS_SANDBOX" in launch.env) is (permissions is FULL), "else root is refused"


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        (NEWEST, set()),
        ((2, 1, 78), set()),
        ((2, 1, 77), {"StopFailure"}),
        ((2, 0, 45), {"StopFailure", "PostToolUseFailure"}),
        ((2, 0, 44), {"StopFailure", "PostToolUseFailure", "PermissionRequest"}),
        ((1, 0, 85), {"StopFailure", "PostToolUseFailure", "PermissionRequest"}),
        ((1, 0, 84), {"StopFailure", "PostToolUseFailure", "PermissionRequest", "SessionEnd"}),
        ((), {"StopFailure", "PostToolUseFailure", "PermissionRequest", "SessionEnd"}),
    ],
)
def test_a_version_gets_only_hooks_it_knows(version: tuple[int, ...], missing: set[str]) -> None:
    all_of_them = {
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Notification"),
        *("PreCompact", "Stop", "SessionEnd", "PermissionRequest", "PostToolUseFailure"),
        "StopFailure",
    }
    assert set(hook_settings(version, "/x")) == all_of_them - missing


def test_only_a_person_who_shortens_the_conversation_is_told_of() -> None:
    matchers = {
        event: rule["matcher"]
        for event, rules in hook_settings(NEWEST, "/x").items()
        for rule in rules
        if "matcher" in rule
    }
    assert matchers == {"PreCompact": "manual"}


def run_hook(
    event: str, file: Path, given: Mapping[str, object], separators: tuple[str, str] = (", ", ": ")
) -> None:
    """Run a hook as Claude Code does: through a shell, with JSON on its standard input."""
    fields = {"session_id": "s", "hook_event_name": event, **given}
    told = json.dumps(fields, ensure_ascii=False, separators=separators)
    done = subprocess.run(
        ["sh", "-c", hook_command(event, str(file))],
        input=told.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def read_signals(file: Path) -> list[AgentSignal]:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    return [signal for line in lines if (signal := read_signal(line))]


def stop(kind: SignalKind, answer: str | None, **more: Any) -> AgentSignal:
    return AgentSignal(kind, "Stop", answer, agent="", revocable=True, **more)


def test_a_hook_leaves_a_line_in_a_file_with_any_name(tmp_path: Path) -> None:
    file = tmp_path / 'it\'s a $(file) "name"; `x`'
    run_hook("Stop", file, {"last_assistant_message": "Done.\nAll of it."})
    assert read_signals(file) == [stop(SignalKind.FINISHED, "Done.\nAll of it.")]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("event", HOOKS_SINCE)
def test_a_hook_writes_for_the_owner_alone_and_is_silent_where_it_cannot(
    event: str, tmp_path: Path
) -> None:
    file = tmp_path / "events"
    run_hook(event, file, {})
    assert file.stat().st_mode & 0o077 == 0
    run_hook(event, tmp_path / "missing" / "events", {"prompt": "x"})


def test_prompts_and_the_contents_of_files_are_not_written_down(tmp_path: Path) -> None:
    file = tmp_path / "events"
    run_hook("UserPromptSubmit", file, {"prompt": "secret " * 100_000})
    run_hook("PostToolUse", file, {"tool_response": "secret"})
    run_hook("PostToolUseFailure", file, {"error": "secret"})
    run_hook("PreCompact", file, {"trigger": "manual", "custom_instructions": "secret"})
    assert b"secret" not in file.read_bytes()
    assert [signal.kind for signal in read_signals(file)] == [
        SignalKind.SUBMITTED,
        SignalKind.WORKING,
        SignalKind.WORKING,
        SignalKind.SHORTENING,
    ]


TOOL_INPUTS = [
    ({"command": "make", "run_in_background": True}, True),
    ({"command": "make", "run_in_background": False}, None),
    ({"command": "echo '{\"run_in_background\":true}'"}, None),
    ({}, None),
]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(("given", "background"), TOOL_INPUTS)
def test_a_used_tool_tells_of_which_agent_it_is_and_whether_it_works_on(
    given: Mapping[str, object],
    background: bool | None,
    separators: tuple[str, str],
    tmp_path: Path,
) -> None:
    told = {"agent_id": "a7", "tool_input": given, "tool_response": {"agent_id": "other"}}
    run_hook("PostToolUse", tmp_path / "events", told, separators)
    [signal] = read_signals(tmp_path / "events")
    assert (signal.kind, signal.agent) == (SignalKind.WORKING, "a7")
    assert signal.background is background


@pytest.mark.parametrize(
    ("tool", "given", "action"),
    [
        ("Bash", {"command": 'echo "a"; make', "description": "d"}, 'Bash: echo "a"; make'),
        ("Write", {"file_path": "/p/a.py", "content": "secret"}, "Write: /p/a.py"),
        ("Edit", {"old_string": "secret", "file_path": "/p/ä.py"}, "Edit: /p/ä.py"),
        ("Grep", {"pattern": "x\\d"}, "Grep: x\\d"),
        ("WebFetch", {"prompt": "secret", "url": "https://a.b"}, "WebFetch: https://a.b"),
        ("TodoWrite", {"todos": ["secret"]}, "TodoWrite"),
        ("Bash", {"command": f"cat {'x' * 5000} secret"}, f"Bash: cat {'x' * 109}…"),
        # Cut off in the middle of what is hard to cut.
        *(
            ("Bash", {"command": command}, action_line("Bash", {"command": command}))
            for hard in ("\x1b", "\n", '"', "\\", "\\u00", "ä")
            for command in ("x" * 194 + hard * 20, "x" * 199 + hard * 20)
        ),
    ],
)
def test_a_tool_is_told_before_its_use_by_what_says_most(
    tool: str, given: Mapping[str, object], action: str, tmp_path: Path
) -> None:
    file = tmp_path / "events"
    run_hook("PreToolUse", file, {"tool_name": tool, "tool_input": given, "tool_use_id": "i"})
    assert b"secret" not in file.read_bytes()
    assert read_signals(file) == [signal("acting", "PreToolUse", action=action)]


def test_a_stop_names_what_works_in_the_background() -> None:
    lines = (RECORDINGS / "2.1.325-background.jsonl").read_text(encoding="utf-8").splitlines()
    told = [signal for line in lines if (signal := read_signal(line))]
    stops = [(stop.kind, stop.detail, stop.background) for stop in told if stop.revocable]
    assert stops == [
        (SignalKind.BACKGROUND, "Stop; in the background: shell, subagent", True),
        (SignalKind.BACKGROUND, "Stop; in the background: shell", True),
        (SignalKind.FINISHED, "Stop", False),
    ]


def test_lines_of_hooks_that_run_at_once_are_not_mixed(tmp_path: Path) -> None:
    file = tmp_path / "events"
    answers = [f"{number} " * 20_000 for number in range(12)]
    with ThreadPoolExecutor(max_workers=12) as pool:
        hooks = [
            pool.submit(run_hook, event, file, {"last_assistant_message": answer})
            for answer in answers
            for event in ("Stop", "PostToolUse")
        ]
        for hook in hooks:
            hook.result()
    signals = read_signals(file)
    assert sorted(signal.answer or "" for signal in signals) == sorted(answers + [""] * 12)
    assert list(tmp_path.iterdir()) == [file]


LIMIT = "You've hit your 5-hour limit · resets 12:30pm (UTC)"


def hook(event: str, **fields: object) -> str:
    return json.dumps({"hook_event_name": event, **fields})


def record(kind: str, *content: object, **more: object) -> str:
    return json.dumps({"type": kind, "message": {"content": [*content]}, **more})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


STOPPED = "[Request interrupted by user for tool use]"
SAID = "The test passes now.\n\nAll of it."


SIGNALS = {
    hook("SessionStart", source="startup", transcript_path="/r.jsonl"): signal(
        "ready", "SessionStart: startup", transcript="/r.jsonl"
    ),
    hook("SessionStart", source="compact"): signal("shortened", "SessionStart: compact"),
    hook("PreCompact"): signal("shortening", "PreCompact", ends_aloud=True),
    hook("SessionStart", source="clear", transcript_path="/n.jsonl"): signal(
        "cleared", "SessionStart: clear", transcript="/n.jsonl"
    ),
    hook("UserPromptSubmit", prompt="never told"): signal(
        "submitted", "UserPromptSubmit", ends_aloud=True
    ),
    hook("PostToolUse", agent_id="a7", in_background=False): signal(
        "working", "PostToolUse", agent="a7", ends_aloud=True
    ),
    hook("PermissionRequest", tool_name="Bash", tool_input={}): signal(
        "waiting", "PermissionRequest: Bash", agent="", ends_aloud=True
    ),
    hook("PermissionRequest", tool_name="Bash", agent_id="a7"): signal(
        "waiting", "PermissionRequest: Bash", agent="a7", ends_aloud=True
    ),
    hook("Notification", notification_type="permission_prompt"): signal(
        "waiting", "Notification: permission_prompt", ends_aloud=True
    ),
    hook("Notification", message="Claude needs your permission to use X"): signal(
        "waiting", "Notification: Claude needs your permission to use X", ends_aloud=True
    ),
    hook("Notification", notification_type="idle_prompt"): None,
    hook("Notification", message="Claude is waiting for you"): None,
    hook("Notification"): None,
    hook("Stop"): stop(SignalKind.STOPPED, None),
    hook("Stop", last_assistant_message="Over.", background_tasks=[]): stop(
        SignalKind.FINISHED, "Over.", background=False
    ),
    hook("Stop", background_tasks=[{"status": "completed"}, 7]): stop(
        SignalKind.STOPPED, None, background=False
    ),
    hook("Stop", background_tasks=7): stop(SignalKind.STOPPED, None),
    hook("StopFailure", last_assistant_message="API Error: 529 busy"): signal(
        "failed", "StopFailure: API Error: 529 busy"
    ),
    hook("StopFailure", last_assistant_message=LIMIT): signal(
        "failed", f"StopFailure: {LIMIT}", revocable=True
    ),
    hook("StopFailure"): signal("failed", "StopFailure"),
    hook("SessionEnd", reason="prompt_input_exit"): signal(
        "ended", "SessionEnd: prompt_input_exit"
    ),
    hook("SessionEnd", reason="clear"): None,
    # The session record.
    json.dumps({"type": "system", "subtype": "stop_hook_summary", "hookCount": 3}): signal(
        "consulted", "stop_hook_summary", consulted=3
    ),
    record("user", text(STOPPED)): signal("interrupted", STOPPED),
    record("assistant", text(SAID)): signal("answered", "answered", answer=SAID),
    record("assistant", text(SAID), isApiErrorMessage=True): signal("erred", SAID),
    record("user", text(STOPPED), isSidechain=True): None,
    record("assistant", text(SAID), isSidechain=True): None,
    record("assistant", {"type": "tool_use"}): None,
    record("assistant", {"text": "[Request …"}): None,
    json.dumps({"type": "user", "message": {"content": STOPPED}}): None,
    record("user", text("Fix it")): None,
    record("user", {"type": "tool_result", "content": STOPPED}): None,
    record("user"): None,
}
