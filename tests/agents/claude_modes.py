"""Turns of Claude Code that are not of the plain kind: what to send, what a person opens.

The prompts spell what the model does (see tests/stubs/script.py).
"""

import asyncio
import json
import shlex
from pathlib import Path

from tests.agents.driving import Driven, Ground
from tests.stubs.ledger import Turn

HELD = "held"
"""What holds a turn until the test releases it."""

ASKING_HELPER = "{{escalate:touch ../outside.txt}}{{answer:The first is over.}}"
BUSY_HELPER = (
    "{{pause:0.7}}{{run:echo busy}}" * 8 + "{{hold:" + HELD + "}}{{answer:The second is over.}}"
)
PARALLEL_HELPERS = f"[[helpers:{ASKING_HELPER}|{BUSY_HELPER}]][[answer:Both were started.]]"
"""Two sub-agents at once: one asks a person, the other calls a tool all the time."""

WAITING_HELPER = "{{run:echo started}}{{hold:" + HELD + "}}{{answer:The helper is over.}}"
BACKGROUND_HELPER = f"[[background_helpers:{WAITING_HELPER}]][[answer:I wait for it.]]"
"""A sub-agent that works on when the turn that started it is over."""

OBJECTION = f"Not yet. [[hold:{HELD}]][[answer:Now it is done.]]"
"""What a Stop hook says that lets the agent go on."""

DIALOGS = {
    # What a person opens, by what they type; where versions differ, what opens nothing is left out.
    "2.1.325": (
        *("/model", "/config", "/permissions", "/hooks", "/resume", "/tasks"),
        *("/memory", "/help", "/export", "/status", "/theme"),
    ),
    "2.1.105": (
        *("/model", "/config", "/permissions", "/hooks", "/tasks", "/agents"),
        *("/memory", "/help", "/export", "/status", "/theme"),
    ),
}


def background_shell(gate: Path) -> str:
    """Return a prompt that starts a shell which works on until a file is there."""
    wait = f"while [ ! -e {shlex.quote(str(gate))} ]; do sleep 0.1; done"
    return f"[[background:{wait}]][[answer:I wait for it.]]"


def add_objection(ground: Ground, objection: str = OBJECTION) -> None:
    """Let a Stop hook of the user's own object to the first end of a turn.

    It does so once, and once more whenever the note is removed that it has.
    """
    said = objected(ground)
    command = (
        f"test -e {shlex.quote(str(said))} && exit 0; touch {shlex.quote(str(said))};"
        f" echo {shlex.quote(objection)} >&2; exit 2"
    )
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    folder = ground.folder / "home" / ".claude"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


def objected(ground: Ground) -> Path:
    """Return the note that the hook has objected."""
    return ground.folder / "objected"


def helper_turns(driven: Driven) -> list[Turn]:
    """Return the turns of the sub-agents."""
    return [turn for turn in driven.stub.turns if "/" in turn.conversation]


async def helpers_finished(driven: Driven, count: int, within: float) -> float:
    """Wait until so many sub-agents are over; return when the last one was."""

    def over() -> list[float]:
        return [turn.finished for turn in helper_turns(driven) if turn.finished is not None]

    await asyncio.to_thread(
        driven.stub.ledger.wait_for, lambda ledger: len(over()) >= count, within
    )
    return max(over())
