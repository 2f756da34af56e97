"""The Anthropic Messages API as Claude Code uses it, streaming, with the tools it offers."""

import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from .ledger import Used
from .script import (
    HELPER_START,
    TOOL_CALLS,
    Ask,
    Cut,
    Delegate,
    Fail,
    Helper,
    Hold,
    Limit,
    Pause,
    Refuse,
    Request,
    Run,
    Step,
    Text,
    Think,
)
from .server import Frame, Json, Reply, Stub, paced, text_of

# What Claude Code itself puts into the conversation under the person's name.
OWN_WORDS = ("<system-reminder>", "[Request interrupted by user")
REFUSALS = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "This key may not do that."),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    529: ("overloaded_error", "Overloaded"),
}


class AnthropicStub(Stub):
    """Serves `/v1/messages`."""

    def read(self, path: str, headers: Mapping[str, str], body: Json) -> Request | None:
        if not path.split("?")[0].endswith("/messages"):
            return None
        messages: list[Json] = body.get("messages", [])
        said = [_person(message) for message in messages]
        places = [place for place, texts in enumerate(said) if texts]
        after = messages[places[-1] + 1 :] if places else []
        tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools", [])}
        users = tuple(itertools.chain.from_iterable(said))
        return Request(
            conversation=_session(headers, body) + _helper(users),
            system=text_of(body, "system", "\n\n"),
            users=users,
            outputs=sum(_has_output(message) for message in after),
            tools=tools,
            streaming=bool(body.get("stream")),
            side="Bash" not in tools or not places,
        )

    def other(self, path: str) -> Reply:
        if path.split("?")[0].endswith("/count_tokens"):
            return Reply(200, {"input_tokens": 10})
        return _error(404, "not_found_error", "not here")

    def refusal(self, step: Refuse | Limit) -> Reply:
        match step:
            case Limit():
                reset = int(time.time()) + 3600
                reply = _error(429, "rate_limit_error", f"Claude AI usage limit reached|{reset}")
                headers = {
                    "anthropic-ratelimit-unified-status": "rejected",
                    "anthropic-ratelimit-unified-reset": str(reset),
                    "anthropic-ratelimit-unified-representative-claim": "five_hour",
                    "x-should-retry": "false",
                }
                return Reply(reply.status, reply.body, headers)
            case Refuse(status):
                return _error(status, *REFUSALS.get(status, ("api_error", "Internal server error")))

    def stream(
        self, request: Request, steps: tuple[Step, ...]
    ) -> Iterator[Frame | Pause | Hold | Cut]:
        used = self.meter.take(side=request.side)
        # At the start of an answer its end is not known.
        start = _usage(replace(used, output=1, reasoning=0))
        yield _frame("message_start", message=self._message(start) | {"content": []})
        blocks = itertools.count()
        for step in steps:
            match step:
                case Cut():
                    broken = self._spoken(next(blocks), "text", Text("This answer breaks off"))
                    yield from itertools.islice(broken, 2)
                    yield step
                    return
                case Fail():
                    yield _frame("error", error={"type": "api_error", "message": "Out of order"})
                    return
                case Pause() | Hold():
                    yield step
                case Delegate(helpers):
                    for helper in helpers:
                        yield from self._call(next(blocks), self._delegation(helper, step, request))
                case _:
                    yield from self._block(next(blocks), step)
        stop = {"stop_reason": _stop_reason(steps), "stop_sequence": None}
        yield _frame("message_delta", delta=stop, usage=_usage(used))
        yield _frame("message_stop")

    def whole(self, request: Request, steps: tuple[Step, ...]) -> Reply:
        content: list[Json] = []
        for step in steps:
            match step:
                case Text(text):
                    content.append({"type": "text", "text": text})
                case Run() | Ask():
                    content.append(self._tool_use(step))
                case Delegate(helpers):
                    content += [self._delegation(helper, step, request) for helper in helpers]
        stop = {"stop_reason": _stop_reason(steps), "stop_sequence": None}
        message = self._message(_usage(self.meter.take(side=request.side)))
        return Reply(200, message | {"content": content} | stop)

    def _message(self, usage: Json) -> Json:
        return {
            "id": self._name("msg"),
            "type": "message",
            "role": "assistant",
            "model": "stub",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self.numbers):024d}"

    def _block(self, index: int, step: Step) -> Iterator[Frame | Pause]:
        match step:
            case Text():
                yield from self._spoken(index, "text", step)
            case Think():
                yield from self._spoken(index, "thinking", step)
            case Run() | Ask():
                yield from self._call(index, self._tool_use(step))

    def _call(self, index: int, use: Json) -> Iterator[Frame]:
        yield _frame("content_block_start", index=index, content_block=use | {"input": {}})
        delta = {"type": "input_json_delta", "partial_json": json.dumps(use["input"])}
        yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)

    def _spoken(self, index: int, kind: str, step: Text | Think) -> Iterator[Frame | Pause]:
        block = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        yield _frame("content_block_start", index=index, content_block=block)

        def said(piece: str) -> Frame:
            delta = {"type": f"{kind}_delta", kind: piece}
            return _frame("content_block_delta", index=index, delta=delta)

        yield from paced(step, said)
        if kind == "thinking":
            signature = {"type": "signature_delta", "signature": "c3R1Yg=="}
            yield _frame("content_block_delta", index=index, delta=signature)
        yield _frame("content_block_stop", index=index)

    def _tool_use(self, step: Run | Ask) -> Json:
        match step:
            case Run(command):
                tool, given = "Bash", _command(command, background=step.background)
            case Ask(question):
                asked = {"question": question, "header": "Choice", "multiSelect": False}
                tool, given = "AskUserQuestion", {"questions": [asked | {"options": step.options}]}
        return {"type": "tool_use", "id": self._name("toolu"), "name": tool, "input": given}

    def _delegation(self, helper: Helper, step: Delegate, request: Request) -> Json:
        tool = "Agent" if "Agent" in request.tools else "Task"
        given = {
            "description": helper.name,
            "prompt": helper.task,
            "subagent_type": "general-purpose",
            "run_in_background": step.background,
        }
        return {"type": "tool_use", "id": self._name("toolu"), "name": tool, "input": given}


def _frame(event: str, **data: object) -> Frame:
    return Frame(event, {"type": event, **data})


def _usage(used: Used) -> Json:
    """Return what a call took as this API says it: fresh, newly cached and cached input apart."""
    return {
        "input_tokens": used.input - used.cached_input - 100,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": used.cached_input,
        "output_tokens": used.output,
        "output_tokens_details": {"thinking_tokens": used.reasoning},
    }


def _error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, {"type": "error", "error": {"type": kind, "message": message}})


def _stop_reason(steps: tuple[Step, ...]) -> str:
    return "tool_use" if any(isinstance(step, TOOL_CALLS) for step in steps) else "end_turn"


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _person(message: Json) -> list[str]:
    """Return the person's texts in a message, without what the agent adds to them.

    There are several where nothing was answered in between, as after an error: the agent makes
    one message of them, and ends each but the last with a newline of its own.
    """
    if message["role"] != "user":
        return []
    texts = [block["text"] for block in _blocks(message) if block["type"] == "text"]
    own = [text for text in texts if not text.startswith(OWN_WORDS)]
    return [text.removesuffix("\n") for text in own[:-1]] + own[-1:]


def _has_output(message: Json) -> bool:
    return any(block["type"] == "tool_result" for block in _blocks(message))


def _session(headers: Mapping[str, str], body: Json) -> str:
    if session := headers.get("x-claude-code-session-id"):
        return session
    # user_0f3a_account__session_8c1d4e6a-… , or JSON with a session_id in it
    user = str((body.get("metadata") or {}).get("user_id", ""))
    found = re.search(r"session(?:_id\W+|_)([0-9a-f-]{36})", user)
    return found[1] if found else user


def _command(command: str, *, background: bool) -> Json:
    given: Json = {"command": command, "description": "Run a command"}
    return given | {"run_in_background": True} if background else given


def _helper(users: tuple[str, ...]) -> str:
    """Return what tells a sub-agent from the agent, whose session it shares."""
    first = users[0] if users else ""
    return f"/{first[len(HELPER_START) :].split(']')[0]}" if first.startswith(HELPER_START) else ""
