"""The commands that steer a run: what they refuse, ask and print."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.main import COMMANDS, STEERING, cao
from cli_agent_orchestrator.cli.steer import change, pause, resume, send
from cli_agent_orchestrator.errors import NotSteerable, UsageError
from cli_agent_orchestrator.events import (
    AskDeclined,
    HintTaken,
    PauseAsked,
    RunEvent,
    SettingChanged,
)
from cli_agent_orchestrator.pipeline.steering import Ask, Heard, Hint
from cli_agent_orchestrator.runs.control import Listener
from cli_agent_orchestrator.runs.record import RunRecord, SavedSetting
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.settings.config import state_folder, tmux_socket
from cli_agent_orchestrator.settings.layout import CONTROL_FILE

RUN = "20261115-084037-k3f9"


def invoke(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, [*words])


@contextmanager
def live_run(answer: Callable[[Ask], RunEvent], proof: str = "report") -> Iterator[Path]:
    """A run that is under way and says the same to every ask; yield its folder."""
    recorder = Recorder(state_folder(os.environ))
    record = RunRecord(RUN, "/p", "/p/s.json", "x", "x", 1.0, providers={"tester": "codex"})
    settings = {"PROOF": SavedSetting(proof, "option")}
    recorder.start(replace(record, settings=settings), resumed=False)
    assert recorder.folder is not None

    def hear(heard: Heard) -> None:
        assert heard.ask is not None
        recorder.take(answer(heard.ask))

    try:
        with Listener(recorder.folder, 0, hear, pytest.fail):
            yield recorder.folder.path
    finally:
        recorder.close()


def agree_to_pause(ask: Ask) -> RunEvent:
    return PauseAsked(2.0, ask.id)


def test_who_pauses_a_run_is_told_how_it_goes_on() -> None:
    with live_run(agree_to_pause):
        done = invoke(pause, "k3f9")
    assert done.output == (
        f"{RUN}: The run pauses when the present turn has ended.\n"
        f"Let it go on with: cao resume {RUN}\n"
    )


def test_what_a_run_says_cannot_control_the_terminal() -> None:
    with live_run(lambda ask: AskDeclined(2.0, "pause", "\x1b]0;title\x07", ask.id)):
        done = invoke(pause)
    assert "]0;title" in done.output
    assert "\x1b" not in done.output


def test_a_decision_about_a_missing_reply_is_for_a_run_that_stopped() -> None:
    with live_run(agree_to_pause) as folder:
        done = invoke(resume, "--missing", "ask")
        assert not (folder / CONTROL_FILE).exists()
    assert isinstance(done.exception, UsageError)
    assert "is under way" in str(done.exception)


def test_another_gate_is_for_a_run_that_stopped() -> None:
    with live_run(agree_to_pause) as folder:
        done = invoke(resume, "--gate", "tests=make test")
        assert not (folder / CONTROL_FILE).exists()
    assert isinstance(done.exception, UsageError)
    assert "is under way; --gate is for one that stopped" in str(done.exception)


def test_of_several_settings_all_are_changed_or_none() -> None:
    asked = []

    def agree(ask: Ask) -> RunEvent:
        asked.append(ask)
        return SettingChanged(2.0, "MAX_ROUNDS", "12", "8", ask.id)

    with live_run(agree):
        refused = invoke(change, "max_rounds=12", "flow=pair")
        assert asked == []
        done = invoke(change, "max_rounds=12", "max_rounds=13")
        assert len(asked) == 2
    assert isinstance(refused.exception, UsageError)
    assert done.exit_code == 0


def test_a_role_that_is_not_in_the_run_is_refused_before_it_is_asked() -> None:
    with live_run(agree_to_pause) as folder:
        done = invoke(send, "k3f9/tster", "Mind the tabs.")
        assert not (folder / CONTROL_FILE).exists()
    assert "tester" in str(done.exception)


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
    asked: list[Ask] = []

    def agree(ask: Ask) -> RunEvent:
        asked.append(ask)
        return HintTaken(2.0, role or "", "Mind the tabs.", ask.id)

    with live_run(agree):
        done = invoke(send, *words)
    assert done.exit_code == 0, done.output
    assert [ask.wish for ask in asked] == [Hint(role, "Mind the tabs.")]


@pytest.mark.parametrize("words", [("Mind the tabs.",), ("k3f9", "Mind the tabs.")])
def test_only_one_agent_can_be_typed_to(words: tuple[str, ...]) -> None:
    with live_run(agree_to_pause) as folder:
        done = invoke(send, "--now", *words)
        assert not (folder / CONTROL_FILE).exists()
    assert "--now needs one agent" in str(done.exception)


@pytest.mark.parametrize("words", [(), ("a", "b", "c")])
def test_a_message_is_one_text(words: tuple[str, ...]) -> None:
    assert "put TEXT in quotes" in str(invoke(send, *words).exception)


@pytest.mark.parametrize("words", [(), ("k3f9",), ("a", "b", "max_rounds=1")])
def test_a_change_names_what_it_changes(words: tuple[str, ...]) -> None:
    assert "expected [RUN] and NAME=VALUE" in str(invoke(change, *words).exception)


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

    @pytest.mark.parametrize(("said", "code"), [(b"y\n", 0), (b"\n", 2)])
    def test_a_person_is_asked(self, said: bytes, code: int) -> None:
        argv = (sys.executable, "-m", "cli_agent_orchestrator", "set", RUN, "proof=report")
        changed: list[Ask] = []

        def agree(ask: Ask) -> RunEvent:
            changed.append(ask)
            return SettingChanged(2.0, "PROOF", "report", "require", ask.id)

        ours, theirs = os.openpty()
        try:
            os.write(ours, said)
            with live_run(agree, proof="require"):
                done = subprocess.run(
                    argv, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, check=False
                )
        finally:
            os.close(ours)
            os.close(theirs)
        assert (done.returncode, len(changed)) == (code, 1 - code // 2)


class TestAgentsTerminal:
    """What is typed in an agent's terminal; which one that is, is found out elsewhere."""

    @pytest.fixture
    def inside(self) -> dict[str, str]:
        socket = tmux_socket(state_folder(os.environ))
        return {"TMUX": f"/tmp/tmux-1000/{socket},4711,0"}

    def test_what_starts_a_run_or_types_into_a_terminal_is_steering(self) -> None:
        assert {"run", "demo", "send", "answer", "attach"} <= {*STEERING}

    @pytest.mark.parametrize("name", STEERING)
    def test_nothing_is_steered(self, name: str, inside: dict[str, str]) -> None:
        done = CliRunner().invoke(cao, [name, "x"], env=inside)
        assert isinstance(done.exception, NotSteerable)

    @pytest.mark.parametrize("name", sorted(COMMANDS))
    def test_help_is_given(self, name: str, inside: dict[str, str]) -> None:
        assert CliRunner().invoke(cao, [name, "--help"], env=inside).exit_code == 0

    def test_runs_are_listed(self, inside: dict[str, str]) -> None:
        assert CliRunner().invoke(cao, ["runs"], env=inside).exit_code == 0

    def test_a_terminal_of_another_state_folder_is_none(self, tmp_path: Path) -> None:
        env = {"TMUX": f"/tmp/tmux-1000/{tmux_socket(tmp_path)},4711,0"}
        done = CliRunner().invoke(cao, ["pause"], env=env)
        assert str(done.exception).startswith("no run is running")
