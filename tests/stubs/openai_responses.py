"""The OpenAI Responses API as Codex uses it, streaming, with the tools that Codex offers."""

import itertools
import json
import time
from collections.abc import Iterator, Mapping

from .script import (
    Ask,
    Cut,
    Delegate,
    Fail,
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

# What Codex itself puts into the conversation under the person's name.
OWN_WORDS = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<user_shell_command>",
    "# AGENTS.md",
)
REFUSALS = {
    401: ("invalid_request_error", "Incorrect API key provided."),
    429: ("rate_limit_exceeded", "Rate limit reached for this model."),
}


class OpenAIStub(Stub):
    """Serves `/v1/responses`."""

    def read(self, path: str, headers: Mapping[str, str], body: Json) -> Request | None:
        if not path.split("?")[0].endswith("/responses"):
            return None
        items: list[Json] = body.get("input", [])
        places = [place for place, item in enumerate(items) if _is_person(item)]
        after = items[places[-1] + 1 :] if places else []
        tools = {
            str(tool.get("name") or tool.get("type")): tool.get("parameters") or {}
            for tool in body.get("tools", [])
        }
        told = [str(body.get("instructions", ""))]
        told += [text_of(item) for item in items if item.get("role") in {"developer", "system"}]
        return Request(
            # A sub-agent has a thread of its own in the session.
            conversation=headers.get("thread-id")
            or headers.get("session_id")
            or headers.get("session-id")
            or str(body.get("prompt_cache_key", "")),
            system="\n\n".join(told),
            users=tuple(text_of(items[place]) for place in places),
            outputs=sum(str(item.get("type")).endswith("_call_output") for item in after),
            tools=tools,
            streaming=bool(body.get("stream", True)),
            side=not tools or not places,
        )

    def other(self, path: str) -> Reply:
        if path.split("?")[0].endswith("/models"):
            return Reply(200, {"object": "list", "data": [], "models": []})
        return Reply(404, {"error": {"message": "not here", "type": "invalid_request_error"}})

    def refusal(self, step: Refuse | Limit) -> Reply:
        match step:
            case Limit():
                error: Json = {
                    "type": "usage_limit_reached",
                    "message": "The usage limit has been reached",
                    "plan_type": "plus",
                    "resets_at": int(time.time()) + 3600,
                    "resets_in_seconds": 3600,
                }
                return Reply(429, {"error": error})
            case Refuse(status):
                kind, message = REFUSALS.get(
                    status, ("server_error", "The server had an error while processing this.")
                )
                error = {"type": kind, "message": message, "code": kind, "param": None}
                return Reply(status, {"error": error})

    def stream(
        self, request: Request, steps: tuple[Step, ...]
    ) -> Iterator[Frame | Pause | Hold | Cut]:
        name = self._name("resp")
        yield _frame("response.created", response={"id": name, "status": "in_progress"})
        for place, step in enumerate(steps):
            match step:
                case Cut():
                    broken = self._message(place, Text("This answer breaks off"))
                    yield from itertools.islice(broken, 2)
                    yield step
                    return
                case Fail():
                    error = {"code": "server_error", "message": "The model is out of order."}
                    failed = {"id": name, "status": "failed", "error": error}
                    yield _frame("response.failed", response=failed)
                    return
                case _:
                    yield from self._step(request, place, step)
        done = {"id": name, "status": "completed", "usage": self._usage(request)}
        yield _frame("response.completed", response=done)

    def _usage(self, request: Request) -> Json:
        used = self.meter.take(side=request.side)
        return {
            "input_tokens": used.input,
            "input_tokens_details": {"cached_tokens": used.cached_input},
            "output_tokens": used.output,
            "output_tokens_details": {"reasoning_tokens": used.reasoning},
            "total_tokens": used.input + used.output,
        }

    def _step(self, request: Request, place: int, step: Step) -> Iterator[Frame | Pause | Hold]:
        match step:
            case Text():
                yield from self._message(place, step)
            case Think():
                yield from self._reasoning(place, step)
            case Run():
                yield from self._call(place, *_shell_call(request.tools, step))
            case Ask():
                yield from self._call(place, "request_user_input", _question(step))
            case Delegate(helpers):
                for helper in helpers:
                    task = {"message": helper.task}
                    yield from self._call(place, "spawn_agent", task, "multi_agent_v1")
            case Pause() | Hold():
                yield step

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self.numbers)}"

    def _message(self, place: int, step: Text) -> Iterator[Frame | Pause]:
        item: Json = {"type": "message", "role": "assistant", "id": self._name("msg")}
        yield _frame("response.output_item.added", output_index=place, item=item | {"content": []})
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        yield from paced(
            step, lambda piece: _frame("response.output_text.delta", **where, delta=piece)
        )
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        yield _frame(
            "response.output_item.done", output_index=place, item=item | {"content": content}
        )

    def _reasoning(self, place: int, step: Think) -> Iterator[Frame | Pause]:
        item: Json = {"type": "reasoning", "id": self._name("rs")}
        yield _frame("response.output_item.added", output_index=place, item=item | {"summary": []})
        where = {"item_id": item["id"], "output_index": place, "summary_index": 0}
        part = {"type": "summary_text", "text": ""}
        yield _frame("response.reasoning_summary_part.added", **where, part=part)
        name = "response.reasoning_summary_text.delta"
        yield from paced(step, lambda piece: _frame(name, **where, delta=piece))
        summary = [part | {"text": step.text}]
        yield _frame(
            "response.output_item.done", output_index=place, item=item | {"summary": summary}
        )

    def _call(
        self, place: int, tool: str, arguments: Json, namespace: str | None = None
    ) -> Iterator[Frame]:
        item: Json = {
            "type": "function_call",
            "id": self._name("fc"),
            "call_id": self._name("call"),
            "name": tool,
            "arguments": json.dumps(arguments),
        }
        if namespace is not None:
            item["namespace"] = namespace
        yield _frame("response.output_item.added", output_index=place, item=item)
        yield _frame("response.output_item.done", output_index=place, item=item)


def _frame(event: str, **data: object) -> Frame:
    return Frame(event, {"type": event, **data})


def _is_person(item: Json) -> bool:
    return item.get("role") == "user" and not text_of(item).startswith(OWN_WORDS)


def _shell_call(tools: Mapping[str, Mapping[str, object]], step: Run) -> tuple[str, Json]:
    """Return the name and the arguments of the shell tool that this version of Codex offers."""
    arguments: Json
    if "exec_command" in tools:
        tool, arguments = "exec_command", {"cmd": step.command}
        if step.background:
            arguments["yield_time_ms"] = 1000
    elif "shell_command" in tools:
        tool, arguments = "shell_command", {"command": step.command}
    else:
        tool, arguments = "shell", {"command": ["bash", "-lc", step.command]}
    if step.escalated:
        arguments["sandbox_permissions"] = "require_escalated"
        arguments["justification"] = "May this run outside of the sandbox?"
    return tool, arguments


def _question(step: Ask) -> Json:
    named = {"id": "q1", "header": "Choice"}
    question = named | {"question": step.question, "options": step.options}
    return {"questions": [question]}
