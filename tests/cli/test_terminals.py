"""The commands about terminals, against servers that are hostile, foreign, or somebody's."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from cli_agent_orchestrator.cli import terminals
from cli_agent_orchestrator.cli.main import cao
from cli_agent_orchestrator.cli.terminals import read_terminal
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import Delivery, OutputMode
from cli_agent_orchestrator.errors import ApiError, NotFound, OrchestratorError, UsageError
from cli_agent_orchestrator.events import AskDeclined
from cli_agent_orchestrator.pipeline.requests import SentRequest
from cli_agent_orchestrator.runs.control import Listener
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, read_record, write_record
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.settings.layout import run_folder
from tests.fakes import FakeService
from tests.server.running import TOKEN, RunningApi, running_api
from tests.third_party import Asked, ThirdParty, third_party

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


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RunningApi]:
    (tmp_path / "state").mkdir(mode=0o700)
    with running_api(state=tmp_path / "state") as api:
        yield api


@pytest.fixture
def shell(ours: RunningApi, tmp_path: Path) -> Shell:
    return Shell(ours.url, tmp_path)


# Any: fields of a terminal
def add(
    service: FakeService, name: str, folder: Path | str, session: str = "cao-shop", /, **more: Any
) -> None:
    more = {"working_directory": str(folder), "permissions": "workspace", **more}
    service.known[name] = replace(service.add(name, session), **more)


# Any: fields of a record
def write_run(
    folder: Path, tail: str, agents: Mapping[str, str] | None = None, /, **fields: Any
) -> Folder:
    """Write the record of a run that has agents; nobody is at work on it unless it is locked."""
    place = run_folder(folder / "state", f"20261115-084037-{tail}")
    fields = {"wd": str(folder), "project": str(folder), "started": 1.0, **fields}
    write_record(place, RunRecord(id=place.parts[-1], terminals=agents or {}, **fields))
    return place


@contextmanager
def declining(run: Folder) -> Iterator[None]:
    """Let a run be at work that does nothing that it is asked."""

    def decline(ask: SentRequest | None, end: int) -> None:
        assert ask is not None
        log.append(AskDeclined(2.0, "stop", "not now", ask.id))

    with run.locked(), closing(EventLog(run)) as log, Listener(run, 0, decline, pytest.fail):
        yield


NONE_LEFT = "It has ended, and has no agents any more.\n"


class TestNames:
    @pytest.mark.parametrize("name", ["tester", "k3f9/tester", "1111", "11111111", "analyst"])
    def test_an_agent_is_found_by_role_or_id(
        self, ours: RunningApi, shell: Shell, tmp_path: Path, name: str
    ) -> None:
        add(ours.service, "11111111", tmp_path, role="analyst")
        add(ours.service, "22222222", tmp_path, role="analyst_review")
        write_run(tmp_path, "k3f9", {"tester": "11111111"})
        done = shell.run("stop", name)
        assert done.exit_code == 0, done.output
        assert ours.service.ended == ["11111111"]

    def test_what_could_be_a_run_or_a_terminal_or_is_gone_ends_nothing(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        add(ours.service, "beef1234", tmp_path)
        write_run(tmp_path, "k3f9", {"tester": "11111111"})
        gone = shell.run("output", "tester").exception
        assert isinstance(gone, NotFound)
        assert "terminal of tester" in str(gone)
        with write_run(tmp_path, "beef").locked():
            done = shell.run("stop", "beef")
        assert isinstance(done.exception, UsageError)
        assert "20261115-084037-beef or the terminal beef1234" in str(done.exception)
        assert ours.service.ended == []

    def test_a_run_is_meant_where_no_terminal_is(self, shell: Shell, tmp_path: Path) -> None:
        write_run(tmp_path, "beef")
        for name in ("beef", "20261115-0"):
            assert shell.run("stop", name).output == f"20261115-084037-beef: {NONE_LEFT}"

    def test_a_run_whose_record_cannot_be_read_may_have_left_agents(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        run_folder(tmp_path / "state", "20261115-084037-k3f9").make()
        add(ours.service, "11111111", "/home/ada/shop", "cao-20261115-084037-k3f9")
        add(ours.service, "22222222", "/home/ada/shop", "cao-20261115-084037-zzzz")
        assert shell.run("stop", "k3f9").output == "Ended 11111111 (programmer-1)\n"
        ours.service.known.clear()
        assert shell.run("stop", "k3f9").output == f"20261115-084037-k3f9: {NONE_LEFT}"

    def test_without_a_name_it_is_the_run_of_this_folder_that_has_left_agents(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        add(ours.service, "11111111", tmp_path, "cao-20261115-084037-k3f9")
        left = write_run(tmp_path, "k3f9", {"tester": "11111111"}, status=RunStatus.PASS)
        with write_run(tmp_path, "w2bn", wd="/elsewhere", project="").locked():
            assert shell.run("stop").output == "Ended 11111111 (programmer-1)\n"
        record = read_record(left)
        assert record is not None
        assert not record.terminals

    def test_without_a_name_and_a_run_it_says_what_can_be_named(self, shell: Shell) -> None:
        refused = shell.run("stop").exception
        assert isinstance(refused, UsageError)
        assert "no run is running; name a terminal" in str(refused)


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
        assert all(name in done.output for name in service.known)
        assert service.ended == []
        assert shell.run("stop", "--everywhere", "--yes").exit_code == 0
        assert len(service.ended) == 4

    def test_runs_at_work_are_stopped_first_and_one_that_goes_on_keeps_its_agents(
        self, ours: RunningApi, shell: Shell, tmp_path: Path
    ) -> None:
        """To a folder belong its runs in work trees, and those that have no agents yet."""
        add(ours.service, "11111111", "/state/tree", "cao-20261115-084037-k3f9")
        add(ours.service, "22222222", tmp_path)
        tree = write_run(tmp_path, "k3f9", wd="/state/tree")
        above = write_run(tmp_path, "x7zq", wd=str(tmp_path.parent), project="")
        with declining(tree), declining(above), declining(write_run(tmp_path, "w2bn")):
            told = [shell.run("stop", "--all"), shell.run("stop", "--everywhere", "--yes")]
            # A server that is named has agents of its own runs alone.
            shell.env["CAO_API"] = None
            told.append(shell.run("stop", "--everywhere", "--yes"))
        keeps = r"(\w+): It keeps its agents until it has stopped\."
        kept = [sorted(re.findall(keeps, done.output)) for done in told]
        assert kept == [["k3f9", "w2bn"], ["k3f9"], ["k3f9", "w2bn", "x7zq"]]
        assert "not now" in told[0].output
        assert ours.service.ended == ["22222222"]

    def test_a_session_and_a_terminal_are_ended_wherever_they_work(
        self, shell: Shell, service: FakeService
    ) -> None:
        assert isinstance(shell.run("stop", "--session", "cao-none").exception, NotFound)
        assert service.ended == []
        assert shell.run("stop", "3333", "--session", "cao-other").exit_code == 0
        assert sorted(service.ended) == ["22222222", "33333333"]


def test_a_folder_that_cannot_be_looked_up_is_not_this_one_and_no_time_no_age(
    tmp_path: Path,
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    odd = (".", "", "below", "/a\0b", "/half \ud83c", "/" + "x" * 5_000)
    for folder in (loop, f"{loop}/below", *odd):
        told = read_terminal({"id": "11111111", "working_directory": str(folder)})
        assert not told.works_in(tmp_path)
    for created in ("now", None, [1]):
        assert read_terminal({"id": "11111111", "created_at": created}).created is None


def test_ls_names_an_agent_by_its_role_and_its_run(ours: RunningApi, shell: Shell) -> None:
    told = {"role": "analyst_review", "permissions": "ask", "created_at": time.time() - 130}
    add(ours.service, "11111111", "/home/ada/shop", "cao-20261115-084037-k3f9", **told)
    head, row = (line.split() for line in shell.run("ls").output.splitlines())
    assert head == ["ID", "ROLE", "RUN", "AGENT", "STATUS", "AGE", "PERMISSIONS", "FOLDER"]
    words = "11111111 analyst_review 20261115-084037-k3f9 codex idle 2 min ask /home/ada/shop"
    assert row == words.split()


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


def test_attach_without_a_terminal_names_what_works_there(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    assert str(shell.run("attach", "1111").exception) == (
        "attach needs a terminal, for input and output; "
        "`cao output 11111111 --screen` prints what it shows"
    )


def test_a_terminal_that_is_not_there_is_bad_usage(ours: RunningApi, shell: Shell) -> None:
    add(ours.service, "11111111", "/home/ada/shop")
    for words in (("output", "x"), ("send", "x", "y"), ("output", "x", "--why"), ("stop", "x")):
        refused = shell.run(*words).exception
        assert isinstance(refused, UsageError)
        assert str(refused) == "no terminal 'x'; there are: 11111111 (programmer-1)"


class TestHostile:
    @pytest.fixture
    def nasty(self, ours: RunningApi, shell: Shell) -> Shell:
        folder = f"/home{NASTY}{FORGED}"
        odd = {"name": f"name{NASTY}{FORGED}", "provider": f"codex{NASTY}"}
        add(ours.service, "11111111", folder, **odd)
        for mode in OutputMode:
            ours.service.outputs[mode] = f"first{NASTY}\n\tsecond"
        ours.service.delivery = Delivery(True, f"taken{NASTY}{FORGED}")
        return shell

    @pytest.mark.parametrize(
        "words", ["ls", "ls --json", "send 1 x", "output 1", "output 1 --why", "stop 1", "stop x"]
    )
    def test_nothing_that_controls_a_terminal_reaches_it(self, nasty: Shell, words: str) -> None:
        done = nasty.run(*words.split())
        shown = done.output or str(done.exception)
        assert shown
        assert not UNSAFE.search(shown.replace("\x7f", "") if "--json" in words else shown)
        assert not any(line.startswith("ffffffff") for line in shown.splitlines())

    def test_an_answer_keeps_its_lines_and_tabs_or_is_raw_and_a_screen_no_empty_rows(
        self, nasty: Shell, ours: RunningApi
    ) -> None:
        assert nasty.run("output", "1111").output.splitlines()[1] == "\tsecond"
        done = nasty.run("output", "1111", "--raw")
        assert done.stdout_bytes == f"first{NASTY}\n\tsecond".encode()
        ours.service.outputs[OutputMode.SCREEN] = "  question?\n1 yes\n" + " \n" * 30
        assert nasty.run("output", "1111", "--screen").output == "  question?\n1 yes\n"


class TestForeign:
    """A server of the same kind that tells less, and otherwise."""

    @pytest.fixture
    def theirs(self) -> Iterator[ThirdParty]:
        with third_party() as theirs:
            window = {"tmux_session": "cao-theirs", "tmux_window": "tester-1"}
            row = {"id": "0badcafe", "agent_profile": "tester", **window}
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

    def test_a_server_that_ends_with_its_run_is_found_anew(self, tmp_path: Path) -> None:
        class Leaving(ThirdParty):
            def answer(self, asked: Asked) -> tuple[int, bytes]:
                if asked.method != "POST" or asked in self.asked:
                    return super().answer(asked)
                self.asked.append(asked)
                raise ConnectionAbortedError

        listed = b'[{"name": "cao-theirs", "terminals": [{"id": "0badcafe", "role": "tester"}]}]'
        with third_party(own=Leaving()) as theirs:
            theirs.answers["/sessions"] = (200, listed)
            theirs.answers["/sessions/cao-theirs"] = (200, listed[1:-1])
            done = Shell(theirs.url, tmp_path).run("stop", "--session", "cao-theirs")
        assert (done.exception, done.stdout) == (None, "Ended 0badcafe (tester)\n")

    def test_all_ends_nobody_of_whom_it_is_not_told_where_he_works(
        self, guest: Shell, theirs: ThirdParty
    ) -> None:
        assert "No terminal works in" in guest.run("stop", "--all").output
        assert not [asked for asked in theirs.asked if asked.method != "GET"]
        done = guest.run("output", "0badcafe", "--why")
        assert isinstance(done.exception, OrchestratorError)

    @pytest.mark.parametrize("answer", [b"{}", b"null", b'[[], null, {"name": 3}]'])
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
