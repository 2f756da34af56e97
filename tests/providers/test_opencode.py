"""OpenCode: its screens, what may never change them, its plugin, and how it is started."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given

from cli_agent_orchestrator.providers import opencode
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    Permissions,
    SignalKind,
)
from cli_agent_orchestrator.providers.opencode import detect_status
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

EDGE = f"  ╹{'▀' * 80}"
DIALOG = "  ┃\n  ┃  △ Permission required\n  ┃   Allow once      ⇆ select  enter confirm\n  ┃\n"


def box(footer: str) -> str:
    return f"\n  ┃\n  ┃\n  ┃\n  ┃  Build · GPT OpenAI\n{EDGE}\n   {footer}\n"


AT_REST = box("/home/me/app                    1.3K  ctrl+p commands")
BUSY = box("⬝⬝⬝■■■■■  esc interrupt         1.3K  ctrl+p commands")
ENDINGS = {
    COMPLETED: f"\n     ▣  Build · GPT · 6.5s\n{AT_REST}",
    PROCESSING: f"\n     ▣  Build · GPT\n{BUSY}",
    WAITING: f"\n     ▣  Build · GPT\n\n{DIALOG}",
    ERROR: f"\n  ┃\n  ┃  Not valid.\n  ┃\n\n     ▣  Build · GPT\n{AT_REST}",
    IDLE: f"\n     ▣  Build · GPT · interrupted\n{AT_REST}",
}
SIGNS = [
    "▣  Build · GPT · interrupted",
    "▣  Build · GPT",
    "▣  Build · GPT · 3s",
    "⬝⬝⬝■■■■■  esc interrupt",
    "┃",
    "┃  △ Permission required",
    "┃   Allow once      ⇆ select  enter confirm",
    EDGE.strip(),
    "",
]
PROSE = prose(SIGNS)


@pytest.mark.parametrize("took", ["577ms", "6.5s", "1m 2s", "2h 1m 0s"])
def test_a_turn_that_tells_how_long_it_took_is_completed(took: str) -> None:
    assert detect_status(f"     Done.\n\n     ▣  Build · GPT · {took}\n{AT_REST}") is COMPLETED


def test_a_message_alone_is_no_reply() -> None:
    assert detect_status(f"  ┃\n  ┃  Fix it\n  ┃\n{AT_REST}") is IDLE
    assert detect_status(AT_REST) is IDLE


@given(before=PROSE, last=PROSE)
def test_no_prose_changes_the_status(before: list[str], last: list[str]) -> None:
    screen = "  ┃\n  ┃  Explain\n  ┃\n\n     It is like this.\n"
    for line in [*before, "", *last]:
        screen += f"     {line}\n"
    for status, ending in ENDINGS.items():
        assert detect_status(screen + ending) is status


@given(PROSE)
def test_no_quoting_message_of_the_user_changes_the_status(said: list[str]) -> None:
    screen = "  ┃\n  ┃  Explain this:\n"
    for line in said:
        screen += f"  ┃  {line}\n"
    assert detect_status(f"{screen}  ┃\n\n     So.\n{ENDINGS[COMPLETED]}") is COMPLETED


def test_a_text_is_a_draft_where_placeholders_have_no_color_of_their_own() -> None:
    colored = capture("opencode/drafts/1.18.33-typed_draft.ansi")
    assert opencode.draft(colored.replace("38;5;255m", "38;5;8m")) == "one short draft"


def test_the_last_answer_is_what_stands_above_the_end_of_the_turn() -> None:
    screen = (
        "     I will.\n\n  ┃\n  ┃  $ ls\n  ┃\n\n     Done:\n\n     - one\n       two\n"
        f"{ENDINGS[COMPLETED]}"
    )
    assert opencode.last_answer(screen) == "Done:\n\n- one\n  two"
    assert opencode.last_answer(f"  ┃\n     Done.\n{ENDINGS[COMPLETED]}") == "Done."


def test_there_is_no_answer_before_the_agent_speaks() -> None:
    assert opencode.last_answer(f"     Old.\n\n  ┃\n  ┃  Do it\n  ┃\n{AT_REST}") == ""
    assert opencode.last_answer("") == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"event": "submitted"}', AgentSignal(SignalKind.SUBMITTED, "submitted")),
        ('{"event": "working"}', AgentSignal(SignalKind.WORKING, "working")),
        ('{"event": "retrying"}', AgentSignal(SignalKind.WORKING, "retrying")),
        (
            '{"event": "asks", "what": "permission"}',
            AgentSignal(SignalKind.WAITING, "asks: permission"),
        ),
        (
            '{"event": "finished", "answer": "Done."}',
            AgentSignal(SignalKind.FINISHED, "finished", answer="Done."),
        ),
        ('{"event": "interrupted"}', AgentSignal(SignalKind.INTERRUPTED, "interrupted")),
        (
            '{"event": "failed", "message": "no"}',
            AgentSignal(SignalKind.FAILED, "failed: no"),
        ),
        ('{"event": "new"}', None),
        ('{"event": 1}', None),
        ("[]", None),
        ("no JSON", None),
    ],
)
def test_events_become_signals(line: str, expected: AgentSignal | None) -> None:
    assert opencode.read_signal(line) == expected


@pytest.mark.parametrize(
    ("permissions", "commands", "beyond"),
    [
        (Permissions.WORKSPACE, "allow", "deny"),
        (Permissions.FULL, "allow", "allow"),
        (Permissions.ASK, "ask", "ask"),
    ],
)
def test_permissions_become_settings(permissions: Permissions, commands: str, beyond: str) -> None:
    launch = opencode.launch(launch_request("/bin/opencode", permissions, "-m", "x"))
    rules = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])["permission"]
    assert launch.argv == ("/bin/opencode", "-m", "x")
    assert {rules.get(name, rules.get("*")) for name in ("bash", "edit", "webfetch")} == {commands}
    assert rules.get("external_directory", rules.get("*")) == beyond


def test_the_plugin_is_named_and_told_its_file_and_the_profile() -> None:
    launch = opencode.launch(launch_request("/bin/opencode", Permissions.FULL))
    [plugin] = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])["plugin"]
    assert plugin == opencode.PLUGIN.as_uri()
    assert launch.env["CAO_EVENT_FILE"] == "/state/x.jsonl"
    assert launch.env["CAO_SESSION_CONTEXT"] == "Test it."


def message(name: str, role: str) -> dict[str, object]:
    return {"type": "message.updated", "properties": {"info": {"id": name, "role": role}}}


def part(kind: str, text: str = "", of: str = "a") -> dict[str, object]:
    content = {"id": text, "messageID": of, "type": kind, "text": text}
    return {"type": "message.part.updated", "properties": {"part": content}}


def status(kind: str, session: str = "s") -> dict[str, object]:
    properties = {"sessionID": session, "status": {"type": kind}}
    return {"type": "session.status", "properties": properties}


def trouble(name: str) -> dict[str, object]:
    error = {"name": name, "data": {"message": "no"}}
    return {"type": "session.error", "properties": {"sessionID": "s", "error": error}}


def running(tool: str, given: dict[str, object]) -> dict[str, object]:
    state = {"status": "running", "input": given}
    about = {"type": "tool", "messageID": "a", "callID": "c", "tool": tool, "state": state}
    return {"type": "message.part.updated", "properties": {"part": about}}


HELPER = {"type": "session.created", "properties": {"info": {"id": "h", "parentID": "s"}}}
ANSWER = [message("u", "user"), message("a", "assistant")]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not there")
@pytest.mark.parametrize(
    ("events", "last"),
    [
        (
            [*ANSWER, part("text", "One."), part("text", "Two."), status("idle"), status("idle")],
            [AgentSignal(SignalKind.FINISHED, "finished", answer="One.\n\nTwo.")],
        ),
        (
            [*ANSWER, part("text", "I will."), part("tool"), part("text", "Did."), status("idle")],
            [AgentSignal(SignalKind.FINISHED, "finished", answer="Did.")],
        ),
        (
            [*ANSWER, part("text", "my prompt", of="u"), status("idle")],
            [AgentSignal(SignalKind.FINISHED, "finished", answer="")],
        ),
        (
            [trouble("APIError"), status("idle")],
            [AgentSignal(SignalKind.FAILED, "failed: no")],
        ),
        (
            [trouble("MessageAbortedError"), status("idle")],
            [AgentSignal(SignalKind.INTERRUPTED, "interrupted")],
        ),
        (
            [*ANSWER, running("bash", {"command": "make"}), running("bash", {"command": "make"})],
            [AgentSignal(SignalKind.ACTING, "acts", action="bash: make")],
        ),
        ([*ANSWER, running("list", {})], [AgentSignal(SignalKind.ACTING, "acts", action="list")]),
        ([HELPER, status("busy", "h"), status("idle", "h")], []),
        ([status("retry")], [AgentSignal(SignalKind.WORKING, "retrying")]),
        (
            [{"type": "permission.asked", "properties": {"sessionID": "s"}}],
            [AgentSignal(SignalKind.WAITING, "asks: permission")],
        ),
    ],
)
def test_the_plugin_tells_how_a_turn_goes(
    events: list[dict[str, object]], last: list[AgentSignal], tmp_path: Path
) -> None:
    told = tmp_path / "events.jsonl"
    script = (
        f"const {{ Signals }} = await import({json.dumps(opencode.PLUGIN.as_uri())});\n"
        "const hooks = await Signals();\n"
        "await hooks['chat.message']({ sessionID: 's' });\n"
        f"for (const event of {json.dumps(events)}) await hooks.event({{ event }});\n"
        "const output = { system: [] };\n"
        "await hooks['experimental.chat.system.transform']({}, output);\n"
        "console.log(output.system.join());\n"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        env={
            "PATH": str(Path(shutil.which("node") or "node").parent),
            "CAO_EVENT_FILE": str(told),
            "CAO_SESSION_CONTEXT": "You test.",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = told.read_text(encoding="utf-8").splitlines()
    submitted = AgentSignal(SignalKind.SUBMITTED, "submitted")
    assert [opencode.read_signal(line) for line in lines] == [submitted, *last]
    assert done.stdout == "You test.\n"
    assert "my prompt" not in "".join(lines)
