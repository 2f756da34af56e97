"""`cao init` writes templates, and never over anything."""

import tomllib
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.init import init, project_above
from cli_agent_orchestrator.errors import PromptError, UsageError
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.settings import OUT_OF_PROJECT, SETTINGS


def test_it_writes_a_task_and_settings(tmp_path: Path) -> None:
    done = CliRunner().invoke(init, [str(tmp_path / "new" / "folder")])
    assert done.exit_code == 0
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {"task.md", "cao.toml"}
    assert "run task.md" in done.output


def test_a_folder_that_was_not_there_is_said_to_be_made(tmp_path: Path) -> None:
    new = tmp_path / "new" / "folder"
    assert f"made the folder {new}\n" in CliRunner().invoke(init, [str(new)]).output
    assert "made the folder" not in CliRunner().invoke(init, [str(new)]).output


@pytest.mark.parametrize("mark", ["cao.toml", "task.md", ".git"])
def test_in_a_folder_of_a_project_what_is_above_is_named(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).mkdir()
    folder = tmp_path / "below" / "further"
    output = CliRunner().invoke(init, [str(folder)]).output
    (line,) = [line for line in output.splitlines() if line.startswith("Above it")]
    assert f"in {tmp_path}, there is {mark}:" in line
    assert project_above(folder) == ""


def test_above_the_top_folder_of_a_project_nothing_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").touch()
    (tmp_path / "top" / ".git").mkdir(parents=True)
    assert project_above(tmp_path / "top") == ""


def test_a_folder_above_cannot_write_lines_of_its_own(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb\x1b[2J"
    (odd / ".git").mkdir(parents=True)
    assert project_above(odd / "below").isprintable()


def test_the_template_is_no_task_until_it_is_filled_in(tmp_path: Path) -> None:
    CliRunner().invoke(init, [str(tmp_path)])
    template = (tmp_path / "task.md").read_text(encoding="utf-8")
    with pytest.raises(PromptError, match="there is nothing below"):
        parse_task(template)
    filled = template.replace("SUMMARY ***\n", "SUMMARY ***\nDo it.\n") + "Try it.\n"
    task = parse_task(filled)
    assert (task.explore_summary, task.scenario_test) == ("Do it.", "Try it.")


def test_the_settings_file_explains_every_setting_and_sets_none(tmp_path: Path) -> None:
    CliRunner().invoke(init, [str(tmp_path)])
    text = (tmp_path / "cao.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    for setting in SETTINGS:
        explained = f"# {setting.help}\n# {setting.key} = " in text
        assert explained == (setting.name not in OUT_OF_PROJECT)


def test_existing_files_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(init, [str(tmp_path)])
    assert done.exit_code == 0
    assert "task.md is there already" in done.output
    assert (tmp_path / "task.md").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "cao.toml").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "task.md").symlink_to(tmp_path / "elsewhere")
    CliRunner().invoke(init, [str(tmp_path)])
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = CliRunner().invoke(init, [str(tmp_path / "file" / "below")])
    assert isinstance(done.exception, UsageError)
    assert "cannot be written" in str(done.exception)


def last_line(output: str) -> str:
    return output.splitlines()[-1].strip()


def test_the_next_command_is_given_as_it_works_from_here(tmp_path: Path) -> None:
    with chdir(tmp_path):
        here = last_line(CliRunner().invoke(init, []).output)
        named = last_line(CliRunner().invoke(init, [str(tmp_path)]).output)
        elsewhere = last_line(CliRunner().invoke(init, ["a folder"]).output)
    assert here == named
    assert here.endswith(" run task.md")
    assert elsewhere == f"cd 'a folder' && {here}"
