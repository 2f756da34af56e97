"""The Gemini stub, spoken to by plain HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .gemini_content import GeminiStub

SHELL = {"functionDeclarations": [{"name": "run_shell_command"}]}
CONTEXT = {"text": "<session_context>\nThis is the Gemini CLI."}


@pytest.fixture
def stub() -> Iterator[GeminiStub]:
    with GeminiStub() as stub:
        yield stub


def person(text: str) -> dict[str, object]:
    return {"role": "user", "parts": [CONTEXT, {"text": text}]}


def output(text: str) -> dict[str, object]:
    response = {"name": "run_shell_command", "response": {"output": text}}
    return {"role": "user", "parts": [{"functionResponse": response}]}


def post(
    stub: GeminiStub, *contents: dict[str, object], method: str = "streamGenerateContent"
) -> httpx.Response:
    body = {
        "contents": contents,
        "tools": [SHELL],
        "systemInstruction": {"parts": [{"text": "base"}]},
    }
    url = f"{stub.url}/v1beta/models/m:{method}?alt=sse"
    return httpx.post(url, json=body, headers={"x-goog-api-key": "k"}, timeout=60)


def parts(response: httpx.Response) -> list[Any]:
    bodies = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [
        part
        for body in bodies or [response.text]
        for candidate in json.loads(body)["candidates"]
        for part in candidate["content"]["parts"]
    ]


@pytest.mark.parametrize("method", ["streamGenerateContent", "generateContent"])
def test_an_answer_comes_whole(stub: GeminiStub, method: str) -> None:
    response = post(stub, person("[[think:0]][[lines:200]]"), method=method)
    said = "".join(part["text"] for part in parts(response) if not part.get("thought"))
    assert said.splitlines()[-1] == "- line 200 of 200"


def test_the_ledger_has_the_persons_own_words_alone(stub: GeminiStub) -> None:
    post(stub, person("  exact \t text\n"))
    turn = stub.wait_for_finish(1)
    assert turn.prompt == "  exact \t text\n"
    assert turn.system == f"base\n\n{CONTEXT['text']}"


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(stub: GeminiStub) -> None:
    prompt = person("[[run:ls]][[answer:seen]]")
    call = parts(post(stub, prompt))[0]["functionCall"]
    assert (call["name"], call["args"]) == ("run_shell_command", {"command": "ls"})
    assert stub.turns[0].finished is None
    post(stub, prompt, output("notes"))
    assert stub.wait_for_finish(1).requests == 2


def test_a_refusal_has_the_form_of_the_api(stub: GeminiStub) -> None:
    response = post(stub, person("[[http:401]]"))
    assert (response.status_code, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_tokens_are_counted_and_all_else_is_not_there(stub: GeminiStub) -> None:
    assert post(stub, method="countTokens").json() == {"totalTokens": 1200}
    assert httpx.get(f"{stub.url}/v1beta/models").status_code == 404
