"""The chat completions stub, spoken to by plain HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .chat_completions import ChatStub

SHELL = {"type": "function", "function": {"name": "bash", "parameters": {}}}
STAMP = "<current_datetime>2026-05-01T10:00:00</current_datetime>\n\n"


@pytest.fixture
def stub() -> Iterator[ChatStub]:
    with ChatStub() as stub:
        yield stub


def person(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def post(stub: ChatStub, *messages: dict[str, object], stream: bool = True) -> httpx.Response:
    body = {
        "messages": [{"role": "system", "content": "base"}, *messages],
        "tools": [SHELL],
        "stream": stream,
    }
    headers = {"authorization": "Bearer k"}
    url = f"{stub.url}/v1/chat/completions"
    return httpx.post(url, json=body, headers=headers, timeout=60)


def deltas(response: httpx.Response) -> list[Any]:
    lines = response.text.splitlines()
    bodies = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return [body["choices"][0]["delta"] for body in bodies]


def test_an_answer_is_streamed_whole(stub: ChatStub) -> None:
    said = deltas(post(stub, person("[[think:0]][[lines:200]]")))
    text = "".join(delta.get("content", "") for delta in said)
    assert text.splitlines()[-1] == "- line 200 of 200"


def test_an_answer_in_one_piece_is_the_same(stub: ChatStub) -> None:
    response = post(stub, person("[[answer:so it is]][[run:ls]]"), stream=False)
    choice = response.json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("so it is", "tool_calls")


def test_the_ledger_has_the_persons_own_words_alone(stub: ChatStub) -> None:
    post(stub, person("a persona"), person(f"{STAMP}  exact \t text\n"))
    turn = stub.wait_for_finish(1)
    assert (turn.prompt, turn.system) == ("  exact \t text\n", "base\n\na persona")


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(stub: ChatStub) -> None:
    prompt = person("[[run:ls]][[answer:seen]]")
    call = next(delta for delta in deltas(post(stub, prompt)) if "tool_calls" in delta)
    function = call["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])["command"]) == ("bash", "ls")
    assert stub.turns[0].finished is None
    post(stub, prompt, {"role": "tool", "content": "notes"})
    assert stub.wait_for_finish(1).requests == 2


def test_a_refusal_has_the_form_of_the_api(stub: ChatStub) -> None:
    response = post(stub, person("[[http:401]]"))
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_there_are_no_models_and_nothing_else(stub: ChatStub) -> None:
    assert httpx.get(f"{stub.url}/v1/models").json()["data"] == []
    assert httpx.get(f"{stub.url}/v1/else").status_code == 404
