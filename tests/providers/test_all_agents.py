"""Rules that hold for all agents: a table each, with a row for an agent."""

import re
from random import Random
from types import ModuleType
from typing import Any

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import Permissions, Provider, find_version
from cli_agent_orchestrator.providers.screen import strip_escapes
from tests.providers import (
    test_claude_code,
    test_claude_hooks,
    test_codex,
    test_copilot_cli,
    test_gemini_cli,
    test_kiro_cli,
    test_opencode,
    test_scripted,
)
from tests.providers.samples import (
    IDLE,
    PROCESSING,
    PROVIDERS,
    WAITING,
    capture,
    launch_request,
)
from tests.providers.test_drift import TALK, drawings

# How an answer begins, and what stands before its further rows.
SAID = {
    "claude_code": (r"● [^A]", "  "),
    "codex": (r"• ", "  "),
    "copilot_cli": (r" ● ", "   "),
    "gemini_cli": (r"✦ ", "  "),
    "opencode": (r" {5}\w", "     "),
    "kilo": (r" {5}\w", "     "),
    "qwen_code": (r"  ◆", "    "),
    "cline": (r" \* ", "   "),
    "kimi_cli": (r" ● ", "   "),
}


@pytest.mark.parametrize("agent", SAID)
def test_no_answer_changes_the_status_by_what_it_quotes(agent: str) -> None:
    (head, indent), random = SAID[agent], Random(agent)
    rows = {row for screen in drawings(agent) for row in screen.rows if row[1] != TALK}
    quotes = sorted({strip_escapes(text).strip() for text, _ in rows})
    for screen in drawings(agent):
        status = screen.provider.detect_status(screen.text)
        answers = [row for row in screen.of(TALK) if re.match(head, screen.rows[row][0])]
        for answer in answers[-1:] * 5:
            quoted = [indent + quote for quote in random.sample(quotes, 4)]
            text = screen.put(answer + 1, *quoted).text
            assert screen.provider.detect_status(text) is status, (screen.name, quoted)


MODULES = (
    ("claude_code", test_claude_code),
    ("claude_code", test_claude_hooks),
    ("codex", test_codex),
    ("copilot_cli", test_copilot_cli),
    ("gemini_cli", test_gemini_cli),
    ("kiro_cli", test_kiro_cli),
    ("opencode", test_opencode),
    ("scripted", test_scripted),
)


def rows(table: str) -> list[Any]:  # of pytest
    """Return the rows of the tables of this name in the modules of all agents."""
    return [
        pytest.param(get_provider(agent), *row, id=f"{agent}: {case}")
        for agent, module in MODULES
        for case, row in getattr(module, table, {}).items()
    ]


@pytest.mark.parametrize(("agent", "screen", "status"), rows("SCREENS"))
def test_a_screen_gives_the_status(agent: Provider, screen: str, status: TerminalStatus) -> None:
    assert agent.detect_status(screen) is status


@pytest.mark.parametrize(("agent", "scrollback", "answer"), rows("ANSWERS"))
def test_the_last_answer_is_what_was_said_last_in_the_newest_turn(
    agent: Provider, scrollback: str, answer: str
) -> None:
    assert agent.last_answer(scrollback) == answer


@pytest.mark.parametrize(("agent", "screen", "draft"), rows("DRAFTS"))
def test_a_draft_is_the_text_in_the_input_box(
    agent: Provider, screen: str, draft: str | None
) -> None:
    assert agent.draft(screen) == draft


@pytest.mark.parametrize(("agent", "module"), MODULES)
def test_a_line_is_read_for_what_it_reports(agent: str, module: ModuleType) -> None:
    for line, expected in getattr(module, "SIGNALS", {}).items():
        assert get_provider(agent).read_signal(line) == expected, line


@pytest.mark.parametrize(
    ("name", "title", "status"),
    [
        ("claude_code", "◐ Claude Code", PROCESSING),
        ("claude_code", "◑ Fix the tests", PROCESSING),
        ("claude_code", "⠂ Claude Code", PROCESSING),
        ("claude_code", "✳ Claude Code", None),
        ("claude_code", "✳ Working on ◐ symbols", None),
        ("claude_code", "Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA", None),
        ("codex", "⠹ Working", PROCESSING),
        ("codex", "Starting", PROCESSING),
        ("codex", "[ ! ] Action Required", WAITING),
        ("codex", "[ . ] Action Required | my-project", WAITING),
        ("codex", "Ready", IDLE),
        ("codex", "my-project", None),
        ("gemini_cli", "◇  Ready (app)", IDLE),
        ("gemini_cli", "✦  Working… (app)", PROCESSING),
        ("gemini_cli", "⏲  Working… (app)", PROCESSING),
        ("gemini_cli", "✋  Action Required (app)", WAITING),
        ("gemini_cli", "Gemini CLI (app)", None),
        ("qwen_code", "◐︎ Qwen - app", PROCESSING),
        ("qwen_code", "✳︎ Qwen - app", WAITING),
        ("scripted", "⠋ scripted", PROCESSING),
        ("scripted", "[ ! ] Action Required", WAITING),
        ("scripted", "scripted", IDLE),
        ("scripted", "my-host", None),
        *((name, title, None) for name in PROVIDERS for title in ("", "host")),
    ],
)
def test_a_title_says_a_status_or_nothing(
    name: str, title: str, status: TerminalStatus | None
) -> None:
    assert get_provider(name).title_status(title) is status


@pytest.mark.parametrize(
    ("screen", "title", "status"),
    [
        ("codex/completed/0.125.0-completed_simple", "⠹ Working", PROCESSING),
        ("claude_code/completed/2.1.325-completed", "◐ Claude Code", PROCESSING),
        ("scripted/completed/answered", "⠋ scripted", PROCESSING),
        ("scripted/completed/answered", "[ ! ] Action Required", WAITING),
        ("scripted/error/usage_limit", "scripted", TerminalStatus.ERROR),
    ],
)
def test_a_title_that_says_busy_or_asking_goes_before_the_screen(
    screen: str, title: str, status: TerminalStatus
) -> None:
    provider = get_provider(screen.partition("/")[0])
    assert provider.detect_status(capture(f"{screen}.txt"), title) is status


@pytest.mark.parametrize(("agent", "screen", "expected"), rows("QUESTIONS"))
def test_only_what_is_asked_at_the_end_of_the_screen_is_passed_by_its_key(
    agent: Provider, screen: str, expected: tuple[str, str] | None
) -> None:
    found = agent.startup_dialog(screen)
    assert (found and (found.name, "".join(found.keys))) == expected


WORKSPACE, FULL, ASK = Permissions.WORKSPACE, Permissions.FULL, Permissions.ASK
EDITS = "--permission-mode acceptEdits --allowedTools Bash,Read,Glob,Grep"
AUTO_EDITS = "--approval-mode auto_edit --allowed-tools=run_shell_command"
FLAGS = {
    ("claude_code", ASK, ""): "--permission-mode default",
    ("claude_code", WORKSPACE, ""): EDITS,
    ("claude_code", FULL, ""): "--dangerously-skip-permissions",
    ("codex", WORKSPACE, ""): "-a never -s workspace-write",
    ("codex", FULL, ""): "-a never -s danger-full-access",
    ("codex", ASK, ""): "-a on-request -s workspace-write",
    ("copilot_cli", WORKSPACE, ""): "--allow-all-tools",
    ("copilot_cli", FULL, ""): "--allow-all",
    ("copilot_cli", ASK, ""): "",
    ("gemini_cli", WORKSPACE, "0.61.0"): AUTO_EDITS,
    ("gemini_cli", WORKSPACE, "1.0"): "--approval-mode yolo",
    ("gemini_cli", WORKSPACE, ""): "--approval-mode yolo",
    ("gemini_cli", FULL, "0.61.0"): "--approval-mode yolo",
    ("gemini_cli", ASK, "0.61.0"): "--approval-mode default",
    ("kiro_cli", WORKSPACE, ""): "--trust-tools=fs_read,fs_write,execute_bash",
    ("kiro_cli", FULL, ""): "--trust-all-tools",
    ("kiro_cli", ASK, ""): "",
}
ALWAYS = {"codex": "--no-alt-screen", "gemini_cli": "--skip-trust", "kiro_cli": "chat"}


def permission_flags(agent: str, permissions: Permissions, version: str, *own: str) -> str:
    """Return what an agent is started with of the words that give permissions."""
    request = launch_request("/bin/x", permissions, *own, version=find_version(version))
    argv = get_provider(agent).launch(request).argv
    program = argv.index("/bin/x")
    assert ALWAYS.get(agent, "/bin/x") in argv
    words = {word for row, flags in FLAGS.items() if row[0] == agent for word in flags.split()}
    return " ".join(word for word in argv[program:] if word in words)


@pytest.mark.parametrize("row", FLAGS, ids=str)
def test_permissions_become_flags(row: tuple[str, Permissions, str]) -> None:
    assert permission_flags(*row) == FLAGS[row]


@pytest.mark.parametrize(
    ("agent", "own"),
    [
        *(("codex", flag) for flag in ("-a", "--ask-for-approval", "-s", "--sandbox", "--yolo")),
        *(("codex", flag) for flag in ("--sandbox=read-only", "--full-auto")),
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        *(("copilot_cli", flag) for flag in ("--yolo", "--allow-all", "--allow-all-tools")),
        *(("gemini_cli", flag) for flag in ("--approval-mode=plan", "-y", "--yolo")),
    ],
)
def test_permission_flags_of_the_user_replace_ours(agent: str, own: str) -> None:
    assert permission_flags(agent, WORKSPACE, "", own) in (own, "")


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name not in ("kiro_cli", "q_cli")])
def test_the_users_own_arguments_come_last(name: str) -> None:
    launch = get_provider(name).launch(launch_request("/bin/x", FULL, "--model", "x"))
    assert launch.argv[-2:] == ("--model", "x")


@pytest.mark.parametrize(
    "line",
    [
        *("", "x", "{", "[]", "[1, 2]", "null", "1", '"text"', "[" * 100_000),
        *('{"event": "Other"}', '{"event": 1}', '{"event": ["Stop"]}', '{"hook": "new"}'),
        *('{"hook_event_name": "SubagentStop"}', '{"hook_event_name": 7}'),
        *('{"type": "user", "message": "text"}', '{"type": "session_meta", "payload": {"id": 1}}'),
        '{"type": "event_msg", "payload": "task_started"}',
        '{"type": "event_msg", "payload": {"type": "token_count"}}',
        '{"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "Plan"}}}',
        '{"type": "response_item", "payload": {"type": "task_started"}}',
    ],
)
def test_what_is_no_report_says_nothing(line: str) -> None:
    for provider in PROVIDERS.values():
        assert provider.read_signal(line) is None, provider.name
