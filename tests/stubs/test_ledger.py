"""What a stub notes of turns, spoken to by plain HTTP; tests/agents speak to every API."""

import contextlib
from collections.abc import Iterator

import httpx
import pytest

from . import OpenAIStub
from .server import Json

OUTPUT: Json = {"type": "function_call_output", "call_id": "c", "output": "a.txt"}


@pytest.fixture
def model() -> Iterator[OpenAIStub]:
    with OpenAIStub() as stub:
        yield stub


def post(stub: OpenAIStub, *said: Json | str) -> str:
    """Post messages, of which a plain string is one of a person; return what is streamed."""
    messages = [
        {"role": "user", "content": [{"type": "input_text", "text": one}]}
        if isinstance(one, str)
        else one
        for one in said
    ]
    body = {
        "tools": [{"type": "function", "name": "exec_command"}],
        "prompt_cache_key": "conversation",
        "stream": True,
        "input": messages,
    }
    return httpx.post(f"{stub.url}/v1/responses", json=body, timeout=60).text


def test_a_turn_has_its_exact_prompt_and_when_it_began_and_ended(model: OpenAIStub) -> None:
    post(model, "  exact \t text [[lines:200]]\n")
    turn = model.wait_for_finish(1)
    assert (turn.prompt, turn.requests) == ("  exact \t text [[lines:200]]\n", 1)
    assert model.prompts == [turn.prompt]
    assert turn.finished is not None
    assert turn.started < turn.finished


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(model: OpenAIStub) -> None:
    prompt = "[[run:ls]] [[answer:seen]]"
    post(model, prompt)
    model.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert model.turns[0].finished is None
    assert '"delta": "seen"' in post(model, prompt, OUTPUT)
    assert model.wait_for_finish(1).requests == 2


@pytest.mark.parametrize("trouble", ["fail", "cut", "limit", "http:500"])
def test_a_turn_that_breaks_off_never_finishes(model: OpenAIStub, trouble: str) -> None:
    with contextlib.suppress(httpx.RemoteProtocolError):
        post(model, f"[[{trouble}]]")
    model.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert model.turns[0].finished is None


def test_the_same_text_twice_is_two_prompts_and_the_agents_own_words_are_none(
    model: OpenAIStub,
) -> None:
    post(model, "<environment_context>x", "again")
    model.wait_for_finish(1)
    post(model, "<environment_context>x", "again", "<turn_aborted>", "again")
    assert model.prompts == ["again", "again"]
    assert len(model.turns) == 2
