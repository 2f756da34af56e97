"""What the tests of all agents share: statuses by short names, captures, prose, a request."""

from pathlib import Path

from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions, Profile

IDLE = TerminalStatus.IDLE
PROCESSING = TerminalStatus.PROCESSING
COMPLETED = TerminalStatus.COMPLETED
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
UNKNOWN = TerminalStatus.UNKNOWN

SCREENS = Path(__file__).parent / "screens"


def capture(name: str) -> str:
    """Return a captured screen: `codex/idle/0.125.0-idle_fresh.txt`."""
    return (SCREENS / name).read_text(encoding="utf-8")


def prose(signs: list[str]) -> st.SearchStrategy[list[str]]:
    """Make lines of any text, the signs of an interface among them."""
    text = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=60)
    return st.lists(st.one_of(st.sampled_from(signs), text), max_size=12)


def launch_request(
    program: str,
    permissions: Permissions = Permissions.FULL,
    *args: str,
    version: tuple[int, ...] = (),
    prompt: str = "Test it.",
    folder: str = "/work",
) -> LaunchRequest:
    profile = Profile("tester", "", prompt)
    return LaunchRequest(program, version, args, folder, profile, permissions, "/state/x.jsonl")
