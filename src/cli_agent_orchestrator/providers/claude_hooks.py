"""Claude Code's own signals: the hooks that we ask for, and the lines they leave behind.

A hook is a shell command that Claude Code runs at an event, with a JSON object on its standard
input. Ours append one line to the event file and never fail: an exit code other than 0 could
throw a prompt away or keep a turn from ending. What a hook prints would be shown to the model,
so ours print nothing.

    version   events that are new in it (a name it does not know breaks the settings of some)
    1.0.84    SessionStart, UserPromptSubmit, PostToolUse, Notification, Stop
    1.0.85    SessionEnd
    2.0.45    PermissionRequest
    2.0.56    PostToolUseFailure
    2.1.78    StopFailure

No hook tells of Esc. The session record does, if something of an answer was there: it names the
interruption in the place of a prompt. Before 2.1 a turn that failed stops like any other, and no
hook carries an answer: the record has both, within milliseconds of the hook. In 2.1 it has them a
while later, when the next turn may have begun.
"""

import json
import shlex
from typing import Any

from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind

HOOKS_SINCE = {
    "SessionStart": (),
    "UserPromptSubmit": (),
    "PostToolUse": (),
    "Notification": (),
    "Stop": (),
    "SessionEnd": (1, 0, 85),
    "PermissionRequest": (2, 0, 45),
    "PostToolUseFailure": (2, 0, 56),
    "StopFailure": (2, 1, 78),
}
# Their input holds the user's prompt and the contents of files: it is not written down.
NAMES_ONLY = ("UserPromptSubmit", "PostToolUse", "PostToolUseFailure")

ENDS_THAT_GO_ON = ("clear", "resume")
"""Reasons for the end of a conversation that is followed by another in the same program."""

# Claude needs your permission to use Bash
PERMISSION_NOTICE = "needs your permission"
# [Request interrupted by user for tool use]: what the session record has in a prompt's place
INTERRUPTED_TEXT = "[Request interrupted by user"
_ANSWER = "last_assistant_message"


def hook_settings(version: tuple[int, ...], event_file: str) -> dict[str, Any]:  # JSON
    """Return the hooks that a version knows, in the form of its settings file."""
    return {
        event: [{"hooks": [{"type": "command", "command": hook_command(event, event_file)}]}]
        for event, since in HOOKS_SINCE.items()
        if version >= since
    }


def hook_command(event: str, event_file: str) -> str:
    """Return the shell command that leaves a line about an event.

    A whole input goes to a file of its own first: the line is then appended in one piece, also
    when it is long and hooks of several tools run at the same time.
    """
    file = shlex.quote(event_file)
    if event in NAMES_ONLY:
        line = shlex.quote(json.dumps({"hook_event_name": event}))
        return f"umask 077; {{ printf '%s\\n' {line} >> {file}; cat; }} > /dev/null 2>&1; exit 0"
    own = f"{file}.$$"
    return (
        f"umask 077; {{ {{ cat; echo; }} > {own} && cat {own} >> {file}; rm -f {own}; }}"
        " > /dev/null 2>&1; exit 0"
    )


def read_line(line: str) -> AgentSignal | None:
    """Return what a line of the event file or of the session record says, None if nothing."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match fields:
        case {"hook_event_name": str(event)}:
            return _read_hook(event, fields)
        case {"isSidechain": True}:
            return None
        case {"isApiErrorMessage": True, "message": {"content": [{"text": str(text)}, *_]}}:
            return AgentSignal(SignalKind.ERRED, text)
        case {"type": "assistant", "message": {"content": [{"type": "text", "text": str(text)}]}}:
            return AgentSignal(SignalKind.ANSWERED, "answered", answer=text)
        case {"type": "user", "message": {"content": [{"text": str(text)}, *_]}}:
            stopped = text.startswith(INTERRUPTED_TEXT)
            return AgentSignal(SignalKind.INTERRUPTED, text) if stopped else None
        case _:
            return None


def _read_hook(event: str, fields: dict[str, Any]) -> AgentSignal | None:  # JSON
    match event:
        case "SessionStart":
            return _read_start(fields)
        case "UserPromptSubmit":
            return AgentSignal(SignalKind.SUBMITTED, event)
        case "PostToolUse" | "PostToolUseFailure":
            return AgentSignal(SignalKind.WORKING, event)
        case "PermissionRequest":
            return AgentSignal(SignalKind.WAITING, _with(event, fields.get("tool_name")))
        case "Notification":
            return _read_notification(fields)
        case "Stop" if _ANSWER in fields:
            return AgentSignal(SignalKind.FINISHED, event, answer=_text(fields, _ANSWER))
        case "Stop":  # before 2.1, also of a turn that failed
            return AgentSignal(SignalKind.STOPPED, event)
        case "StopFailure":
            return AgentSignal(SignalKind.FAILED, _with(event, _text(fields, _ANSWER)))
        case "SessionEnd" if fields.get("reason") not in ENDS_THAT_GO_ON:
            return AgentSignal(SignalKind.ENDED, _with(event, fields.get("reason")))
        case _:
            return None


def _read_start(fields: dict[str, Any]) -> AgentSignal:  # JSON
    """Tell the start of a conversation from one that is shortened in the middle of a turn."""
    source = fields.get("source")
    kind = SignalKind.WORKING if source == "compact" else SignalKind.READY
    record = _text(fields, "transcript_path")
    return AgentSignal(kind, _with("SessionStart", source), transcript=record)


def _read_notification(fields: dict[str, Any]) -> AgentSignal | None:  # JSON
    """Read "asks for a permission"; "idle for a minute" is no news.

    Before 2.0 there is only a sentence for people.
    """
    match fields:
        case {"notification_type": "permission_prompt" | "elicitation_dialog" as kind}:
            return AgentSignal(SignalKind.WAITING, f"Notification: {kind}")
        case {"notification_type": _}:
            return None
        case {"message": str(message)} if PERMISSION_NOTICE in message:
            return AgentSignal(SignalKind.WAITING, f"Notification: {message}")
        case _:
            return None


def _text(fields: dict[str, Any], name: str) -> str | None:  # JSON
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _with(event: str, more: object) -> str:
    return f"{event}: {more}" if more and isinstance(more, str) else event
