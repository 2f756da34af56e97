"""The agents there are. A new one is a module of this package and one line in the table."""

from ..errors import UnknownName
from ..settings.table import full_name
from . import claude_code, codex, copilot_cli, gemini_cli, kiro_cli, opencode, scripted
from .base import Provider

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        codex.PROVIDER,
        claude_code.PROVIDER,
        kiro_cli.PROVIDER,
        kiro_cli.Q_CLI,
        gemini_cli.PROVIDER,
        copilot_cli.PROVIDER,
        opencode.PROVIDER,
        scripted.PROVIDER,
    )
}


def get_provider(name: str) -> Provider:
    try:
        return PROVIDERS[full_name(name, PROVIDERS)]
    except KeyError:
        raise UnknownName("provider", name, PROVIDERS) from None
