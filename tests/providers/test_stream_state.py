"""Reports of an agent's state are found in its output, however the output is cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers.base import MAX_REPORT, SignalKind, read_states


def kinds(*pieces: bytes) -> list[SignalKind]:
    """Feed pieces one after the other, as they come."""
    found, rest = [], b""
    for piece in pieces:
        signals, rest = read_states(rest + piece)
        found += [signal.kind for signal in signals]
        assert len(rest) <= MAX_REPORT
    return found


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (b"working:app=codex", SignalKind.WORKING),
        (b"blocked:app=codex:kind=permission", SignalKind.WAITING),
        (b"done:app=codex", SignalKind.FINISHED),
        (b"error:app=codex", SignalKind.FAILED),
        (b"idle:app=codex", SignalKind.READY),
    ],
)
def test_each_state_is_a_signal(state: bytes, kind: SignalKind) -> None:
    assert kinds(b"text\x1b]7501;state=" + state + b"\x07more") == [kind]
    assert kinds(b"\x1b]7501;state=" + state + b"\x1b\\") == [kind]
    assert kinds(b"\x1b]7501;app=codex:state=" + state.split(b":")[0] + b"\x07") == [kind]


def test_what_is_no_report_says_nothing() -> None:
    assert kinds(b"state=working \x1b]2;state=working\x07 \x1b]7501;mood=fine\x07") == []
    assert kinds(b"\x1b]7501;state=unheard-of:app=x\x07") == []


def test_a_report_without_end_is_forgotten() -> None:
    assert kinds(b"\x1b]7501;" + b"x" * MAX_REPORT, b"state=done\x07") == []


def test_the_longest_report_may_be_cut_before_its_end() -> None:
    begun = b"\x1b]7501;state=done:note="
    assert kinds(begun.ljust(MAX_REPORT, b"x"), b"\x07") == [SignalKind.FINISHED]


OUTPUT = (
    b"\x1b[2Jhello\x1b]0;title\x07\x1b]7501;state=working:app=codex\x07 busy\x1b[1m"
    b"\x1b]7501;state=blocked:app=codex:kind=permission\x07?\x1b\x1b]7501;state=done:app=codex\x07"
)


@given(st.sets(st.integers(1, len(OUTPUT) - 1)))
def test_it_does_not_matter_where_the_output_is_cut(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(OUTPUT)]
    pieces = [OUTPUT[a:b] for a, b in itertools.pairwise(places)]
    assert kinds(*pieces) == [SignalKind.WORKING, SignalKind.WAITING, SignalKind.FINISHED]
