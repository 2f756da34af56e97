"""Which agent a word means: its name, or as much of its beginning as no other agent has.

`claude` is `claude_code`, `q` is `q_cli`; `co` could be `codex` or `copilot_cli`, and is none.
"""

from collections.abc import Iterable

from cli_agent_orchestrator._internal.settings.table import AGENTS


def meant_by(word: str, known: Iterable[str] = AGENTS) -> list[str]:
    """Return the agents that a word could mean.

    >>> meant_by("Claude-Code"), meant_by("co"), meant_by("x")
    (['claude_code'], ['codex', 'copilot_cli'], [])
    """
    known = list(known)
    plain = word.strip().lower().replace("-", "_")
    if plain in known:
        return [plain]
    return [name for name in known if plain and name.startswith(plain)]


def full_name(word: str, known: Iterable[str] = AGENTS) -> str:
    """Return the name of the one agent that a word means, else the word as it is."""
    meant = meant_by(word, known)
    return meant.pop() if len(meant) == 1 else word
