"""Every captured screen gets its status; a new capture needs no code.

    screens/<provider>/<status>/<version>-<case>.txt     the visible text; the folder says what is
                                                         right, `idle+completed` that either is
    screens/<provider>/<status>/<version>-<case>.title   the pane's title at that moment, if known
    screens/<provider>/undecidable/<status>/…            the text alone cannot tell: it is judged
                                                         only together with its title
    screens/<provider>/drafts/<version>-<case>.ansi      with escape sequences, for tests of `draft`

A screen with a title is judged with and without it. Folders of agents that have no provider are
left alone.
"""

from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from tests.providers.samples import SCREENS

CAPTURES = sorted(file for name in PROVIDERS for file in (SCREENS / name).rglob("*.txt"))


def capture_id(file: Path) -> str:
    return str(file.relative_to(SCREENS).with_suffix(""))


@pytest.mark.parametrize("file", CAPTURES, ids=capture_id)
def test_a_screen_gives_the_status(file: Path) -> None:
    provider = get_provider(file.relative_to(SCREENS).parts[0])
    accepted = [TerminalStatus(word) for word in file.parent.name.split("+")]
    text = file.read_text(encoding="utf-8")
    status = provider.detect_status(text)
    if "undecidable" not in file.parts:
        assert status in accepted
    if (titled := file.with_suffix(".title")).exists():
        title = titled.read_text(encoding="utf-8").removesuffix("\n")
        assert provider.detect_status(text, title) in accepted
    raw = text.replace("\n", "\r\n")
    assert provider.detect_status(raw) is status, "the line ends of a raw terminal change nothing"


def test_there_are_captures() -> None:
    assert len(CAPTURES) > 100
