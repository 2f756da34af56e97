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
from tests.providers.samples import launch_request

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


def options(argv: tuple[str, ...]) -> list[str]:
    return list(argv[argv.index("/opt/bin/claude") + 1 :])


def settings_of(argv: tuple[str, ...]) -> dict[str, Any]:  # JSON
    found: dict[str, Any] = json.loads(argv[argv.index("--settings") + 1])
    return found


def test_the_profile_is_one_argument_and_never_goes_through_a_shell() -> None:
    argv = claude_code.launch(request()).argv
    assert argv[argv.index("--append-system-prompt") + 1] == PROMPT
    empty = claude_code.launch(request(prompt="  \n")).argv
    assert "--append-system-prompt" not in empty


def test_it_keeps_its_scrollback_and_is_not_told_that_it_runs_in_tmux() -> None:
    launch = claude_code.launch(request(args=("--model", "opus")))
    assert launch.argv[:6] == ("env", "-u", "TMUX", "-u", "TMUX_PANE", "/opt/bin/claude")
    assert launch.env["CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN"] == "1"
    assert launch.argv[-2:] == ("--model", "opus"), "the user's own arguments come last"
    assert launch.argv[-4] == "--settings"


def test_workspace_lets_it_work_without_asking_inside_its_own_sandbox() -> None:
    launch = claude_code.launch(request(Permissions.WORKSPACE))
    words = options(launch.argv)
    assert words[words.index("--permission-mode") + 1] == "acceptEdits"
    assert words[words.index("--allowedTools") + 1] == "Bash,Read,Glob,Grep"
    assert settings_of(launch.argv)["sandbox"] == {
        "enabled": True,
        "allowUnsandboxedCommands": False,
    }
    assert "IS_SANDBOX" not in launch.env


@pytest.mark.parametrize("version", [(), (1, 0, 100), (2, 0, 67), (2, 1, 324)])
def test_the_sandbox_is_not_asked_of_versions_in_which_it_breaks_commands(
    version: tuple[int, ...],
) -> None:
    assert "sandbox" not in settings_of(claude_code.launch(request(version=version)).argv)


def test_full_skips_every_question_also_for_root() -> None:
    launch = claude_code.launch(request(Permissions.FULL))
    assert "--dangerously-skip-permissions" in launch.argv
    assert settings_of(launch.argv)["skipDangerousModePermissionPrompt"] is True
    assert launch.env["IS_SANDBOX"] == "1"


def test_ask_leaves_every_question_to_a_person() -> None:
    launch = claude_code.launch(request(Permissions.ASK))
    words = options(launch.argv)
    assert words[words.index("--permission-mode") + 1] == "default"
    assert "--allowedTools" not in words
    assert set(settings_of(launch.argv)) == {"hooks"}


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


def run_hook(event: str, file: Path, given: Mapping[str, object]) -> None:
    """Run a hook as Claude Code does: through a shell, with JSON on its standard input."""
    done = subprocess.run(
        ["sh", "-c", hook_command(event, str(file))],
        input=json.dumps({"hook_event_name": event, **given}).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def read_signals(file: Path) -> list[AgentSignal]:
    lines = file.read_text(encoding="utf-8").split("\n")
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
    fields: dict[str, object] = {
        "hook_event_name": "PostToolUse",
        "agent_id": "a7",
        "tool_name": "Bash",
        "tool_input": given,
        "tool_response": {"agent_id": "other"},
    }
    file = tmp_path / "events"
    subprocess.run(
        ["sh", "-c", hook_command("PostToolUse", str(file))],
        input=json.dumps(fields, separators=separators).encode(),
        check=True,
    )
    [signal] = read_signals(file)
    assert (signal.kind, signal.agent) == (SignalKind.WORKING, "a7")
    assert signal.background is background


def test_a_stop_names_what_works_in_the_background() -> None:
    lines = (RECORDINGS / "2.1.325-background.jsonl").read_text(encoding="utf-8").splitlines()
    told = [signal for line in lines if (signal := read_signal(line))]
    stops = [(stop.kind, stop.detail, stop.background) for stop in told if stop.revocable]
    assert stops == [
        (SignalKind.BACKGROUND, "Stop; in the background: shell, subagent", True),
        (SignalKind.BACKGROUND, "Stop; in the background: shell", True),
        (SignalKind.FINISHED, "Stop", False),
    ]


def test_the_session_record_tells_how_many_hooks_were_asked_at_the_end() -> None:
    line = json.dumps({"type": "system", "subtype": "stop_hook_summary", "hookCount": 3})
    signal = read_signal(line)
    assert signal is not None
    assert (signal.kind, signal.consulted) == (SignalKind.CONSULTED, 3)
    assert signal.detail == "stop_hook_summary"


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


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"hook_event_name": "SessionStart", "source": "startup", "transcript_path": "/r.jsonl"},
            AgentSignal(SignalKind.READY, "SessionStart: startup", transcript="/r.jsonl"),
        ),
        (
            {"hook_event_name": "SessionStart", "source": "compact"},
            AgentSignal(SignalKind.SHORTENED, "SessionStart: compact"),
        ),
        (
            {"hook_event_name": "PreCompact"},
            AgentSignal(SignalKind.SHORTENING, "PreCompact", ends_aloud=True),
        ),
        (
            {"hook_event_name": "SessionStart", "source": "clear", "transcript_path": "/n.jsonl"},
            AgentSignal(SignalKind.CLEARED, "SessionStart: clear", transcript="/n.jsonl"),
        ),
        (
            {"hook_event_name": "UserPromptSubmit", "prompt": "never told"},
            AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit", ends_aloud=True),
        ),
        (
            {"hook_event_name": "PostToolUse", "agent_id": "a7", "in_background": False},
            AgentSignal(SignalKind.WORKING, "PostToolUse", agent="a7", ends_aloud=True),
        ),
        (
            {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {}},
            AgentSignal(SignalKind.WAITING, "PermissionRequest: Bash", agent=""),
        ),
        (
            {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "agent_id": "a7"},
            AgentSignal(SignalKind.WAITING, "PermissionRequest: Bash", agent="a7"),
        ),
        (
            {"hook_event_name": "Notification", "notification_type": "permission_prompt"},
            AgentSignal(SignalKind.WAITING, "Notification: permission_prompt"),
        ),
        (
            {"hook_event_name": "Notification", "message": "Claude needs your permission to use X"},
            AgentSignal(SignalKind.WAITING, "Notification: Claude needs your permission to use X"),
        ),
        ({"hook_event_name": "Notification", "notification_type": "idle_prompt"}, None),
        ({"hook_event_name": "Notification", "message": "Claude is waiting for you"}, None),
        ({"hook_event_name": "Notification"}, None),
        ({"hook_event_name": "Stop"}, stop(SignalKind.STOPPED, None)),
        (
            {"hook_event_name": "Stop", "last_assistant_message": "Over.", "background_tasks": []},
            stop(SignalKind.FINISHED, "Over.", background=False),
        ),
        (
            {"hook_event_name": "Stop", "background_tasks": [{"status": "completed"}, 7]},
            stop(SignalKind.STOPPED, None, background=False),
        ),
        ({"hook_event_name": "Stop", "background_tasks": 7}, stop(SignalKind.STOPPED, None)),
        (
            {"hook_event_name": "StopFailure", "last_assistant_message": "API Error: 529 busy"},
            AgentSignal(SignalKind.FAILED, "StopFailure: API Error: 529 busy"),
        ),
        ({"hook_event_name": "StopFailure"}, AgentSignal(SignalKind.FAILED, "StopFailure")),
        (
            {"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"},
            AgentSignal(SignalKind.ENDED, "SessionEnd: prompt_input_exit"),
        ),
        ({"hook_event_name": "SessionEnd", "reason": "clear"}, None),
        ({"hook_event_name": "SubagentStop"}, None),
        ({"hook_event_name": 7}, None),
        ([1, 2], None),
        ("text", None),
    ],
)
def test_each_event_is_read_for_what_it_says(fields: object, expected: AgentSignal | None) -> None:
    assert read_signal(json.dumps(fields)) == expected


def record(content: object, **more: object) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}, **more})


def test_the_session_record_tells_of_interruptions_answers_and_errors() -> None:
    stopped = "[Request interrupted by user for tool use]"
    line = record([{"type": "text", "text": stopped}])
    assert read_signal(line) == AgentSignal(SignalKind.INTERRUPTED, stopped)
    said = {"type": "text", "text": "The test passes now.\n\nAll of it."}
    fields = {"type": "assistant", "message": {"content": [said]}}
    answered = AgentSignal(SignalKind.ANSWERED, "answered", answer=said["text"])
    assert read_signal(json.dumps(fields)) == answered
    erred = AgentSignal(SignalKind.ERRED, said["text"])
    assert read_signal(json.dumps({**fields, "isApiErrorMessage": True})) == erred


@pytest.mark.parametrize(
    "line",
    [
        record([{"type": "text", "text": "[Request interrupted by user]"}], isSidechain=True),
        json.dumps({"type": "assistant", "message": {"content": [{"type": "tool_use"}]}}),
        json.dumps(
            {
                "type": "assistant",
                "isSidechain": True,
                "message": {"content": [{"type": "text", "text": "A helper says."}]},
            }
        ),
        record("[Request interrupted by user] is what I typed"),
        record([{"type": "text", "text": "Fix it"}]),
        record([{"type": "tool_result", "content": "[Request interrupted by user]"}]),
        record([]),
        json.dumps({"type": "assistant", "message": {"content": [{"text": "[Request …"}]}}),
        json.dumps({"type": "user", "message": "text"}),
        "{",
        "",
        "[" * 100_000,
    ],
)
def test_all_else_in_the_session_record_says_nothing(line: str) -> None:
    assert read_signal(line) is None
