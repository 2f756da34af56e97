"""How a terminal is told."""

import pytest

from cli_agent_orchestrator._internal.notices.deciding import NoticeKind, RunNotice
from cli_agent_orchestrator._internal.notices.in_terminal import signal_of
from cli_agent_orchestrator._internal.notices.settings import TerminalWay

NOTICE = RunNotice(NoticeKind.PASS, "a;b: PASS", "It passed; proven", "k3f9", "a;b", 1.0)


@pytest.mark.parametrize(
    ("way", "text"),
    [
        (TerminalWay.BELL, "\a"),
        (TerminalWay.OSC9, "\x1b]9;a;b: PASS: It passed; proven\a"),
        (TerminalWay.OSC777, "\x1b]777;notify;a,b: PASS;It passed; proven\a"),
        (TerminalWay.OFF, ""),
    ],
)
def test_each_way_has_its_sequence(way: TerminalWay, text: str) -> None:
    assert signal_of(NOTICE, way) == text
