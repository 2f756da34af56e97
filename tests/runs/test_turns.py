"""The turns of a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    RunEnded,
    RunEvent,
    RunOpened,
    TurnBegan,
    TurnEnded,
    Warned,
)
from cli_agent_orchestrator.runs.record import RunRecord
from cli_agent_orchestrator.runs.turns import RunTurn, TurnTexts, read_turn, turns_of
from cli_agent_orchestrator.settings.layout import archive_folder

NOON = 1_700_000_000.0
BEGAN = TurnBegan(NOON, "analyst", 1, 1, 1, "a1", "codex")
ENDED = TurnEnded(NOON + 9, "analyst", 1, 1, 1, "delivered", "summary received", 8.0, "/x")
FOLDER = Folder(Path("/nowhere"))
TURN = RunTurn(1, "analyst", 1, 1, "codex", "a1", NOON)


def test_turns_come_from_events() -> None:
    second = replace(BEGAN, sequence=2, role="analyst_review", at=NOON + 10)
    done, under_way = turns_of([BEGAN, Warned(NOON, "odd"), ENDED, second])
    assert done == replace(
        TURN, ended=NOON + 9, seconds=8.0, outcome="delivered", detail="summary received"
    )
    assert (under_way.role, under_way.ended, under_way.outcome) == ("analyst_review", None, "")


def test_a_turn_that_was_begun_again_is_one() -> None:
    (turn,) = turns_of([BEGAN, replace(BEGAN, at=NOON + 5), ENDED])
    assert (turn.began, turn.ended) == (NOON, NOON + 9)


STOPPED = RunEnded(NOON + 18, "RUNNING", 1, 143)
RESUMED = RunOpened(NOON + 900, "20261115-084037-k3f9", "/w", resumed=True)
AGAIN = replace(BEGAN, sequence=2, at=NOON + 901)


def test_a_turn_is_broken_off_where_its_run_ends() -> None:
    (turn,) = turns_of([BEGAN, STOPPED])
    assert (turn.ended, turn.seconds, turn.outcome) == (NOON + 18, 18.0, "")


def test_only_the_last_turn_of_a_resumed_run_is_under_way() -> None:
    first, second = turns_of([BEGAN, STOPPED, RESUMED, AGAIN])
    assert (first.ended, second.ended) == (NOON + 18, None)


def test_a_turn_that_was_under_way_when_its_run_was_killed_is_broken_off() -> None:
    told: list[RunEvent] = [BEGAN, Warned(NOON + 7, "odd")]
    (at_work,), (killed,) = turns_of(told), turns_of(told, is_live=False)
    (resumed,) = turns_of([*told, RESUMED])
    assert at_work.ended is None
    assert (killed.ended, killed.seconds) == (NOON + 7, 7.0)
    assert resumed == killed


def test_a_turn_that_was_broken_off_is_under_way_when_it_is_begun_again() -> None:
    events: list[RunEvent] = [BEGAN, STOPPED, RESUMED, replace(AGAIN, sequence=1)]
    (turn,) = turns_of(events)
    assert (turn.began, turn.ended) == (NOON, None)
    (turn,) = turns_of([*events, replace(STOPPED, at=NOON + 910)])
    assert (turn.ended, turn.seconds) == (NOON + 910, 18.0 + 9.0)


def test_the_command_of_a_gate_is_broken_off_too() -> None:
    (turn,) = turns_of([CHECK, STOPPED])
    assert (turn.ended, turn.outcome) == (NOON + 18, "")


def test_a_turn_may_have_ended_before_it_was_told() -> None:
    (turn,) = turns_of([replace(ENDED, reason="No tests.")])
    assert turn.reason == "No tests."
    assert (turn.role, turn.outcome) == ("analyst", "delivered")


CHECK = CheckBegan(NOON, "gate", 2, 3, "make test")
CHECKED = CheckEnded(NOON + 9, "gate", 2, 3, "failed", "FAIL; exit code 1", 9.0, "/x")


def test_the_command_of_a_gate_is_a_turn_of_its_stage() -> None:
    (turn,) = turns_of([CHECK, CHECKED])
    assert (turn.role, turn.round, turn.cycle, turn.provider) == ("gate", 2, 1, "command")
    assert (turn.outcome, turn.seconds, turn.reviewed) == ("failed", 9.0, False)
    assert turn.reply_name == "003-gate.md"


@pytest.mark.parametrize("reviewed", [True, False])
def test_whether_a_turn_belongs_to_a_cycle_is_known_from_its_beginning_or_its_end(
    reviewed: bool,
) -> None:
    (begun,) = turns_of([replace(BEGAN, reviewed=reviewed)])
    (ended,) = turns_of([replace(ENDED, reviewed=reviewed)])
    assert (begun.reviewed, ended.reviewed) == (reviewed, reviewed)


def test_a_check_may_have_ended_before_it_was_told() -> None:
    (turn,) = turns_of([CHECKED])
    assert (turn.role, turn.provider, turn.ended) == ("gate", "command", NOON + 9)


class TestTexts:
    @pytest.fixture
    def record(self, tmp_path: Path) -> RunRecord:
        (tmp_path / "secret.md").write_text("secret")
        folder = archive_folder(tmp_path, "run")
        folder.create("001-analyst.md", b"reply")
        folder.create("001-analyst-prompt.md", b"prompt")
        return RunRecord("20261115-084037-k3f9", str(tmp_path), "", "run", "", "", NOON)

    def test_what_was_said_is_in_the_archive(self, record: RunRecord) -> None:
        assert read_turn(FOLDER, record, TURN) == TurnTexts("prompt", "reply")
        assert read_turn(FOLDER, record, replace(TURN, sequence=2)) == TurnTexts(None, None)

    @pytest.mark.parametrize("role", ["../../secret", "a/../../../secret", "", "x\0", "."])
    def test_no_role_leads_out_of_it(self, record: RunRecord, role: str) -> None:
        assert read_turn(FOLDER, record, replace(TURN, role=role)) == TurnTexts(None, None)

    @pytest.mark.parametrize("archive", ["..", "../..", "", "a/b", "agent-responses"])
    def test_no_archive_lies_elsewhere(self, record: RunRecord, archive: str) -> None:
        assert read_turn(FOLDER, replace(record, archive=archive), TURN) == TurnTexts(None, None)

    def test_a_link_is_not_followed(self, record: RunRecord, tmp_path: Path) -> None:
        kept = archive_folder(tmp_path, "run").path / "001-analyst.md"
        kept.unlink()
        kept.symlink_to(tmp_path / "secret.md")
        assert read_turn(FOLDER, record, TURN).reply is None
