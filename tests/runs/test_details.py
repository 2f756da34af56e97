"""The turns of a run with all that there is of them, from what is on the disk."""

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.events import RunBegan, RunEvent, TurnBegan, TurnEnded
from cli_agent_orchestrator.pipeline.flow import Flow
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.review import FindingAnswer, Findings
from cli_agent_orchestrator.pipeline.state import Progress, RunState
from cli_agent_orchestrator.runs.record import SavedSetting
from cli_agent_orchestrator.runs.recorder import StateFile, read_state_of
from cli_agent_orchestrator.runs.report import (
    MOST_LINES,
    all_details,
    changes_of_run,
    course_of_run,
    detail_of,
    findings_of,
    read_kept_text,
    report_json,
    report_of_run,
)
from cli_agent_orchestrator.runs.restore import read_kept
from cli_agent_orchestrator.runs.usage import note_records
from cli_agent_orchestrator.runs.view import view_run
from cli_agent_orchestrator.settings.layout import SNAPSHOTS_FOLDER, STATE_NAME, turns_folder
from cli_agent_orchestrator.work.changes import REST_LEFT_OUT
from tests.runs.kept_runs import RUN, change_record, make_run, snapshots_in
from tests.runs.views import a_turn
from tests.usage.lines import codex_head, codex_usage, usage_record

REVIEWER = "programmer_review"
REVIEWS = RunBegan(0.5, "s", {}, {}, "/x", reviewers=(REVIEWER,))
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


def turn(sequence: int, role: str, round: int = 1, cycle: int = 1) -> tuple[RunEvent, ...]:
    began = TurnBegan(float(sequence), role, round, cycle, sequence, f"t-{role}", "codex")
    ended = TurnEnded(
        sequence + 0.5, role, round, cycle, sequence, "sent_back", "REVISE", 0.5, "/x"
    )
    return began, ended


def reply(folder: Folder, sequence: int, role: str, text: str) -> None:
    turns_folder(folder).create(f"{sequence:03d}-{role}.md", text.encode())


def save_state(folder: Folder, flow: Flow, **progress: object) -> None:
    done = Progress(archive=RUN, **progress)  # type: ignore[arg-type]
    state = RunState("", "codex", "/p", "x", flow=flow, progress=done)
    StateFile(folder, SystemClock()).save_state(state)


@pytest.fixture
def wd(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def changed_run(state: Path, wd: Path, *texts: str) -> Folder:
    """Make a run whose turns, by a programmer and a reviewer, left a file with these texts."""
    events: tuple[RunEvent, ...] = (REVIEWS,)
    for number in range(1, len(texts)):
        role = "programmer" if number % 2 else REVIEWER
        events += turn(number, role, cycle=(number + 1) // 2)
    folder = make_run(state, wd, events=events)
    snapshots = snapshots_in(folder, wd)
    for number, text in enumerate(texts):
        (wd / "a.txt").write_text(text)
        snapshots.take(number, "x" if number else "start")
    return folder


class TestCourse:
    def course(self, folder: Folder) -> str:
        run = view_run(folder)
        return " ".join(step.name for step in course_of_run(run, read_state_of(folder)))

    def test_it_is_that_of_the_saved_flow_if_there_is_one(self, tmp_path: Path, wd: Path) -> None:
        folder = make_run(tmp_path / "state", wd)
        names = {
            flow: " ".join(stage.name for stage in packaged_flow(flow).stages)
            for flow in ("pair", "solo")
        }
        change_record(folder, flow="pair")
        assert self.course(folder) == names["pair"]
        save_state(folder, packaged_flow("solo"))
        assert self.course(folder) == names["solo"]
        (folder.path / STATE_NAME).unlink()
        change_record(folder, flow="my-own")
        assert self.course(folder) == ""

    @pytest.mark.parametrize(
        ("gates", "proof", "names"),
        [
            ("tests=make", "report", "tests programmer tests proof"),
            ("tests=make", "off", "tests programmer tests"),
            ("{", "report", "programmer gate"),
        ],
    )
    def test_gates_are_in_it_before_they_have_run(
        self, tmp_path: Path, wd: Path, gates: str, proof: str, names: str
    ) -> None:
        folder = make_run(tmp_path / "state", wd)
        saved = {"GATES": SavedSetting(gates, "option"), "PROOF": SavedSetting(proof, "option")}
        change_record(folder, flow="solo", settings=saved)
        assert self.course(folder) == names


class TestFindings:
    @pytest.fixture
    def folder(self, tmp_path: Path, wd: Path) -> Folder:
        events = (
            REVIEWS,
            *turn(1, REVIEWER),
            *turn(2, "programmer"),
            *turn(3, REVIEWER, cycle=2),
            *turn(4, REVIEWER, cycle=3),
        )
        folder = make_run(tmp_path / "state", wd, events=events)
        for sequence, text in ((1, FIRST), (3, SECOND), (4, THIRD)):
            reply(folder, sequence, REVIEWER, text)
        reply(folder, 2, "programmer", "F9 blocking x.py:1 no reviewer says this")
        return folder

    def test_they_are_the_saved_ones_else_followed_through_the_replies(
        self, folder: Folder, wd: Path
    ) -> None:
        run = view_run(folder)
        ledger = findings_of(folder, run)[REVIEWER]
        assert [entry.finding.id for entry in ledger.tracked] == ["F1", "F2", "F3"]
        assert [entry.finding.id for entry in ledger.open] == ["F3"]
        save_state(folder, packaged_flow("loop"), findings={"analyst_review": Findings()})
        saved = read_state_of(folder)
        assert findings_of(folder, run, saved) == {"analyst_review": Findings()}

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
        evidence = detail_of(folder, 3, os.environ).evidence
        assert {*evidence} == {*packaged_flow("loop").role(REVIEWER).evidence}
        assert {*evidence.values()} == {True, False}
        assert detail_of(folder, 2, os.environ).evidence == {}
        with pytest.raises(NotFound):
            detail_of(folder, 7, os.environ)


class TestDetail:
    def test_it_has_what_was_said_shown_and_changed(self, tmp_path: Path, wd: Path) -> None:
        folder = changed_run(tmp_path / "state", wd, "1\n", "4\n")
        reply(folder, 1, "programmer", "done")
        turns_folder(folder).create("001-programmer.txt", b"the screen")
        found = detail_of(folder, 1, os.environ)
        assert (found.prompt, found.reply, found.screen) == (None, "done", "the screen")
        assert "+4" in (found.patch or "")
        assert [(one.path, one.added) for one in found.files or ()] == [("a.txt", 1)]
        assert found.usage is None
        shutil.rmtree(folder.path / SNAPSHOTS_FOLDER / "objects")
        broken = detail_of(folder, 1, os.environ)
        assert (broken.reply, broken.patch, broken.files) == ("done", None, None)

    def test_all_together_are_as_each_alone(self, tmp_path: Path, wd: Path) -> None:
        folder = changed_run(tmp_path / "state", wd, "", "1\n", "1\n", "2\n", "2\n")
        reply(folder, 2, REVIEWER, FIRST)
        reply(folder, 4, REVIEWER, SECOND)
        turns_folder(folder).create("001-programmer-prompt.md", b"do it")
        details = all_details(folder, view_run(folder), os.environ)
        alone = [detail_of(folder, number, os.environ) for number in (1, 2, 3, 4)]
        assert list(details) == [replace(one, files=None, patch=one.patch or None) for one in alone]
        assert [bool(one.patch) for one in details] == [True, False, True, False]
        assert (details[0].prompt, details[0].reply) == ("do it", None)

    def test_what_a_turn_changed_is_cut_if_it_is_long(self, tmp_path: Path, wd: Path) -> None:
        folder = changed_run(tmp_path / "state", wd, "", "a line\n" * 1000, "another line\n")
        long, _ = (one.patch or "" for one in all_details(folder, view_run(folder), os.environ))
        assert long.endswith(f"+a line\n{REST_LEFT_OUT}\n")
        assert long.count("\n") == MOST_LINES + 1

    def test_of_snapshots_that_cannot_be_read_only_the_changes_are_not_known(
        self, tmp_path: Path, wd: Path
    ) -> None:
        folder = changed_run(tmp_path / "state", wd, "0\n", "1\n1\n", "2\n2\n2\n")
        run, objects = view_run(folder), folder.path / SNAPSHOTS_FOLDER / "objects"
        between = read_kept(folder, os.environ).taken[1].tree
        (objects / between[:2] / between[2:]).unlink()
        patch, files = changes_of_run(folder, os.environ)
        assert "+2" in patch
        assert [one.path for one in files] == ["a.txt"]
        assert not any(one.patch for one in all_details(folder, run, os.environ))
        shutil.rmtree(objects)
        assert changes_of_run(folder, os.environ) == ("", ())
        assert [one.patch for one in all_details(folder, run, os.environ)] == [None, None]


@pytest.mark.parametrize("full", [False, True])
def test_a_report_has_the_tokens_of_each_turn_and_of_all(
    tmp_path: Path, wd: Path, full: bool
) -> None:
    events = (*turn(1, "programmer"), *turn(2, REVIEWER), *turn(3, "programmer"))
    folder = make_run(tmp_path / "state", wd, events=events)
    record = tmp_path / "rollout.jsonl"
    calls = (usage_record(at, f"r{at}", codex_usage(100, 10, 5, 1)) for at in (1.2, 1.3, 3.2))
    record.write_bytes(b"\n".join([codex_head(), *calls, b""]))
    note_records(folder, "t-programmer", [str(record)])
    found = report_json(report_of_run(folder, os.environ, full=full))
    read = json.loads(json.dumps(found))
    assert read["usage"] == {"input": 300, "cached_input": 30, "output": 15, "reasoning": 3}
    used = [one["usage"] and one["usage"]["input"] for one in read["turns"]]
    assert used == [200, None, 100]


class TestTexts:
    TURN = a_turn(1)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Folder:
        (tmp_path / "secret.md").write_text("secret")
        folder = Folder(tmp_path, ("run",), private=True)
        turns_folder(folder).create("001-analyst.md", b"reply")
        return folder

    @pytest.mark.parametrize("role", ["../../secret", "a/../../../secret", "", "x\0", ".", "link"])
    def test_no_role_or_link_leads_out_of_it(
        self, folder: Folder, tmp_path: Path, role: str
    ) -> None:
        (turns_folder(folder).path / "001-link.md").symlink_to(tmp_path / "secret.md")
        assert read_kept_text(folder, replace(self.TURN, role=role)) is None
