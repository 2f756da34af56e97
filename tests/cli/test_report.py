"""`cao report`: a run on one page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.report import report
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import StateError, UsageError
from cli_agent_orchestrator.events import CheckEnded, TurnBegan, TurnEnded
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.runs.event_log import EventLog
from cli_agent_orchestrator.runs.record import Fate, RunRecord, RunStatus, SavedTree, write_record
from cli_agent_orchestrator.runs.report import find_setbacks, is_setback, report_of_record
from cli_agent_orchestrator.runs.turns import Journal, TurnRecord, gate_record
from cli_agent_orchestrator.settings.gates import PROOF
from cli_agent_orchestrator.settings.layout import STATE_FILE, archive_folder, run_folder
from tests.cli.test_markdown import NASTY, NASTY_LINES, markup_of
from tests.pipeline.samples import FAIL, approval
from tests.runs.fakes import Asked, Rig, agree

RUN = "20261115-084037-k3f9"
NEWER = "20261116-084037-m4t7"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def printed(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(report, ["--wd", str(folder), *words])


# Any: fields of a record
def keep_record(rig: Rig, status: RunStatus, **fields: Any) -> Folder:
    """Keep the record of a run in a state folder beside it, and return its own folder."""
    folder = run_folder(rig.folder / "state", RUN)
    folder.make()
    state_file = str(rig.state_file.path)
    record = RunRecord(RUN, str(rig.folder), state_file, RUN, "", "", 0.0, status=status)
    write_record(folder, replace(record, **fields))
    return folder


# Any: fields of a record
def write_run(rig: Rig, name: str, status: RunStatus, **fields: Any) -> None:
    """Keep the record of another run, of which nothing else is saved."""
    folder = run_folder(rig.folder / "state", name)
    folder.make()
    record = RunRecord(name, str(rig.folder), "/nowhere", name, "", "", 9.0, status=status)
    write_record(folder, replace(record, **fields))


def run_to_the_end(rig: Rig) -> None:
    final = rig.run(rig.begin())
    rig.state_file.path.rename(rig.folder / STATE_FILE)
    assert final.final_status != "RUNNING"


def test_a_passed_run_has_verdict_timeline_and_evidence(rig: Rig) -> None:
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert page.startswith("# PASS after 1 round\n")
    assert "- Task: Make the parser accept empty lines." in page
    assert "| 1 | 2 | analyst_review | codex |" in page
    assert "009-tester.md" in page
    assert "\n- exit code 0\n" in page
    assert "## Last notes of programmer_review" in page


def test_the_same_as_json(rig: Rig) -> None:
    run_to_the_end(rig)
    found = json.loads(printed(rig.folder, "--json").output)
    assert found["status"] == "PASS"
    assert len(found["turns"]) == 9
    assert found["turns"][0]["role"] == "analyst"
    assert Path(found["archive"]).is_dir()


def test_it_is_written_to_a_file_as_it_is_printed(rig: Rig, tmp_path: Path) -> None:
    run_to_the_end(rig)
    file = tmp_path / "run.md"
    file.write_text("an older one, which is longer" * 1000, encoding="utf-8")
    assert printed(rig.folder, "-o", str(file)).output == f"Written to {file}\n"
    assert file.read_text(encoding="utf-8") == printed(rig.folder).output
    for bad in (tmp_path, tmp_path / "nowhere" / "run.md"):
        refused = printed(rig.folder, "--output", str(bad))
        assert isinstance(refused.exception, UsageError)
        assert str(bad) in str(refused.exception)


def test_a_run_in_its_second_round_shows_the_evidence_of_the_first(rig: Rig) -> None:
    class Enough(Exception):
        """Ends the run in its second round."""

    def answer(asked: Asked) -> str:
        if asked.role == "tester":
            return FAIL
        if "ROUND: 2" in asked.message and asked.role == "programmer":
            raise Enough
        return agree(asked)

    rig.server.answer = answer
    with pytest.raises(Enough):
        rig.run(rig.begin())
    page = printed(rig.folder, "--state-file", str(rig.state_file.path)).output
    assert page.startswith("# Not finished: round 2, cycle 1, programmer is due\n")
    assert "\n- exit code 1\n" in page
    assert "- Round 1, tester, FAIL: exit code 1" in page
    assert "cao run" in page


def test_notes_of_an_earlier_round_are_not_open_any_more(rig: Rig) -> None:
    tests: list[str] = []

    def answer(asked: Asked) -> str:
        if asked.role == "programmer_review" and not tests:
            return "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- still a problem"
        if asked.role == "tester" and not tests:
            tests.append(FAIL)
            return FAIL
        return agree(asked)

    rig.server.answer = answer
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert page.startswith("# PASS after 2 rounds\n")
    assert "Still open" not in page
    assert "Still open" not in printed(rig.folder, "--pr").output


def test_notes_that_stayed_open_are_shown(rig: Rig) -> None:
    rig.server.answer = lambda asked: (
        "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- still a | problem"
        if asked.role == "programmer_review"
        else agree(asked)
    )
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert "## Still open after the last cycle (programmer_review, round 1)" in page
    assert "\n- still a | problem\n" in page
    places = [f"Round 1, cycle {number}, programmer_review, REVISE" for number in (1, 2, 3)]
    for place in places:
        assert f"\n- {place}: still a \\| problem\n" in page
    # They are the last notes, too, and are said once.
    assert "## Last notes of programmer_review" not in page
    assert page.count("\n- still a | problem\n") == 1


SENT_BACK = TurnRecord(
    3,
    "analyst_review",
    1,
    1,
    "codex",
    0.0,
    1.0,
    1.0,
    "as people are told",
    "003-analyst_review.md",
    "",
    word="sent_back",
)


@pytest.mark.parametrize(
    ("verdict", "why", "line"),
    [
        (
            "APPROVED does not count: cycle 1 is too early; there are no notes",
            "cycle 1 is too early; there are no notes",
            "APPROVED does not count: cycle 1 is too early; there are no notes",
        ),
        ("REVISE", "", "REVISE: Names are unclear."),
        (
            "no REVIEW_RESULT: line, which counts as REVISE",
            "",
            "no REVIEW_RESULT: line, which counts as REVISE: Names are unclear.",
        ),
        ("", "", "as people are told: Names are unclear."),
    ],
)
def test_why_a_review_did_not_end_its_phase_is_said_once(
    tmp_path: Path, verdict: str, why: str, line: str
) -> None:
    (tmp_path / "003-analyst_review.md").write_text(
        "REVIEW_NOTES:\n- Names are unclear.\n", "utf-8"
    )
    turn = replace(SENT_BACK, verdict=verdict, why=why)
    ((where, said),) = find_setbacks([turn], Folder(tmp_path)).items()
    assert f"{where}: {said}" == f"Round 1, cycle 1, analyst_review, {line}"


def test_why_a_gate_failed_is_told_whatever_else_its_sentence_says(tmp_path: Path) -> None:
    verdict = "FAIL: `cd a; make` ended with exit code 1"
    turn = replace(
        SENT_BACK,
        role="tests",
        reviewed=False,
        outcome=f"{verdict}; round 2 follows; 3 MB in the middle of its log are left out",
        word="failed",
        verdict=verdict,
        why=verdict.removeprefix("FAIL: "),
    )
    (tmp_path / "003-tests.md").write_text("RESULT: FAIL\nEVIDENCE:\n- it is red\n", "utf-8")
    found = find_setbacks([turn], Folder(tmp_path))
    assert found == {f"Round 1, tests, {verdict}": "it is red"}


@pytest.mark.parametrize(
    ("word", "is_one"),
    [
        *((word, True) for word in ("sent_back", "cycles_used_up", "failed", "rounds_used_up")),
        *((word, False) for word in ("delivered", "approved", "passed", "base_failed", "")),
    ],
)
def test_the_word_for_its_outcome_says_whether_a_turn_was_a_setback(
    word: str, is_one: bool
) -> None:
    assert is_setback(replace(SENT_BACK, word=word)) == is_one


def test_a_run_of_the_earlier_script_has_a_report_too(rig: Rig, tmp_path: Path) -> None:
    state = replace(rig.begin(), progress=type(rig.begin().progress)())
    rig.state_file.save_state(state)
    done = printed(tmp_path, "--state-file", str(rig.state_file.path))
    assert done.exit_code == 0
    assert "turns" not in done.output


def test_what_a_saved_run_says_cannot_control_the_terminal(rig: Rig) -> None:
    run_to_the_end(rig)
    path = rig.folder / STATE_FILE
    saved = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**saved, "wd": "/p/\x1b]0;title\x07"}), encoding="utf-8")
    page = printed(rig.folder).output
    assert "]0;title" in page
    assert "\x1b" not in page


def test_what_agents_wrote_cannot_control_the_terminal(rig: Rig) -> None:
    rig.server.answer = lambda asked: (
        "RESULT: PASS\nEVIDENCE:\n- \x1b]0;title\x07" if asked.role == "tester" else agree(asked)
    )
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert "]0;title" in page
    assert "\x1b" not in page


@pytest.mark.parametrize("role", ["tester", "programmer_review"])
def test_nothing_that_an_agent_wrote_becomes_markup(rig: Rig, role: str) -> None:
    run_to_the_end(rig)
    plain = printed(rig.folder).output
    (rig.folder / "other").mkdir()
    other = Rig(rig.folder / "other")
    verdict = "RESULT: PASS\nEVIDENCE:\n" if role == "tester" else approval(role)
    other.server.answer = lambda asked: (
        f"{verdict}\n{NASTY_LINES}" if asked.role == role else agree(asked)
    )
    run_to_the_end(other)
    page = printed(other.folder).output
    assert NASTY in page
    assert markup_of(page) == markup_of(plain)


def test_the_reason_of_a_setback_is_no_markup(rig: Rig) -> None:
    rig.server.answer = lambda asked: (
        f"REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- {NASTY}"
        if asked.role == "analyst_review"
        else agree(asked)
    )
    run_to_the_end(rig)
    page = printed(rig.folder).output
    reasons = page.partition("## Why it took more than one try\n\n")[2].partition("\n\n")[0]
    assert reasons.count("analyst_review, REVISE") == 3
    allowed = {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
    inline = {"paragraph_open", "paragraph_close", "text_special", "code_inline"}
    assert markup_of(reasons) <= allowed | inline


def test_no_path_of_the_machine_is_told(rig: Rig) -> None:
    rig.server.answer = lambda asked: (
        f"RESULT: PASS\nEVIDENCE:\n- {rig.folder}/test_a.py and {rig.folder}: fine"
        if asked.role == "tester"
        else agree(asked)
    )
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert str(rig.folder) not in page
    assert "- test_a.py and .: fine" in page
    assert f"- Folder: {rig.folder.name}" in page
    assert f"- State: {STATE_FILE}" in page


def test_no_path_of_the_machine_is_told_in_what_stayed_open(rig: Rig) -> None:
    rig.server.answer = lambda asked: (
        f"REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- {rig.folder}/a.py has no test"
        if asked.role == "programmer_review"
        else agree(asked)
    )
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert "## Still open after the last cycle" in page
    assert str(rig.folder) not in page


def failing_gate(rig: Rig) -> str:
    """Let a run fail by a gate that names its folder; return its page."""
    rig.flow, rig.gate = packaged_flow("pair"), f"cd {rig.folder} && ls {rig.folder}/nofile"
    run_to_the_end(rig)
    return printed(rig.folder).output


def test_no_path_of_the_machine_is_told_of_the_command_of_a_gate(rig: Rig) -> None:
    page = failing_gate(rig)
    assert str(rig.folder) not in page
    assert "FAIL: `cd . && ls nofile` ended with exit code 2" in page


def test_what_a_gate_wrote_is_not_what_a_tester_found(rig: Rig) -> None:
    page = failing_gate(rig)
    assert "What the tester found" not in page
    assert "No such file" in page.partition("## What the gate gate said\n\n")[2]


def test_what_a_gate_said_before_is_not_told_of_a_run_that_passes(rig: Rig) -> None:
    # It fails once, and then passes.
    rig.flow, rig.gate = packaged_flow("solo"), "test -e ready || { touch ready; exit 1; }"
    run_to_the_end(rig)
    page = printed(rig.folder).output
    assert "PASS" in page.splitlines()[0]
    assert "## Why it took more than one try" in page
    assert "What the gate" not in page


def test_what_a_gate_wrote_is_its_own_from_the_events_too(rig: Rig) -> None:
    rig.flow, rig.gate = packaged_flow("solo"), "echo 3 passed"
    archive = rig.run(rig.begin()).progress.archive
    record = RunRecord(RUN, str(rig.folder), "", archive, "", "", 0.0)
    found = report_of_record(Folder(rig.folder), record, rig.events)
    assert found.gate == "gate"


def test_a_turn_that_was_broken_off_is_not_due_when_a_later_one_has_ended(tmp_path: Path) -> None:
    began = TurnBegan(1.0, "analyst", 1, 1, 1, "a1", "codex")
    ended = TurnEnded(9.0, "analyst", 1, 1, 2, "delivered", "x", 1.0, "/x")
    record = RunRecord(RUN, str(tmp_path), "", RUN, "", "", 0.0)
    due = [
        report_of_record(Folder(tmp_path), record, events).due
        for events in ((began,), (began, ended))
    ]
    assert due == ["round 1, analyst", "its next turn"]


def test_what_to_do_about_a_stop_stands_on_lines_of_its_own(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    state = rig.begin()
    rig.state_file.save_state(replace(state, progress=replace(state.progress, archive=RUN)))
    reason = "analyst has been at rest\n  Look at it:   cao attach x\n  Ask *again*:  cao resume x"
    keep_record(rig, RunStatus.FAILED, reason=reason)
    page = CliRunner().invoke(report, [RUN]).output
    expected = ["analyst has been at rest", "  - Look at it: cao attach x"]
    assert "- Stopped: " + "\n".join(expected) in page
    assert "\n  - Ask \\*again\\*: cao resume x\n" in page


def test_a_run_that_has_to_be_resumed_in_a_special_way_says_how(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    state = rig.begin()
    rig.state_file.save_state(replace(state, progress=replace(state.progress, archive=RUN)))
    reason = f"whatever it says: `cao resume {RUN} --other`"
    keep_record(rig, RunStatus.FAILED, reason=reason, to_resume="cao resume k3f9 --this")
    page = CliRunner().invoke(report, [RUN]).output
    assert "\n- To resume: `cao resume k3f9 --this`\n" in page


def test_a_run_that_is_named_is_in_no_other_folder(tmp_path: Path) -> None:
    error = printed(tmp_path, "k3f9").exception
    assert isinstance(error, UsageError)
    assert "leave out --wd" in str(error)


def test_all_turns_are_folded_below_the_rest(rig: Rig) -> None:
    run_to_the_end(rig)
    page = printed(rig.folder).output
    _, found, rest = page.partition("<details>\n<summary>All 9 turns</summary>\n\n")
    assert found
    assert rest.startswith("| number | round | cycle | role | agent | time | outcome | reply |")
    assert rest.rstrip().endswith("</details>")
    assert "- Agents: analyst: codex, analyst_review: codex, " in page


@pytest.mark.parametrize(
    ("tip", "delivered", "lines"),
    [
        (
            "b",
            Fate.NOT_YET,
            [
                f"- Branch: cao/{RUN}",
                f"- Next: `cao apply {RUN}`, `cao pr {RUN}` or `cao discard {RUN}`",
            ],
        ),
        ("b", Fate.APPLIED, [f"- Branch: cao/{RUN} (applied)"]),
        ("a", Fate.NOT_YET, [f"- Branch: cao/{RUN} (nothing is committed)"]),
        ("a", Fate.DISCARDED, [f"- Branch: cao/{RUN} (discarded)"]),
    ],
)
def test_a_run_in_a_work_tree_is_told_by_its_project_and_its_branch(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tip: str, delivered: Fate, lines: list[str]
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    tree = SavedTree(str(rig.folder), f"cao/{RUN}", "a", tip, delivered=delivered)
    keep_record(rig, RunStatus.PASS, project="/srv/shop", tree=tree)
    page = CliRunner().invoke(report, [RUN]).output
    assert "\n- Folder: shop\n" in page
    facts = page.partition("\n\n")[2].partition("\n\n")[0].split("\n")
    assert [line for line in facts if "cao/" in line or "Next" in line] == lines


@pytest.mark.parametrize(
    ("status", "word"),
    [(RunStatus.FAILED, "error"), (RunStatus.STOPPED, "stopped"), (RunStatus.RUNNING, "running")],
)
def test_a_run_without_a_verdict_stands_as_in_the_list_of_runs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, status: RunStatus, word: str
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    state = rig.begin()
    rig.state_file.save_state(replace(state, progress=replace(state.progress, archive=RUN)))
    state_file = str(rig.state_file.path)
    reason = f"{rig.folder}/a.py is odd"
    with keep_record(rig, status, reason=reason).locked():
        for words in (["--wd", str(rig.folder), "--state-file", state_file], [RUN]):
            page = CliRunner().invoke(report, words).output
            assert page.startswith(f"# Not finished ({word}): round 1, cycle 1, analyst is due\n")
            # Whether its agents are there or not, and from any folder.
            assert (f"\n- To resume: `cao resume {RUN}`\n" in page) == (word != "running")
            assert "\n- Stopped: a.py is odd\n" in page


def test_a_run_that_was_discarded_without_a_verdict_offers_no_way_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    state = rig.begin()
    rig.state_file.save_state(replace(state, progress=replace(state.progress, archive=RUN)))
    tree = SavedTree(str(rig.folder), f"cao/{RUN}", "a", "a", delivered=Fate.DISCARDED)
    reason = "analyst: it is in the error state\n  Look at it:  cao attach x"
    keep_record(rig, RunStatus.FAILED, project="/srv/shop", tree=tree, reason=reason)
    page = CliRunner().invoke(report, [RUN]).output
    assert page.startswith("# Discarded without a verdict (error)\n")
    assert "\n- Stopped: analyst: it is in the error state\n" in page
    assert "attach" not in page
    assert "resume" not in page


def test_without_a_run_there_is_no_report(tmp_path: Path) -> None:
    done = printed(tmp_path)
    assert isinstance(done.exception, UsageError)
    assert "no saved run" in str(done.exception)


def test_a_state_file_that_is_named_is_the_one_however_it_is_named(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    rig.begin()
    keep_record(rig, RunStatus.PASS, round=1)
    monkeypatch.chdir(rig.folder)
    assert CliRunner().invoke(report, []).exit_code == 0
    named = CliRunner().invoke(report, ["--state-file", "/nonexist"]).exception
    monkeypatch.setenv("CAO_STATE_FILE", "/nonexist")
    error = CliRunner().invoke(report, []).exception
    assert isinstance(error, UsageError)
    assert str(error) == str(named) == "there is no saved run in /nonexist; `cao run` makes one"


def test_elsewhere_it_is_the_only_run_there_is_and_that_is_said(
    rig: Rig, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    rig.begin()
    keep_record(rig, RunStatus.PASS, round=1)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    done = CliRunner().invoke(report, [])
    assert done.stdout.startswith("# PASS after 1 round\n")
    assert done.stderr == f"There is no run in this folder; this is {RUN} (PASS, {rig.folder}).\n"
    assert isinstance(printed(elsewhere).exception, UsageError)
    write_run(rig, NEWER, RunStatus.PASS)
    said = CliRunner().invoke(report, []).exception
    assert isinstance(said, UsageError)
    assert "there is no run in this folder; name one of:" in str(said)


@pytest.mark.parametrize("is_saved", [True, False])
def test_runs_that_did_not_begin_are_passed_over_and_that_is_said(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_saved: bool
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    if is_saved:
        run_to_the_end(rig)
    else:
        rig.begin()
    keep_record(rig, RunStatus.PASS, round=1)
    write_run(rig, NEWER, RunStatus.STOPPED)
    monkeypatch.chdir(rig.folder)
    done = CliRunner().invoke(report, [])
    assert done.stdout.startswith("# PASS after 1 round\n")
    assert done.stderr == f"This is {RUN}; 1 newer run of this folder did not begin.\n"


def test_where_none_began_it_is_the_last_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    rig.begin()
    write_run(rig, NEWER, RunStatus.STOPPED)
    monkeypatch.chdir(rig.folder)
    done = CliRunner().invoke(report, [])
    assert done.stdout.startswith("# Not begun (stopped)")
    assert done.stderr == ""


def test_a_run_in_a_folder_below_is_not_that_of_a_folder_with_its_own(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    run_to_the_end(rig)
    write_run(rig, NEWER, RunStatus.FAIL, wd=str(rig.folder / "below"))
    monkeypatch.chdir(rig.folder)
    assert CliRunner().invoke(report, []).output.startswith("# PASS after 1 round\n")


def test_a_file_that_cannot_be_read_stays_where_it_is(tmp_path: Path) -> None:
    broken = tmp_path / "state.json"
    broken.write_text("{", encoding="utf-8")
    done = printed(tmp_path, "--state-file", str(broken))
    assert isinstance(done.exception, StateError)
    assert broken.read_text(encoding="utf-8") == "{"


def test_a_turn_of_an_earlier_version_counts_from_its_beginning_to_its_end(rig: Rig) -> None:
    state = rig.begin()
    rig.run(state)
    journal = Journal(rig.files(state).kept)
    lines = [json.loads(line) for line in journal.path.read_text().splitlines()]
    old = [
        {**{key: value for key, value in line.items() if key != "worked"}, "ended": 90.0}
        for line in lines
    ]
    journal.path.write_text("".join(json.dumps({**line, "began": 15.0}) + "\n" for line in old))
    assert {turn.worked for turn in journal.read()} == {75.0}
    rig.state_file.path.rename(rig.folder / STATE_FILE)
    page = printed(rig.folder).output
    assert "| analyst | codex | 1 min 15 s |" in page
    assert "agents worked 11 min 15 s" in page


@pytest.mark.parametrize(
    ("flow", "reviewers", "evidence"),
    [
        ("loop", ["analyst_review", "programmer_review"], "3 passed"),
        ("pair", ["programmer_review"], "3 passed"),
        ("solo", [], "3 passed"),
    ],
)
def test_a_run_of_any_flow_can_be_reported_on_from_its_events(
    rig: Rig, flow: str, reviewers: list[str], evidence: str
) -> None:
    rig.flow, rig.gate = packaged_flow(flow), "echo 3 passed"
    archive = rig.run(rig.begin()).progress.archive
    record = RunRecord("20261115-084037-k3f9", str(rig.folder), "", archive, "", "", 0.0)
    found = report_of_record(Folder(rig.folder), record, rig.events)
    assert list(found.notes) == reviewers
    assert evidence in found.evidence
    replies = [turn.reply for turn in found.turns]
    assert replies == [turn.reply for turn in Journal(archive_folder(rig.folder, archive)).read()]


def with_gates(rig: Rig, proof: str = "") -> None:
    """Add a gate, and a proof if there is one, to the turns of a run that has ended."""
    state = rig.begin()
    journal = Journal(rig.files(rig.run(state)).kept)
    rig.state_file.path.rename(rig.folder / STATE_FILE)
    ended = CheckEnded(100.0, "tests", 1, 10, "passed", "PASS", 7.5, "/p/010-tests.md")
    journal.write(gate_record(ended))
    if proof:
        done = replace(ended, sequence=11, gate=PROOF, why=proof, archive="/p/011-proof.md")
        journal.write(gate_record(done))
        page = "RESULT: PASS\n- test_a.py: weaker: an assertion is gone\n\nMore"
        (journal.path.parent / "011-proof.md").write_text(page, encoding="utf-8")


def test_what_gates_took_is_no_work_of_agents(rig: Rig) -> None:
    with_gates(rig)
    (time,) = [row for row in printed(rig.folder).output.splitlines() if row.startswith("- Time:")]
    assert "; 9 turns, agents worked 18.0 s; 1 check, 7.5 s" in time


def test_a_proof_is_told_from_the_archive_if_the_run_has_no_folder_any_more(rig: Rig) -> None:
    with_gates(rig, "proven: 3 tests pass as they were")
    page = printed(rig.folder).output
    assert page.startswith("# PASS after 1 round, proven\n")
    head, found, _ = page.partition("<details>")
    assert found
    assert "\n## Proof\n\nproven: 3 tests pass as they were\n" in head
    assert "- test_a.py: weaker: an assertion is gone" in head


def test_a_report_in_a_folder_of_the_project_is_that_of_the_project(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_to_the_end(rig)
    deep = rig.folder / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert CliRunner().invoke(report, []).output.startswith("# PASS after 1 round\n")


def test_a_report_in_a_folder_of_a_listed_run_is_of_that_run(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(rig.folder / "state"))
    rig.begin()
    keep_record(rig, RunStatus.PASS, round=1)
    deep = rig.folder / "src"
    deep.mkdir()
    monkeypatch.chdir(deep)
    assert CliRunner().invoke(report, []).output.startswith("# PASS after 1 round\n")


def test_no_path_of_the_state_folder_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    state = rig.folder / "state"
    monkeypatch.setenv("CAO_STATE_DIR", str(state))
    tree = SavedTree(str(state / "worktrees" / RUN), f"cao/{RUN}", "a", "b")
    log = str(run_folder(state, RUN).path / "gates" / "002-tests.log")
    ended = CheckEnded(100.0, "tests", 1, 2, "passed", "PASS", 7.5, "/p/x", log=log)
    state_file = str(run_folder(state, RUN).path / "state.json")
    fields = {"wd": tree.folder, "tree": tree, "state_file": state_file}
    events = EventLog(keep_record(rig, RunStatus.PASS, round=1, **fields))
    events.append(ended)
    events.close()
    page = CliRunner().invoke(report, [RUN]).output
    assert str(rig.folder) not in page
    assert f"\n- What gates wrote: runs/{RUN}/gates in your state folder\n" in page
    assert f"\n- State: runs/{RUN}/state.json in your state folder\n" in page
