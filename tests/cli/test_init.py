"""`cao init` writes templates, and never over anything."""

import os
import sys
import tomllib
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.init import init, read_marks
from cli_agent_orchestrator.errors import PromptError, UsageError
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.runs.request import read_all_settings, read_file_settings
from cli_agent_orchestrator.settings.gates import Trust, commands_text
from cli_agent_orchestrator.settings.layout import state_folder
from tests.programs import in_a_terminal
from tests.work.projects import git

CAO = (sys.executable, "-m", "cli_agent_orchestrator")


@pytest.fixture(autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs: no agent is installed."""
    folder = tmp_path_factory.mktemp("programs")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(programs: Path, name: str, text: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (programs / name).chmod(0o755)


def settings_of(folder: Path) -> dict[str, object]:
    return tomllib.loads((folder / "cao.toml").read_text(encoding="utf-8"))


def test_what_is_proposed_is_set_and_shown_with_its_reason(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "go.mod").touch()
    logged_out = "*) echo Not logged in; exit 1;;"
    install(programs, "codex", f"case $1 in --version) echo codex-cli 0.154.0;; {logged_out} esac")
    install(programs, "claude", 'case "$1" in --version) echo "2.1.270 (Claude Code)";; esac')
    output = CliRunner().invoke(init, [str(tmp_path)]).output
    assert settings_of(tmp_path) == {
        "project_test_cmd": "go test -v ./...",
        "flow": "pair",
        "provider": "claude_code",
        "gates": {"tests": "go test -v ./..."},
    }
    assert "  [gates] tests=go test -v ./...  (go.mod is there; a PASS must pass it)" in output
    assert "project_test_cmd = go test -v ./...  (go.mod is there)" in output
    (line,) = [line for line in output.splitlines() if "provider = claude_code" in line]
    assert "logged in; also installed: codex" in line
    assert read_all_settings({"WD": str(tmp_path)}, {}, None)["FLOW"] == "pair"


def test_in_a_repository_with_a_commit_work_trees_are_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    for name in ("empty", "full"):
        git(tmp_path, "init", "-q", name)
    git(tmp_path / "full", "commit", "-q", "--allow-empty", "-m", "x")
    for name, key in (("empty", None), ("full", True)):
        CliRunner().invoke(init, [str(tmp_path / name), "--yes"])
        assert settings_of(tmp_path / name).get("worktree") is key


def test_the_gate_that_it_writes_is_allowed_there_and_nowhere_else(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "go.mod").touch()
    (tmp_path / "b" / "cao.toml").write_text('[gates]\ntests = "go test -v ./..."\n', "utf-8")
    (tmp_path / "link").symlink_to("a")
    done = CliRunner().invoke(init, [str(tmp_path / "link")])
    assert "Its gate may be run there: tests=go test -v ./..." in done.output
    CliRunner().invoke(init, [str(tmp_path / "b")])
    known = Trust(state_folder(os.environ))
    for folder, allowed in (("a", True), ("b", False)):
        path = tmp_path / folder
        commands = commands_text(read_file_settings({"WD": str(path)}, {}, None))
        assert commands == "tests=go test -v ./..."
        assert known.allows(Path(os.path.realpath(path)), commands) is allowed


def test_nothing_is_looked_at_if_nothing_could_be_written(tmp_path: Path, programs: Path) -> None:
    install(programs, "codex", f"touch {tmp_path}/asked")
    (tmp_path / "cao.toml").write_text("# mine\n", encoding="utf-8")
    (tmp_path / "task.md").symlink_to(tmp_path / "elsewhere")
    done = CliRunner().invoke(init, [str(tmp_path), "--yes"])
    assert done.exit_code == 0
    assert "Proposed" not in done.output
    assert "task.md is there already" in done.output
    assert (tmp_path / "cao.toml").read_text(encoding="utf-8") == "# mine\n"
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(("answer", "is_set"), [("\n", True), ("n\n", False)])
def test_in_a_terminal_it_asks_first(tmp_path: Path, answer: str, is_set: bool) -> None:
    (tmp_path / "go.mod").touch()
    output, code = in_a_terminal(["init", str(tmp_path)], answer)
    assert code == 0
    assert "Set this in cao.toml?" in output
    assert bool(settings_of(tmp_path)) == is_set


def test_marks_that_are_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pytest", encoding="utf-8")
    (tmp_path / "pyproject.toml").symlink_to(tmp_path / "secret")
    (tmp_path / "go.mod").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "package.json")
    (tmp_path / "Makefile").write_bytes(b"test:\n\xff")
    assert read_marks(tmp_path) == {"Makefile": "test:\n\ufffd"}


def test_tests_are_looked_at_here_and_in_the_usual_folder(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for path in (tmp_path / "test_a.py", tests / "test_b.py", tests / "helper.py"):
        path.write_text("import unittest", encoding="utf-8")
    (tests / "__init__.py").write_text("import os", encoding="utf-8")
    (tests / "test_link.py").symlink_to(tests / "test_b.py")
    (tmp_path / "test").symlink_to(tests)
    assert read_marks(tmp_path) == {
        "test_a.py": "import unittest",
        "tests/__init__.py": "",
        "tests/test_b.py": "import unittest",
    }


def test_a_folder_that_was_not_there_is_made_if_that_is_said(tmp_path: Path) -> None:
    new = tmp_path / "new" / "folder"
    refused = CliRunner().invoke(init, [str(new)])
    assert f"{new} is not there; --yes makes it" in str(refused.exception)
    assert not new.exists()
    assert f"made the folder {new}\n" in CliRunner().invoke(init, [str(new), "--yes"]).output
    assert {path.name for path in new.iterdir()} == {"task.md", "cao.toml"}
    assert "made the folder" not in CliRunner().invoke(init, [str(new)]).output


def test_in_a_folder_of_a_project_what_is_above_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb\x1b[2J"
    odd.mkdir()
    (odd / "cao.toml").touch()
    folder = odd / "below" / "further"
    output = CliRunner().invoke(init, [str(folder), "--yes"]).output
    (line,) = [line for line in output.splitlines() if line.startswith("Above it")]
    assert "[2J is a project: with a cao.toml of its own" in line
    assert line.isprintable()


def test_the_template_is_no_task_until_it_is_filled_in(tmp_path: Path) -> None:
    CliRunner().invoke(init, [str(tmp_path)])
    template = (tmp_path / "task.md").read_text(encoding="utf-8")
    with pytest.raises(PromptError, match="there is nothing below"):
        parse_task(template)
    filled = template.replace("\n# Task\n", "\n# Task\nDo it.\n") + "Try it.\n"
    task = parse_task(filled)
    assert (task.explore_summary, task.scenario_test) == ("Do it.", "Try it.")


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = CliRunner().invoke(init, [str(tmp_path / "file" / "below"), "--yes"])
    assert isinstance(done.exception, UsageError)


def last_line(output: str) -> str:
    return output.splitlines()[-1].strip()


def test_without_an_agent_the_next_command_is_the_one_that_says_how_to_get_one(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        output = CliRunner().invoke(init, [str(tmp_path)]).output
        assert last_line(output).endswith(" doctor")
        assert not [line for line in output.splitlines() if line.endswith(" run task.md")]


def test_the_next_command_is_given_as_it_works_from_here(tmp_path: Path, programs: Path) -> None:
    install(programs, "codex", "echo codex-cli 0.154.0")
    with chdir(tmp_path):
        here = last_line(CliRunner().invoke(init, []).output)
        named = last_line(CliRunner().invoke(init, [str(tmp_path)]).output)
        elsewhere = last_line(CliRunner().invoke(init, ["a folder", "--yes"]).output)
    assert here == named
    assert here.endswith(" run task.md")
    assert elsewhere == f"cd 'a folder' && {here}"
