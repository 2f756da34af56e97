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

from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.providers import PROVIDERS, get_provider

SCREENS = Path(__file__).parent / "screens"
CAPTURES = sorted(file for name in PROVIDERS for file in (SCREENS / name).rglob("*.txt"))
DECIDABLE = [file for file in CAPTURES if "undecidable" not in file.parts]
TITLED = [file for file in CAPTURES if file.with_suffix(".title").exists()]


def capture_id(file: Path) -> str:
    return str(file.relative_to(SCREENS).with_suffix(""))


def judge(file: Path, title: str | None) -> TerminalStatus:
    provider = get_provider(file.relative_to(SCREENS).parts[0])
    return provider.detect_status(file.read_text(encoding="utf-8"), title)


def accepted(file: Path) -> list[TerminalStatus]:
    return [TerminalStatus(word) for word in file.parent.name.split("+")]


@pytest.mark.parametrize("file", DECIDABLE, ids=capture_id)
def test_the_screen_alone_gives_the_status(file: Path) -> None:
    assert judge(file, None) in accepted(file)


@pytest.mark.parametrize("file", TITLED, ids=capture_id)
def test_the_screen_with_its_title_gives_the_status(file: Path) -> None:
    title = file.with_suffix(".title").read_text(encoding="utf-8").removesuffix("\n")
    assert judge(file, title) in accepted(file)


@pytest.mark.parametrize("file", CAPTURES, ids=capture_id)
def test_line_ends_of_a_raw_terminal_change_nothing(file: Path) -> None:
    provider = get_provider(file.relative_to(SCREENS).parts[0])
    text = file.read_text(encoding="utf-8")
    assert provider.detect_status(text.replace("\n", "\r\n")) is provider.detect_status(text)


def test_there_are_captures() -> None:
    assert len(CAPTURES) > 100
