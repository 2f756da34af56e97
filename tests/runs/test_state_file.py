"""Where a run comes from and where it is kept."""

import json
import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import LARGEST_FILE, LARGEST_TEXT, is_too_large
from cli_agent_orchestrator.errors import ConfigError, PromptError, StateError, UsageError
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import OpenNotes, Progress
from cli_agent_orchestrator.runs.state_file import StateFile, read_task_settings, read_task_text
from cli_agent_orchestrator.settings.run_config import RunConfig
from tests.pipeline.samples import ROLES, TASK_TEXT, new_state

NOON = 1738324800.0


@dataclass(frozen=True)
class Noon:
    """A clock that stands still on 31 January 2025, 12:00 UTC."""

    def now(self) -> float:
        return NOON

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def state_file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "state.json", Noon())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_saved_state_is_loaded_as_it_was(state_file: StateFile) -> None:
    """Scenario: State roundtrip"""
    outputs = {**new_state().outputs, "analyst": Output("Zeilen — 行 😀\r\n\0", "/a/1.md")}
    state = replace(new_state(), outputs=outputs)
    state_file.save_state(state)
    assert state_file.load_state() == replace(state, updated_at="2025-01-31T12:00:00Z")


def test_the_saved_file_is_json_of_version_1(state_file: StateFile) -> None:
    state_file.save_state(new_state())
    data = json.loads(state_file.path.read_bytes())
    assert data["version"] == 1
    assert data["updated_at"] == "2025-01-31T12:00:00Z"
    assert data["prompt"] == TASK_TEXT


def test_nothing_but_the_state_is_left_in_the_folder(state_file: StateFile) -> None:
    state_file.save_state(new_state())
    state_file.save_state(replace(new_state(), round=2))
    assert names(state_file.path.parent) == ["state.json"]


def test_a_folder_that_does_not_exist_is_made(tmp_path: Path) -> None:
    state_file = StateFile(tmp_path / "a" / "b" / "state.json", Noon())
    state_file.save_state(new_state())
    assert state_file.load_state() is not None


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert StateFile(tmp_path / "state.json", Noon()).load_state() is None
    assert StateFile(tmp_path / "missing" / "state.json", Noon()).load_state() is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b'{"version": 1', "Expecting"),
        (b"not json", "Expecting value"),
        (b"\xff\xfe{\x00}\x00", "decode"),
        (b"[1]", "does not hold a JSON object"),
        (b'{"version": 2}', "its version is 2, expected 1"),
        # What Python calls it differs from version to version.
        (b"[" * 100_000, "cannot be used"),
    ],
)
def test_a_state_that_cannot_be_used_is_moved_aside(
    state_file: StateFile, content: bytes, reason: str
) -> None:
    state_file.path.write_bytes(content)
    with pytest.raises(StateError, match=reason) as caught:
        state_file.load_state()
    aside = state_file.path.with_name("state.json.unreadable-20250131-120000")
    assert str(aside) in str(caught.value)
    assert aside.read_bytes() == content
    assert state_file.load_state() is None


@pytest.mark.parametrize("name", ["config", "task.md", "cao.toml", "state.json.bak", ".json"])
def test_another_file_that_is_no_state_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("precious")
    with pytest.raises(ConfigError, match=r"the state of a run .*; it is left alone") as caught:
        StateFile(path, Noon()).load_state()
    assert str(path) in str(caught.value)
    assert names(tmp_path) == [name]
    assert path.read_text() == "precious"


def test_nothing_that_was_moved_aside_is_ever_overwritten(
    state_file: StateFile, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for content in ("one", "two", "three"):
            state_file.path.write_text(content)
            state_file.move_aside("unfinished")
    stem = "state.json.unfinished-20250131-120000"
    assert names(state_file.path.parent) == [stem, f"{stem}-2", f"{stem}-3"]
    assert state_file.path.with_name(f"{stem}-2").read_text() == "two"
    assert len(caplog.messages) == 3


def test_a_state_that_is_a_folder_is_an_error_and_stays(tmp_path: Path) -> None:
    state_file = StateFile(tmp_path, Noon())
    with pytest.raises(StateError, match="cannot be read"):
        state_file.load_state()
    (tmp_path / "state.json").mkdir()
    with pytest.raises(StateError, match="cannot be saved"):
        StateFile(tmp_path / "state.json", Noon()).save_state(new_state())
    assert names(tmp_path) == ["state.json"]


def test_a_state_that_is_not_there_cannot_be_moved(state_file: StateFile) -> None:
    with pytest.raises(StateError, match="cannot be moved aside"):
        state_file.move_aside("unfinished")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state_file = StateFile(tmp_path / "file" / "state.json", Noon())
    with pytest.raises(StateError, match="cannot be saved"):
        state_file.save_state(new_state())


def test_a_draft_left_by_a_killed_run_is_not_followed(state_file: StateFile) -> None:
    other = state_file.path.with_name("other")
    other.write_text("precious")
    state_file.path.with_name(".state.json.draft").symlink_to(other)
    state_file.save_state(new_state())
    assert other.read_text() == "precious"
    assert names(state_file.path.parent) == ["other", "state.json"]


# A file size limit is a disk that is full, for one process only.
FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from dataclasses import replace
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.runs.state_file import StateFile

state_file = StateFile(Path(sys.argv[1]), SystemClock())
state = state_file.load_state()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    state_file.save_state(replace(state, prompt="x" * 100_000))
except StateError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_saved_state_intact(state_file: StateFile) -> None:
    state_file.save_state(new_state())
    before = state_file.path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(state_file.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "cannot be saved" in run.stdout
    assert "resume" in run.stdout
    assert state_file.path.read_bytes() == before
    assert names(state_file.path.parent) == ["state.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_access_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(StateError, match="Permission denied"):
        StateFile(folder / "state.json", Noon()).save_state(new_state())


def config(tmp_path: Path, **settings: str) -> RunConfig:
    return RunConfig.from_env({"WD": str(tmp_path), **settings})


def test_the_task_comes_from_its_setting(tmp_path: Path) -> None:
    assert read_task_text(config(tmp_path, PROMPT=TASK_TEXT)) == TASK_TEXT


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_task_file_wins(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "task.md"
    path.write_text(mark + "Ünïcode\n", encoding="utf-8")
    found = read_task_text(config(tmp_path, PROMPT="text", PROMPT_FILE=str(path)))
    assert found == "Ünïcode\n"


def test_no_task_at_all_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="cao init"):
        read_task_text(config(tmp_path))


def test_a_task_file_that_nobody_named_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task.md").write_text(TASK_TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PromptError, match=r"task\.md is there: `cao run task\.md` starts it"):
        read_task_text(config(tmp_path))


def test_where_it_is_in_another_folder_the_command_goes_there(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    (project / "task.md").write_text(TASK_TEXT, encoding="utf-8")
    with pytest.raises(PromptError, match=re.escape(f"`cd '{project}' && cao run task.md`")):
        read_task_text(config(project))


def test_what_is_no_task_file_is_not_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "task.md").symlink_to("/etc/hosts")
    with pytest.raises(PromptError, match="name its file"):
        read_task_text(config(tmp_path))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_an_error(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "task.md"
    path.write_text("größer", encoding=encoding)
    with pytest.raises(PromptError, match=r"task\.md is not text in UTF-8 \(byte \d\)"):
        read_task_text(config(tmp_path, PROMPT_FILE=str(path)))


def test_a_setting_in_another_encoding_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="PROMPT is not text in UTF-8"):
        read_task_text(config(tmp_path, PROMPT="gr\udcf6\udcdfer"))


def test_where_a_task_file_is_not_there_those_are_named_that_are(tmp_path: Path) -> None:
    for name in ("b.md", "a\n.md"):
        (tmp_path / name).write_text("# Task\n\nMend it.\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("# Shop\n\n## Tests\n\nmake test\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("# Task\n\nMend it.\n", encoding="utf-8")
    (tmp_path / "task.md").write_text("", encoding="utf-8")
    (tmp_path / "link.md").symlink_to(tmp_path / "b.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "bytes.md").write_bytes(b"\xff")
    os.mkfifo(tmp_path / "pipe.md")
    missing = tmp_path / "tsk.md"
    with pytest.raises(PromptError) as error:
        read_task_text(config(tmp_path, PROMPT_FILE=str(missing)))
    assert str(error.value) == (
        f"the task file {missing} is not there; these in {tmp_path} look like tasks: "
        "'a\\n.md', b.md, task.md"
    )


@pytest.mark.parametrize("name", ["tsk.md", "none/tsk.md"])
def test_where_none_looks_like_a_task_it_is_said_how_one_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "README.md").write_text("# Shop\n", encoding="utf-8")
    missing = tmp_path / name
    with pytest.raises(PromptError) as error:
        read_task_text(config(tmp_path, PROMPT_FILE=str(missing)))
    expected = f"the task file {missing} is not there; `cao init` writes a template"
    assert str(error.value) == expected


def test_a_task_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
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


def test_a_task_that_cannot_be_read_sets_nothing_yet(tmp_path: Path) -> None:
    assert read_task_settings(config(tmp_path)) == {}
    assert read_task_settings(config(tmp_path, PROMPT_FILE=str(tmp_path / "none.md"))) == {}


def test_a_state_of_more_than_64_megabytes_is_not_read_whole(state_file: StateFile) -> None:
    with state_file.path.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(StateError, match="it has more than 67108864 bytes"):
        state_file.load_state()
    assert names(state_file.path.parent) == ["state.json"]


def test_a_state_of_the_largest_texts_can_be_read_again(state_file: StateFile) -> None:
    # A control character takes six bytes in JSON, and the marks around a text take two.
    text = "\x01" * ((LARGEST_TEXT - 2) // 6)
    assert not is_too_large(text)
    note = Excerpt(text)
    reviewers = ("analyst_review", "programmer_review")
    state = replace(
        new_state(),
        prompt=text,
        outputs={role: Output(text) for role in ROLES},
        feedback=note,
        notes=dict.fromkeys(reviewers, note),
        progress=Progress(
            open_notes=tuple(
                OpenNotes(role, number, note) for role in reviewers for number in (1, 2)
            )
        ),
    )
    state_file.save_state(state)
    assert state_file.load_state() == replace(state, updated_at="2025-01-31T12:00:00Z")


def test_a_state_that_could_not_be_read_again_is_not_saved(state_file: StateFile) -> None:
    state_file.save_state(new_state())
    before = state_file.path.read_bytes()
    huge = replace(new_state(), prompt="x" * LARGEST_FILE)
    with pytest.raises(StateError, match="What was saved before is unharmed"):
        state_file.save_state(huge)
    assert state_file.path.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["x" * LARGEST_TEXT, "\x01" * (LARGEST_TEXT // 6 + 1)], ids=["plain", "as JSON"]
)
def test_a_task_that_no_state_could_hold_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.md").write_text(text, encoding="utf-8")
    with pytest.raises(PromptError, match="more than 4 MB"):
        read_task_text(config(tmp_path, PROMPT_FILE=str(tmp_path / "task.md")))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"prompt": "\ud800"}, "prompt"),
        ({"outputs": {"analyst": "x\udfff"}}, "outputs.analyst"),
        ({"progress": {"briefed": ["a", "\ud83d"]}}, "progress.briefed.1"),
        ({"progress": {"\udcff": 1}}, "progress"),
    ],
)
@pytest.mark.parametrize("file", ["state.json", "state"])
def test_a_state_with_half_a_character_is_refused_and_left_alone(
    tmp_path: Path, content: dict[str, object], name: str, file: str
) -> None:
    path = tmp_path / file
    text = json.dumps({"version": 1, "final_status": "RUNNING", **content})
    path.write_text(text, encoding="ascii")
    with pytest.raises(UsageError, match=f"'{re.escape(name)}' holds half a character") as caught:
        StateFile(path, Noon()).load_state()
    assert str(path) in str(caught.value)
    assert names(tmp_path) == [file]


def test_whole_characters_may_be_written_in_two_halves(state_file: StateFile) -> None:
    state_file.path.write_text(
        r'{"version": 1, "final_status": "RUNNING", "prompt": "\ud83d\ude00"}', encoding="ascii"
    )
    state = state_file.load_state()
    assert state is not None
    assert state.prompt == "\N{GRINNING FACE}"


def test_a_state_with_half_a_character_is_not_saved(state_file: StateFile) -> None:
    state_file.save_state(new_state())
    settings = {"PROJECT_TEST_CMD": "make \udcff"}
    halved = replace(new_state(), progress=Progress(settings=settings))
    with pytest.raises(UsageError, match=r"progress\.settings\.PROJECT_TEST_CMD' holds half"):
        state_file.save_state(halved)
    assert state_file.load_state() is not None
