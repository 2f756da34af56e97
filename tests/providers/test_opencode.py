"""OpenCode: its screens, what may never change them, its plugin, and how it is started."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, Permissions
from cli_agent_orchestrator.providers.described import PACKAGED
from tests.providers.samples import (
    COMPLETED,
    IDLE,
    capture,
    launch_request,
    signal,
)

OPENCODE = get_provider("opencode")
PLUGIN = PACKAGED / "opencode_plugin" / "signals.mjs"
EDGE = f"  ╹{'▀' * 80}"


def box(footer: str) -> str:
    return f"\n  ┃\n  ┃\n  ┃\n  ┃  Build · GPT OpenAI\n{EDGE}\n   {footer}\n"


AT_REST = box("/home/me/app                    1.3K  ctrl+p commands")
DONE = f"\n     ▣  Build · GPT · 6.5s\n{AT_REST}"
MESSAGE = "  ┃\n  ┃  Fix it\n  ┃\n"
SCREENS = {
    **{
        f"a turn that took {took}": (
            f"     Done.\n\n     ▣  Build · GPT · {took}\n{AT_REST}",
            COMPLETED,
        )
        for took in ("577ms", "6.5s", "1m 2s", "2h 1m 0s")
    },
    "a message alone": (MESSAGE + AT_REST, IDLE),
    "a box alone": (AT_REST, IDLE),
}
ANSWERS = {
    "what was said last": (
        f"     I will.\n\n{MESSAGE}\n     Done:\n\n     - one\n       two\n{DONE}",
        "Done:\n\n- one\n  two",
    ),
    "an answer right below a frame": (f"  ┃\n     Done.\n{DONE}", "Done."),
    "nothing yet": (f"     Old.\n\n{MESSAGE}{AT_REST}", ""),
}
COLORED = capture("opencode/drafts/1.18.33-typed_draft.ansi")
DRAFTS = {"no color for placeholders": (COLORED.replace("38;5;255m", "38;5;8m"), "one short draft")}
SIGNALS = {
    '{"event": "submitted"}': signal("submitted", "submitted"),
    '{"event": "working"}': signal("working", "working"),
    '{"event": "retrying"}': signal("working", "retrying"),
    '{"event": "asks", "what": "permission"}': signal("waiting", "asks: permission"),
    '{"event": "finished", "answer": "Done."}': signal("finished", "finished", answer="Done."),
    '{"event": "interrupted"}': signal("interrupted", "interrupted"),
    '{"event": "failed", "message": "no"}': signal("failed", "failed: no"),
    '{"event": "acts", "tool": "bash", "told": "make test"}': signal(
        "acting", "acts", action="bash: make test"
    ),
}


@pytest.mark.parametrize(
    ("permissions", "commands", "beyond"),
    [
        (Permissions.WORKSPACE, "allow", "deny"),
        (Permissions.FULL, "allow", "allow"),
        (Permissions.ASK, "ask", "ask"),
    ],
)
def test_it_gets_permissions_the_plugin_and_the_profile(
    permissions: Permissions, commands: str, beyond: str
) -> None:
    launch = OPENCODE.launch(launch_request("/bin/opencode", permissions, "-m", "x"))
    settings = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    rules = settings["permission"]
    assert launch.argv == ("/bin/opencode", "-m", "x")
    assert {rules.get(name, rules.get("*")) for name in ("bash", "edit", "webfetch")} == {commands}
    assert rules.get("external_directory", rules.get("*")) == beyond
    assert settings["plugin"] == [PLUGIN.as_uri()]
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
            [signal("finished", "finished", answer="One.\n\nTwo.")],
        ),
        (
            [*ANSWER, part("text", "I will."), part("tool"), part("text", "Did."), status("idle")],
            [signal("finished", "finished", answer="Did.")],
        ),
        (
            [*ANSWER, part("text", "my prompt", of="u"), status("idle")],
            [signal("finished", "finished", answer="")],
        ),
        ([trouble("APIError"), status("idle")], [signal("failed", "failed: no")]),
        ([trouble("MessageAbortedError"), status("idle")], [signal("interrupted", "interrupted")]),
        (
            [*ANSWER, running("bash", {"command": "make"}), running("bash", {"command": "make"})],
            [signal("acting", "acts", action="bash: make")],
        ),
        ([*ANSWER, running("list", {})], [signal("acting", "acts", action="list")]),
        ([HELPER, status("busy", "h"), status("idle", "h")], []),
        ([status("retry")], [signal("working", "retrying")]),
        (
            [{"type": "permission.asked", "properties": {"sessionID": "s"}}],
            [signal("waiting", "asks: permission")],
        ),
    ],
)
def test_the_plugin_tells_how_a_turn_goes(
    events: list[dict[str, object]], last: list[AgentSignal], tmp_path: Path
) -> None:
    told = tmp_path / "events.jsonl"
    script = (
        f"const {{ Signals }} = await import({json.dumps(PLUGIN.as_uri())});\n"
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
    submitted = signal("submitted", "submitted")
    assert [OPENCODE.read_signal(line) for line in lines] == [submitted, *last]
    assert done.stdout == "You test.\n"
    assert "my prompt" not in "".join(lines)
