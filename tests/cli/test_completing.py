"""What shells offer at Tab: asked as they ask, and in real shells."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.main import COMMANDS, cao
from cli_agent_orchestrator.events import AgentsStarting, RunBegan, RunEnded
from cli_agent_orchestrator.runs.record import RunRecord
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.settings.table import AGENTS
from tests.cli.panes import Pane
from tests.runs.kept_runs import make_run

NOON = 1_700_000_000.0
OLD, LIVE = "20261115-084037-k3f9", "20261116-084037-x7zq"
FAILED = "20261115-104037-w2bn"
TERMINALS = {"programmer": "0badcafe", "tester": "0badcaff"}
BEGAN = RunBegan(NOON, "cao-1", TERMINALS, dict.fromkeys(TERMINALS, "codex"), "/a")
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETUP = {
    "bash": 'eval "$(cao completion bash)"',
    "zsh": 'autoload -U compinit && compinit -D && eval "$(cao completion zsh)"',
    "fish": "cao completion fish | source",
}


class Desk:
    """A user with two runs, of which one is under way, and flows of several kinds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.state = folder / "state"
        for flows in (self.work / ".cao" / "flows", folder / "config" / "flows"):
            flows.mkdir(parents=True)
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(folder),
            "CAO_STATE_DIR": str(self.state),
            "CAO_CONFIG_DIR": str(folder / "config"),
            "CAO_PORT": "0",
        }

    def asked(self, line: str) -> list[str]:
        """Return what is offered where a line ends."""
        words = [*line.split(), *([""] if line.endswith(" ") else [])]
        asking = {"_CAO_COMPLETE": "bash_complete", "COMP_WORDS": line}
        environ = {**self.environ, **asking, "COMP_CWORD": str(len(words) - 1)}
        with chdir(self.work):
            done = CliRunner().invoke(cao, prog_name="cao", env=environ)
        assert done.stderr == ""
        return [answer.partition(",")[2] for answer in done.stdout.split()]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    make_run(found.state, Path("/p"), OLD)
    record = RunRecord(LIVE, str(found.work), "/s.json", "x: y", "x: y", NOON)
    recorder = Recorder(found.state)
    # Its process, this one, is at work as long as this is open.
    with closing(recorder):
        recorder.start(record, resumed=False)
        for event in (AgentsStarting(NOON, BEGAN.providers), BEGAN):
            recorder.take(event)
        yield found


def test_runs_are_offered_by_their_last_letters_or_their_ids(desk: Desk) -> None:
    assert desk.asked("cao watch ") == ["x7zq", "k3f9"]
    assert desk.asked("cao watch k") == ["k3f9"]
    assert desk.asked("cao report 20261115") == [OLD]
    assert desk.asked("cao watch zz") == []
    for line in ("cao pause ", "cao skip ", "cao answer ", "cao set x"):
        assert desk.asked(line) == ["x7zq"]


def test_only_a_run_that_can_go_on_is_offered_to_be_resumed(desk: Desk) -> None:
    failed = RunEnded(NOON, "FAIL", 8, 1)
    recorder = Recorder(desk.state)
    with closing(recorder):
        recorder.start(RunRecord(FAILED, "/p", "/s.json", "x", "x", NOON), resumed=False)
        for event in (AgentsStarting(NOON, BEGAN.providers), BEGAN, failed):
            recorder.take(event)
    assert desk.asked("cao watch ") == ["x7zq", "w2bn", "k3f9"]
    assert desk.asked("cao resume ") == ["w2bn"]


def test_roles_and_agents_are_offered(desk: Desk) -> None:
    assert desk.asked("cao answer --role ") == ["programmer", "tester"]
    assert desk.asked("cao replay x7zq ") == ["programmer", "tester"]
    assert desk.asked("cao replay 20261116 ") == ["programmer", "tester"]
    assert desk.asked("cao replay 7zq p") == ["programmer"]
    assert desk.asked("cao replay zz ") == []
    assert desk.asked("cao replay 2026 ") == [], "it may be this one or that"
    assert desk.asked("cao attach ") == [
        *("programmer", "tester", "x7zq/programmer", "x7zq/tester")
    ]
    assert desk.asked("cao stop x7zq/t") == ["x7zq/tester"]
    assert "x7zq" in desk.asked("cao stop ")


def test_values_of_settings_are_offered(desk: Desk) -> None:
    assert desk.asked("cao run --provider ") == [*AGENTS]
    assert desk.asked("cao run --agent tester=cla") == ["tester=claude_code"]
    assert desk.asked("cao run --proof ") == ["off", "report", "require"]
    assert desk.asked("cao set max_r") == ["max_rounds=8", "max_review_cycles=3"]
    assert desk.asked("cao set stall=") == ["stall=warn", "stall=stop"]


def test_flows_of_the_package_the_user_and_the_project_are_offered(desk: Desk) -> None:
    (desk.folder / "config" / "flows" / "mine.toml").touch()
    (desk.work / ".cao" / "flows" / "ours.toml").touch()
    (desk.work / ".cao" / "flows" / "ours.md").touch()
    # What a shell would run is not offered.
    for name in ("$(reboot)", "`reboot`", "a;reboot", "a b", "a\nb", "a,b", "--help", "-x"):
        (desk.work / ".cao" / "flows" / f"{name}.toml").touch()
    assert desk.asked("cao run --flow ") == ["loop", "pair", "solo", "mine", "ours"]
    assert desk.asked("cao flow show o") == ["ours"]
    assert desk.asked("cao run --flow ./f") == ["./f"]


def test_commands_and_options_are_offered(desk: Desk) -> None:
    assert desk.asked("cao ") == [*COMMANDS]
    assert "--provider" in desk.asked("cao run --pro")


def test_where_nothing_can_be_read_nothing_is_said(desk: Desk) -> None:
    desk.environ |= {"CAO_STATE_DIR": "/dev/null/x", "CAO_CONFIG_DIR": "/dev/null/x"}
    assert desk.asked("cao watch ") == []
    assert desk.asked("cao run --flow l") == ["loop"]


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_completes(desk: Desk, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    programs = desk.folder / "bin"
    programs.mkdir()
    (programs / "cao").symlink_to(Path(sys.executable).parent / "cao")
    path = f"{programs}{os.pathsep}{desk.environ['PATH']}"
    env = {**desk.environ, "PATH": path, "PS1": "$ "}
    with (
        chdir(desk.work),
        # The path of a socket has to be short.
        tempfile.TemporaryDirectory(prefix="cao") as folder,
        closing(Pane(Path(folder), *SHELLS[shell], width=120, env=env)) as pane,
    ):
        pane.press("-l", f"{SETUP[shell]} && echo re''ady")
        pane.press("Enter")
        pane.until_shown("^ready")
        for begun, whole in (
            ("cao run --provider cla", "cao run --provider claude_code"),
            ("cao watch k", "cao watch k3f9"),
            ("cao answer --role te", "cao answer --role tester"),
            ("cao run --flow so", "cao run --flow solo"),
        ):
            pane.press("-l", begun)
            pane.press("Tab")
            pane.until_shown(f"{whole}( |$)")
            pane.press("C-u")
