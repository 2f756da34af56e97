"""Notices of a run of this process, as the user's own configuration wants them."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError
from cli_agent_orchestrator.events import RunEnded, RunEvent, RunOpened
from cli_agent_orchestrator.hosting.environment import notifying
from cli_agent_orchestrator.hosting.user import read_notices
from cli_agent_orchestrator.notices.decide import NoticeSettings
from cli_agent_orchestrator.notices.send import Sender
from cli_agent_orchestrator.runs.log import logging_to
from cli_agent_orchestrator.settings.layout import run_folder
from tests.cli.run_events import NOON
from tests.notices.test_channels import Hook

# Named twice because it is a fixture: what uses it is not seen here.
from tests.notices.test_channels import hook as hook

OPENED = RunOpened(NOON, "k3f9", "/home/ada/shop")
PASSED = RunEnded(NOON, "PASS", 1, 0)


class Seen:
    """A view that keeps what it is told, and may be broken."""

    def __init__(self, error: OSError | None = None) -> None:
        self.events: list[RunEvent] = []
        self._error = error

    def tell(self, event: RunEvent) -> None:
        if self._error is not None:
            raise self._error
        self.events.append(event)


def configured(folder: Path, text: str) -> dict[str, str]:
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return {"CAO_CONFIG_DIR": str(folder)}


def test_without_a_configuration_nothing_is_sent_and_a_bad_one_is_named(tmp_path: Path) -> None:
    environ = configured(tmp_path, "")
    assert read_notices(environ) == NoticeSettings()
    view, warned = Seen(), list[str]()
    with notifying(view.tell, environ, warned.append) as (tell, _):
        tell(OPENED)
    assert (view.events, warned) == ([OPENED], [])
    with pytest.raises(ConfigError, match=r"notify\.desktop is 1"):
        read_notices(configured(tmp_path, "[notify]\ndesktop = 1\n"))


def test_a_view_that_cannot_write_any_more_keeps_no_notice_back(tmp_path: Path, hook: Hook) -> None:
    environ = configured(tmp_path, f'notify.webhook = "{hook.url}"\n')
    view, warned = Seen(BrokenPipeError()), list[str]()
    with notifying(view.tell, environ, warned.append) as (tell, _):
        for event in (OPENED, PASSED):
            with pytest.raises(BrokenPipeError):
                tell(event)
    assert [message["kind"] for _, message in hook.got] == ["pass"]
    assert warned == []


WARNING = "no notice by webhook: the server answered 404; `cao notify test` tries all channels"


@pytest.mark.parametrize("is_there", [True, False])
def test_what_goes_wrong_when_the_run_is_closed_is_in_its_log_if_it_is_still_there(
    tmp_path: Path, hook: Hook, is_there: bool
) -> None:
    hook.answer = 404
    environ = configured(tmp_path, f'notify.webhook = "{hook.url}/s3cr3t"\n')
    environ["CAO_STATE_DIR"] = str(tmp_path / "state")
    folder = run_folder(tmp_path / "state", "k3f9")
    warned = list[str]()
    with notifying(Seen().tell, environ, warned.append) as (tell, _):
        tell(OPENED)
        if is_there:
            with logging_to(folder):
                pass
        tell(PASSED)
    assert warned == [WARNING]
    assert folder.path.exists() is is_there
    if is_there:
        (line,) = folder.read("run.log").decode().splitlines()
        assert line.endswith(f" WARNING {notifying.__module__} {WARNING}")


def is_waiting() -> bool:
    """Does the main thread wait for what is under way?"""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    while frame is not None:
        if frame.f_code is Sender.close.__code__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def test_a_ctrl_c_ends_the_wait_at_the_end_and_nothing_else(tmp_path: Path, hook: Hook) -> None:
    hook.slow = True
    environ = configured(tmp_path, f'notify.webhook = "{hook.url}"\n')
    over = threading.Event()

    def interrupt() -> None:
        while not is_waiting():
            over.wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    view, warned = Seen(), list[str]()
    with notifying(view.tell, environ, warned.append) as (tell, _):
        tell(OPENED)
        tell(PASSED)
        assert hook.arrived.wait(60)
        thread.start()
    thread.join()
    # Nothing is said of what was given up on purpose.
    assert (view.events, warned) == ([OPENED, PASSED], [])
