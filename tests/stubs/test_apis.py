"""The stubs, spoken to by plain HTTP; what only agents do with them is for `make test-agents`."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from . import AnthropicStub, ChatStub, GeminiStub, OpenAIStub
from .server import Json, Stub

STAMP = "<current_datetime>2026-05-01T10:00:00</current_datetime>\n\n"
CONTEXT = "<session_context>\nThis is the Gemini CLI."


@dataclass(frozen=True, slots=True)
class Api:
    """Where an agent posts what, and where the answer has its parts."""

    stub: type[Stub]
    path: str
    messages: str
    """The key of the messages."""
    fields: Json
    """The rest of the body."""
    text: str
    arguments: str
    """The keys of a piece of text and of the arguments of a tool."""
    called: Json
    """The arguments with which `ls` is run."""
    output: Json
    """A message with a tool's output."""

    def person(self, text: str) -> Json:
        """Return a message of a person, with what the agent puts beside it."""
        match self.stub.__name__:
            case "AnthropicStub":
                blocks = ["<system-reminder>the date</system-reminder>", text]
                return {"role": "user", "content": [{"type": "text", "text": b} for b in blocks]}
            case "ChatStub":
                return {"role": "user", "content": STAMP + text}
            case "GeminiStub":
                return {"role": "user", "parts": [{"text": CONTEXT}, {"text": text}]}
        return {"role": "user", "content": [{"type": "input_text", "text": text}]}


APIS = {
    "openai": Api(
        OpenAIStub,
        "/v1/responses",
        "input",
        {
            "tools": [{"type": "function", "name": "exec_command"}],
            "prompt_cache_key": "conversation",
        },
        "delta",
        "arguments",
        {"cmd": "ls"},
        {"type": "function_call_output", "call_id": "c", "output": "a.txt"},
    ),
    "anthropic": Api(
        AnthropicStub,
        "/v1/messages?beta=true",
        "messages",
        {"tools": [{"name": "Bash"}]},
        "text",
        "partial_json",
        {"command": "ls", "description": "Run a command"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    ),
    "chat": Api(
        ChatStub,
        "/v1/chat/completions",
        "messages",
        {"tools": [{"type": "function", "function": {"name": "bash"}}]},
        "content",
        "arguments",
        {"command": "ls", "description": "Run a command"},
        {"role": "tool", "content": "a.txt"},
    ),
    "gemini": Api(
        GeminiStub,
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "contents",
        {"tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]},
        "text",
        "args",
        {"command": "ls"},
        {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]},
    ),
}
OPENAI = APIS["openai"]


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


@pytest.fixture
def stub(api: Api) -> Iterator[Stub]:
    with api.stub() as stub:
        yield stub


def post(stub: Stub, api: Api, *said: Json | str) -> httpx.Response:
    """Post messages; a plain string is one of a person."""
    messages = [api.person(one) if isinstance(one, str) else one for one in said]
    body = {**api.fields, "stream": True, api.messages: messages}
    return httpx.post(f"{stub.url}{api.path}", json=body, timeout=60)


def events(response: httpx.Response) -> list[Any]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines]


def values(found: Any, key: str) -> Iterator[Any]:
    """Yield what a JSON value has under a key, at any depth."""
    inner = found if isinstance(found, list) else []
    if isinstance(found, dict):
        inner = list(found.values())
        if found.get(key):
            yield found[key]
    for one in inner:
        yield from values(one, key)


def spoken(response: httpx.Response, key: str = "delta") -> str:
    return "".join(one for one in values(events(response), key) if isinstance(one, str))


def test_an_answer_is_streamed_whole_and_the_ledger_has_the_exact_prompt(
    api: Api, stub: Stub
) -> None:
    response = post(stub, api, "  exact \t text [[lines:200]]\n")
    assert spoken(response, api.text).splitlines()[-1] == "- line 200 of 200"
    turn = stub.wait_for_finish(1)
    assert (turn.prompt, turn.requests) == ("  exact \t text [[lines:200]]\n", 1)
    assert stub.prompts == [turn.prompt]
    assert turn.finished is not None
    assert turn.started < turn.finished


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(
    api: Api, stub: Stub
) -> None:
    prompt = "[[run:ls]] [[answer:seen]]"
    called = next(values(events(post(stub, api, prompt)), api.arguments))
    assert (json.loads(called) if isinstance(called, str) else called) == api.called
    stub.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert stub.turns[0].finished is None
    assert "seen" in spoken(post(stub, api, prompt, api.output), api.text)
    assert stub.wait_for_finish(1).requests == 2


@pytest.fixture
def model() -> Iterator[OpenAIStub]:
    """One of the stubs, for what all have in common."""
    with OpenAIStub() as stub:
        yield stub


@pytest.mark.parametrize("trouble", ["fail", "cut", "limit", "http:500"])
def test_a_turn_that_breaks_off_never_finishes(model: Stub, trouble: str) -> None:
    with contextlib.suppress(httpx.RemoteProtocolError):
        post(model, OPENAI, f"[[{trouble}]]")
    model.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert model.turns[0].finished is None


def test_the_same_text_twice_is_two_prompts_and_the_agents_own_words_are_none(model: Stub) -> None:
    post(model, OPENAI, "<environment_context>x", "again")
    model.wait_for_finish(1)
    post(model, OPENAI, "<environment_context>x", "again", "<turn_aborted>", "again")
    assert model.prompts == ["again", "again"]
    assert len(model.turns) == 2
