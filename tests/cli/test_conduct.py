"""What the command line says of the end of a run, besides what the run tells itself."""

from typing import Any

import pytest

from cli_agent_orchestrator.cli.conduct import take_to_its_end
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
