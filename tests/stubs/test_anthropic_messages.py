"""The Anthropic stub, spoken to by plain HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .anthropic_messages import AnthropicStub

SESSION = "8c1d4e6a-0000-4000-8000-123456789abc"


@pytest.fixture
def stub() -> Iterator[AnthropicStub]:
    with AnthropicStub() as stub:
        yield stub


def person(*texts: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def output() -> dict[str, object]:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "a.txt"}
    return {"role": "user", "content": [result]}


def called_tool() -> dict[str, object]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]}


def post(stub: AnthropicStub, *messages: dict[str, object], stream: bool = True) -> httpx.Response:
    body = {
        "model": "m",
        "stream": stream,
        "system": [{"type": "text", "text": "base"}, {"type": "text", "text": "profile"}],
        "tools": [{"name": "Bash", "input_schema": {}}],
        "messages": messages,
        "metadata": {"user_id": f"user_1_account__session_{SESSION}"},
    }
    return httpx.post(f"{stub.url}/v1/messages?beta=true", json=body, timeout=60)


def events(response: httpx.Response) -> list[Any]:
    lines = response.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def deltas(response: httpx.Response, kind: str) -> str:
    return "".join(event.get("delta", {}).get(kind, "") for event in events(response))


def test_an_answer_is_streamed_whole(stub: AnthropicStub) -> None:
    response = post(stub, person("[[lines:2000]]"))
    assert deltas(response, "text").splitlines()[-1] == "- line 2000 of 2000"
    assert events(response)[-1]["type"] == "message_stop"


def test_the_ledger_has_the_exact_prompt_without_reminders(stub: AnthropicStub) -> None:
    post(stub, person("<system-reminder>the date</system-reminder>", "  exact \t text\n"))
    turn = stub.wait_for_finish(1)
    assert (turn.prompt, turn.system) == ("  exact \t text\n", "base\n\nprofile")
    assert turn.conversation == SESSION


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(
    stub: AnthropicStub,
) -> None:
    prompt = person("[[run:ls]] [[answer:seen]]")
    first = post(stub, prompt)
    assert json.loads(deltas(first, "partial_json"))["command"] == "ls"
    assert deltas(first, "stop_reason") == "tool_use"
    stub.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert stub.turns[0].finished is None
    assert deltas(post(stub, prompt, called_tool(), output()), "text") == "seen"
    assert stub.wait_for_finish(1).requests == 2


def test_a_response_can_be_had_in_one_piece(stub: AnthropicStub) -> None:
    message = post(stub, person("[[answer:I look]][[run:ls]]"), stream=False).json()
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    assert message["stop_reason"] == "tool_use"


def test_a_question_has_two_choices(stub: AnthropicStub) -> None:
    given = json.loads(deltas(post(stub, person("[[ask]]")), "partial_json"))
    assert len(given["questions"][0]["options"]) == 2


def test_thinking_is_signed(stub: AnthropicStub) -> None:
    response = post(stub, person("[[think:0]][[pause:0]][[answer:a]]"))
    assert deltas(response, "thinking")
    assert deltas(response, "signature")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_a_refusal_names_its_kind(stub: AnthropicStub, status: int, kind: str) -> None:
    response = post(stub, person(f"[[http:{status}]]"))
    assert (response.status_code, response.json()["error"]["type"]) == (status, kind)


def test_a_usage_limit_says_when_it_ends(stub: AnthropicStub) -> None:
    response = post(stub, person("[[limit:60]]"))
    assert response.status_code == 429
    assert "usage limit reached|" in response.json()["error"]["message"]


def test_a_failure_in_the_stream_is_its_last_event(stub: AnthropicStub) -> None:
    assert events(post(stub, person("[[fail]]")))[-1]["type"] == "error"


def test_a_cut_line_ends_in_the_middle(stub: AnthropicStub) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(stub, person("[[cut]]"))


def test_a_failing_stream_fails_in_one_piece_too(stub: AnthropicStub) -> None:
    assert post(stub, person("[[fail]]"), stream=False).status_code == 500
    with pytest.raises(httpx.RemoteProtocolError):
        post(stub, person("[[cut]]"), stream=False)


def test_interruptions_are_not_the_persons_words(stub: AnthropicStub) -> None:
    post(stub, person("first"), person("[Request interrupted by user]"), person("second"))
    assert stub.prompts == ["first", "second"]


def test_unanswered_prompts_in_one_message_are_still_several(stub: AnthropicStub) -> None:
    post(stub, person("first\n", "[Request interrupted by user]", "second"))
    assert stub.prompts == ["first", "second"]


def test_requests_without_tools_are_side_requests(stub: AnthropicStub) -> None:
    body = {"messages": [{"role": "user", "content": "a title, please"}], "system": "short"}
    response = httpx.post(f"{stub.url}/v1/messages", json=body)
    assert response.json()["content"][0]["text"] == "A session"
    assert (stub.turns, len(stub.ledger.asides)) == ([], 1)


def test_tokens_can_be_counted_and_there_is_nothing_else_to_see(stub: AnthropicStub) -> None:
    counted = httpx.post(f"{stub.url}/v1/messages/count_tokens", json={})
    assert counted.json() == {"input_tokens": 10}
    assert httpx.head(f"{stub.url}/").status_code == 404
