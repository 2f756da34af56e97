"""The commands that steer a run: what they refuse, ask and print."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.cli.main import STEERING, cao
from cli_agent_orchestrator.cli.steer import change, pause, resume, send
from cli_agent_orchestrator.errors import NotSteerable, UsageError
from cli_agent_orchestrator.events import (
    AskDeclined,
    HintTaken,
    PauseAsked,
    RunEvent,
    SettingChanged,
)
from cli_agent_orchestrator.pipeline.requests import Hint, SentRequest
from cli_agent_orchestrator.runs.control import Listener
from cli_agent_orchestrator.runs.record import RunRecord, SavedSetting
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.settings.config import tmux_socket
from cli_agent_orchestrator.settings.layout import CONTROL_FILE, state_folder
from tests.programs import in_a_terminal

RUN = "20261115-084037-k3f9"


def invoke(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, [*words])


@contextmanager
def live_run(answer: Callable[[SentRequest], RunEvent], proof: str = "report") -> Iterator[Path]:
    """A run that is under way and says the same to every ask; yield its folder."""
    recorder = Recorder(state_folder(os.environ))
    record = RunRecord(RUN, "/p", "/p/s.json", "x", "x", 1.0, providers={"tester": "codex"})
    settings = {"PROOF": SavedSetting(proof, "option")}
    recorder.start(replace(record, settings=settings), resumed=False)
    assert recorder.folder is not None

    def hear(ask: SentRequest | None, end: int) -> None:
        assert ask is not None
        recorder.take(answer(ask))

    try:
        with Listener(recorder.folder, 0, hear, pytest.fail):
            yield recorder.folder.path
    finally:
        recorder.close()


def agree_to_pause(ask: SentRequest) -> RunEvent:
    return PauseAsked(2.0, ask.id)


def test_who_pauses_a_run_is_told_how_it_goes_on_and_no_text_controls_the_terminal() -> None:
    told: list[RunEvent] = [PauseAsked(2.0), AskDeclined(2.0, "pause", "\x1b]0;title\x07")]
    with live_run(lambda ask: structs.replace(told.pop(0), ask=ask.id)):
        done, declined = invoke(pause, "k3f9"), invoke(pause)
    assert done.output == (
        f"{RUN}: The run pauses when the present turn has ended.\n"
        f"Let it go on with: cao resume {RUN}\n"
    )
    assert "]0;title" in declined.output
    assert "\x1b" not in declined.output


@pytest.mark.parametrize(
    ("command", "words", "reason"),
    [
        (resume, ("--missing", "ask"), "is under way; --missing is for one that stopped"),
        (resume, ("--gate", "a=b"), "is under way; --gate is for one that stopped"),
        (send, ("k3f9/tster", "Mind the tabs."), "tester"),
        (send, ("--now", "Mind the tabs."), "--now needs one agent"),
        (send, ("--now", "k3f9", "Mind the tabs."), "--now needs one agent"),
        (send, (), "put TEXT in quotes"),
        (send, ("a", "b", "c"), "put TEXT in quotes"),
        (change, ("k3f9",), "expected [RUN] and NAME=VALUE"),
        (change, ("a", "b", "max_rounds=1"), "expected [RUN] and NAME=VALUE"),
        (change, ("max_rounds=12", "flow=pair"), "flow"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run_is_asked(
    command: click.Command, words: tuple[str, ...], reason: str
) -> None:
    with live_run(agree_to_pause) as folder:
        done = invoke(command, *words)
        assert not (folder / CONTROL_FILE).exists()
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)


def test_several_settings_are_changed_one_after_the_other() -> None:
    asked = []

    def agree(ask: SentRequest) -> RunEvent:
        asked.append(ask)
        return SettingChanged(2.0, "MAX_ROUNDS", "12", "8", ask.id)

    with live_run(agree):
        assert invoke(change, "max_rounds=12", "max_rounds=13").exit_code == 0
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (("Mind the tabs.",), None),
        (("k3f9", "Mind the tabs."), None),
        (("tester", "Mind the tabs."), "tester"),
        (("k3f9/tester", "Mind the tabs."), "tester"),
    ],
)
def test_a_message_goes_with_the_next_prompt_of_a_run(
    words: tuple[str, ...], role: str | None
) -> None:
    asked: list[SentRequest] = []

    def agree(ask: SentRequest) -> RunEvent:
        asked.append(ask)
        return HintTaken(2.0, role or "", "Mind the tabs.", ask.id)

    with live_run(agree):
        done = invoke(send, *words)
    assert done.exit_code == 0, done.output
    assert [ask.request for ask in asked] == [Hint(role, "Mind the tabs.")]


class TestRequired:
    """What a PASS needs (a proof) is given up by a person at a terminal alone."""

    def test_it_is_not_given_up_without_a_person(self) -> None:
        with live_run(agree_to_pause, proof="require") as folder:
            done = invoke(change, "max_rounds=3", "CAO_PROOF=Off")
            assert isinstance(done.exception, NotSteerable)
            assert not (folder / CONTROL_FILE).exists()

    @pytest.mark.parametrize(
        ("proof", "word"), [("require", "require"), ("report", "off"), ("off", "require")]
    )
    def test_else_it_is_a_setting_as_others(self, proof: str, word: str) -> None:
        with live_run(lambda ask: SettingChanged(2.0, "PROOF", word, proof, ask.id), proof):
            assert invoke(change, f"proof={word}").exception is None

    def test_a_person_is_asked(self) -> None:
        changed: list[SentRequest] = []

        def agree(ask: SentRequest) -> RunEvent:
            changed.append(ask)
            return SettingChanged(2.0, "PROOF", "report", "require", ask.id)

        with live_run(agree, proof="require"):
            for said, code in (("\n", 2), ("y\n", 0)):
                assert in_a_terminal(["set", RUN, "proof=report"], said)[1] == code
                assert len(changed) == 1 - code // 2


class TestAgentsTerminal:
    """What is typed in an agent's terminal; which one that is, is found out elsewhere."""

    @pytest.fixture
    def inside(self) -> dict[str, str]:
        socket = tmux_socket(state_folder(os.environ))
        return {"TMUX": f"/tmp/tmux-1000/{socket},4711,0"}

    def test_nothing_is_steered(self, inside: dict[str, str]) -> None:
        for name in {*STEERING, "run", "demo", "send", "answer", "attach"}:
            done = CliRunner().invoke(cao, [name, "x"], env=inside)
            assert isinstance(done.exception, NotSteerable), name

    def test_help_is_given_and_runs_are_listed(self, inside: dict[str, str]) -> None:
        for words in (["stop", "--help"], ["runs"]):
            assert CliRunner().invoke(cao, words, env=inside).exit_code == 0

    def test_a_terminal_of_another_state_folder_is_none(self, tmp_path: Path) -> None:
        env = {"TMUX": f"/tmp/tmux-1000/{tmux_socket(tmp_path)},4711,0"}
        done = CliRunner().invoke(cao, ["pause"], env=env)
        assert str(done.exception).startswith("no run is running")
