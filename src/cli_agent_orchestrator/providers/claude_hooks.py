"""Claude Code's own signals: the hooks that we ask for, and the lines they leave behind.

A hook is a shell command that Claude Code runs at an event, with a JSON object on its standard
input. Ours append one line to the event file and never fail: an exit code other than 0 could
throw a prompt away or keep a turn from ending. What a hook prints would be shown to the model,
so ours print nothing.

    version   events that are new in it (a name it does not know breaks the settings of some)
    1.0.84    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Notification, PreCompact,
              Stop
    1.0.85    SessionEnd
    2.0.45    PermissionRequest
    2.0.56    PostToolUseFailure
    2.1.78    StopFailure

An event tells of which agent it is, the first one or one of its sub-agents, and a tool that was
used whether it works on in the background. A Stop need not be the end: another hook may object (the
record tells how many were asked), and from 2.1.325 on it names what works in the background.

A person who types `/compact` submits no prompt: PreCompact tells of the beginning, and the start of
a conversation that is shortened of the end.

No hook tells of Esc. The session record does, if something of an answer was there: it names the
interruption in the place of a prompt. Before 2.1 a turn that failed stops like any other, and no
hook carries an answer: the record has both, within milliseconds of the hook. In 2.1 it has them a
while later, when the next turn may have begun.
"""

import json
import shlex
from typing import Any

from ..core.codec import object_of
from .base import AgentSignal, SignalKind
from .screen import action_line

HOOKS_SINCE = {
    "SessionStart": (),
    "UserPromptSubmit": (),
    "PreToolUse": (),
    "PostToolUse": (),
    "Notification": (),
    "PreCompact": (),
    "Stop": (),
    "SessionEnd": (1, 0, 85),
    "PermissionRequest": (2, 0, 45),
    "PostToolUseFailure": (2, 0, 56),
    "StopFailure": (2, 1, 78),
}
MATCHERS = {"PreCompact": "manual"}
"""Which kind an event must be: a turn that shortens its own conversation stays one turn."""
# What stands before the tool's input is kept, and of the input whether the tool works on.
KEEP_HEAD = (
    's/"tool_input" *:.*"run_in_background" *: *true.*/"in_background":true}/',
    *(
        f's/"{name}" *:.*/"in_background":false}}/'
        for name in ("tool_input", "tool_response", "error")
    ),
)
# Of a tool that is about to be used the beginning of what says most is kept: a command, a path. The
# agent waits for this, so it is counted in bytes and cut off once: `sed` takes a tenth of a second
# to prepare a pattern that counts the characters of a string and their escapes.
TELLING = ("command", "file_path", "notebook_path", "path", "pattern", "url", "query")
KEEP_TELLING = (
    *(
        part
        for name in TELLING
        for part in (f's/"tool_input" *: *\\{{.*"{name}" *: *"/"told":"/', "t cut")
    ),
    's/"tool_input" *:.*/"told":""}/',
    "t",
    ":cut",
    's/("told":".{200}).*/\\1/',
    # Not in the middle of \u001b, nor behind the first half of \n.
    's/("told":".*)\\\\u[0-9a-fA-F]{0,3}$/\\1/',
    's/("told":"[^"\\]*(\\\\.[^"\\]*)*).*/\\1"}/',
)

_ANSWER = "last_assistant_message"


def hook_settings(version: tuple[int, ...], event_file: str) -> dict[str, Any]:  # JSON
    return {
        event: [
            {
                **({"matcher": MATCHERS[event]} if event in MATCHERS else {}),
                "hooks": [{"type": "command", "command": hook_command(event, event_file)}],
            }
        ]
        for event, since in HOOKS_SINCE.items()
        if version >= since
    }


def hook_command(event: str, event_file: str) -> str:
    """Return the shell command that leaves a line about an event.

    The input goes to a file of its own first: the line is then appended in one piece, even when it
    is long and several hooks run at the same time.
    """
    file = shlex.quote(event_file)
    # The input holds the user's prompt and the contents of files: those are not written down.
    if event in ("UserPromptSubmit", "PreCompact"):
        line = shlex.quote(json.dumps({"hook_event_name": event}))
        return f"umask 077; {{ printf '%s\\n' {line} >> {file}; cat; }} > /dev/null 2>&1; exit 0"
    take = "cat"
    named = f's/^{{/{{"hook_event_name":"{event}",/'
    if event in ("PostToolUse", "PostToolUseFailure"):
        take = "sed " + shlex.quote(";".join((named, *KEEP_HEAD)))
    if event == "PreToolUse":
        # The `t` of `sed` means a substitution since the last one, which is not to be this first.
        parts = (named.replace("{", "\\{", 1), "t begin", ":begin", *KEEP_TELLING)
        take = "LC_ALL=C sed -E " + " ".join(f"-e {shlex.quote(part)}" for part in parts)
    own = f"{file}.$$"
    return (
        f"umask 077; {{ {{ {take}; echo; }} > {own} && cat {own} >> {file}; rm -f {own}; }}"
        " > /dev/null 2>&1; exit 0"
    )


def read_signal(line: str) -> AgentSignal | None:
    fields = object_of(line)
    match fields:
        case {"hook_event_name": str(event)}:
            return _read_hook(event, fields)
        case {"isSidechain": True}:
            return None
        case {"isApiErrorMessage": True, "message": {"content": [{"text": str(text)}, *_]}}:
            return AgentSignal(SignalKind.ERRED, text)
        case {"type": "assistant", "message": {"content": [{"type": "text", "text": str(text)}]}}:
            return AgentSignal(SignalKind.ANSWERED, "answered", answer=text)
        case {"subtype": "stop_hook_summary", "hookCount": int(count)}:
            return AgentSignal(SignalKind.CONSULTED, "stop_hook_summary", consulted=count)
        case {"type": "user", "message": {"content": [{"text": str(text)}, *_]}}:
            # [Request interrupted by user for tool use], in a prompt's place
            stopped = text.startswith("[Request interrupted by user")
            return AgentSignal(SignalKind.INTERRUPTED, text) if stopped else None
        case _:
            return None


def _read_hook(event: str, fields: dict[str, Any]) -> AgentSignal | None:  # JSON
    match event:
        case "SessionStart":
            source = fields.get("source")
            # Some come in the middle of things.
            restarts = {"compact": SignalKind.SHORTENED, "clear": SignalKind.CLEARED}
            kind = restarts.get(str(source), SignalKind.READY)
            record = _text(fields, "transcript_path")
            return AgentSignal(kind, _with(event, source), transcript=record)
        case "UserPromptSubmit":
            return AgentSignal(SignalKind.SUBMITTED, event, ends_aloud=True)
        case "PreCompact":
            return AgentSignal(SignalKind.SHORTENING, event, ends_aloud=True)
        case "PreToolUse":
            action = action_line(str(fields.get("tool_name")), {"told": fields.get("told")})
            return AgentSignal(SignalKind.ACTING, event, action=action)
        case "PostToolUse" | "PostToolUseFailure":
            return AgentSignal(
                SignalKind.WORKING,
                event,
                agent=_text(fields, "agent_id") or "",
                background=True if fields.get("in_background") is True else None,
                ends_aloud=True,
            )
        case "PermissionRequest":
            asks = _with(event, fields.get("tool_name"))
            agent = _text(fields, "agent_id") or ""
            return AgentSignal(SignalKind.WAITING, asks, agent=agent, ends_aloud=True)
        case "Notification":
            return _read_notification(fields)
        case "Stop":
            return _read_stop(fields)
        case "StopFailure":
            why = _text(fields, _ANSWER) or ""
            # You've hit your 5-hour limit · resets 12:30pm (UTC)
            return AgentSignal(
                SignalKind.FAILED, _with(event, why), revocable="limit · resets " in why
            )
        # After these another conversation follows in the same program.
        case "SessionEnd" if fields.get("reason") not in ("clear", "resume"):
            return AgentSignal(SignalKind.ENDED, _with(event, fields.get("reason")))
        case _:
            return None


def _read_stop(fields: dict[str, Any]) -> AgentSignal:  # JSON
    """Distinguish an end from a turn that leaves something at work.

    Before 2.1 it carries no answer, and a turn that failed stops like any other.
    """
    kind = SignalKind.FINISHED if _ANSWER in fields else SignalKind.STOPPED
    detail = "Stop"
    background = None
    if isinstance(tasks := fields.get("background_tasks"), list):
        own = [task for task in tasks if isinstance(task, dict)]
        running = {str(task.get("type")) for task in own if task.get("status") == "running"}
        background = bool(running)
        if running:
            kind = SignalKind.BACKGROUND
            detail += f"; in the background: {', '.join(sorted(running))}"
    return AgentSignal(
        kind, detail, answer=_text(fields, _ANSWER), agent="", background=background, revocable=True
    )


def _read_notification(fields: dict[str, Any]) -> AgentSignal | None:  # JSON
    """Read "asks for a permission"; "idle for a minute" is no news.

    Before 2.0 there is only a sentence for people.
    """
    match fields:
        case {"notification_type": "permission_prompt" | "elicitation_dialog" as kind}:
            return AgentSignal(SignalKind.WAITING, f"Notification: {kind}", ends_aloud=True)
        case {"notification_type": _}:
            return None
        # Claude needs your permission to use Bash
        case {"message": str(message)} if "needs your permission" in message:
            return AgentSignal(SignalKind.WAITING, f"Notification: {message}", ends_aloud=True)
        case _:
            return None


def _text(fields: dict[str, Any], name: str) -> str | None:  # JSON
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _with(event: str, more: object) -> str:
    return f"{event}: {more}" if more and isinstance(more, str) else event
