"""Finds variables that were surely meant for `cao`, and that it does not know."""

from collections.abc import Mapping
from difflib import get_close_matches

from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.models import RUN_INDEX
from cli_agent_orchestrator._internal.settings.table import AGENTS, PREFIX, SETTINGS

KNOWN = frozenset(
    (
        *(setting.variable for setting in SETTINGS),
        *(f"{PREFIX}{name.upper()}_{word}" for name in AGENTS for word in ("ARGS", "COMMAND")),
        *("CAO_HOST", "CAO_PORT", "CAO_START_SECONDS", "CAO_STATE_DIR", "CAO_CONFIG_DIR"),
        *("CAO_TOKEN", "CAO_DEBUG"),
        # In what belongs to a run: its agents, its gates.
        RUN_INDEX,
        # In the terminals of some agents, from which `cao` may be started as well.
        *("CAO_EVENT_FILE", "CAO_SESSION_CONTEXT"),
        # In the gates of a run.
        "CAO_GATE",
    )
)


def remarks_on_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like ours and says nothing to us."""
    names = sorted(name for name in environ if name.startswith(PREFIX) and environ[name].strip())
    return [_remark(name) for name in names if name not in KNOWN]


def _remark(name: str) -> str:
    meant = get_close_matches(name, sorted(KNOWN), 1, 0.8)
    proposal = f" (did you mean {meant[0]}?)" if meant else ""
    return one_line(f"{name} is set, but cao does not know it{proposal}")
