"""`cao report` in its other forms: one HTML file, the text of a pull request."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.report import report
from cli_agent_orchestrator.core.cast import Frame, frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.runs.record import SavedSetting, read_record, write_record
from cli_agent_orchestrator.settings.layout import (
    archive_folder,
    cast_name,
    replay_folder,
    screens_folder,
)
from tests.runs.fakes import Rig
from tests.runs.kept_runs import RUN, make_run, snapshots_in
from tests.runs.test_story import turn
from tests.show.reading import Elements

TOKEN = "ghp_" + "a1B2" * 9


def printed(state: Path, *words: str) -> Result:
    environ = {"CAO_STATE_DIR": str(state), "HOME": str(state.parent)}
    return CliRunner().invoke(report, list(words), env=environ, catch_exceptions=False)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path, state: Path) -> Folder:
    wd = tmp_path / "shop"
    wd.mkdir()
    folder = make_run(state, wd, events=(*turn(1, "programmer"), *turn(2, "tester")))
    snapshots = snapshots_in(folder, wd)
    snapshots.take(0, "start")
    (wd / "a.py").write_text(f"# {wd}/b.py\nTOKEN = '{TOKEN}'\n</pre><script>x</script>\n")
    snapshots.take(1, "programmer")
    said = f"{TOKEN} is in {wd}/a.py.\n\n<img src=x> {state}/x and {tmp_path}/y http://evil.org"
    for name in ("001-programmer.md", "001-programmer.prompt.md", "002-tester.md"):
        archive_folder(wd, RUN).create(name, said.encode())
    screens_folder(folder).create("001-programmer.txt", said.encode())
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, task=said, task_line=said.partition(".")[0], reason=said))
    return folder


def test_an_html_report_is_one_file_that_gives_nothing_away(
    folder: Folder, state: Path, tmp_path: Path
) -> None:
    page = printed(state, "k3f9", "--format", "html").output
    assert folder.path.name in page
    read = Elements(page)
    assert read.is_closed
    assert read.names.isdisjoint({"script", "img", "link", "iframe"})
    assert "(masked) is in a.py." in read.written
    assert "<img src=x> (state folder)/x and ~/y http://evil.org" in read.written
    assert "+TOKEN = '(masked)'" in read.written
    assert "+# b.py" in read.written
    assert TOKEN not in page
    assert str(tmp_path) not in page
    assert all((one["href"] or "").startswith("#") for one in read.of("a"))


def test_recorded_screens_give_nothing_away(folder: Folder, state: Path, tmp_path: Path) -> None:
    shown = f"cat {tmp_path}/shop/a.py: {TOKEN} {state}/x {tmp_path}/y"
    cast = header_line(1, 200, 3, "tester") + frame_line(Frame(0.5, {0: shown}, is_whole=True))
    replay_folder(folder).create(cast_name("tester"), cast)
    page = printed(state, "k3f9", "--format", "html").output
    mask = "(masked)".ljust(len(TOKEN))
    assert f"cat a.py: {mask} (state folder)/x ~/y" in Elements(page).written
    assert TOKEN not in page
    assert str(tmp_path) not in page


def test_a_secret_that_goes_on_in_the_next_row_is_in_no_screen(folder: Folder, state: Path) -> None:
    rows = [f"│ {'see this: ' + TOKEN[:20]:>36} │", f"│ {TOKEN[20:]:<36} │"]
    screens_folder(folder).create("002-tester.txt", "\n".join(rows).encode())
    colored = {row: f"\x1b[0;31m{text}\x1b[0m" for row, text in enumerate(rows)}
    cast = header_line(1, 40, 3, "tester") + frame_line(Frame(0.5, colored, is_whole=True))
    replay_folder(folder).create(cast_name("tester"), cast)
    page = printed(state, "k3f9", "--format", "html").output
    assert page.count("see this: (masked)             │") == 2
    assert page.count(f"│ {'(masked)':<36} │") == 2
    assert TOKEN[:20] not in page
    assert TOKEN[20:] not in page


@pytest.mark.parametrize("words", [["--pr"], ["--format", "md"], []])
def test_a_page_of_markdown_gives_nothing_away(
    folder: Folder, state: Path, tmp_path: Path, words: list[str]
) -> None:
    page = printed(state, folder.path.name, *words).output
    assert "(masked)" in page
    assert TOKEN not in page
    assert str(tmp_path) not in page


def test_the_text_of_a_request_names_the_files(folder: Folder, state: Path) -> None:
    page = printed(state, folder.path.name, "--pr").output
    assert "### What changed: 1 file, +3 −0\n\n- a.py (new) +3 −0" in page


def test_json_has_two_names_and_one_form(folder: Folder, state: Path) -> None:
    first = printed(state, folder.path.name, "--json").output
    assert first == printed(state, folder.path.name, "--format", "json").output
    assert '"files": [' in first
    assert TOKEN in first


@pytest.mark.parametrize(
    "words", [["--pr", "--json"], ["--format", "html", "--json"], ["--pr", "--format", "md"]]
)
def test_only_one_form_can_be_wanted(state: Path, words: list[str]) -> None:
    with pytest.raises(UsageError, match="choose one"):
        printed(state, *words)


def test_a_run_without_a_folder_of_its_own_has_no_html(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(rig.begin())
    words = ["--wd", str(rig.folder), "--state-file", str(rig.state_file.path)]
    with pytest.raises(UsageError, match="leave out --format html"):
        printed(tmp_path / "state", *words, "--format", "html")


@pytest.mark.parametrize("kind", ["device", "pipe", "link"])
def test_nobody_is_told_to_remove_what_he_has_named(
    folder: Folder, state: Path, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "named"
    match kind:
        case "device":
            path = Path("/dev/null")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"not a regular file; name another file$") as caught:
        printed(state, "k3f9", "-o", str(path))
    assert "; remove" not in str(caught.value)
    assert not path.is_file()


def test_a_report_takes_the_place_of_an_earlier_one(
    folder: Folder, state: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.md"
    path.write_text("earlier")
    assert printed(state, "k3f9", "-o", str(path)).output == f"Written to {path}\n"
    assert "earlier" not in path.read_text()


@pytest.mark.parametrize("name", ["task.md", "todo.md", ".git/config"])
def test_a_report_takes_neither_the_place_of_the_task_nor_of_a_file_of_gits(
    folder: Folder, state: Path, tmp_path: Path, name: str
) -> None:
    if name == "todo.md":
        record = read_record(folder)
        assert record is not None
        saved = {"PROMPT_FILE": SavedSetting(name, "option")}
        write_record(folder, replace(record, settings=saved))
    path = tmp_path / "shop" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious")
    with pytest.raises(UsageError, match=r"; name another file$"):
        printed(state, "k3f9", "-o", str(path))
    assert path.read_text() == "precious"
