"""The command that answers what an agent asks: what it refuses and prints, and how it ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.steer import answer
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import ApiRefused, NotSteerable, UsageError
from tests.server.run_rig import EVENTS, RUN, Rig
from tests.server.running import TOKEN


class Shell(Rig):
    """A user whose run is under way; its one agent asks something."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = ""
        self.happen(EVENTS[0])
        self.terminals.add("a1", "cao-1")
        self.terminals.change("a1", TerminalStatus.WAITING_USER_ANSWER)

    def run(self, *words: str, token: str = TOKEN) -> Result:
        env = {"CAO_API": self.url, "CAO_TOKEN": token, "CAO_STATE_DIR": str(self.state)}
        return CliRunner().invoke(answer, words, env=env)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    with shell.folder.locked(), shell.client() as http:
        shell.url = str(http.base_url).rstrip("/")
        yield shell


@pytest.mark.parametrize("words", [["Enter"], ["k3f9", "Enter"], ["--role", "analyst", "Enter"]])
def test_a_question_is_answered(shell: Shell, words: list[str]) -> None:
    done = shell.run(*words)
    assert done.output == f"{RUN}: The question of analyst is answered.\n"
    assert done.exit_code == 0
    assert shell.terminals.pressed == [("a1", "Enter")]


def test_one_that_asks_still_ends_it_otherwise(shell: Shell) -> None:
    shell.terminals.is_answered = False
    done = shell.run("Enter")
    assert (done.exit_code, "asks still" in done.output) == (3, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["k3f9", "no,", "thanks"], "expected"),
        (["yes"], "unknown key"),
        (["x" * 51], "text"),
        (["--role", "cook", "Enter"], "unknown role"),
    ],
)
def test_what_cannot_be_is_refused(shell: Shell, words: list[str], reason: str) -> None:
    done = shell.run(*words)
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)
    assert shell.terminals.pressed == []


def test_nobody_is_asked_when_the_run_has_ended(shell: Shell) -> None:
    shell.happen(EVENTS[-1])
    shell.url = "http://127.0.0.1:1"
    done = shell.run("k3f9", "Enter")
    assert isinstance(done.exception, NotSteerable)
    assert "has ended with PASS" in str(done.exception)


def test_what_the_server_has_against_the_user_is_another_matter(shell: Shell) -> None:
    assert isinstance(shell.run("Enter", token="wrong").exception, ApiRefused)
