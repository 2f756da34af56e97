"""What the command line says of the start of a run, besides what the run tells itself."""

import pytest

from cli_agent_orchestrator.cli.conduct import announce_if_slow


def test_a_run_that_takes_long_to_begin_says_what_it_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce_if_slow(0.0).join()
    assert capsys.readouterr().err == "cao: looking at the files ...\n"
