"""What providers share: names, versions, the status of marks, states in an agent's output."""

import itertools
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import UnknownName
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import (
    MAX_REPORT,
    SignalKind,
    find_version,
    read_states,
    status_of,
)
from tests.agents.installs import ALL_AGENTS, Agent
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    PROVIDERS,
    SCREENS,
    UNKNOWN,
    WAITING,
)
from tests.providers.test_screens import CAPTURES


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="codex") as caught:
        get_provider("codec")
    assert caught.value.known == tuple(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_of_every_version_that_is_said_to_be_tested_there_are_screens(name: str) -> None:
    files = [file.name for file in CAPTURES if file.relative_to(SCREENS).parts[0] == name]
    for version in get_provider(name).tested_versions:
        assert any(file.startswith(f"{'.'.join(map(str, version))}-") for file in files)


@pytest.mark.parametrize("agent", ALL_AGENTS.values(), ids=ALL_AGENTS)
def test_every_version_that_the_tests_run_on_is_said_to_be_tested(agent: Agent) -> None:
    tested = get_provider(agent.name).tested_versions
    assert {find_version(version) for version in agent.versions} <= set(tested)


Version = tuple[int, ...]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("codex-cli 0.166.0\n", (0, 166, 0)),
        ("2.1.105 (Claude Code)", (2, 1, 105)),
        ("v1.18.18-beta.2", (1, 18, 18)),
        ("version 7", ()),
        ("", ()),
    ],
)
def test_a_version_is_found_in_what_a_program_says(text: str, expected: Version) -> None:
    assert find_version(text) == expected


@given(st.text() | st.text("0123456789."))
@example("9" * 6000 + ".1")
def test_whatever_a_program_says_about_its_version_can_be_dealt_with(text: str) -> None:
    version = find_version(text)
    assert len(version) != 1


MARKS = ("asks", "ready", "working", "failed", "replied", "interrupted", "drafted")
TITLES = (None, WAITING, PROCESSING, IDLE)


@pytest.mark.parametrize("told", TITLES)
def test_a_question_then_work_then_a_missing_box_decides(told: TerminalStatus | None) -> None:
    for values in product((False, True), repeat=len(MARKS)):
        marks = dict(zip(MARKS, values, strict=True))
        status = status_of(**marks, told=told)
        if marks["asks"] or told is WAITING:
            assert status is WAITING
        elif marks["working"] or told is PROCESSING:
            assert status is PROCESSING
        elif not marks["ready"]:
            assert status is UNKNOWN
        else:
            assert status.at_rest or status is ERROR


@pytest.mark.parametrize("told", [None, IDLE])
@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("interrupted failed replied", IDLE),
        ("failed replied", ERROR),
        ("failed", ERROR),
        ("failed drafted replied", IDLE),
        ("replied", COMPLETED),
        ("", IDLE),
    ],
)
def test_at_rest_the_end_of_the_newest_turn_decides(
    marks: str, expected: TerminalStatus, told: TerminalStatus | None
) -> None:
    shown = {mark: mark in ("ready", *marks.split()) for mark in MARKS}
    assert status_of(**shown, told=told) is expected


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
