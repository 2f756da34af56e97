"""What the command line says of the end of a run, besides what the run tells itself."""

import threading
from typing import Any

import pytest

from cli_agent_orchestrator.cli.conduct import announcing_slow_start, take_to_its_end
from cli_agent_orchestrator.core.models import EXIT_CLOSED
from tests.runs.test_carrying_out import Conducted, Interrupted


@pytest.mark.parametrize(
    ("is_saved", "words"),
    [(True, "what is saved can be resumed"), (False, "no run was begun")],
)
def test_that_nobody_reads_any_more_is_told_on_the_other_channel(
    capsys: pytest.CaptureFixture[str], is_saved: bool, words: str
) -> None:
    run = Conducted(BrokenPipeError(), is_saved=is_saved)
    # Any: what is asked of a conductor and of the signals is here
    conductor: Any = run
    interrupts: Any = Interrupted()
    with pytest.raises(BrokenPipeError):
        take_to_its_end(conductor, interrupts)
    assert [code for code, _ in run.told] == [EXIT_CLOSED]
    assert capsys.readouterr().err == f"cao: nobody reads the output any more; {words}\n"


@pytest.mark.parametrize(("has_begun", "said"), [(False, 1), (True, 0)])
def test_a_run_that_takes_long_to_begin_says_what_it_does(
    capsys: pytest.CaptureFixture[str], has_begun: bool, said: int
) -> None:
    asked = threading.Event()

    def is_begun() -> bool:
        asked.set()
        return has_begun

    with announcing_slow_start(is_begun, 0.0):
        assert asked.wait(10)
        for one in threading.enumerate():
            if isinstance(one, threading.Timer):
                one.join()
    assert capsys.readouterr().err == "cao: looking at the files ...\n" * said
