"""Where a run comes from and where it is kept."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core import codec
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import PromptError, StateError
from cli_agent_orchestrator.pipeline.flow import FlowSource
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow, read_flow
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import FinalStatus, Progress, RunState
from cli_agent_orchestrator.runs.recorder import ExportedState, StateFile, load_state, read_state_of
from cli_agent_orchestrator.runs.request import read_task_settings, read_task_text
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.layout import STATE_NAME
from tests.pipeline.samples import TASK_TEXT, new_state
from tests.pipeline.test_flow_file import TEMPLATES, TEXT
from tests.pipeline.test_state import SHELL_STATE
from tests.runs.kept_runs import narrow_disk

NOON = 1738324800.0
STAMP = "2025-01-31T12:00:00Z"


@dataclass(frozen=True)
class Noon:
    """A clock that stands still on 31 January 2025, 12:00 UTC."""

    def now(self) -> float:
        return NOON

    def monotonic(self) -> float:
        return 0.0


class Saved:
    """A run's folder, and the file for scripts in its project."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path, ("runs", "a"), private=True)
        self.path = self.folder.path / STATE_NAME
        self.export = ExportedState(path / "project" / "state.json", path / "project")
        self.warned: list[str] = []
        self.file = StateFile(self.folder, Noon(), self.export, self.warned.append)

    def save(self, state: RunState) -> None:
        self.file.save_state(state)

    def exported(self) -> RunState:
        state = self.export.load_state()
        assert state is not None
        return state


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    (tmp_path / "project").mkdir()
    return Saved(tmp_path)


class TestRunFolder:
    def test_odd_texts_and_a_flow_of_the_users_own_are_loaded_as_they_were_saved(
        self, saved: Saved
    ) -> None:
        flow = read_flow(FlowSource(TEXT, TEMPLATES), "mine", "it")
        odd = {"programmer": Output("Zeilen — 行 😀\r\n\0", "/a/\udcff.md")}
        state = replace(new_state(), flow=flow, outputs=odd)
        saved.save(state)
        assert load_state(saved.folder) == replace(state, updated_at=STAMP)
        assert json.loads(saved.path.read_bytes())["flow"]["name"] == "mine"

    @pytest.mark.parametrize(
        "content",
        [b"", b"[]", b'{"version": 2', b'{"version": 2}', b'{"version": 1, "api": ""}', b"\xff"],
    )
    def test_what_is_no_state_is_an_error(self, saved: Saved, content: bytes) -> None:
        saved.save(new_state())
        saved.path.write_bytes(content)
        with pytest.raises(StateError, match=re.escape(str(saved.path))):
            load_state(saved.folder)
        assert read_state_of(saved.folder) is None

    def test_damaged_parts_have_their_defaults_but_not_how_it_stands(self, saved: Saved) -> None:
        saved.save(replace(new_state(), round=3, progress=Progress(cycle=2, heard=7)))
        data = json.loads(saved.path.read_bytes())
        progress = {**data["progress"], "in_flight": {"id": "x"}, "cycle": "two"}
        saved.path.write_bytes(codec.encode({**data, "progress": progress, "round": []}))
        state = load_state(saved.folder)
        assert state is not None
        assert (state.round, state.progress) == (1, Progress(heard=7))
        saved.path.write_bytes(codec.encode({**data, "final_status": "DONE"}))
        with pytest.raises(StateError, match="DONE"):
            load_state(saved.folder)

    def test_a_full_disk_leaves_the_saved_state_intact(self, saved: Saved) -> None:
        saved.save(new_state())
        before = saved.path.read_bytes()
        state = replace(new_state(), prompt="x" * 100_000)
        with narrow_disk(10_000), pytest.raises(StateError, match="cannot be saved"):
            saved.save(state)
        assert saved.path.read_bytes() == before
        assert [path.name for path in saved.path.parent.iterdir()] == [STATE_NAME]
        assert saved.path.stat().st_mode & 0o777 == 0o600


class TestExport:
    def test_every_save_writes_it_as_version_1(self, saved: Saved) -> None:
        """Scenario: State roundtrip"""
        state = replace(new_state(), progress=Progress(archive="20261115-084037-k3f9"))
        saved.save(state)
        data = json.loads(saved.export.path.read_bytes())
        assert (data["version"], data["updated_at"], data["prompt"]) == (1, STAMP, TASK_TEXT)
        assert saved.export.named_run() == "20261115-084037-k3f9"
        assert saved.exported() == replace(state, updated_at=STAMP, progress=Progress())

    def test_a_state_of_the_shell_script_is_read(self, saved: Saved) -> None:
        text = "\ufeff" + json.dumps(SHELL_STATE)
        saved.export.path.write_text(text, encoding="utf-8")
        assert (saved.exported().round, saved.export.named_run()) == (3, "")

    def test_an_unknown_run_of_another_flow_is_in_the_way_only_until_it_ends(
        self, saved: Saved
    ) -> None:
        saved.save(replace(new_state(), flow=packaged_flow("pair")))
        with pytest.raises(StateError, match="'pair'"):
            saved.export.load_state()
        saved.save(replace(new_state(), flow=packaged_flow("pair"), final_status=FinalStatus.PASS))
        assert saved.export.load_state() is None

    @pytest.mark.parametrize(
        "content", [b"", b"[]", b'{"version": 2}', b"{", b"\xff", b"[" * 99999]
    )
    def test_what_is_no_state_is_left_alone(self, saved: Saved, content: bytes) -> None:
        saved.export.path.write_bytes(content)
        with pytest.raises(StateError, match=re.escape(str(saved.export.path))):
            saved.export.load_state()
        assert saved.export.path.read_bytes() == content

    def test_one_that_cannot_be_written_is_said_before_a_run_and_once_in_it(
        self, saved: Saved
    ) -> None:
        saved.export.check()
        assert list(saved.export.path.parent.iterdir()) == []
        saved.export.path.mkdir()
        with pytest.raises(StateError, match="it is a folder"):
            saved.export.check()
        saved.save(new_state())
        saved.save(replace(new_state(), round=2))
        (warning,) = saved.warned
        assert "out of date" in warning
        state = load_state(saved.folder)
        assert state is not None
        assert state.round == 2


def config(tmp_path: Path, **settings: str) -> RunConfig:
    return RunConfig.from_env({"WD": str(tmp_path), **settings})


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_task_file_wins(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "task.md"
    path.write_text(mark + "Ünïcode\n", encoding="utf-8")
    found = read_task_text(config(tmp_path, PROMPT="text", PROMPT_FILE=str(path)))
    assert found == "Ünïcode\n"


def test_a_task_file_that_nobody_named_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task.md").write_text(TASK_TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PromptError, match=r"task\.md is there: `cao run task\.md` starts it"):
        read_task_text(config(tmp_path))
    monkeypatch.chdir("/")
    with pytest.raises(PromptError, match=f"`cd {tmp_path} && cao run task.md`"):
        read_task_text(config(tmp_path))
    (tmp_path / "task.md").unlink()
    with pytest.raises(PromptError, match="cao init"):
        read_task_text(config(tmp_path))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_an_error(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "task.md"
    path.write_text("größer", encoding=encoding)
    with pytest.raises(PromptError, match=r"task\.md is not text in UTF-8 \(byte \d\)"):
        read_task_text(config(tmp_path, PROMPT_FILE=str(path)))
    with pytest.raises(PromptError, match="PROMPT is not text in UTF-8"):
        read_task_text(config(tmp_path, PROMPT="gr\udcf6\udcdfer"))


@pytest.mark.parametrize(
    ("folder", "said"),
    [(".", " (did you mean task.md?)"), ("none", "; `cao init` writes a template")],
)
def test_a_task_file_that_is_not_there_is_an_error_with_what_was_meant(
    tmp_path: Path, folder: str, said: str
) -> None:
    (tmp_path / "task.md").touch()
    missing = tmp_path / folder / "tsk.md"
    with pytest.raises(PromptError) as error:
        read_task_text(config(tmp_path, PROMPT_FILE=str(missing)))
    assert str(error.value) == f"the task file {missing} is not there{said}"


def test_a_task_file_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="is a folder, and the task is a file"):
        read_task_text(config(tmp_path, PROMPT_FILE=str(tmp_path)))


def test_the_settings_of_a_task_come_from_its_top(tmp_path: Path) -> None:
    path = tmp_path / "task.md"
    path.write_text("\ufeff---\r\nflow: pair\r\n---\r\n# Task\r\nDo it.", encoding="utf-8")
    assert read_task_settings(config(tmp_path, PROMPT_FILE=str(path))) == {"FLOW": "pair"}
    assert read_task_settings(config(tmp_path, PROMPT="---\nflow: solo\n---\n")) == {"FLOW": "solo"}


def test_a_fault_in_the_settings_of_a_task_names_where_the_task_is(tmp_path: Path) -> None:
    path = tmp_path / "task.md"
    path.write_text("---\nflow: pair\ngates: ls\n---\n# Task\nDo it.", encoding="utf-8")
    with pytest.raises(PromptError, match=rf"^{path}, line 3: a task cannot set gates"):
        read_task_settings(config(tmp_path, PROMPT_FILE=str(path)))
    with pytest.raises(PromptError, match=r"^PROMPT, line 2: there is no setting gate"):
        read_task_settings(config(tmp_path, PROMPT="---\ngate: ls\n---\n"))
