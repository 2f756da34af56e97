"""A run as it stands, and one turn of it, from what is on the disk."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import NotFound, StateError
from cli_agent_orchestrator.events import (
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    HintTaken,
    RunBegan,
    RunEvent,
    TurnBegan,
    TurnEnded,
    Warned,
)
from cli_agent_orchestrator.pipeline.findings import FindingAnswer, Findings
from cli_agent_orchestrator.pipeline.flow import Flow
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.state import Progress, RunState
from cli_agent_orchestrator.pipeline.state_json import to_json
from cli_agent_orchestrator.runs.record import RunStatus, SavedSetting, read_record, write_record
from cli_agent_orchestrator.runs.story import detail_of, story_of
from cli_agent_orchestrator.settings.layout import (
    EVENTS_FILE,
    SNAPSHOTS_FOLDER,
    archive_folder,
    run_folder,
    screens_folder,
)
from tests.runs.kept_runs import RUN, make_run, snapshots_in, worked_run

REVIEWER = "programmer_review"
ASKS = HandoffEvent(
    2.0,
    EventKind.WAITING_FOR_PERSON,
    "t1",
    "programmer",
    status=TerminalStatus.WAITING_USER_ANSWER,
    question="May I run `make`?",
)


def turn(sequence: int, role: str, round: int = 1, cycle: int = 1) -> tuple[RunEvent, ...]:
    began = TurnBegan(float(sequence), role, round, cycle, sequence, f"t-{role}", "codex")
    ended = TurnEnded(
        sequence + 0.5, role, round, cycle, sequence, "sent_back", "REVISE", 0.5, "/x"
    )
    return began, ended


def reply(wd: Path, sequence: int, role: str, text: str) -> None:
    archive_folder(wd, RUN).create(f"{sequence:03d}-{role}.md", text.encode())


def change_record(folder: Folder, **fields: object) -> None:
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, **fields))  # type: ignore[arg-type]


def save_state(wd: Path, flow: Flow, archive: str = RUN, **progress: object) -> None:
    state = RunState("", "codex", str(wd), "x", flow=flow)
    done = Progress(archive=archive, **progress)  # type: ignore[arg-type]
    (wd / "s.json").write_text(json.dumps(to_json(replace(state, progress=done))))


@pytest.fixture
def wd(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


class TestStory:
    def test_it_is_what_the_events_tell(self, tmp_path: Path, wd: Path) -> None:
        changed = FilesChanged(1.7, "programmer", 1, 1, ("a.py",), 1, 3, 1)
        hint = HintTaken(1.8, "tester", "look at b")
        proof = CheckEnded(9.0, "proof", 1, 3, "passed", "x", 1.0, "/x", why="proven: it is")
        folder = make_run(
            tmp_path / "state",
            wd,
            events=(
                *turn(1, "programmer"),
                changed,
                hint,
                Warned(1.9, "odd"),
                Warned(2.0, "odd"),
                *turn(2, REVIEWER),
                proof,
            ),
        )
        story = story_of(folder)
        assert [one.role for one in story.turns] == ["programmer", REVIEWER, "proof"]
        assert {n: event.files for n, event in story.changed.items()} == {1: ("a.py",)}
        assert [act.words for act in story.acts] == ["hint for tester: look at b"]
        assert story.warnings == ("odd",)
        assert story.proof == "proven: it is"
        assert (story.circling, story.question) == ("", "")
        change_record(folder, circling="F1 is still unfixed.")
        assert story_of(folder).circling == "F1 is still unfixed."
        assert (story.summary.id, story.record.wd) == (RUN, str(wd))

    def test_no_turn_of_a_run_that_was_killed_is_at_work(self, tmp_path: Path, wd: Path) -> None:
        folder = make_run(tmp_path / "state", wd)
        events = [*turn(1, "programmer"), turn(2, "x")[0]]
        with folder.locked():
            change_record(folder, status=RunStatus.RUNNING)
            assert story_of(folder, events).turns[-1].ended is None
        assert story_of(folder, events).turns[-1].ended == 2.0

    def test_a_folder_without_a_record_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(StateError):
            story_of(run_folder(tmp_path, RUN))

    def test_its_flow_is_that_of_the_package_if_nothing_is_saved(
        self, tmp_path: Path, wd: Path
    ) -> None:
        folder = make_run(tmp_path / "state", wd)
        change_record(folder, flow="pair")
        story = story_of(folder)
        assert story.course == packaged_flow("pair").stages
        assert story.reviewers == tuple(
            s.reviewer for s in packaged_flow("pair").stages if s.reviewer
        )

    def test_its_flow_is_the_saved_one_if_it_is_of_this_run(self, tmp_path: Path, wd: Path) -> None:
        folder = make_run(tmp_path / "state", wd)
        save_state(wd, packaged_flow("solo"))
        assert story_of(folder).course == packaged_flow("solo").stages
        save_state(wd, packaged_flow("solo"), archive="20261115-084037-aaaa")
        assert story_of(folder).course == packaged_flow("loop").stages

    @pytest.mark.parametrize(
        ("gates", "proof", "names"),
        [
            ("tests=make", "report", "tests programmer tests proof"),
            ("tests=make", "off", "tests programmer tests"),
            ("{", "report", "programmer gate"),
        ],
    )
    def test_its_gates_are_in_its_course_before_they_have_run(
        self, tmp_path: Path, wd: Path, gates: str, proof: str, names: str
    ) -> None:
        folder = make_run(tmp_path / "state", wd)
        saved = {"GATES": SavedSetting(gates, "option"), "PROOF": SavedSetting(proof, "option")}
        change_record(folder, flow="solo", settings=saved)
        assert " ".join(step.name for step in story_of(folder).course) == names

    def test_of_an_unknown_flow_it_knows_what_the_run_told(self, tmp_path: Path, wd: Path) -> None:
        began = RunBegan(1.0, "s", {}, {}, "/x", max_rounds=4, reviewers=("critic",))
        folder = make_run(tmp_path / "state", wd, events=(began,))
        change_record(folder, flow="my-own")
        story = story_of(folder)
        assert (story.course, story.reviewers, story.max_rounds) == ((), ("critic",), 4)

    def test_the_most_rounds_are_those_that_were_set_last(self, tmp_path: Path, wd: Path) -> None:
        began = RunBegan(1.0, "s", {}, {}, "/x", max_rounds=4)
        folder = make_run(tmp_path / "state", wd, events=(began,))
        change_record(folder, settings={"MAX_ROUNDS": SavedSetting("9", "cao set")})
        assert story_of(folder).max_rounds == 9
        # What Python does not even read, since it takes so long.
        for value in ("9" * 5000, "²", "-1", ""):
            change_record(folder, settings={"MAX_ROUNDS": SavedSetting(value, "cao set")})
            assert story_of(folder).max_rounds == 4

    @pytest.mark.parametrize("is_asking", [True, False])
    def test_a_question_is_told_as_long_as_it_is_asked(
        self, tmp_path: Path, wd: Path, is_asking: bool
    ) -> None:
        folder = make_run(tmp_path / "state", wd, events=(*turn(1, "programmer"), ASKS))
        asking = "programmer" if is_asking else ""
        change_record(folder, asking=asking, status="running")
        with folder.locked():
            assert story_of(folder).question == (ASKS.question if is_asking else "")
        assert story_of(folder).question == ""

    def test_of_many_questions_the_last_of_who_asks_is_told(self, tmp_path: Path, wd: Path) -> None:
        asked = (
            replace(ASKS, question="an earlier one"),
            ASKS,
            replace(ASKS, kind=EventKind.STATUS, question="none"),
            replace(ASKS, role="tester", question="of another"),
        )
        folder = make_run(tmp_path / "state", wd, events=(*turn(1, "programmer"), *asked))
        change_record(folder, asking="programmer", status="running")
        with folder.locked():
            assert story_of(folder).question == ASKS.question


FIRST = """REVIEW_RESULT: REVISE
REVIEW_NOTES:
F1 blocking a.py:3 the sum is wrong
F2 advisory b.py:1 a name"""
SECOND = """REVIEW_RESULT: REVISE
REVIEW_NOTES: the tests and the diff were read
F1 unfixed
F2 fixed
F3 blocking c.py:9 a leak"""
THIRD = "F1 fixed\nF3 blocking c.py:9 a leak\nREVIEW_RESULT: REVISE"


class TestFindings:
    @pytest.fixture
    def folder(self, tmp_path: Path, wd: Path) -> Folder:
        events = (
            *turn(1, REVIEWER),
            *turn(2, "programmer"),
            *turn(3, REVIEWER, cycle=2),
            *turn(4, REVIEWER, cycle=3),
        )
        for sequence, text in ((1, FIRST), (3, SECOND), (4, THIRD)):
            reply(wd, sequence, REVIEWER, text)
        reply(wd, 2, "programmer", "F9 blocking x.py:1 no reviewer says this")
        return make_run(tmp_path / "state", wd, events=events)

    def test_they_are_followed_through_the_replies(self, folder: Folder) -> None:
        ledger = story_of(folder).findings[REVIEWER]
        assert [entry.finding.id for entry in ledger.tracked] == ["F1", "F2", "F3"]
        assert [entry.finding.id for entry in ledger.open] == ["F3"]

    def test_what_is_saved_goes_before_that(self, folder: Folder, wd: Path) -> None:
        save_state(wd, packaged_flow("loop"), findings={"analyst_review": Findings()})
        assert story_of(folder).findings == {"analyst_review": Findings()}

    def test_a_review_has_those_that_it_names_and_their_fate(self, folder: Folder) -> None:
        fixed, unfixed = FindingAnswer.FIXED, FindingAnswer.UNFIXED
        named = {
            number: [(one.finding.id, one.answers) for one in found.findings]
            for number in (1, 2, 3, 4)
            if (found := detail_of(folder, number, os.environ))
        }
        assert named == {
            1: [("F1", (unfixed, fixed)), ("F2", (fixed,))],
            2: [],
            3: [("F1", (unfixed, fixed)), ("F2", (fixed,)), ("F3", ())],
            4: [("F1", (unfixed, fixed)), ("F3", ())],
        }

    def test_a_review_says_which_evidence_its_notes_touch(self, folder: Folder) -> None:
        groups = packaged_flow("loop").role(REVIEWER).evidence
        assert groups
        evidence = detail_of(folder, 3, os.environ).evidence
        assert {one.name for one in evidence} == set(groups)
        assert {one.is_met for one in evidence} == {True, False}
        assert detail_of(folder, 2, os.environ).evidence == ()


class TestDetail:
    def test_there_is_no_other_turn(self, tmp_path: Path, wd: Path) -> None:
        with pytest.raises(NotFound):
            detail_of(make_run(tmp_path / "state", wd), 7, os.environ)

    def test_a_turn_of_a_run_that_was_killed_is_not_at_work(self, tmp_path: Path, wd: Path) -> None:
        began, _ = turn(1, "programmer")
        folder = make_run(tmp_path / "state", wd, events=(began,))
        change_record(folder, status=RunStatus.RUNNING)
        log = folder.path / EVENTS_FILE
        log.write_bytes(log.read_bytes().split(b"\n")[0] + b"\n")
        assert detail_of(folder, 1, os.environ).turn.ended == 1.0

    def test_it_has_what_was_said_shown_and_changed(self, tmp_path: Path) -> None:
        wd = tmp_path / "project"
        worked_run(tmp_path / "other", wd)
        folder = make_run(
            tmp_path / "state", wd, events=(*turn(1, "programmer"), *turn(2, "tester"))
        )
        snapshots = snapshots_in(folder, wd)
        snapshots.take(0, "start")
        (wd / "a.txt").write_text("4\n")
        snapshots.take(1, "programmer")
        reply(wd, 1, "programmer", "done")
        screens_folder(folder).create("001-programmer.txt", b"the screen")
        found = detail_of(folder, 1, os.environ)
        assert (found.prompt, found.reply, found.screen) == (None, "done", "the screen")
        assert found.patch is not None
        assert "+4" in found.patch
        assert found.files is not None
        assert [(one.path, one.added) for one in found.files] == [("a.txt", 1)]
        assert found.usage is None
        shutil.rmtree(folder.path / SNAPSHOTS_FOLDER / "objects")
        broken = detail_of(folder, 1, os.environ)
        assert (broken.reply, broken.patch, broken.files) == ("done", None, None)
        other = detail_of(folder, 2, os.environ)
        assert (other.reply, other.patch, other.files) == (None, None, None)
