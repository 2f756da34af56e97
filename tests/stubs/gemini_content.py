"""The Gemini API as Gemini CLI uses it: `streamGenerateContent`, with the shell tool it offers."""

import json
from collections.abc import Iterator, Mapping

from .script import Ask, Cut, Hold, Limit, Pause, Refuse, Request, Run, Step, Text
from .server import Frame, Json, Reply, Stub, paced

# What Gemini CLI itself, or a hook, puts into the conversation under the person's name.
OWN_WORDS = ("<session_context>", "<hook_context>", "This is the Gemini CLI.")
REFUSALS = {
    401: ("UNAUTHENTICATED", "API key not valid."),
    429: ("RESOURCE_EXHAUSTED", "Too many requests."),
}
USAGE = {"promptTokenCount": 1200, "candidatesTokenCount": 80, "totalTokenCount": 1280}


class GeminiStub(Stub):
    """Serves `/v1beta/models/…`; the API key tells the agents apart."""

    def read(self, path: str, headers: Mapping[str, str], body: Json) -> Request | None:
        method = path.split("?")[0].rpartition(":")[2]
        if method not in {"streamGenerateContent", "generateContent"}:
            return None
        contents: list[Json] = body.get("contents", [])
        places = [place for place, content in enumerate(contents) if _is_person(content)]
        after = contents[places[-1] + 1 :] if places else []
        declared = [
            function
            for tool in body.get("tools") or []
            for function in tool.get("functionDeclarations", [])
        ]
        own = [text for content in contents for text in _texts(content) if _is_own(text)]
        return Request(
            conversation=headers.get("x-goog-api-key", ""),
            system="\n\n".join([*_texts(body.get("systemInstruction") or {}), *own]),
            users=tuple(_said(contents[place]) for place in places),
            outputs=sum(
                "functionResponse" in part for content in after for part in _parts(content)
            ),
            tools={function["name"]: function for function in declared},
            streaming=method == "streamGenerateContent",
            side=not declared or not places,
        )

    def other(self, path: str) -> Reply:
        if path.split("?")[0].endswith(":countTokens"):
            return Reply(200, {"totalTokens": 1200})
        return Reply(404, {"error": {"code": 404, "message": "not here", "status": "NOT_FOUND"}})

    def side_answer(self) -> tuple[Step, ...]:
        """Return the choice of a model, and that it is the person's turn to speak."""
        choice = {"complexity_reasoning": "plain", "complexity_score": 1, "next_speaker": "user"}
        return (Text(json.dumps(choice)),)

    def refusal(self, step: Refuse | Limit) -> Reply:
        code = 429 if isinstance(step, Limit) else step.status
        status, message = REFUSALS.get(code, ("INTERNAL", "An internal error has occurred."))
        return Reply(code, {"error": {"code": code, "message": message, "status": status}})

    def stream(
        self, request: Request, steps: tuple[Step, ...]
    ) -> Iterator[Frame | Pause | Hold | Cut]:
        for step in steps:
            yield from self._step(step)
        last = _chunk({"text": ""})
        last.data["candidates"][0]["finishReason"] = "STOP"
        last.data["usageMetadata"] = USAGE
        yield last

    def whole(self, request: Request, steps: tuple[Step, ...]) -> Reply:
        frames = [one for one in self.stream(request, steps) if isinstance(one, Frame)]
        said = [part for one in frames for part in _parts(one.data["candidates"][0]["content"])]
        answer = frames[-1].data
        answer["candidates"][0]["content"]["parts"] = said
        return Reply(200, answer)

    def _step(self, step: Step) -> Iterator[Frame | Pause | Hold]:
        match step:
            case Text():
                yield from paced(step, lambda piece: _chunk({"text": piece}))
            case Run(command):
                yield _chunk(self._call("run_shell_command", {"command": command}))
            case Ask():
                asked = {"header": "Choice", "question": step.question, "type": "choice"}
                questions = [asked | {"options": step.options}]
                yield _chunk(self._call("ask_user", {"questions": questions}))
            case Pause() | Hold():
                yield step

    def _call(self, tool: str, arguments: Json) -> Json:
        return {
            "functionCall": {"id": f"call_{next(self.numbers)}", "name": tool, "args": arguments}
        }


def _chunk(part: Json) -> Frame:
    return Frame("", {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})


def _parts(content: Json) -> list[Json]:
    return content.get("parts") or []


def _texts(content: Json) -> list[str]:
    return [part["text"] for part in _parts(content) if part.get("text")]


def _is_own(text: str) -> bool:
    return text.lstrip().startswith(OWN_WORDS)


def _said(content: Json) -> str:
    """Return the person's own words: what Gemini CLI has to say may stand in parts beside them."""
    return "".join(text for text in _texts(content) if not _is_own(text))


def _is_person(content: Json) -> bool:
    return content.get("role") == "user" and bool(_said(content))
