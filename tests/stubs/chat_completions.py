"""The OpenAI chat completions API as further agents use it, streaming, with their shell tool."""

import json
import re
from collections.abc import Iterator, Mapping

from .script import TOOL_CALLS, Ask, Cut, Hold, Limit, Pause, Refuse, Request, Run, Step, Text
from .server import Frame, Json, Reply, Stub, paced, text_of

# <current_datetime>…</current_datetime>: Copilot puts it before the person's words, and only there.
STAMP_PATTERN = r"\A<current_datetime>[^<]*</current_datetime>\n\n"
# What Goose and Aider put behind the person's words.
ADDED_PATTERN = (
    r"(?s)\n<turn-context>(?:(?!<turn-context>).)*</turn-context>\Z"
    r"|\n\n# \*SEARCH/REPLACE block\* .*"
)
# What is between messages of which the first one failed, for Goose and for Kimi.
BETWEEN_PATTERN = (
    r"(?s)\n<turn-context>.*?</turn-context>\n"
    r"|(?:(?<=\[\[http:401\]\])|(?<=\[\[limit\]\]))\n\n"
)
REFUSALS = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("invalid_request_error", "Incorrect API key provided."),
    429: ("insufficient_quota", "You exceeded your current quota."),
}
SHELLS = {"bash", "Bash", "run_shell_command", "run_commands", "shell"}
"""The tool that runs a command, as each agent calls it."""
OWN_WORDS = (
    *("<system-reminder>", "<environment_details>", "Change get_factorial()", "Refactor hello()"),
    *("I updated the files", "I switched to a new code base", "I am not sharing any files"),
    "I have *added these files",
)
"""How a part of a message begins that the agent puts under the person's name."""
USAGE = {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280}


class ChatStub(Stub):
    """Serves `/v1/chat/completions`; the API key tells the agents apart."""

    def read(self, path: str, headers: Mapping[str, str], body: Json) -> Request | None:
        if not path.split("?")[0].endswith("/chat/completions"):
            return None
        messages: list[Json] = body.get("messages", [])
        places = _places_of_person(messages)
        after = messages[places[-1] + 1 :] if places else []
        tools = {
            tool["function"]["name"]: tool["function"].get("parameters", {})
            for tool in body.get("tools") or []
        }
        told = [
            text_of(item)
            for place, item in enumerate(messages)
            if item.get("role") in {"system", "developer", "user"} and place not in places
        ]
        return Request(
            conversation=headers.get("authorization", ""),
            system="\n\n".join(told),
            users=tuple(text for place in places for text in _said(messages[place])),
            outputs=sum(item.get("role") == "tool" for item in after),
            tools=tools,
            streaming=bool(body.get("stream")),
            # Aider offers no tools.
            side=not places or not (tools or "SEARCH/REPLACE" in "".join(told)),
        )

    def other(self, path: str) -> Reply:
        if path.split("?")[0].endswith("/models"):
            return Reply(200, {"object": "list", "data": []})
        return Reply(404, {"error": {"message": "not here", "type": "invalid_request_error"}})

    def refusal(self, step: Refuse | Limit) -> Reply:
        code = 429 if isinstance(step, Limit) else step.status
        kind, message = REFUSALS.get(code, ("server_error", "The server had an error."))
        error = {"type": kind, "message": message, "code": kind, "param": None}
        return Reply(code, {"error": error})

    def stream(
        self, request: Request, steps: tuple[Step, ...]
    ) -> Iterator[Frame | Pause | Hold | Cut]:
        name = f"chatcmpl-{next(self.numbers)}"
        yield _chunk(name, {"role": "assistant", "content": ""})
        reason = "stop"
        for step in steps:
            if isinstance(step, TOOL_CALLS):
                reason = "tool_calls"
            for piece in self._step(request, step):
                yield piece if isinstance(piece, Pause | Hold) else _chunk(name, piece)
        last = _chunk(name, {})
        last.data["choices"][0]["finish_reason"] = reason
        last.data["usage"] = USAGE
        yield last

    def whole(self, request: Request, steps: tuple[Step, ...]) -> Reply:
        deltas = [
            frame.data["choices"][0]["delta"]
            for frame in self.stream(request, steps)
            if isinstance(frame, Frame) and "choices" in frame.data
        ]
        message: Json = {
            "role": "assistant",
            "content": "".join(delta.get("content") or "" for delta in deltas),
        }
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        return Reply(200, {"id": "chatcmpl-0", "choices": [choice], "usage": USAGE})

    def _step(self, request: Request, step: Step) -> Iterator[Json | Pause | Hold]:
        match step:
            case Text():
                yield from paced(step, lambda piece: {"content": piece})
            case Run(command) if not request.tools:
                yield {"content": _proposal(command)}
            case Run(command):
                shell = min(SHELLS & request.tools.keys(), default="bash")
                arguments: Json = {"command": command, "description": "Run a command"}
                if shell == "run_commands":
                    arguments = {"commands": [command]}
                yield self._call(shell, arguments)
            case Ask():
                asking = next((name for name in QUESTIONS if name in request.tools), "ask_user")
                yield self._call(asking, QUESTIONS[asking](step))
            case Pause() | Hold():
                yield step

    def _call(self, tool: str, arguments: Json) -> Json:
        call = {
            "index": 0,
            "id": f"call_{next(self.numbers)}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(arguments)},
        }
        return {"tool_calls": [call]}


def _chunk(name: str, delta: Json) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    data = {"id": name, "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    return Frame("", {**data, "choices": [choice]})


def _places_of_person(messages: list[Json]) -> list[int]:
    """Return where the person speaks: where some words of the user are stamped, only there."""
    spoken = [
        place for place, item in enumerate(messages) if item.get("role") == "user" and _said(item)
    ]
    stamped = [place for place in spoken if re.match(STAMP_PATTERN, text_of(messages[place]))]
    return stamped or spoken


def _said(item: Json) -> list[str]:
    """Return what a person said in a message: of some agents several turns that failed."""
    content = item.get("content") or []
    parts = [{"text": content}] if isinstance(content, str) else content
    texts = (re.sub(STAMP_PATTERN, "", part.get("text", "")) for part in parts)
    said = (re.split(BETWEEN_PATTERN, re.sub(ADDED_PATTERN, "", text)) for text in texts)
    return [
        text for texts in said for text in texts if text and not text.lstrip().startswith(OWN_WORDS)
    ]


def _proposal(command: str) -> str:
    """Return a command as Aider takes it: a new file, or what it may run."""
    file = re.fullmatch(r"cat > '(.*)' <<'(\w+)'\n(.*)\n\2", command, re.DOTALL)
    if file is None:
        return f"\n```bash\n{command}\n```\n\n"
    edit = f"<<<<<<< SEARCH\n=======\n{file[3]}\n>>>>>>> REPLACE"
    return f"\n{file[1]}\n```\n{edit}\n```\n\n"


def _form(step: Ask) -> Json:
    """Return a question as Copilot takes it."""
    choice = {"type": "string", "title": "Choice", "enum": list(step.choices)}
    schema = {"properties": {"choice": choice}, "required": ["choice"]}
    return {"message": step.question, "requestedSchema": schema}


def _questions(step: Ask) -> Json:
    """Return a question as OpenCode and Qwen Code take it."""
    asked = {"header": "Choice", "question": step.question, "options": step.options}
    return {"questions": [asked]}


def _listed(step: Ask) -> Json:
    """Return a question as Cline and Continue take it."""
    return {"question": step.question, "options": list(step.choices)}


QUESTIONS = {
    "question": _questions,
    "ask_user_question": _questions,
    "AskUserQuestion": _questions,
    "ask_question": _listed,
    "AskQuestion": _listed,
    "ask_user": _form,
}
"""The tool that asks the person, as each agent calls it, and what it takes."""
