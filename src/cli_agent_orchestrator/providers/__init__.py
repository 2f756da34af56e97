"""The agents there are. A new one is a module of this package and one line in the table."""

from ..errors import UnknownName
from ..settings.table import full_name
from . import claude_code, codex, copilot_cli, gemini_cli, kiro_cli, opencode, q_cli, scripted
from .base import Provider

PROVIDERS: dict[str, Provider] = {
    codex.name: codex,
    claude_code.name: claude_code,
    kiro_cli.name: kiro_cli,
    q_cli.name: q_cli,
    gemini_cli.name: gemini_cli,
    copilot_cli.name: copilot_cli,
    opencode.name: opencode,
    scripted.name: scripted,
}


def get_provider(name: str) -> Provider:
    """Return the provider that a name means, or raise UnknownName with those there are."""
    try:
        return PROVIDERS[full_name(name, PROVIDERS)]
    except KeyError:
        raise UnknownName("provider", name, PROVIDERS) from None
