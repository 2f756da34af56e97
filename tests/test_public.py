"""What a program that starts a run counts on, without a run."""

import pytest

from cli_agent_orchestrator import public
from cli_agent_orchestrator.errors import Stopped


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_stop_is_heard_though_it_is_noted_before_or_after_anybody_listens(before: bool) -> None:
    stop = public._Stop()
    heard: list[str] = []
    stop.check()
    if before:
        stop.note()
    stop.when_noted(lambda: heard.append("stop"))
    if not before:
        assert heard == []
        stop.note()
    assert heard == ["stop"]
    with pytest.raises(Stopped, match="the program that had started it"):
        stop.check()
