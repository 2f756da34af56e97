"""Errors of the product as HTTP answers."""

import logging

import httpx
import pytest

from cli_agent_orchestrator import errors
from cli_agent_orchestrator.server.answers import status_code_of
from tests.server.running import RunningApi


@pytest.mark.parametrize(
    ("error", "status_code"),
    [
        (errors.UsageError("no"), 400),
        (errors.NotFound("terminal", "x", []), 404),
        (errors.InputRefused("x", "a dialog is open"), 409),
        (errors.MessageTooLarge(2, 1), 413),
        (errors.StartError("codex", "not found"), 422),
        (errors.TmuxGone("gone"), 503),
        (errors.ServerConflict("taken"), 500),
    ],
)
def test_each_error_has_its_status(error: Exception, status_code: int) -> None:
    assert status_code_of(error) == status_code


def test_an_error_of_the_service_is_told_in_its_own_words(
    api: RunningApi, http: httpx.Client
) -> None:
    error = errors.StartError("codex", "it exited at once", "bad option\n\udc80")
    api.service.failure = error
    answer = http.get("/terminals/a1b2c3d4")
    assert answer.status_code == status_code_of(error)
    assert answer.json() == {"detail": str(error).replace("\udc80", "?")}


def test_a_fault_of_ours_tells_nothing_but_is_logged(
    api: RunningApi, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    api.service.failure = RuntimeError("a secret of the inside")
    with caplog.at_level(logging.ERROR):
        answer = http.get("/terminals/a1b2c3d4")
        api.stop()
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert any(record.exc_info for record in caplog.records)


def test_what_an_agent_shows_is_told_to_the_client_and_not_logged(
    api: RunningApi, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    api.service.failure = errors.StepTimeout("codex", "its program ended", "> the prompt")
    with caplog.at_level(logging.DEBUG, "cli_agent_orchestrator"):
        answer = http.get("/terminals/a1b2c3d4")
    assert "the prompt" in answer.json()["detail"]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "codex gave no answer: its program ended" in record.getMessage()
    assert "the prompt" not in record.getMessage()


@pytest.mark.parametrize(
    ("method", "path", "status_code"),
    [
        ("GET", "/no-such-route", 404),
        ("PATCH", "/sessions", 405),
        ("GET", "/sessions/", 404),
        # It would run a stream that does not end.
        ("HEAD", "/events", 405),
    ],
)
def test_what_is_no_route_is_a_problem_too(
    http: httpx.Client, method: str, path: str, status_code: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status_code
    assert method == "HEAD" or list(answer.json()) == ["detail"]
