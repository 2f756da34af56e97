"""`cao doctor` finds what is there and says how to get the rest."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cli_agent_orchestrator.cli.doctor import (
    MISSING,
    NOTE,
    OK,
    WRONG,
    Diagnosis,
    State,
    conclude,
    doctor,
    examine,
    remarks_on_version,
)
from cli_agent_orchestrator.core.programs import Programs
from cli_agent_orchestrator.hosting.user import login_command
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.runs.record import read_record, write_record
from tests.e2e.runs import free_port
from tests.runs.kept_runs import make_run
from tests.server.running import running_api
from tests.third_party import third_party


class Desk:
    """A machine on which nothing is installed but what the test puts there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.wd = folder / "project"
        self.environ = {
            "PATH": str(self.programs),
            "HOME": str(folder),
            "CAO_STATE_DIR": str(folder / "state"),
            "CAO_CONFIG_DIR": str(folder / "config"),
            "CAO_PORT": "0",
            "TMUX_TMPDIR": str(folder / "sockets"),
        }

    def install(self, name: str, *lines: str) -> None:
        path = self.programs / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
        path.chmod(0o755)

    def install_tmux(self) -> None:
        tmux = shutil.which("tmux")
        assert tmux is not None
        (self.programs / "tmux").symlink_to(tmux)

    def configure(self, text: str | bytes) -> Path:
        file = Path(self.environ["CAO_CONFIG_DIR"], "config.toml")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(0o600)
        return file

    def findings(self, seconds: float = 60) -> dict[str, Diagnosis]:
        """Return what is found; `seconds` is how long a program may take to answer."""
        with Programs(self.environ, seconds, seconds) as programs:
            found = examine(programs, self.environ, self.wd)
            return {finding.subject: finding for finding in found}

    def conclusion(self) -> tuple[bool, str]:
        return conclude(list(self.findings().values()), "cao")

    def said(self, subject: str) -> tuple[State, str, str, str]:
        """Return the state, the detail, the advice and the command that repairs it."""
        found = self.findings()[subject]
        return found.state, found.detail, found.advice, found.mend


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_with_tmux_and_an_agent_a_run_is_possible_also_without_git(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("my-codex", "echo codex-cli 0.166.0")
    desk.install("brew")
    desk.environ["CAO_CODEX_COMMAND"] = str(desk.programs / "my-codex")
    found = desk.findings()
    assert found["agent codex"].detail.startswith(f"0.166.0, {desk.programs}/my-codex")
    assert "tested" not in found["agent codex"].detail
    git = found["git"]
    assert (git.state, git.detail, git.mend) == (
        MISSING,
        "no git on the PATH",
        "brew install git",
    )
    assert git.advice == "without it there are no snapshots, undo, proof or work trees"
    assert conclude([*found.values()], "cao")[0]
    desk.install("git", "echo git version 2.39.5")
    assert desk.said("git") == (OK, f"2.39.5, {desk.programs}/git", "", "")


def test_without_an_agent_what_works_all_the_same_is_said(desk: Desk) -> None:
    desk.install("apt-get")
    state, detail, advice, mend = desk.said("tmux")
    assert (state, advice, mend) == (MISSING, "", "sudo apt-get install tmux")
    assert "install" not in detail
    assert desk.conclusion() == (False, "A run is not possible without: tmux")
    desk.install_tmux()
    possible, said = desk.conclusion()
    assert not possible
    assert said.splitlines()[1:] == ["  cao demo", "  cao run task.md --provider scripted"]


OLD_CLAUDE = ('[ "$1" = auth ] && exit 1', 'echo "2.0.67 (Claude Code)"')
NO = 'Not logged in, "loggedIn": false'
LOGGED_OUT = (f"[ $1 = --version ] || {{ echo '{NO}'; exit 1; }}", "echo 2.1.325")


@pytest.mark.parametrize(
    ("agents", "said", "end"),
    [
        ({"claude": ["echo 2.1.325"]}, "A run is possible: ", " --provider claude_code"),
        ({"claude": ["echo 2.1.325"], "codex": ["echo 0.166.0"]}, "A run is possible: ", "task.md"),
        ({"codex": LOGGED_OUT}, "A run is possible once codex is logged in: ", "task.md"),
        ({"codex": LOGGED_OUT, "claude": LOGGED_OUT}, "A run is possible once codex ", "task.md"),
        ({"codex": LOGGED_OUT, "claude": OLD_CLAUDE}, "A run is possible: ", "claude_code"),
    ],
)
def test_the_command_for_a_run_names_an_agent_that_can_be_used(
    desk: Desk, agents: dict[str, Sequence[str]], said: str, end: str
) -> None:
    desk.install_tmux()
    for name, lines in agents.items():
        desk.install(name, *lines)
    possible, conclusion = desk.conclusion()
    assert possible
    assert conclusion.startswith(said)
    assert conclusion.endswith(end)


def test_a_version_may_be_told_on_the_error_output(desk: Desk) -> None:
    desk.install("pi", "echo 0.73.1 >&2")
    assert desk.findings()["agent pi"].detail.startswith("0.73.1, ")


def test_of_a_program_that_hangs_it_is_said_and_nobody_is_told_to_install_it(desk: Desk) -> None:
    for name in ("tmux", "git", "codex"):
        desk.install(name, "exec /bin/sleep 60")
    desk.install("apt-get")
    found = desk.findings(0.3)
    for subject, name in (("tmux", "tmux"), ("git", "git"), ("agent codex", "codex")):
        said = f"{desk.programs / name} did not answer within 0.3 seconds"
        assert (found[subject].detail, found[subject].mend) == (said, "")
    assert found["tmux"].advice == f"look what `{desk.programs}/tmux -V` says"
    assert "installation" in found
    assert not conclude([*found.values()], "cao")[0]


def test_programs_are_asked_side_by_side(desk: Desk, tmp_path: Path) -> None:
    """Each of them answers when another one has been asked, too."""
    os.mkfifo(tmp_path / "met")
    desk.install("git", f'read met < "{tmp_path}/met"', "echo git version 2.39.5")
    meets = f'[ "$1" != --version ] || echo met > "{tmp_path}/met"'
    desk.install("codex", meets, "echo codex-cli 0.166.0")
    found = desk.findings()
    assert found["git"].detail.startswith("2.39.5")
    assert found["agent codex"].detail.startswith("0.166.0")


def test_what_is_known_is_said_at_once_and_nothing_is_left_of_who_is_asked(
    desk: Desk, tmp_path: Path
) -> None:
    """What is asked works far from the folder of the user, and what he types is not for it."""
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    tells = 'PATH=/usr/bin:/bin; echo "$PWD $(readlink /proc/self/fd/0)" >&9'
    desk.install("git", f'exec 9> "{tmp_path}/held"', tells, "exec sleep 60")
    argv = [sys.executable, "-m", "cli_agent_orchestrator", "doctor"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=desk.environ, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True
    ) as doctor:
        assert doctor.stdout is not None
        assert "python" in doctor.stdout.readline()
        select.select([reader], [], [])
        os.set_blocking(reader, True)
        folder, *stdin = os.read(reader, 100).decode().split()
        doctor.send_signal(signal.SIGTERM)
        assert doctor.wait(60) == 128 + signal.SIGTERM
    assert folder == "/"
    assert stdin == (["/dev/null"] if sys.platform == "linux" else [])
    assert os.read(reader, 1) == b"", "ends when nobody holds it any more"
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[providers.codex]\nargs = [1]\n", "providers.codex.args is [1], expected a list of"),
        (b"\xff\xfe[notify", "config.toml is not a TOML file in UTF-8"),
    ],
    ids=["argument", "not UTF-8"],
)
def test_a_mistake_in_the_configuration_is_one_finding_and_all_else_is_looked_at(
    desk: Desk, content: bytes, said: str
) -> None:
    desk.install_tmux()
    desk.install("codex", "echo codex-cli 0.166.0")
    known = desk.findings().keys()
    file = desk.configure(content)
    found = desk.findings()
    [wrong] = [one for one in found.values() if one.state == WRONG]
    assert (wrong.subject, wrong.advice) == ("configuration", f"correct {file}")
    assert said in wrong.detail
    says = "A run is not possible until this is put right: configuration"
    assert conclude([*found.values()], "cao") == (False, says)
    done = CliRunner().invoke(doctor, ["--json"], env=desk.environ)
    assert (done.exit_code, done.stderr) == (1, "")
    assert {one["subject"] for one in json.loads(done.stdout)["findings"]} == known


def test_a_server_that_was_named_is_told_with_where_its_name_is_from(desk: Desk) -> None:
    with third_party() as theirs:
        desk.environ["CAO_API"] = theirs.url
        told = f"{theirs.url}, version unknown, named by CAO_API"
        assert desk.said("server") == (OK, told, "", "")
    state, detail, *_ = desk.said("server")
    assert state == NOTE
    assert "named by CAO_API" in detail


def test_whether_the_port_is_free_is_said(desk: Desk, tmp_path: Path) -> None:
    assert desk.said("port")[1] == "any that is free (CAO_PORT=0)"
    free = free_port()
    desk.environ["CAO_PORT"] = str(free)
    assert desk.said("port") == (OK, f"{free}, free", "", "")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with running_api(state=state) as server:
        desk.environ["CAO_PORT"] = str(server.port)
        assert desk.said("port")[:2] == (OK, f"{server.port}, your server")
    with third_party() as theirs:
        port = desk.environ["CAO_PORT"] = theirs.url.rpartition(":")[2]
        found = desk.findings()["port"]
    assert (found.state, found.mend) == (NOTE, "cao server --port 0")
    assert found.detail == f"{port}, another program listens there"
    assert theirs.asked == []


def test_a_token_that_others_may_read_has_to_go(desk: Desk, tmp_path: Path) -> None:
    token = tmp_path / "state" / "token"
    token.parent.mkdir()
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o644)
    desk.install_tmux()
    again = "the next start makes a new one"
    wrong = (WRONG, f"{token}, others may read it", again, f"rm {token}")
    assert desk.said("token") == wrong
    said = "A run is not possible until this is put right: token"
    assert desk.conclusion() == (False, said)
    token.chmod(0o600)
    assert desk.said("token")[0] == OK


def test_a_state_folder_that_others_may_write_to_has_to_be_mended(
    desk: Desk, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    state, detail, *_ = desk.said("state folder")
    assert state != MISSING
    assert detail == f"{folder} (not there yet: the first start makes it)"
    folder.mkdir(mode=0o700)
    assert desk.said("state folder")[1] == str(folder)
    desk.wd = tmp_path
    state, _, advice, _ = desk.said("state folder")
    assert (state, "is inside the work folder" in advice) == (NOTE, True)
    folder.chmod(0o777)
    said = f"the state folder {folder} can be written by others"
    assert desk.said("state folder") == (WRONG, said, "", f"chmod go-w {folder}")
    folder.rmdir()
    folder.touch()
    desk.environ["CAO_STATE_DIR"] = f"{folder}/below"
    assert desk.said("state folder")[0] == WRONG


def test_another_package_with_the_same_import_name_is_noted(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "site" / "other_orchestrator-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-orchestrator\n")
    (other / "top_level.txt").write_text("cli_agent_orchestrator\n")
    monkeypatch.syspath_prepend(other.parent)
    assert "other-orchestrator" in desk.said("installation")[1]


def test_a_variable_that_is_not_known_is_said(desk: Desk) -> None:
    assert "environment" not in desk.findings()
    desk.environ["CAO_PROT"] = "1"
    found = desk.findings()["environment"]
    assert found.state == NOTE
    assert found.detail.startswith("CAO_PROT is set, but cao does not know it")


def test_who_is_told_of_runs_is_said_and_not_by_which_address(desk: Desk) -> None:
    assert desk.said("notifications")[0] == OK
    file = desk.configure('[notify]\nntfy = "https://ntfy.sh/s3cr3t"\ndesktop = true\n')
    file.chmod(0o640)
    state, detail, _, mend = desk.said("notifications")
    assert (state, mend) == (NOTE, f"chmod 600 {file}")
    assert detail.startswith("desktop, ntfy; others may read ")
    file.chmod(0o600)
    nobody = "desktop, ntfy; there is no notify-send, so the desktop is not told"
    assert desk.said("notifications")[:2] == (NOTE, nobody)
    desk.install("notify-send")
    tries = "desktop, ntfy; `cao notify test` tries them"
    assert desk.said("notifications") == (OK, tries, "", "")
    desk.configure('[notify]\ncommand = ["tell", "s3cr3t"]')
    nothing = "command; the program of command is not there, or cannot be run"
    assert desk.said("notifications") == (NOTE, nothing, f"correct {file}", "")
    desk.configure('[notify]\nntfy = "s3cr3t"\n')
    found = desk.findings()["notifications"]
    assert (found.state, found.advice, found.needed) == (WRONG, f"correct {file}", True)
    assert "s3cr3t" not in found.detail


def test_what_runs_have_left_is_said_with_the_command_that_removes_it(
    desk: Desk, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    assert desk.said("leftovers") == (OK, "none of 0 runs", "", "")
    folder = make_run(state, tmp_path, "20261115-084037-k3f9")
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, terminals={"tester": "0badcafe"}, ended=time.time()))
    make_run(state, tmp_path, "20261115-084038-x7zq")
    left = "agents of 1 ended run, records of 1 old run"
    shows = "`cao clean` shows it, and asks first"
    assert desk.said("leftovers") == (NOTE, left, shows, "cao clean --yes")


Version = tuple[int, ...]

TESTED: tuple[Version, ...] = ((0, 101, 0), (0, 166, 2), (0, 125, 3))


def said(version: Version, tested: tuple[Version, ...] = TESTED) -> str:
    """Return what is said about a version, empty if nothing."""
    provider = replace(get_provider("codex"), tested_versions=tested)
    return "\n".join(text for text, _ in remarks_on_version(version, provider))


@pytest.mark.parametrize(
    ("version", "tested", "words"),
    [
        ((0, 166, 99), TESTED, ""),
        ((0, 101), TESTED, ""),
        ((0, 167), TESTED, "newer than any that was tested (0.101.0 to 0.166.2)"),
        ((0, 100, 9), TESTED, "older than any that was tested (0.101.0 to 0.166.2)"),
        ((1, 18, 0), ((1, 18, 18),), ""),
        ((1, 2), (), "no version of it was tested; its screens are from recordings only"),
        ((1, 19, 0), ((1, 18, 18),), "newer than any that was tested (1.18.18)"),
        ((), TESTED, "version unknown; tested: 0.101.0 to 0.166.2"),
    ],
)
def test_a_version_beside_those_that_were_tested_is_named(
    version: Version, tested: tuple[Version, ...], words: str
) -> None:
    assert said(version, tested) == words


def test_an_agent_of_the_users_own_is_not_said_to_be_from_recordings() -> None:
    provider = replace(get_provider("codex"), tested_versions=(), file="/mine.toml")
    [(text, advice)] = remarks_on_version((1, 0), provider)
    assert ("recordings" in text, "cao agent check codex" in advice) == (False, True)


def test_the_way_to_log_in_is_a_command() -> None:
    assert login_command("codex", "/a b/codex") == "'/a b/codex' login"
    assert login_command("claude_code", "/bin/claude") == "/bin/claude auth login"
