"""What agents say that they do: one line each, whatever they say."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers import codex, opencode, scripted
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.providers.claude_hooks import hook_command, read_signal
from cli_agent_orchestrator.providers.screen import LONGEST_ACTION, action_line

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Bash", {"description": "Runs", "command": "make\n  test"}, "Bash: make test"),
        ("Read", {"file_path": "/p/a.py"}, "Read: /p/a.py"),
        ("shell", {"command": ["make", "test"]}, "shell: make test"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
        ("a\x1b[2Jb", {"path": "c\x07"}, "a�[2Jb: c�"),
        ("Bash", {"command": ""}, "Bash"),
    ],
)
def test_a_tool_is_told_with_what_says_most(
    tool: str, arguments: dict[str, object], line: str
) -> None:
    assert action_line(tool, arguments) == line


def test_a_line_is_cut_only_where_it_is_too_long() -> None:
    fits = "x" * (LONGEST_ACTION - len("Bash: "))
    assert action_line("Bash", {"command": fits}) == f"Bash: {fits}"
    assert action_line("Bash", {"command": f"{fits}x"}) == f"Bash: {fits[:-1]}…"


@pytest.mark.parametrize(
    "name",
    [
        *("command", "cmd", "file_path", "filePath", "notebook_path", "path", "pattern", "url"),
        *("query", "description", "told"),
    ],
)
def test_agents_have_different_names_for_what_says_most(name: str) -> None:
    assert action_line("Tool", {"other": "x", name: "this"}) == "Tool: this"


@given(st.text(), st.dictionaries(st.sampled_from(["command", "path", "x"]), JSON))
def test_an_action_is_one_short_line_whatever_it_is(
    tool: str, arguments: dict[str, object]
) -> None:
    line = action_line(tool, arguments)
    assert len(line) <= LONGEST_ACTION
    assert len(line.splitlines()) <= 1
    assert line.isprintable() or not set(line) & {"\x1b", "\t", "\x07", "\x9b"}


def item(**payload: object) -> str:
    return json.dumps({"timestamp": "x", "type": "response_item", "payload": payload})


PATCH = "*** Begin Patch\n*** Update File: src/basket.py\n@@\n-a\n+b\n*** End Patch"


@pytest.mark.parametrize(
    ("line", "action"),
    [
        (
            item(type="function_call", name="exec_command", arguments='{"cmd": "make test"}'),
            "exec_command: make test",
        ),
        (
            item(
                type="function_call",
                name="shell",
                arguments='{"command": ["bash", "-lc", "make test"]}',
            ),
            "shell: make test",
        ),
        (
            item(type="custom_tool_call", name="apply_patch", input=PATCH),
            "apply_patch: src/basket.py",
        ),
        (item(type="custom_tool_call", name="apply_patch", input="?"), "apply_patch"),
        (item(type="local_shell_call", action={"command": ["ls", "-l"]}), "shell: ls -l"),
        (item(type="web_search_call"), "web_search_call"),
        (item(type="custom_tool_call", name="view_image", input="x"), "view_image"),
        (item(type="function_call", name="update_plan", arguments="["), "update_plan"),
        (item(type="function_call", name="update_plan", arguments="[1]"), "update_plan"),
    ],
)
def test_codex_records_what_it_does(line: str, action: str) -> None:
    signal = codex.read_signal(line)
    assert signal is not None
    assert (signal.kind, signal.action) == (SignalKind.ACTING, action)


def test_what_codex_says_and_thinks_is_no_action() -> None:
    assert codex.read_signal(item(type="message", content=[])) is None
    assert codex.read_signal(item(type="task_complete")) is None
    assert codex.read_signal(item(type=[])) is None


@pytest.mark.parametrize(
    ("tool", "given_to_it", "action"),
    [
        ("Bash", {"command": 'echo "a"; make', "description": "d"}, 'Bash: echo "a"; make'),
        ("Write", {"file_path": "/p/a.py", "content": "secret"}, "Write: /p/a.py"),
        ("Edit", {"old_string": "secret", "file_path": "/p/ä.py"}, "Edit: /p/ä.py"),
        ("Grep", {"pattern": "x\\d"}, "Grep: x\\d"),
        ("WebFetch", {"prompt": "secret", "url": "https://a.b"}, "WebFetch: https://a.b"),
        ("TodoWrite", {"todos": ["secret"]}, "TodoWrite"),
        ("Bash", {"command": f"cat {'x' * 5000} secret"}, f"Bash: cat {'x' * 109}…"),
    ],
)
def test_claude_code_tells_what_it_is_about_to_do(
    tool: str, given_to_it: dict[str, object], action: str, tmp_path: Path
) -> None:
    line = told_before_use(tool, given_to_it, tmp_path / "events.jsonl")
    assert "secret" not in line
    assert read_signal(line) == AgentSignal(SignalKind.ACTING, "PreToolUse", action=action)


@pytest.mark.parametrize("length", [194, 199])
@pytest.mark.parametrize("hard", ["\x1b", "\n", '"', "\\", "\\u00", "ä"])
def test_a_long_command_of_claude_code_is_told_wherever_it_is_cut(
    length: int, hard: str, tmp_path: Path
) -> None:
    command = "x" * length + hard * 20
    line = told_before_use("Bash", {"command": command}, tmp_path / "events.jsonl")
    signal = read_signal(line)
    assert signal is not None
    assert signal.action == action_line("Bash", {"command": command})


def told_before_use(tool: str, given_to_it: dict[str, object], file: Path) -> str:
    """Return the line that the hook leaves before a tool is used."""
    told = {"session_id": "s", "tool_name": tool, "tool_input": given_to_it, "tool_use_id": "i"}
    done = subprocess.run(
        ["sh", "-c", hook_command("PreToolUse", str(file))],
        input=json.dumps(told, ensure_ascii=False).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (line,) = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return line


def test_opencode_and_the_scripted_agent_tell_it_too() -> None:
    acts = opencode.read_signal('{"event": "acts", "tool": "bash", "told": "make test"}')
    assert acts == AgentSignal(SignalKind.ACTING, "acts", action="bash: make test")
    runs = scripted.read_signal('{"event": "PreToolUse", "message": "run: make test"}')
    assert runs == AgentSignal(SignalKind.ACTING, "PreToolUse", action="run: make test")
