"""Questions Claude Code may ask before its input box appears, and how they are passed.

A key that is pressed in the first moments of a dialog may be lost, and what is preselected differs
between versions. So a dialog is passed one step at a time, by what the screen shows: first the
marker is moved to the right option, and only when it is seen there Enter is pressed. The keys
that move it go to an end of the list, so that one more press does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.providers.base import Dialog
from cli_agent_orchestrator._internal.providers.claude_screen import find_box
from cli_agent_orchestrator._internal.providers.screen import find


@dataclass(frozen=True, slots=True)
class StartupQuestion:
    """A dialog that may come before the input box does."""

    name: str
    sign: str
    """Pattern of a text that no other dialog has."""
    advice: str
    choice: str | None = None
    """Pattern of the option that passes it; None if only a person may choose."""


STARTUP_QUESTIONS = (
    StartupQuestion(
        "trust this folder",
        # │ Do you trust the files in this folder?        Quick safety check: Is this a project
        r"^[│ ] *(?:Do you trust the files in this folder\?|Quick safety check: )",
        "run claude in the folder once and trust it",
        # ❯ 1. Yes, proceed        Yes, I trust this folder
        choice=r"Yes, (?:I trust this folder|proceed)\b",
    ),
    StartupQuestion(
        "use this API key",
        # │ Detected a custom API key in your environment
        r"^[│ ] *Detected a custom API key in your environment",
        "run claude once with the same ANTHROPIC_API_KEY and answer, or take the key away",
    ),
    StartupQuestion(
        "accept the risk of skipping permissions",
        # │ WARNING: Claude Code running in Bypass Permissions mode
        r"^[│ ] *WARNING: Claude Code running in Bypass Permissions mode",
        "run claude --dangerously-skip-permissions once and accept",
    ),
    StartupQuestion(
        "first set-up",
        # Choose the text style that looks best with your terminal        Press Enter to continue…
        r"^ (?:Choose the text style that looks best|Press Enter to continue…|Select login method)",
        "run claude once in a terminal and finish its set-up",
    ),
    StartupQuestion(
        "settings with errors",
        #   Settings Warning        Settings Error
        r"^ +Settings (?:Warning|Error)$",
        "mend the settings file that is named on its screen",
    ),
    StartupQuestion(
        "new MCP servers",
        # New MCP server found in .mcp.json: docs
        r"^[│ ] *(?:\d+ )?[Nn]ew MCP servers? found in ",
        "run claude in the folder once and decide about its MCP servers",
    ),
)


def find_startup_dialog(lines: Sequence[str]) -> Dialog | None:
    """Return the start-up question at the end of the screen, if there is one.

    A dialog that is passed has a name of its own for each step.
    """
    if find_box(lines) is not None:
        return None
    text = "\n".join(lines)
    known = next((known for known in STARTUP_QUESTIONS if find(known.sign, text)), None)
    if known is None:
        return None
    if known.choice is None:
        return Dialog(known.name, (), known.advice)
    return _next_step(known, lines, known.choice)


def _next_step(question: StartupQuestion, lines: Sequence[str], choice: str) -> Dialog:
    # ❯ No, exit          Yes, I trust this folder        │ ❯ 1. Yes, proceed        │
    wanted = rf"^(?:│ )? *(?:❯ +)?(?:\d+\. )?{choice}"
    marked = [row for row, line in enumerate(lines) if find(r"^(?:│ )? {0,4}❯ \S", line)]
    offered = [row for row, line in enumerate(lines) if find(wanted, line)]
    if not marked or not offered:
        return Dialog(question.name, (), question.advice)
    if marked[-1] == offered[-1]:
        return Dialog(question.name, ("Enter",), question.advice)
    key = "End" if marked[-1] < offered[-1] else "Home"
    return Dialog(f"{question.name} (choosing yes)", (key,), question.advice)
