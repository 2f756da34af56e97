"""`cao doctor` finds what is there and says how to get the rest."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_agent_orchestrator.cli.doctor import (
    Diagnosis,
    State,
    conclude,
    examine,
    is_run_possible,
)
from cli_agent_orchestrator.core.programs import Programs
from cli_agent_orchestrator.runs.record import read_record, write_record
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.settings.layout import DRAFT_PREFIX
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
        self.disk: object = os.statvfs(folder)
        """What is said of the disk of the state folder; None if nobody can say it."""
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

    # Any: what is asked of a disk is here
    def _statvfs(self, path: Path) -> Any:
        if self.disk is None:
            raise OSError
        return self.disk

    def configure(self, file: Path, line: str) -> None:
        """Let a file be the user's configuration, with a line of [notify]."""
        file.parent.mkdir()
        file.write_text(f"[notify]\n{line}\n", encoding="utf-8")
        file.chmod(0o600)
        self.environ["CAO_CONFIG_DIR"] = str(file.parent)

    def findings(self, seconds: float = 60) -> dict[str, Diagnosis]:
        """Return what is found; `seconds` is how long a program may take to answer."""
        with Programs(self.environ, seconds, seconds) as programs:
            found = examine(programs, self.environ, self.wd, statvfs=self._statvfs)
            return {finding.subject: finding for finding in found}

    def conclusion(self) -> str:
        return conclude(list(self.findings().values()), "cao")

    def is_ready(self) -> bool:
        return is_run_possible(list(self.findings().values()))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_with_tmux_and_an_agent_a_run_is_possible(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("codex", "echo codex-cli 0.166.0")
    assert desk.findings()["agent codex"].detail.startswith("0.166.0, ")
    assert "tested" not in desk.findings()["agent codex"].detail
    assert desk.is_ready()


def test_without_tmux_it_is_not_and_the_way_to_get_it_is_said(desk: Desk) -> None:
    desk.install("codex", "echo codex-cli 0.166.0")
    assert desk.findings()["tmux"].state is State.MISSING
    assert desk.findings()["tmux"].advice.startswith("install it with ")
    assert "install it" not in desk.findings()["tmux"].detail
    said = conclude(list(desk.findings().values()), "cao")
    assert said == "A run is not possible without: tmux"
    desk.install("apt-get")
    tmux = desk.findings()["tmux"]
    assert (tmux.advice, tmux.mend) == ("", "sudo apt-get install tmux")
    assert not desk.is_ready()


def test_without_git_a_run_is_possible_but_what_it_lacks_then_is_said(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("codex", "echo codex-cli 0.166.0")
    git = desk.findings()["git"]
    assert git.state is State.MISSING
    assert git.detail == "no git on the PATH"
    assert git.advice == "without it there are no snapshots, undo, proof or work trees"
    assert git.mend == ""
    desk.install("brew")
    assert desk.findings()["git"].mend == "brew install git"
    desk.install("apt-get")
    assert desk.findings()["git"].mend == "sudo apt-get install git"
    assert desk.is_ready()
    desk.install("git", "echo git version 2.39.5")
    assert desk.findings()["git"].state is State.OK
    assert desk.findings()["git"].detail == f"2.39.5, {desk.programs}/git"


def test_an_old_tmux_will_not_do(desk: Desk) -> None:
    desk.install("tmux", "echo tmux 2.9")
    assert "too old" in desk.findings()["tmux"].detail


def test_without_an_agent_the_way_to_get_one_is_said(desk: Desk) -> None:
    desk.install_tmux()
    assert desk.findings()["agent claude_code"].mend == "npm install -g @anthropic-ai/claude-code"
    assert "kiro.dev" in desk.findings()["agent kiro_cli"].advice
    assert desk.findings()["agent scripted"].state is State.OK
    assert not desk.is_ready()


def test_an_agent_may_be_elsewhere(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("my-codex", "echo 0.50.0")
    desk.environ["CAO_CODEX_COMMAND"] = str(desk.programs / "my-codex")
    assert "my-codex" in desk.findings()["agent codex"].detail


NO = 'Not logged in, "loggedIn": false'
LOGGED_OUT = (f"[ $1 = --version ] || {{ echo '{NO}'; exit 1; }}", "echo 2.1.325")


def test_the_command_for_a_run_names_the_agent_if_it_is_not_the_usual_one(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("claude", "echo 2.1.325")
    assert desk.conclusion().endswith("cao run task.md --provider claude_code")
    desk.install("codex", "echo 0.166.0")
    assert desk.conclusion() == "A run is possible: cao init, then cao run task.md"


def test_the_command_for_a_run_names_no_agent_that_is_not_logged_in(desk: Desk) -> None:
    desk.install_tmux()
    desk.install("codex", *LOGGED_OUT)
    once = "A run is possible once codex is logged in: cao init, then cao run task.md"
    assert desk.conclusion() == once
    desk.install("claude", *LOGGED_OUT)
    assert desk.conclusion() == once
    desk.install("claude", "echo 2.1.325")
    assert desk.conclusion().startswith("A run is possible: ")
    assert desk.conclusion().endswith("cao run task.md --provider claude_code")


def test_an_old_agent_is_not_asked_what_it_would_take_for_work(desk: Desk) -> None:
    desk.install("claude", '[ "$1" = auth ] && exit 1', 'echo "2.0.67 (Claude Code)"')
    assert desk.findings()["agent claude_code"].state is State.OK


ENDLESS = "exec yes aaaa"


def test_a_program_that_prints_without_end_does_not_answer_and_hurts_nothing(desk: Desk) -> None:
    desk.environ["PATH"] += f"{os.pathsep}/usr/bin{os.pathsep}/bin"
    for name in ("tmux", "git", "codex"):
        desk.install(name, ENDLESS)
    desk.install("gemini", "printf '\\033]0;x\\007\\033[2J 0.46.2\\n'")
    found = desk.findings()
    for subject in ("tmux", "git", "agent codex"):
        assert found[subject].state is (State.WRONG if subject == "tmux" else State.MISSING)
        assert "did not answer" in found[subject].detail
    assert found["agent gemini_cli"].detail.startswith("0.46.2, ")
    assert "installation" in found


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
    assert not is_run_possible(list(found.values()))


def test_programs_are_asked_side_by_side(desk: Desk, tmp_path: Path) -> None:
    """Each of them answers when another one has been asked, too."""
    os.mkfifo(tmp_path / "met")
    desk.install("git", f'read met < "{tmp_path}/met"', "echo git version 2.39.5")
    meets = f'[ "$1" != --version ] || echo met > "{tmp_path}/met"'
    desk.install("codex", meets, "echo codex-cli 0.166.0")
    found = desk.findings()
    assert found["git"].detail.startswith("2.39.5")
    assert found["agent codex"].detail.startswith("0.166.0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_known_is_said_at_once_and_nothing_is_left_of_who_is_asked(
    desk: Desk, tmp_path: Path, number: int
) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    desk.install("git", f'exec 9> "{tmp_path}/held"', "echo begun >&9", "exec /bin/sleep 60")
    argv = [sys.executable, "-m", "cli_agent_orchestrator", "doctor"]
    with subprocess.Popen(argv, env=desk.environ, stdout=subprocess.PIPE, text=True) as doctor:
        assert doctor.stdout is not None
        assert "python" in doctor.stdout.readline()
        select.select([reader], [], [])
        os.set_blocking(reader, True)
        assert os.read(reader, 100) == b"begun\n"
        doctor.send_signal(number)
        assert doctor.wait(60) == 128 + number
    assert os.read(reader, 1) == b"", "ends when nobody holds it any more"
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[providers.codex]\nargs = [1]\n", "providers.codex.args is [1], expected a list of"),
        (b"providers = 1\n", "providers is 1, expected tables"),
        (b"\xff\xfe[notify", "config.toml is not a TOML file in UTF-8"),
    ],
    ids=["argument", "table", "not UTF-8"],
)
def test_a_mistake_in_the_configuration_is_one_finding_and_all_else_is_looked_at(
    desk: Desk, tmp_path: Path, content: bytes, said: str
) -> None:
    desk.install_tmux()
    desk.install("codex", "echo codex-cli 0.166.0")
    known = desk.findings().keys()
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_bytes(content)
    found = desk.findings()
    assert found.keys() == known
    wrong = found["configuration"]
    assert (wrong.state, wrong.advice) == (State.WRONG, f"correct {file}")
    assert said in wrong.detail
    assert [one.subject for one in found.values() if one.state is State.WRONG] == [wrong.subject]
    assert desk.conclusion() == "A run is not possible until this is put right: configuration"
    argv = [sys.executable, "-m", "cli_agent_orchestrator", "doctor", "--json"]
    done = subprocess.run(argv, env=desk.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert {one["subject"] for one in json.loads(done.stdout)["findings"]} == known


def test_what_tmux_says_is_no_longer_than_a_version(desk: Desk) -> None:
    desk.install("tmux", "echo tmux 3.4 $(printf '%1000s' x | tr ' ' x)")
    desk.environ["PATH"] += f"{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert len(desk.findings()["tmux"].detail) < 300


def test_a_program_is_asked_far_from_the_project_and_has_nobody_to_ask(
    desk: Desk, tmp_path: Path
) -> None:
    """What lies in the folder of the user may be anybody's, and what he types is not for it."""
    asked = tmp_path / "asked"
    script = [f'pwd > "{asked}"', f'readlink /proc/self/fd/0 >> "{asked}"', "echo 0.166.0"]
    desk.install("codex", "PATH=/usr/bin:/bin", *script)
    argv = [sys.executable, "-m", "cli_agent_orchestrator", "doctor"]
    subprocess.run(
        argv, env=desk.environ, cwd=tmp_path, input=b"typed\n", capture_output=True, check=False
    )
    folder, *stdin = asked.read_text(encoding="utf-8").splitlines()
    assert folder == "/"
    assert stdin == (["/dev/null"] if sys.platform == "linux" else [])


def test_a_program_that_cannot_be_started_is_no_harm(desk: Desk) -> None:
    for name in ("git", "codex"):
        desk.install(name)
        (desk.programs / name).write_bytes(b"\x7fELF is no program")
    found = desk.findings()
    assert {"git", "agent codex", "installation"} <= {*found}
    assert found["agent codex"].state is not State.OK


def test_an_agent_that_was_never_tested_is_noted(desk: Desk) -> None:
    desk.install("kiro-cli", "echo kiro-cli 2.4.1")
    assert desk.findings()["agent kiro_cli"].state is State.NOTE
    assert "recordings" in desk.findings()["agent kiro_cli"].detail


def test_a_version_and_a_login_that_want_attention_are_both_told(desk: Desk) -> None:
    desk.install("codex", '[ "$1" = login ] && echo Not logged in >&2 && exit 1', "echo 9.0.0")
    finding = desk.findings()["agent codex"]
    assert "newer than any" in finding.detail
    assert finding.detail.endswith("not logged in")
    unknown, login = finding.advice.splitlines()
    assert "`unknown`" in unknown
    assert login == "unless it works with a key of its own"


def test_each_piece_of_advice_has_a_line_of_its_own(desk: Desk) -> None:
    desk.install("codex", '[ "$1" = login ] && echo Not logged in >&2 && exit 1', "echo 9.0.0")
    done = subprocess.run(
        [sys.executable, "-m", "cli_agent_orchestrator", "doctor"],
        env=desk.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    [row] = [row for row, line in enumerate(lines) if "agent codex" in line]
    assert lines[row].startswith("note ")
    assert [line.strip()[0] for line in lines[row + 1 : row + 4]] == ["→", "→", "→"]
    assert lines[row + 3].strip() == f"→ fix: {desk.programs}/codex login"
    assert lines[row + 4].strip()[0] != "→"


def test_a_server_that_was_named_is_told_with_where_its_name_is_from(desk: Desk) -> None:
    with third_party() as theirs:
        desk.environ["CAO_API"] = theirs.url
        server = desk.findings()["server"]
    assert server.state is State.OK
    assert server.detail == f"{theirs.url}, version unknown, named by CAO_API"


def test_a_server_that_was_named_and_is_not_there_is_noted(desk: Desk) -> None:
    desk.environ["CAO_API"] = f"http://127.0.0.1:{free_port()}"
    server = desk.findings()["server"]
    assert server.state is State.NOTE
    assert "named by CAO_API" in server.detail


def test_somebody_else_at_the_usual_port_is_noted(desk: Desk) -> None:
    del desk.environ["CAO_PORT"]
    with third_party() as theirs:
        port = int(theirs.url.rpartition(":")[2])
        with Programs(desk.environ) as programs:
            findings = examine(programs, desk.environ, desk.wd, default_port=port)
            (usual,) = [one for one in findings if one.subject == "port"]
    assert (usual.state, usual.mend) == (State.NOTE, "cao server --port 0")
    assert usual.detail == f"{port}, another program listens there"
    assert theirs.asked == []


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_port_is_the_users_only_if_his_own_server_has_it(
    desk: Desk, tmp_path: Path, is_ours: bool
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with running_api(state=state if is_ours else None) as server:
        desk.environ["CAO_PORT"] = str(server.port)
        detail = desk.findings()["port"].detail
    whose = "your server" if is_ours else "another program listens there"
    assert detail == f"{server.port}, {whose}"


def test_a_token_that_others_may_read_has_to_go(desk: Desk, tmp_path: Path) -> None:
    token = tmp_path / "state" / "token"
    token.parent.mkdir()
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o644)
    assert desk.findings()["token"].advice == "the next start makes a new one"
    assert desk.findings()["token"].mend == f"rm {token}"
    assert desk.findings()["token"].state is State.WRONG
    desk.install_tmux()
    said = conclude(list(desk.findings().values()), "cao")
    assert said == "A run is not possible until this is put right: token"
    assert not desk.is_ready()
    token.chmod(0o600)
    assert desk.findings()["token"].state is State.OK


def test_a_state_folder_that_others_may_write_to_has_to_be_mended(
    desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    found = desk.findings()
    assert found["state folder"].state is State.WRONG
    assert found["state folder"].mend == f"chmod go-w {tmp_path / 'state'}"


def test_a_state_folder_that_is_not_there_yet_is_said(desk: Desk, tmp_path: Path) -> None:
    folder = desk.findings()["state folder"]
    assert folder.state is not State.MISSING
    assert folder.detail == f"{tmp_path / 'state'} (not there yet: the first start makes it)"
    (tmp_path / "state").mkdir(mode=0o700)
    assert desk.findings()["state folder"].detail == str(tmp_path / "state")


def test_a_state_folder_where_agents_may_write_is_noted(desk: Desk, tmp_path: Path) -> None:
    desk.wd = tmp_path
    inside = desk.findings()["state folder"]
    assert inside.state is State.NOTE
    assert "is inside the work folder" in inside.advice
    desk.environ["CAO_STATE_DIR"] = "/tmp/cao-tests-nowhere/state"
    below = desk.findings()["state folder"]
    assert below.state is State.NOTE
    assert "is below /tmp, where every agent may write" in below.advice


def test_a_state_folder_that_cannot_be_made_is_missing(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    desk.environ["CAO_STATE_DIR"] = str(tmp_path / "file" / "state")
    assert desk.findings()["state folder"].state is State.WRONG
    assert not desk.is_ready()


def disk(free: int, blocks: int = 10**6) -> SimpleNamespace:
    """Return what statvfs says of a disk with so many free bytes; others are for root alone."""
    return SimpleNamespace(f_blocks=blocks, f_bfree=free + 50_000, f_bavail=free, f_frsize=1)


def test_a_disk_that_is_full_has_to_get_room(desk: Desk, tmp_path: Path) -> None:
    desk.install_tmux()
    desk.install("codex", "echo codex-cli 0.166.0")
    assert desk.is_ready()
    desk.disk = disk(0)
    found = desk.findings()["state folder"]
    assert found.state is State.WRONG
    there = f"{tmp_path / 'state'} (not there yet: the first start makes it)"
    assert found.detail == f"{there}, its disk is full"
    assert found.advice.endswith("make room there, or name another folder in CAO_STATE_DIR")
    assert desk.conclusion() == "A run is not possible until this is put right: state folder"
    assert not desk.is_ready()


def test_a_disk_that_is_nearly_full_is_noted(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    desk.disk = disk(15_999_999)
    found = desk.findings()["state folder"]
    assert found.state is State.NOTE
    assert found.detail == f"{tmp_path / 'state'}, its disk has 15 MB left; a run may need 16 MB"
    assert found.advice.endswith("make room there, or name another folder in CAO_STATE_DIR")
    # Some file systems know no numbers.
    for enough in (disk(16_000_000), disk(0, blocks=0)):
        desk.disk = enough
        assert desk.findings()["state folder"].detail == str(tmp_path / "state")
        assert "make room" not in desk.findings()["state folder"].advice


def test_an_empty_token_is_noted(desk: Desk, tmp_path: Path) -> None:
    token = tmp_path / "state" / "token"
    token.parent.mkdir(mode=0o700)
    token.touch(0o600)
    found = desk.findings()["token"]
    assert (found.state, found.mend) == (State.NOTE, "")
    assert found.detail == f"{token}, empty"
    assert found.advice == "the next start makes a new one"


def test_another_package_with_the_same_import_name_is_noted(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "site" / "other_orchestrator-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-orchestrator\n")
    (other / "top_level.txt").write_text("cli_agent_orchestrator\n")
    done = subprocess.run(
        [sys.executable, "-m", "cli_agent_orchestrator", "doctor", "--json"],
        env={**desk.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = {finding["subject"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "other-orchestrator" in found["installation"]["detail"]


def test_without_an_agent_what_works_all_the_same_is_said(desk: Desk) -> None:
    desk.install_tmux()
    done = subprocess.run(
        [sys.executable, "-m", "cli_agent_orchestrator", "doctor"],
        env=desk.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    conclusion = done.stdout.partition("\n\n")[2]
    assert conclusion.startswith("No real agent is installed")
    demo, run = [line for line in conclusion.splitlines() if line.startswith("  ")]
    assert demo.endswith(" demo")
    assert run.endswith(" run task.md --provider scripted")


def test_a_variable_that_is_not_known_is_said(desk: Desk) -> None:
    assert "environment" not in desk.findings()
    desk.environ["CAO_PROT"] = "1"
    found = desk.findings()["environment"]
    assert found.state is State.NOTE
    assert found.detail.startswith("CAO_PROT is set, but cao does not know it")


def test_who_listens_is_not_known_where_the_state_folder_is_wrong(
    desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with socket.create_server(("127.0.0.1", 0)) as server:
        desk.environ["CAO_PORT"] = str(server.getsockname()[1])
        assert desk.findings()["port"].detail.endswith(", taken; it is not known by whom")


def test_the_usual_port_may_be_free_or_any(desk: Desk) -> None:
    assert desk.findings()["port"].detail == "any that is free (CAO_PORT=0)"
    free = free_port()
    desk.environ["CAO_PORT"] = str(free)
    assert desk.findings()["port"] == Diagnosis("port", State.OK, f"{free}, free")


def test_who_is_told_of_runs_is_said_and_not_by_which_address(desk: Desk, tmp_path: Path) -> None:
    assert desk.findings()["notifications"].state is State.OK
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text('[notify]\nntfy = "https://ntfy.sh/s3cr3t"\ndesktop = true\n')
    for mode in (0o644, 0o640):
        file.chmod(mode)
        found = desk.findings()["notifications"]
        assert (found.state, found.mend) == (State.NOTE, f"chmod 600 {file}")
        assert found.detail.startswith("desktop, ntfy; others may read ")
    file.chmod(0o600)
    desk.install("notify-send")
    found = desk.findings()["notifications"]
    assert (found.state, found.detail) == (
        State.OK,
        "desktop, ntfy; `cao notify test` tries them",
    )
    file.write_text('[notify]\nntfy = "s3cr3t"\n')
    found = desk.findings()["notifications"]
    assert found.state is State.WRONG
    assert found.advice == f"correct {file}"
    assert "s3cr3t" not in found.detail
    assert not desk.is_ready()


def test_a_file_that_others_may_read_is_mended_wherever_it_lies(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "my config" / "config.toml"
    desk.configure(file, 'webhook = "https://x/s3cr3t"')
    file.chmod(0o644)
    subprocess.run(desk.findings()["notifications"].mend, shell=True, check=True)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_desktop_that_nobody_can_tell_is_noted(desk: Desk, tmp_path: Path) -> None:
    desk.configure(tmp_path / "config" / "config.toml", "desktop = true")
    found = desk.findings()["notifications"]
    assert (found.state, found.mend) == (State.NOTE, "")
    assert found.detail == "desktop; there is no notify-send, so the desktop is not told"
    assert found.advice == "install it with your package manager (libnotify)"
    desk.install("dnf")
    assert desk.findings()["notifications"].mend == "sudo dnf install libnotify"
    desk.install("apt-get")
    found = desk.findings()["notifications"]
    assert (found.advice, found.mend) == ("", "sudo apt-get install libnotify-bin")
    desk.install("osascript")
    assert desk.findings()["notifications"].state is State.OK


def test_a_notify_command_that_is_no_program_is_noted(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "config" / "config.toml"
    desk.configure(file, 'command = ["tell", "s3cr3t"]')
    found = desk.findings()["notifications"]
    assert (found.state, found.mend) == (State.NOTE, "")
    assert found.detail == "command; the program of command is not there, or cannot be run"
    assert found.advice == f"correct {file}"
    desk.install("tell")
    assert desk.findings()["notifications"].state is State.OK


def test_what_runs_have_left_is_said_with_the_command_that_removes_it(
    desk: Desk, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    assert desk.findings()["leftovers"] == Diagnosis("leftovers", State.OK, "none of 0 runs")
    folder = make_run(state, tmp_path, "20261115-084037-k3f9")
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, terminals={"tester": "0badcafe"}, ended=time.time()))
    make_run(state, tmp_path, "20261115-084038-x7zq")
    (state / "runs" / f"{DRAFT_PREFIX}20261115-084039-m2pw").mkdir()
    found = desk.findings()["leftovers"]
    assert (found.state, found.mend) == (State.NOTE, "cao clean --yes")
    assert found.advice == "`cao clean` shows it, and asks first"
    assert found.detail == (
        "agents of 1 ended run, records of 1 old run, 1 record of runs that never began"
    )


def test_sockets_of_tmux_servers_that_have_ended_are_noted(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "sockets" / f"tmux-{os.getuid()}"
    folder.mkdir(parents=True)
    present = ServerConfig.from_env(desk.environ).tmux_socket
    others = ("default", "cao-mine", "cao-0000000g", "cao-000000011", "xcao-00000001")
    names = ("cao-00000001", "cao-00000002", present, *others)
    with ExitStack() as opened:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket has to be short
        opened.callback(os.chdir, here)
        for name in names:
            one = opened.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(name)
            if name == "cao-00000002":
                one.listen()
        os.chdir(here)
        (folder / "cao-00000003").write_text("no socket")
        found = desk.findings()["tmux sockets"]
    assert (found.state, found.mend) == (State.NOTE, f"rm {folder}/cao-00000001")
