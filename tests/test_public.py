"""What a program that starts a run counts on, without a run."""

import inspect
import re
import typing
from pathlib import Path

import pytest

import cli_agent_orchestrator as cao
from cli_agent_orchestrator import public
from cli_agent_orchestrator.errors import RunError, Stopped, UsageError
from cli_agent_orchestrator.events import RunBegan, RunEnded, RunOpened, tell_nobody
from cli_agent_orchestrator.runs.request import build_request


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_stop_is_heard_though_it_is_noted_before_or_after_anybody_listens(
    tmp_path: Path, before: bool
) -> None:
    stop = public._Run(build_request({"WD": str(tmp_path)}, {}), None, {})
    heard: list[str] = []
    stop.check()
    # Whoever else stops the run, it was not the program.
    assert stop.reason == ""
    if before:
        stop.note()
    stop.when_noted(lambda: heard.append("stop"))
    if not before:
        assert heard == []
        stop.note()
    assert heard == ["stop"]
    assert stop.reason == public.STOPPED
    with pytest.raises(Stopped, match="the program that had started it"):
        stop.check()


class Broken(public._Run):
    """A run that begins and then ends with an error."""

    def __init__(self, folder: Path, error: Exception) -> None:
        super().__init__(build_request({"WD": str(folder)}, {}), None, {})
        self._error = error

    def _work(self) -> None:
        self._told.put(RunOpened(1.0, "k3f9", "/p"))
        self._told.put(RunBegan(1.0, "cao-1", {}, {}, "/a"))
        self._told.put(RunEnded(2.0, "RUNNING", 1, 3, str(self._error)))
        self._told.put(None)
        raise self._error


def test_an_error_of_the_run_is_its_result(tmp_path: Path) -> None:
    result = Broken(tmp_path, RunError("the agent is gone")).take_to_its_end(tell_nobody)
    assert (result.run, result.exit_code, result.reason) == ("k3f9", 3, "the agent is gone")


@pytest.mark.parametrize("error", [UsageError("not so"), KeyError("a fault of ours")])
def test_an_error_of_the_caller_or_of_ours_is_raised(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        Broken(tmp_path, error).take_to_its_end(tell_nobody)
    assert caught.value is error


def test_the_help_of_a_run_can_be_read() -> None:
    assert len(str(inspect.signature(public.run))) < 400
    assert typing.get_type_hints(public.run)["on_event"]


def kinds_in(hint: object) -> set[type]:
    """Return the classes of the package that a type is made of."""
    found = {kind for part in typing.get_args(hint) for kind in kinds_in(part)}
    if isinstance(hint, type) and hint.__module__.startswith(cao.__name__):
        found.add(hint)
    return found


def test_what_a_client_takes_and_returns_can_be_imported() -> None:
    verbs = [verb for _, verb in inspect.getmembers(cao.Client, inspect.isfunction)]
    public_verbs = [verb for verb in verbs if re.fullmatch(r"[a-z]\w*|__\w+__", verb.__name__)]
    hints = [hint for verb in public_verbs for hint in typing.get_type_hints(verb).values()]
    kinds = {kind for hint in hints for kind in kinds_in(hint)}
    offered = [getattr(cao, name) for name in cao.__all__]
    assert kinds - {*offered, *typing.get_args(cao.events.RunEvent)} == set()
