"""Questions Codex asks that are no part of a task, and how they are passed."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.providers.base import Dialog
from cli_agent_orchestrator._internal.providers.codex_transcript import blocks, is_dialog
from cli_agent_orchestrator._internal.providers.screen import find


@dataclass(frozen=True, slots=True)
class StartupQuestion:
    """A dialog that may come before the composer does, or at any time."""

    name: str
    sign: str
    """Pattern of a line that no other dialog has."""
    choice: str | None
    """Pattern of the option that passes it; None if only a person may choose."""
    advice: str
    anytime: bool = False
    """May it come up in the middle of the work as well?"""


STARTUP_QUESTIONS = (
    StartupQuestion(
        "trust this folder",
        # Do you trust the contents of this directory?        Trust this folder? Codex can read
        r"^ +(?:Do you trust the contents of this directory|Trust this folder)\?",
        r"Yes, continue$|Trust and continue$",
        "run codex in the folder once and trust it",
    ),
    StartupQuestion(
        "update notice",
        #   ✨ Update available! 0.101.0 -> 0.166.0
        r"^ +(?:✨\W*)?Update available\b",
        r"Skip$",
        "update codex, or set check_for_update_on_startup = false in its config.toml",
    ),
    StartupQuestion(
        "new model",
        #   Choose how you'd like Codex to proceed.
        r"^ +Choose how you'd like Codex to proceed\b",
        r"Use existing model$",
        "choose a model with -m in CAO_CODEX_ARGS or in codex's config.toml",
    ),
    StartupQuestion(
        "sign in",
        # > 1. Sign in with ChatGPT
        r"^[›> ] 1\. Sign in with ChatGPT$",
        None,
        "run `codex login` once",
    ),
    StartupQuestion(
        "review of hooks",
        #   Hooks need review
        r"^ +Hooks need review$",
        None,
        "run codex once and decide about its hooks",
    ),
    StartupQuestion(
        "approaching rate limits",
        #   Approaching rate limits
        r"^ +Approaching rate limits$",
        r"Keep current model$",
        "set notice.hide_rate_limit_model_nudge = true in codex's config.toml",
        anytime=True,
    ),
)


def find_startup_dialog(lines: Sequence[str]) -> Dialog | None:
    """Return the start-up question at the end of the screen, if there is one.

    The key is the number of the option as it stands on the screen: nothing is chosen by being
    preselected, and in a composer the number would be text that is not submitted.
    """
    if not is_dialog(lines):
        return None
    for question in STARTUP_QUESTIONS:
        heading, options = _parts(lines) if question.anytime else ("\n".join(lines),) * 2
        if find(question.sign, heading):
            choice = question.choice and find(rf"^[›> ] (\d)\. (?:{question.choice})", options)
            keys = (choice[1],) if choice else ()
            return Dialog(question.name, keys, question.advice, question.anytime)
    return None


def _parts(lines: Sequence[str]) -> tuple[str, str]:
    """Return heading and options of the dialog at the end, none of them words of an answer."""
    parts = [[], [], *blocks(lines)]
    return "\n".join(parts[-3]), "\n".join(parts[-2])
