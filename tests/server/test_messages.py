"""Input: the message in a JSON body or in the query, never too large, never echoed."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cli_agent_orchestrator.core.models import MESSAGE_LIMIT, Delivery
from cli_agent_orchestrator.server.operations import BODY_LIMIT
from tests.fakes import Sent
from tests.server.running import RunningApi

INPUT = "/terminals/a1b2c3d4/input"


@pytest.fixture(autouse=True)
def terminal(api: RunningApi) -> None:
    api.service.add()


def received(api: RunningApi) -> list[str]:
    return [sent.message for sent in api.service.sent]


def test_a_message_in_the_body_is_sent_byte_exact(api: RunningApi, http: httpx.Client) -> None:
    message = "tabs\tand\r\nlines \x1b[31m é 漢 🎉 \u2028 \x00"
    key = "run 7/~!" + "x" * 192
    answer = http.post(INPUT, json={"message": message}, headers={"Idempotency-Key": key})
    assert answer.status_code == 200
    assert http.post(INPUT, params={"message": "x" * 60_000}).status_code == 200
    assert api.service.sent == [
        Sent("a1b2c3d4", message, key),
        Sent("a1b2c3d4", "x" * 60_000, None),
    ]


@pytest.mark.parametrize("character", ["a", "é"])
def test_a_message_of_exactly_the_limit_is_sent_however_it_is_escaped(
    api: RunningApi, http: httpx.Client, character: str
) -> None:
    message = character * (MESSAGE_LIMIT // len(character.encode()))
    body = json.dumps({"message": message}, ensure_ascii=True).encode()
    answer = http.post(INPUT, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert received(api) == [message]


def test_a_body_that_does_not_say_how_large_it_is_is_refused_while_it_comes(
    api: RunningApi, http: httpx.Client
) -> None:
    chunks = iter([b"a" * BODY_LIMIT] * 2)
    assert http.post(INPUT, content=chunks).status_code == 413
    assert received(api) == []
    assert http.get("/health").status_code == 200


@pytest.mark.parametrize(("confirmed", "code"), [(True, 200), (False, 202)])
def test_what_became_of_it_is_told(
    api: RunningApi, http: httpx.Client, confirmed: bool, code: int
) -> None:
    api.service.delivery = Delivery(confirmed, "the title changed", 2, 3)
    answer = http.post(INPUT, json={"message": "go"})
    assert answer.status_code == code
    assert answer.json() == {
        "success": confirmed,
        "confirmed": confirmed,
        "detail": "the title changed",
        "enter_presses": 2,
        "removed_characters": 3,
    }


def test_a_request_without_one_message_is_refused(api: RunningApi, http: httpx.Client) -> None:
    # Any: what httpx takes
    requests: list[tuple[dict[str, Any], int]] = [
        ({}, 422),
        ({"params": {"message": "this"}, "json": {"message": "that"}}, 400),
        ({"content": b'{"message": "go"}', "headers": {"Content-Type": "text/plain"}}, 415),
        ({"content": b"a" * (BODY_LIMIT + 1)}, 413),
        ({"json": {"message": "a" * (MESSAGE_LIMIT + 1)}}, 413),
    ]
    for request, code in requests:
        assert http.post(INPUT, **request).status_code == code
    assert received(api) == []


def test_a_bad_idempotency_key_is_refused(api: RunningApi, http: httpx.Client) -> None:
    for key in (b"", b"x" * 201, b"caf\xe9", b"a\tb"):
        headers = [(b"Idempotency-Key", key)]
        answer = http.post(INPUT, json={"message": "go"}, headers=headers)
        assert answer.status_code == 422
        assert "idempotency-key" in answer.json()["detail"]
    assert api.service.sent == []


def test_a_bad_body_is_refused_without_being_quoted(api: RunningApi, http: httpx.Client) -> None:
    for body in (
        b'{"text": "my secret prompt"}',
        b'{"message": "my secret prompt',
        b'{"message": ["my secret prompt"]}',
        b'{"message": "\\ud800 my secret prompt"}',
        b"[" * 100_000,
    ):
        answer = http.post(INPUT, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert "secret" not in answer.text
        assert len(answer.text) < 500
    assert received(api) == []


def test_a_client_that_hangs_up_while_sending_leaves_nothing_behind(
    api: RunningApi, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def cut_off() -> Iterator[bytes]:
        yield b'{"message": '
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        http.post(INPUT, content=cut_off(), headers={"Content-Type": "application/json"})
    assert http.get("/health").status_code == 200
    assert received(api) == []
    assert caplog.records == []
