"""`cao report`: a run on one page, in every form."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from cli_agent_orchestrator.cli.report import report
from cli_agent_orchestrator.core.ansi import Frame, frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import RunEnded
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, write_record
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.settings.layout import (
    cast_name,
    replay_folder,
    run_folder,
    turns_folder,
)
from tests.pipeline.samples import FAIL
from tests.runs.fakes import Asked, Rig, agree
from tests.runs.kept_runs import RUN, change_record, make_run, snapshots_in
from tests.runs.test_details import turn
from tests.show.reading import Elements

NEWER = "20261116-084037-m4t7"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "state"


@pytest.fixture
def rig(tmp_path: Path, state: Path) -> Rig:
    (tmp_path / "shop").mkdir()
    return Rig(tmp_path / "shop")


def printed(*words: str) -> Result:
    return CliRunner().invoke(report, list(words))


def page_of(rig: Rig) -> str:
    """Take a run to its end, recorded in its folder, and return its report."""
    saved = rig.begin()
    recorder = Recorder(rig.folder.parent / "state")
    run, path = saved.progress.archive, str(rig.export.path)
    record = RunRecord(run, str(rig.folder), path, "", "x", 0.0)
    rig.keep_in(recorder.start(record, resumed=False))
    try:
        final = rig.run(saved, lambda event: rig.events.append(recorder.take(event)))
        code = 0 if final.final_status is FinalStatus.PASS else 1
        recorder.take(RunEnded(rig.clock.now(), final.final_status, final.round, code))
    finally:
        recorder.close()
    return printed(run).output


# Any: fields of a record
def keep_record(rig: Rig, status: RunStatus, run: str = RUN, **fields: Any) -> Folder:
    """Keep the record of a run in the state folder, and return its own folder."""
    folder = run_folder(rig.folder.parent / "state", run)
    folder.make()
    path = str(rig.export.path) if run == RUN else "/nowhere"
    started = 0.0 if run == RUN else 9.0
    record = RunRecord(run, str(rig.folder), path, "", "", started, status=status)
    write_record(folder, replace(record, **fields))
    return folder


def save_begun(rig: Rig) -> None:
    saved = rig.begin()
    rig.keep_in(run_folder(rig.folder.parent / "state", RUN))
    rig.state_file.save_state(replace(saved, progress=replace(saved.progress, archive=RUN)))


class TestPage:
    def test_a_passed_run_has_verdict_timeline_and_evidence(self, rig: Rig) -> None:
        nasty = f"RESULT: PASS\nEVIDENCE:\n- exit code 0 \x1b]0;title\x07 in {rig.folder}/a.py"
        rig.server.answer = lambda asked: nasty if asked.role == "tester" else agree(asked)
        page = page_of(rig)
        assert page.startswith("# PASS after 1 round\n")
        assert "| 1 | 2 | analyst_review | codex |" in page
        assert "]0;title" in page
        assert "\x1b" not in page
        assert str(rig.folder) not in page
        assert "- Folder: ~/shop" in page
        # That a first approval is too early to count is no setback.
        assert "Why it took more than one try" not in page
        assert "## Last notes of programmer_review" in page
        _, found, rest = page.partition("<details>\n<summary>All 9 turns</summary>\n\n")
        assert found
        assert rest.startswith(
            "| number | round | cycle | role | agent | time | outcome | tokens |"
        )
        assert "009-tester.md" in rest
        found = json.loads(printed("--wd", str(rig.folder), "--json").output)
        assert (found["status"], found["round"]) == ("PASS", 1)
        assert [one["role"] for one in found["turns"]][::8] == ["analyst", "tester"]
        assert Path(found["archive"]).is_dir()
        run = found["id"]
        assert json.loads(printed(run, "--format", "json").output) == found

    def test_a_run_in_its_second_round_shows_the_evidence_of_the_first(self, rig: Rig) -> None:
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
            page_of(rig)
        page = printed("--wd", str(rig.folder), "--state-file", str(rig.export.path)).output
        due = "round 2, cycle 1, programmer is due"
        assert page.startswith(f"# Not finished (interrupted): {due}\n")
        assert "\n- exit code 1\n" in page
        assert "- Round 1, tester, FAIL: exit code 1" in page

    @pytest.mark.parametrize("flow", ["loop", "solo"])
    def test_a_gate_that_failed_before_is_not_the_evidence_of_a_run_that_passes(
        self, rig: Rig, flow: str
    ) -> None:
        rig.flow = packaged_flow(flow)
        rig.gate = "test -e ready || { touch ready; echo 1 failed; exit 1; }; echo 3 passed"
        page = page_of(rig)
        assert page.startswith("# PASS after 2 rounds\n")
        assert "- Round 1, gate, FAIL: " in page
        whose = "What the tester found" if flow == "loop" else "What the gate gate said"
        evidence = page.partition(f"## {whose}\n")[2].split("```")[1]
        assert evidence
        assert "1 failed" not in evidence

    @pytest.mark.parametrize(
        ("status", "word"), [(RunStatus.FAILED, "error"), (RunStatus.RUNNING, "running")]
    )
    def test_a_run_without_a_verdict_says_why_and_how_it_is_resumed(
        self, rig: Rig, status: RunStatus, word: str
    ) -> None:
        save_begun(rig)
        reason = f"{rig.folder}/a.py is odd\n  Ask *again*:  cao resume x"
        with keep_record(rig, status, reason=reason).locked():
            named = ["--wd", str(rig.folder), "--state-file", str(rig.export.path)]
            for words in (named, [RUN]):
                page = printed(*words).output
                assert page.startswith(f"# Not finished ({word}): round 1, cycle 1, analyst is due")
                assert "\n- Stopped: a.py is odd\n  - Ask \\*again\\*: cao resume x\n" in page
                assert (f"\n- To resume: `cao resume {RUN}`\n" in page) == (word != "running")


class TestChoice:
    """Which run is meant."""

    def test_a_state_file_that_is_named_is_the_one_however_it_is_named(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep_record(rig, RunStatus.PASS, round=1)
        (rig.folder / "src").mkdir()
        monkeypatch.chdir(rig.folder / "src")
        assert printed().output.startswith("# PASS after 1 round\n")
        named = printed("--state-file", "/nonexist").exception
        monkeypatch.setenv("CAO_STATE_FILE", "/nonexist")
        error = printed().exception
        assert isinstance(error, UsageError)
        assert str(error) == str(named)

    def test_elsewhere_it_is_the_only_run_there_is_and_that_is_said(
        self, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep_record(rig, RunStatus.PASS, round=1)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        done = printed()
        assert done.stdout.startswith("# PASS after 1 round\n")
        assert RUN in done.stderr
        assert isinstance(printed("--wd", ".").exception, UsageError)
        keep_record(rig, RunStatus.PASS, NEWER)
        assert isinstance(printed().exception, UsageError)


class TestForms:
    @pytest.fixture
    def folder(self, tmp_path: Path, state: Path) -> Folder:
        wd = tmp_path / "shop"
        wd.mkdir()
        folder = make_run(state, wd, events=(*turn(1, "programmer"), *turn(2, "tester")))
        snapshots = snapshots_in(folder, wd)
        snapshots.take(0, "start")
        (wd / "a.py").write_text(f"# {wd}/b.py\nTOKEN = '{TOKEN}'\n</pre><script>x</script>\n")
        snapshots.take(1, "programmer")
        said = f"{TOKEN} is in {wd}/a.py.\n\n<img src=x> {state}/x and {tmp_path}/y http://evil.org"
        for name in ("001-programmer.md", "001-programmer-prompt.md", "002-tester.md"):
            turns_folder(folder).create(name, said.encode())
        turns_folder(folder).create("001-programmer.txt", said.encode())
        change_record(folder, task=said, task_line=said.partition(".")[0], reason=said)
        return folder

    def test_an_html_report_is_one_file_that_gives_nothing_away(
        self, folder: Folder, state: Path, tmp_path: Path
    ) -> None:
        shown = f"cat {tmp_path}/shop/a.py: {TOKEN} {state}/x {tmp_path}/y"
        cast = header_line(1, 200, 3, "tester") + frame_line(Frame(0.5, {0: shown}, is_whole=True))
        replay_folder(folder).create(cast_name("tester"), cast)
        page = printed("k3f9", "--format", "html").output
        assert folder.path.name in page
        read = Elements(page)
        assert read.is_closed
        assert read.names.isdisjoint({"script", "img", "link", "iframe"})
        assert "(masked) is in a.py." in read.written
        assert "<img src=x> (state folder)/x and ~/y http://evil.org" in read.written
        assert "+TOKEN = '(masked)'" in read.written
        assert "+# b.py" in read.written
        mask = "(masked)".ljust(len(TOKEN))
        assert f"cat a.py: {mask} (state folder)/x ~/y" in read.written
        assert TOKEN not in page
        assert str(tmp_path) not in page
        assert all((one["href"] or "").startswith("#") for one in read.of("a"))

    def test_a_page_of_markdown_gives_nothing_away(self, folder: Folder, tmp_path: Path) -> None:
        for words in (["--pr"], ["--format", "md"]):
            page = printed(RUN, *words).output
            assert "(masked)" in page
            assert TOKEN not in page
            assert str(tmp_path) not in page
        assert TOKEN in printed(RUN, "--json").output
        for both in (["--pr", "--json"], ["--format", "html", "--json"]):
            assert isinstance(printed(*both).exception, UsageError)

    def test_it_is_written_to_a_file_as_it_is_printed(self, folder: Folder, tmp_path: Path) -> None:
        file = tmp_path / "run.md"
        file.write_text("an older one, which is longer" * 1000, encoding="utf-8")
        assert printed(RUN, "-o", str(file)).output == f"Written to {file}\n"
        assert file.read_text(encoding="utf-8") == printed(RUN).output
        for bad in (tmp_path, tmp_path / "nowhere" / "run.md"):
            assert isinstance(printed(RUN, "--output", str(bad)).exception, UsageError)

    def test_nobody_is_told_to_remove_what_he_has_named(
        self, folder: Folder, tmp_path: Path
    ) -> None:
        pipe, link = tmp_path / "pipe", tmp_path / "link"
        os.mkfifo(pipe)
        link.symlink_to(tmp_path / "elsewhere")
        for path in (Path("/dev/null"), pipe, link):
            error = printed("k3f9", "-o", str(path)).exception
            assert isinstance(error, UsageError)
            assert "; remove" not in str(error)
            assert not path.is_file()
