"""How a terminal is told."""

import pytest

from cli_agent_orchestrator.notices.decide import NoticeKind, RunNotice, TerminalWay, signal_of

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
