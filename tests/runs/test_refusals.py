"""Which request stopped a run stands in its log, and nowhere else."""

import logging

import pytest

from cli_agent_orchestrator.errors import ApiRefused, HandoffError, StateError
from cli_agent_orchestrator.runs.prepare import logging_refusals

GONE = ApiRefused("GET", "/terminals/9f3c", 404, "Not Found")


def test_the_request_behind_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(HandoffError), logging_refusals():
        raise HandoffError("the agent is gone") from GONE
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("GET /terminals/9f3c: 404: Not Found")


def test_an_error_without_a_request_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StateError), logging_refusals():
        raise StateError("the disk is full")
    assert not caplog.records
