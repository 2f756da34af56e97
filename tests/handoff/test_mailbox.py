"""The queue that a waiting handoff listens to."""

import pytest

from cli_agent_orchestrator.handoff.watch import QueueMailbox, WakeSignal


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e10, 1e300, float("inf")])
def test_a_signal_is_read_however_long_one_would_wait_for_it(seconds: float) -> None:
    mailbox = QueueMailbox()
    mailbox.post(WakeSignal())
    assert mailbox.wait(seconds) == WakeSignal()
