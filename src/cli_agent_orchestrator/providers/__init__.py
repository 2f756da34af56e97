"""The agents there are. A new one is a file in `agents/`, or a module and a row of the table."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from ..errors import AgentFault, UnknownName
from ..settings.config import own_agents
from ..settings.table import AGENTS, full_name
from . import claude_code, codex, scripted
from .base import Provider
from .described import NAME_PATTERN, PACKAGED, load

IN_CODE: dict[str, Provider] = {
    one.PROVIDER.name: one.PROVIDER for one in (codex, claude_code, scripted)
}


def get_provider(name: str, config_dir: Path | None = None) -> Provider:
    """Return an agent of ours, or one that a file in the user's own folder describes."""
    own = own_agents(config_dir)
    known = [*dict.fromkeys((*AGENTS, *own))]
    found = full_name(name, known)
    if found not in known:
        raise UnknownName("provider", name, known)
    if found in IN_CODE and found not in own:
        return IN_CODE[found]
    return _load_own(own[found]) if found in own else _load(PACKAGED / f"{found}.toml", 0)


def every_provider(config_dir: Path) -> Iterator[tuple[str, Provider | AgentFault]]:
    """Yield all agents by their names, and what is wrong with the files of the user's own."""
    own = own_agents(config_dir)
    for name in dict.fromkeys((*AGENTS, *own)):
        try:
            # By its file: another agent may be meant by the name of one that cannot be used.
            yield name, _load_own(own[name]) if name in own else get_provider(name)
        except AgentFault as fault:
            yield name, fault


def _load_own(file: Path) -> Provider:
    check_name(file)
    return _load(file, file.stat().st_mtime_ns if file.exists() else 0)


def check_name(file: Path) -> None:
    """Raise if an agent of the user's own cannot have the name of this file."""
    if not re.fullmatch(NAME_PATTERN, file.stem):
        raise AgentFault(str(file), "its name", repr(file.stem), "letters a to z, digits and _")
    # The beginning of a name of ours means that agent wherever settings name one.
    ours = [name for name in AGENTS if name.startswith(file.stem)]
    if ours:
        raise AgentFault(str(file), "its name", f"it means {ours[0]}", "a name of its own")


@lru_cache(maxsize=64)
def _load(file: Path, changed_at: int) -> Provider:
    return replace(load(file), file="" if file.parent == PACKAGED else str(file))
