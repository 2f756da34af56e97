"""Asking a server that may be away for a moment."""

import threading

import pytest

from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable
from cli_agent_orchestrator.runs.agents import patiently

AWAY = ApiUnreachable("http://localhost:9889", "connection refused", maybe_received=False)
MAYBE_TAKEN = ApiUnreachable("http://localhost:9889", "no answer", maybe_received=True)
NO = ApiRefused("GET", "/terminals", 503, "not now")


class Server:
    """Says something else each time, and must not be asked more often than that."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)

    def ask(self) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_server_that_is_away_is_asked_again() -> None:
    assert patiently(Server(AWAY, "yes").ask) == "yes"


@pytest.mark.parametrize("error", [MAYBE_TAKEN, NO])
def test_what_may_have_reached_it_is_not_asked_again(error: Exception) -> None:
    with pytest.raises(type(error)):
        patiently(Server(error).ask)


def test_what_changes_nothing_is_asked_again_whoever_had_it() -> None:
    assert patiently(Server(MAYBE_TAKEN, "yes").ask, repeatable=True) == "yes"
    with pytest.raises(ApiRefused):
        patiently(Server(NO).ask, repeatable=True)


def test_it_is_not_waited_for_longer_than_that() -> None:
    with pytest.raises(ApiUnreachable):
        patiently(Server(AWAY).ask, seconds=0)


def test_who_is_stopped_does_not_ask_again() -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(ApiUnreachable):
        patiently(Server(AWAY).ask, stopped=stopped)
