"""The commands about terminals, against servers that are hostile, foreign, or somebody's."""

import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli import steer, terminals
from cli_agent_orchestrator.cli.main import cao
from cli_agent_orchestrator.cli.terminals import read_terminal
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import Delivery, OutputMode
from cli_agent_orchestrator.errors import ApiError, NotFound, OrchestratorError, UsageError
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, write_record
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.settings.layout import run_folder
from tests.e2e.conftest import CAO
from tests.fakes import FakeService
from tests.runs.views import a_run
from tests.server.running import TOKEN, RunningApi, running_api
from tests.third_party import ThirdParty, third_party

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\x7f"
FORGED = "\nffffffff  forged line"


class Shell:
    """Runs commands as a user of one server; nothing of the real environment names another."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self.env: dict[str, str | None] = {
            "CAO_API": url,
            "API": None,
            "CAO_PORT": None,
            "CAO_TOKEN": TOKEN,
            "CAO_STATE_DIR": str(folder / "state"),
        }

    def run(self, name: str, *words: str, stdin: str = "") -> Result:
        with chdir(self._folder):
            return CliRunner().invoke(cao, [name, *words], env=self.env, input=stdin)

    def typed(self, answer: str, *words: str) -> str:
        """Run a command in a terminal, type an answer, and return all that was shown."""
        person, device = pty.openpty()
        try:
            os.write(person, answer.encode())
            done = self.start(*words, stdin=device)
        finally:
            os.close(person)
            os.close(device)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(
        self, *words: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a process of its own."""
        env = {**os.environ, **{name: text for name, text in self.env.items() if text is not None}}
        for name, text in self.env.items():
            if text is None:
                env.pop(name, None)
        return subprocess.run(
            [*CAO, *words],
            stdin=stdin,
            capture_output=True,
            text=True,
            env=env,
            cwd=self._folder,
            timeout=60,
            check=False,
        )


@pytest.fixture
def ours() -> Iterator[RunningApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def shell(ours: RunningApi, tmp_path: Path) -> Shell:
    return Shell(ours.url, tmp_path)


def add(service: FakeService, name: str, folder: Path | str, session: str = "cao-shop") -> None:
    terminal = service.add(name, session)
    service.known[name] = replace(terminal, working_directory=str(folder), permissions="workspace")


def write_run(folder: Path, tail: str, **terminals: str) -> Folder:
    """Write the record of a run that has agents; nobody is at work on it unless it is locked."""
    place = run_folder(folder / "state", f"20261115-084037-{tail}")
    record = RunRecord(
        id=place.parts[-1],
        wd=str(folder),
        state_file=str(folder / "state.json"),
        task="",
        task_line="",
        started=1.0,
        terminals=terminals,
    )
    write_record(place, record)
    return place


def live_run(name: str, wd: Path, project: str = "") -> RunView:
    status = RunStatus.RUNNING
    return a_run(id=name, wd=str(wd), status=status, round=0, project=project, terminals={})


NONE_LEFT = "It has ended, and has no agents any more.\n"


class TestNames:
    @pytest.mark.parametrize("name", ["tester", "k3f9/tester", "1111", "11111111"])
    def test_an_agent_is_found_by_role_or_id(
        self, ours: RunningApi, shell: Shell, tmp_path: Path, name: str
    ) -> None:
        add(ours.service, "11111111", tmp_path)
        add(ours.service, "22222222", tmp_path)
        write_run(tmp_path, "k3f9", tester="11111111")
        done = shell.run("stop", name)
        assert done.exit_code == 0, done.output
        assert ours.service.ended == ["11111111"]

    def test_an_agent_that_is_gone_is_named(self, shell: Shell, tmp_path: Path) -> None:
        write_run(tmp_path, "k3f9", tester="11111111")
        done = shell.run("output", "tester")
        assert isinstance(done.exception, NotFound)
        assert "terminal of tester" in str(done.exception)

    def test_what_could_be_a_run_or_a_terminal_ends_nothing(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        add(ours.service, "beef1234", tmp_path)
        with write_run(tmp_path, "beef").locked():
            done = shell.run("stop", "beef")
        assert isinstance(done.exception, UsageError)
        assert "20261115-084037-beef or the terminal beef1234" in str(done.exception)
        assert ours.service.ended == []

    @pytest.mark.parametrize("name", ["beef", "20261115-084037-beef", "20261115-0"])
    def test_a_run_is_meant_where_no_terminal_is(
        self, shell: Shell, tmp_path: Path, name: str
    ) -> None:
        write_run(tmp_path, "beef")
        done = shell.run("stop", name)
        assert done.exit_code == 0, done.output
        assert done.output == f"20261115-084037-beef: {NONE_LEFT}"

    def test_a_run_whose_record_cannot_be_read_may_have_left_agents(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        run_folder(tmp_path / "state", "20261115-084037-k3f9").make()
        add(ours.service, "11111111", "/home/ada/shop", "cao-20261115-084037-k3f9")
        assert shell.run("stop", "k3f9").output == "Ended 11111111 (programmer-1)\n"
        ours.service.known.clear()
        assert shell.run("stop", "k3f9").output == f"20261115-084037-k3f9: {NONE_LEFT}"

    def test_without_a_name_and_a_run_it_says_what_can_be_named(self, shell: Shell) -> None:
        done = shell.run("stop")
        assert isinstance(done.exception, UsageError)
        assert "no run is running; name a terminal" in str(done.exception)


class TestStop:
    @pytest.fixture
    def service(self, ours: RunningApi, tmp_path: Path) -> FakeService:
        (tmp_path / "below").mkdir()
        add(ours.service, "11111111", tmp_path)
        add(ours.service, "22222222", tmp_path / "below", "cao-other")
        add(ours.service, "33333333", tmp_path.parent)
        add(ours.service, "44444444", f"{tmp_path}-besides")
        return ours.service

    def test_all_means_this_folder_and_what_is_below_it(
        self, shell: Shell, service: FakeService
    ) -> None:
        done = shell.run("stop", "--all")
        assert done.exit_code == 0, done.output
        assert service.ended == ["11111111", "22222222"]
        assert "2 elsewhere" in done.output

    def test_everywhere_wants_a_yes_where_nobody_can_be_asked(
        self, shell: Shell, service: FakeService
    ) -> None:
        done = shell.run("stop", "--everywhere", stdin="y\n")
        assert isinstance(done.exception, UsageError)
        assert "--yes" in str(done.exception)
        assert "44444444" in done.output
        assert service.ended == []

    def test_everywhere_with_yes_ends_all(self, shell: Shell, service: FakeService) -> None:
        done = shell.run("stop", "--everywhere", "--yes")
        assert done.exit_code == 0
        assert len(service.ended) == 4

    def test_everywhere_shows_what_would_be_ended_and_asks(
        self, shell: Shell, service: FakeService
    ) -> None:
        shown = shell.typed("n\n", "stop", "--everywhere")
        assert all(name in shown for name in service.known)
        assert "Nothing was ended" in shown
        assert service.ended == []
        shell.typed("y\n", "stop", "--everywhere")
        assert len(service.ended) == 4

    def test_all_stops_the_runs_of_this_folder_also_those_in_work_trees(
        self, tmp_path: Path
    ) -> None:
        places = {"here": tmp_path, "below": tmp_path / "a", "above": tmp_path.parent}
        runs = [live_run(name, wd) for name, wd in places.items()]
        tree = live_run("tree", Path("/state/worktrees/tree"), project=str(tmp_path))
        ended = replace(tree, id="ended", status=RunStatus.PASS)
        runs += [tree, ended]
        own = [run.id for run in runs if run.lies_in(tmp_path)]
        sweep = steer.Sweep((), tmp_path, own, here=True, everywhere=False)
        stopped = sweep.live_runs(runs, [], is_named=True)
        assert [run.id for run in stopped] == ["here", "below", "tree"]
        assert sweep.takes(read_terminal({"session_name": "cao-20261115-084037-k3f9"})) is False

    def test_everywhere_stops_all_runs_or_those_of_the_server_that_is_named(self) -> None:
        name = "20261115-084037-k3f9"
        runs = [live_run(name, Path("/a")), live_run("other", Path("/b"))]
        sweep = steer.Sweep((), Path("/"), (), here=False, everywhere=True)
        known = [read_terminal({"id": "11111111", "session_name": f"cao-{name}"})]
        assert sweep.live_runs(runs, known, is_named=False) == runs
        assert sweep.live_runs(runs, known, is_named=True) == runs[:1]

    def test_a_run_that_does_not_hear_keeps_its_agents(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        add(ours.service, "11111111", tmp_path, "cao-20261115-084037-k3f9")
        add(ours.service, "22222222", tmp_path)
        with write_run(tmp_path, "k3f9", tester="11111111").locked():
            done = shell.run("stop", "--all")
        assert done.exit_code == 0, done.exception
        assert "has not heard of it yet" in done.output
        assert "It keeps its agents until it has stopped." in done.output
        assert ours.service.ended == ["22222222"]

    def test_a_session_and_a_terminal_are_ended_wherever_they_work(
        self, shell: Shell, service: FakeService
    ) -> None:
        done = shell.run("stop", "3333", "--session", "cao-other")
        assert done.exit_code == 0
        assert sorted(service.ended) == ["22222222", "33333333"]

    def test_a_session_that_is_not_there_is_said(self, shell: Shell, service: FakeService) -> None:
        done = shell.run("stop", "--session", "cao-none")
        assert isinstance(done.exception, NotFound)
        assert service.ended == []

    @pytest.mark.parametrize("folder", [".", "", "below", "/a\0b"])
    def test_a_folder_that_is_no_whole_path_is_not_this_one(
        self, ours: RunningApi, shell: Shell, folder: str
    ) -> None:
        add(ours.service, "11111111", folder)
        assert shell.run("stop", "--all").exit_code == 0
        assert ours.service.ended == []


def test_a_folder_that_cannot_be_looked_up_is_not_this_one(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for folder in (loop, f"{loop}/below", "/half \ud83c", "/" + "x" * 5_000, "/x" * 50_000):
        told = read_terminal({"id": "11111111", "working_directory": str(folder)})
        assert not told.works_in(Path("/nowhere"))


def test_ls_shows_what_each_agent_may_do(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    ours.service.known["11111111"] = replace(ours.service.known["11111111"], permissions="ask")
    lines = shell.run("ls").output.splitlines()
    assert lines[0].split()[-2] == "PERMISSIONS"
    assert lines[1].split()[-2] == "ask"


def test_ls_names_an_agent_by_its_role_and_its_run(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop", "cao-20261115-084037-k3f9")
    ours.service.known["11111111"] = replace(
        ours.service.known["11111111"], role="analyst_review", created_at=time.time() - 130
    )
    head, row = (line.split() for line in shell.run("ls").output.splitlines())
    assert head == ["ID", "ROLE", "RUN", "AGENT", "STATUS", "AGE", "PERMISSIONS", "FOLDER"]
    told = "11111111 analyst_review 20261115-084037-k3f9 codex idle 2 min workspace /home/ada/shop"
    assert row == told.split()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_list_of_agents_that_fits_shows_the_project(width: int) -> None:
    told = {
        "id": "11111111",
        "session_name": "cao-20261115-084037-k3f9",
        "role": "programmer_review",
        "provider": "claude_code",
        "status": "processing",
        "permissions": "workspace",
        "working_directory": "/home/ada/customers/north/basket",
        "created_at": 1.0,
    }
    head, line = terminals.table([read_terminal(told)], 61.0, width)
    assert len(line) <= width
    assert "…" not in head
    assert line.endswith("/basket")
    assert ("PERMISSIONS" in head) == (width == 120)
    for little in (20, 40):
        assert all(
            len(row) <= little for row in terminals.table([read_terminal(told)], 61.0, little)
        )


def test_a_terminal_is_found_by_its_role(ours: RunningApi, shell: Shell) -> None:
    for name, role in (("11111111", "analyst"), ("22222222", "analyst_review")):
        add(ours.service, name, "/home/ada/shop")
        ours.service.known[name] = replace(ours.service.known[name], role=role)
    ours.service.outputs[OutputMode.LAST] = "APPROVED"
    assert shell.run("output", "analyst_review").output == "APPROVED\n"
    assert shell.run("stop", "analyst").output == "Ended 11111111 (analyst)\n"


def test_a_role_of_two_runs_is_to_be_named_by_its_id(ours: RunningApi, shell: Shell) -> None:
    for name, run in (("11111111", "20261115-084037-k3f9"), ("22222222", "20261116-090000-abcd")):
        add(ours.service, name, "/home/ada/shop", f"cao-{run}")
        ours.service.known[name] = replace(ours.service.known[name], role="tester")
    done = shell.run("output", "tester")
    assert isinstance(done.exception, UsageError)
    assert "11111111 (tester of 20261115-084037-k3f9)" in str(done.exception)


@pytest.mark.parametrize("letters", ["k3f9", "75ca"])
def test_the_agents_that_a_run_has_left_are_ended_by_its_last_letters(
    ours: RunningApi, shell: Shell, tmp_path: Path, letters: str
) -> None:
    write_run(tmp_path, letters, tester="11111111")
    add(ours.service, "11111111", "/home/ada/shop", f"cao-20261115-084037-{letters}")
    add(ours.service, "22222222", "/home/ada/shop", "cao-20261115-084037-zzzz")
    done = shell.run("stop", letters)
    assert done.exit_code == 0, done.output
    assert ours.service.ended == ["11111111"]


def test_the_agents_of_a_run_are_ended_by_its_id(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop", "cao-20261115-084037-k3f9")
    assert shell.run("stop", "--session", "20261115-084037-k3f9").exit_code == 0
    assert ours.service.ended == ["11111111"]


@pytest.mark.parametrize("created", [10**400, float("inf"), "now", None, [1]])
def test_a_time_that_is_none_has_no_age(created: object) -> None:
    assert read_terminal({"id": "11111111", "created_at": created}).created is None


def test_attach_without_a_terminal_names_what_works_there(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    done = shell.start("attach", "1111")
    assert done.returncode == 2
    assert done.stderr == (
        "cao: attach needs a terminal, for input and output; "
        "`cao output 11111111 --screen` prints what it shows\n"
    )


def test_a_terminal_that_is_not_there_is_bad_usage(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    for words in (("output", "x"), ("send", "x", "y"), ("output", "x", "--why"), ("stop", "x")):
        done = shell.start(*words)
        assert done.returncode == 2, done.stderr
        assert done.stderr == "cao: no terminal 'x'; there are: 11111111 (programmer-1)\n"


def test_the_option_names_the_server(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    shell.env["CAO_API"] = "http://127.0.0.1:1"
    assert "11111111" in shell.run("ls", "--api", ours.url).output


class TestHostile:
    @pytest.fixture
    def nasty(self, ours: RunningApi, shell: Shell) -> Shell:
        terminal = ours.service.add("11111111")
        ours.service.known["11111111"] = replace(
            terminal,
            name=f"name{NASTY}{FORGED}",
            provider=f"codex{NASTY}",
            session_name="cao-shop",
            working_directory=f"/home{NASTY}{FORGED}",
        )
        for mode in OutputMode:
            ours.service.outputs[mode] = f"first{NASTY}\n\tsecond"
        ours.service.delivery = Delivery(True, f"taken{NASTY}{FORGED}")
        return shell

    @pytest.mark.parametrize(
        "words",
        [
            ("ls",),
            ("ls", "--json"),
            ("send", "1111", "hello"),
            ("output", "1111"),
            ("output", "1111", "--screen"),
            ("output", "1111", "--full"),
            ("output", "1111", "--why"),
            ("output", "1111", "--why", "--json"),
            ("stop", "1111"),
            ("stop", "--everywhere", "--yes"),
        ],
        ids=" ".join,
    )
    def test_nothing_reaches_the_terminal_that_could_control_it(
        self, nasty: Shell, words: tuple[str, ...]
    ) -> None:
        done = nasty.run(*words)
        assert done.exit_code == 0, done.output
        assert done.output
        assert not UNSAFE.search(
            done.output.replace("\x7f", "") if "--json" in words else done.output
        )
        assert not any(line.startswith("ffffffff") for line in done.output.splitlines())

    def test_an_answer_keeps_its_lines_and_tabs(self, nasty: Shell) -> None:
        assert nasty.run("output", "1111").output.splitlines()[1] == "\tsecond"

    def test_empty_rows_of_a_screen_do_not_push_it_out_of_sight(
        self, nasty: Shell, ours: RunningApi
    ) -> None:
        ours.service.outputs[OutputMode.SCREEN] = "  question?\n1 yes\n" + " \n" * 30
        assert nasty.run("output", "1111", "--screen").output == "  question?\n1 yes\n"

    def test_raw_gives_the_text_as_it_is(self, nasty: Shell) -> None:
        done = nasty.run("output", "1111", "--raw")
        assert done.stdout_bytes == f"first{NASTY}\n\tsecond".encode()

    def test_a_name_in_an_error_is_safe_as_well(self, nasty: Shell) -> None:
        done = nasty.run("output", "nonesuch")
        assert isinstance(done.exception, NotFound)
        assert not UNSAFE.search(str(done.exception))


class TestForeign:
    """A server of the same kind that tells less, and otherwise."""

    @pytest.fixture
    def theirs(self) -> Iterator[ThirdParty]:
        with third_party() as theirs:
            row = {
                "id": "0badcafe",
                "tmux_session": "cao-theirs",
                "tmux_window": "tester-1",
                "agent_profile": "tester",
            }
            session = {"session": {"id": "cao-theirs"}, "terminals": [row, {}, {"id": None}, 7]}
            listed = [{"id": "cao-theirs", "status": "active"}, {}, 3]
            theirs.answers["/sessions"] = (200, json.dumps(listed).encode())
            theirs.answers["/sessions/cao-theirs"] = (200, json.dumps(session).encode())
            yield theirs

    @pytest.fixture
    def guest(self, theirs: ThirdParty, tmp_path: Path) -> Shell:
        shell = Shell(theirs.url, tmp_path)
        shell.env["CAO_TOKEN"] = None
        return shell

    def test_ls_shows_what_is_told_and_a_dash_for_the_rest(self, guest: Shell) -> None:
        done = guest.run("ls")
        assert done.exit_code == 0, done.exception
        rows = [line.split() for line in done.output.splitlines()]
        assert rows[1] == ["0badcafe", "tester-1", "cao-theirs", "-", "idle", "-", "-", "-"]
        assert rows[2] == ["-", "-", "cao-theirs", "-", "-", "-", "-", "-"]
        assert len(rows) == 4

    def test_ls_asks_for_the_folder_where_that_is_a_route(
        self, guest: Shell, theirs: ThirdParty
    ) -> None:
        folder = b'{"working_directory": "/their/folder"}'
        theirs.answers["/terminals/0badcafe/working-directory"] = (200, folder)
        assert "/their/folder" in guest.run("ls").output

    def test_a_session_that_does_not_list_its_terminals_is_asked_for_them(
        self, guest: Shell, theirs: ThirdParty
    ) -> None:
        theirs.answers["/sessions/cao-theirs"] = (200, b'{"name": "cao-theirs"}')
        theirs.answers["/sessions/cao-theirs/terminals"] = (200, b'[{"id": "0badcafe"}]')
        assert "0badcafe" in guest.run("ls").output

    def test_a_message_is_sent_and_what_came_of_it_is_said(self, guest: Shell) -> None:
        done = guest.run("send", "tester-1", "hello")
        assert done.exit_code == 3
        assert "does not say what became of it" in done.output

    def test_output_and_stop_work_as_with_ours(self, guest: Shell, theirs: ThirdParty) -> None:
        assert guest.run("output", "0bad").output == "their answer\n"
        assert guest.run("stop", "0bad").output == "Ended 0badcafe (tester-1)\n"
        assert theirs.asked[-1].path == "/terminals/0badcafe/exit"

    def test_all_ends_nobody_of_whom_it_is_not_told_where_he_works(
        self, guest: Shell, theirs: ThirdParty
    ) -> None:
        assert "No terminal works in" in guest.run("stop", "--all").output
        assert not [asked for asked in theirs.asked if asked.method != "GET"]

    def test_what_it_cannot_explain_is_said_in_a_sentence(self, guest: Shell) -> None:
        done = guest.run("output", "0badcafe", "--why")
        assert isinstance(done.exception, OrchestratorError)
        assert "cannot explain a status" in str(done.exception)

    @pytest.mark.parametrize("answer", [b"{}", b"null", b'"x"', b"7", b'[[], null, {"name": 3}]'])
    @pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-theirs"])
    def test_no_answer_ends_in_an_unexpected_error(
        self, guest: Shell, theirs: ThirdParty, path: str, answer: bytes
    ) -> None:
        theirs.answers[path] = (200, answer)
        for words in (("ls",), ("output", "0badcafe"), ("stop", "--all"), ("send", "x", "y")):
            done = guest.run(*words)
            assert done.exception is None or isinstance(
                done.exception, ApiError | NotFound | OrchestratorError
            )
