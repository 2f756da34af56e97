"""The OpenAI stub, spoken to by plain HTTP."""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from .openai_responses import OpenAIStub
from .script import Request, Run, Script, answer

SHELL = {"type": "function", "name": "exec_command", "parameters": {"properties": {}}}


@pytest.fixture
def stub() -> Iterator[OpenAIStub]:
    with OpenAIStub() as stub:
        yield stub


def person(text: str) -> dict[str, object]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def output(text: str) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": "c", "output": text}


def post(stub: OpenAIStub, *items: dict[str, object], tool: Any = SHELL) -> httpx.Response:
    body = {
        "model": "m",
        "stream": True,
        "instructions": "base",
        "tools": [tool],
        "input": [{"role": "developer", "content": "profile"}, *items],
        "prompt_cache_key": "conversation",
    }
    return httpx.post(f"{stub.url}/v1/responses", json=body, timeout=60)


def events(response: httpx.Response) -> list[Any]:
    lines = response.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def spoken(response: httpx.Response) -> str:
    return "".join(event.get("delta", "") for event in events(response))


def called(response: httpx.Response) -> tuple[str, Any]:
    item = next(
        event["item"]
        for event in events(response)
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call"
    )
    return item["name"], json.loads(item["arguments"])


def test_an_answer_is_streamed_whole(stub: OpenAIStub) -> None:
    response = post(stub, person("[[lines:2000]]"))
    assert spoken(response).splitlines()[-1] == "- line 2000 of 2000"
    assert events(response)[-1]["type"] == "response.completed"


def test_the_ledger_has_the_turn_with_its_exact_prompt(stub: OpenAIStub) -> None:
    post(stub, person("  exact \t text\n\n"))
    turn = stub.wait_for_finish(1)
    assert (turn.prompt, turn.requests) == ("  exact \t text\n\n", 1)
    assert turn.system == "base\n\nprofile"
    assert turn.finished is not None
    assert turn.started < turn.finished


def test_a_tool_call_leaves_the_turn_open_until_its_output_is_answered(stub: OpenAIStub) -> None:
    prompt = person("[[run:ls]] [[answer:seen]]")
    assert called(post(stub, prompt)) == ("exec_command", {"cmd": "ls"})
    stub.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert stub.turns[0].finished is None
    assert spoken(post(stub, prompt, output("a.txt"))) == "seen"
    assert stub.wait_for_finish(1).requests == 2


def test_older_shell_tools_are_called_their_own_way(stub: OpenAIStub) -> None:
    named = {"type": "function", "name": "shell_command"}
    assert called(post(stub, person("[[run:ls]]"), tool=named)) == (
        "shell_command",
        {"command": "ls"},
    )
    oldest = {"type": "function", "name": "shell"}
    assert called(post(stub, person("[[run:id]]"), tool=oldest))[1] == {
        "command": ["bash", "-lc", "id"]
    }


def test_an_escalated_command_asks_for_leave(stub: OpenAIStub) -> None:
    _, arguments = called(post(stub, person("[[escalate:touch /x]]")))
    assert arguments["sandbox_permissions"] == "require_escalated"


def test_a_question_has_two_choices(stub: OpenAIStub) -> None:
    tool, arguments = called(post(stub, person("[[ask]]")))
    assert (tool, len(arguments["questions"][0]["options"])) == ("request_user_input", 2)


def test_thinking_comes_before_the_answer(stub: OpenAIStub) -> None:
    kinds = [event["type"] for event in events(post(stub, person("[[think:0]][[answer:a]]")))]
    thought = kinds.index("response.reasoning_summary_text.delta")
    assert thought < kinds.index("response.output_text.delta")


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_a_refusal_has_the_status_and_never_finishes_the_turn(
    stub: OpenAIStub, status: int
) -> None:
    assert post(stub, person(f"[[http:{status}]]")).status_code == status
    assert (stub.turns[0].refusals, stub.turns[0].finished) == (1, None)


def test_a_refusal_may_end_after_some_tries(stub: OpenAIStub) -> None:
    prompt = person("[[http:500x2]] [[answer:at last]]")
    assert [post(stub, prompt).status_code for _ in range(3)] == [500, 500, 200]
    turn = stub.wait_for_finish(1)
    assert (turn.requests, turn.refusals) == (3, 2)


def test_a_usage_limit_says_when_it_ends(stub: OpenAIStub) -> None:
    response = post(stub, person("[[limit:60]]"))
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (429, "usage_limit_reached")
    assert error["resets_in_seconds"] == 60


def test_a_failure_in_the_stream_never_finishes_the_turn(stub: OpenAIStub) -> None:
    assert events(post(stub, person("[[fail]]")))[-1]["type"] == "response.failed"
    stub.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert stub.turns[0].finished is None


def test_a_cut_line_ends_in_the_middle(stub: OpenAIStub) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(stub, person("[[cut]]"))
    stub.ledger.wait_for(lambda ledger: ledger.turns[0].last_byte is not None)
    assert stub.turns[0].finished is None


def test_a_held_answer_waits_for_its_release(stub: OpenAIStub) -> None:
    with ThreadPoolExecutor() as pool:
        response = pool.submit(post, stub, person("[[hold:gate]][[answer:free]]"))
        assert stub.wait_for_turns(1).finished is None
        stub.release("gate")
        assert spoken(response.result()) == "free"


def test_a_closing_stub_lets_held_answers_go() -> None:
    with ThreadPoolExecutor() as pool:
        with OpenAIStub() as stub:
            response = pool.submit(post, stub, person("[[hold:gate]][[answer:free]]"))
            stub.wait_for_turns(1)
        assert spoken(response.result()) == "free"


def test_a_slow_answer_is_the_same_answer(stub: OpenAIStub) -> None:
    assert spoken(post(stub, person("[[slow:0.2]][[answer:one two three]]"))) == "one two three"


def test_the_agents_own_words_are_not_the_persons(stub: OpenAIStub) -> None:
    post(stub, person("<environment_context>x"), person("mine"), person("<turn_aborted>"))
    assert stub.prompts == ["mine"]


def test_the_same_text_twice_is_two_prompts(stub: OpenAIStub) -> None:
    post(stub, person("again"))
    stub.wait_for_finish(1)
    post(stub, person("again"), person("again"))
    assert stub.prompts == ["again", "again"]
    assert len(stub.turns) == 2


def test_requests_without_tools_are_side_requests(stub: OpenAIStub) -> None:
    body = {"input": [person("a title, please")], "stream": False}
    response = httpx.post(f"{stub.url}/v1/responses", json=body)
    assert response.json()["output"][0]["content"][0]["text"] == "A session"
    assert (stub.turns, len(stub.ledger.asides)) == ([], 1)


def test_there_are_no_models_to_list_and_nothing_else_to_see(stub: OpenAIStub) -> None:
    assert httpx.get(f"{stub.url}/v1/models?x=1").json()["data"] == []
    assert httpx.get(f"{stub.url}/v1/other").status_code == 404
    assert httpx.post(f"{stub.url}/v1/other", json={}).status_code == 404


def test_a_responder_is_asked_once_a_turn() -> None:
    asked: list[str] = []

    def responder(request: Request) -> Script:
        asked.append(request.prompt)
        return answer("I look.", Run("ls"), f"Turn {len(asked)} is over.")

    with OpenAIStub(responder) as stub:
        post(stub, person("one"))
        assert spoken(post(stub, person("one"), output(""))) == "Turn 1 is over."
    assert asked == ["one"]


def test_waiting_for_what_never_happens_ends_with_an_error(stub: OpenAIStub) -> None:
    with pytest.raises(TimeoutError):
        stub.wait_for_turns(1, timeout=0.01)


def test_a_fault_of_the_stub_reaches_the_test() -> None:
    def responder(request: Request) -> Script:
        raise LookupError(request.prompt)

    def use() -> None:
        with OpenAIStub(responder) as stub, contextlib.suppress(httpx.RemoteProtocolError):
            post(stub, person("unexpected"))

    with pytest.raises(LookupError, match="unexpected"):
        use()
