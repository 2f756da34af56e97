"""The scenarios of the specification about one turn, each under its own title."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import HandoffError, HandoffTimeout, NoResponseFile
from cli_agent_orchestrator.events import EventKind
from tests.handoff.fakes import RULES, TERMINAL, Stage

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR


def test_a_file_and_a_terminal_at_rest_are_a_reply(stage: Stage) -> None:
    """Scenario: Agent writes response file and terminal becomes idle"""
    stage.status(0, PROCESSING)
    stage.file(5, "the reply\n")
    stage.status(6, IDLE)
    reply = stage.handoff.wait_for_response_file(TERMINAL, stage.role, 7)
    assert reply.text == "the reply\n"
    assert reply.archive == stage.files.kept.path / "007-analyst.md"
    assert reply.archive.read_text() == "the reply\n"
    assert not stage.path.exists()


def test_rest_from_the_last_turn_does_not_count(stage: Stage) -> None:
    """Scenario: Startup guard blocks premature grace timer"""
    stage.agents.status = COMPLETED
    stage.status(29, PROCESSING)
    stage.status(59, COMPLETED)
    stage.file(80, "late but in time")
    assert stage.wait() == "late but in time"
    assert stage.told(EventKind.WARNING) == []


@pytest.mark.parametrize("rest", [IDLE, COMPLETED])
def test_a_stale_status_then_work_then_rest_is_a_normal_turn(
    stage: Stage, rest: TerminalStatus
) -> None:
    """Scenario: Agent starts processing and then completes"""
    stage.agents.status = COMPLETED
    stage.status(3, PROCESSING)
    stage.file(100, "done")
    stage.status(101, rest)
    assert stage.wait() == "done"
    assert stage.statuses() == [COMPLETED, PROCESSING, rest]


def test_the_guard_falls_after_the_grace_with_a_warning(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario: Startup timeout releases guard"""
    with caplog.at_level(logging.WARNING), pytest.raises(NoResponseFile):
        stage.wait()
    assert stage.elapsed == 2 * RULES.idle_grace
    assert "not seen at work" in caplog.text
    assert len(stage.told(EventKind.WARNING)) == 1


@pytest.mark.parametrize("rest", [IDLE, COMPLETED])
def test_a_file_is_taken_before_the_agent_was_seen_at_work(
    stage: Stage, rest: TerminalStatus
) -> None:
    """Scenario: Response file appears during startup guard"""
    stage.agents.status = rest
    stage.file(0.5, "quick")
    assert stage.wait() == "quick"
    assert stage.elapsed == 0.5


def test_without_a_file_the_last_output_does_when_that_is_allowed(tmp_path: Path) -> None:
    """Scenario: Agent ignores file instruction but terminal finishes (default mode)"""
    rules = replace(RULES, strict=False, response_timeout=20)
    stage = Stage(tmp_path, rules)
    stage.status(0, PROCESSING)
    stage.status(10, IDLE)
    reply = stage.handoff.wait_for_response_file(TERMINAL, stage.role, 3)
    assert reply.text == "what the screen says"
    assert reply.source == "output"
    assert reply.archive.read_text() == "what the screen says"
    assert reply.archive.name == "003-analyst.md"


def test_without_a_file_a_strict_handoff_fails(tmp_path: Path) -> None:
    """Scenario: Agent ignores file instruction but terminal finishes (strict mode)"""
    stage = Stage(tmp_path, replace(RULES, response_timeout=20))
    stage.status(0, PROCESSING)
    stage.status(10, IDLE)
    with pytest.raises(RuntimeError, match=r"at rest for 30 s without writing .*analyst_summary"):
        stage.wait()
    assert stage.elapsed == 40


def test_an_error_ends_the_wait_at_once(stage: Stage) -> None:
    """Scenario: Terminal enters error state"""
    stage.status(0, PROCESSING)
    stage.status(8, ERROR)
    with pytest.raises(RuntimeError, match="error state") as raised:
        stage.wait()
    assert isinstance(raised.value, HandoffError)
    assert stage.elapsed == 8


def test_work_beyond_the_timeout_is_a_timeout(stage: Stage) -> None:
    """Scenario: Timeout with terminal still processing"""
    stage.status(0, PROCESSING)
    with pytest.raises(TimeoutError, match="RESPONSE_TIMEOUT") as raised:
        stage.wait()
    assert isinstance(raised.value, HandoffTimeout)
    assert stage.elapsed == RULES.response_timeout


def test_a_question_shows_that_the_agent_has_begun(stage: Stage) -> None:
    """Scenario: waiting_user_answer counts as agent started"""
    stage.status(0, WAITING)
    stage.status(4, IDLE)
    with pytest.raises(NoResponseFile):
        stage.wait()
    assert stage.elapsed == 4 + RULES.idle_grace


def test_only_uninterrupted_rest_counts(stage: Stage) -> None:
    """Scenario: Idle grace resets on processing observation"""
    stage.status(0, PROCESSING)
    for start in range(2, 202, 20):
        stage.status(start, IDLE if start % 40 == 2 else COMPLETED)
        stage.status(start + 18, PROCESSING)
    stage.status(210, IDLE)
    with pytest.raises(NoResponseFile):
        stage.wait()
    assert stage.elapsed == 210 + RULES.idle_grace


def test_a_stale_file_is_moved_out_of_the_way(stage: Stage) -> None:
    """
    Scenario: No stale file exists
    Scenario: Stale file from previous run exists
    """
    assert stage.files.clear_stale_response("analyst", 1) is None
    stage.path.write_text("old")
    kept = stage.files.clear_stale_response("analyst", 1)
    assert not stage.path.exists()
    assert kept == stage.files.kept.path / "001-analyst-stale.md"
    assert kept.read_text() == "old"


def test_the_response_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    """Scenario: Directory does not exist"""
    folder = tmp_path / "deep" / "project"
    stage = Stage(folder)
    assert stage.files.ensure_response_dir() == folder / ".tmp" / "agent-responses"
    assert stage.files.folder.is_dir()


def test_sending_clears_then_sends_then_waits(stage: Stage) -> None:
    """Scenario: Normal send-and-wait flow"""
    stage.path.write_text("old")
    there_when_sent = []

    def take() -> None:
        there_when_sent.append(stage.path.exists())
        stage.agents.status = PROCESSING

    stage.agents.on_send = take
    stage.file(5, "new")
    stage.status(6, COMPLETED)
    text = stage.send()
    assert there_when_sent == [False]
    assert [sent.message for sent in stage.agents.sent] == ["do it"]
    assert text == "new"
    kept = {path.name: path.read_text() for path in stage.files.kept.path.iterdir()}
    assert kept == {"001-analyst-stale.md": "old", "001-analyst.md": "new"}
