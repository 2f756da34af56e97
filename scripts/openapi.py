"""Make the OpenAPI document out of the source; the text below a field describes it.

    python scripts/openapi.py > src/cli_agent_orchestrator/server/openapi.json

The server sends the file as it is.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any, get_args, get_origin

import msgspec

from cli_agent_orchestrator.server.access import OPEN_REQUESTS
from cli_agent_orchestrator.server.answers import (
    EVENT_STREAM,
    PROBLEMS,
    EventStream,
    ProblemBody,
)
from cli_agent_orchestrator.server.operations import ACCEPTED, Operation
from cli_agent_orchestrator.server.routes import OPERATIONS
from cli_agent_orchestrator.version import __version__

DESCRIPTION = """Runs CLI coding agents in tmux terminals, and tasks through them.

Every request but `GET /health` carries `Authorization: Bearer TOKEN`.
Errors are `{"detail": "what went wrong and what to do"}`."""

COMMON_ERRORS = {400, 403, 421}
PACKAGE = "cli_agent_orchestrator"
REFERENCE = "#/components/schemas/{name}"

# Any: JSON; elsewhere in this module a type as annotations have it, which may be a union
Json = dict[str, Any]


def describe(operations: Iterable[Operation]) -> Json:
    paths: Json = {}
    kinds: list[Any] = [ProblemBody]
    parameters: list[Any] = []
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation)
        kinds += [_answer(operation)[1], *([operation.body[1]] if operation.body else [])]
        parameters += operation.parameters.values()
    schemas = msgspec.json.schema_components([*kinds, *parameters], ref_template=REFERENCE)[1]
    for kind in parameters:  # each is described where it belongs
        schemas.pop(kind.__name__, None)
    for kind in _classes(kinds):
        properties = schemas.get(kind.__name__, {}).get("properties", {})
        for name, text in _meanings(kind).items():
            if name in properties:
                properties[name]["description"] = text
    info = {"title": "CLI agent orchestrator", "version": __version__, "description": DESCRIPTION}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe(operation: Operation) -> Json:
    is_open = (operation.method, operation.path) in OPEN_REQUESTS
    errors = COMMON_ERRORS | operation.errors | (set() if is_open else {401})
    media_type, kind = _answer(operation)
    responses = {str(operation.status): _content("Done.", kind, media_type)}
    _, later = operation.later
    if later:
        responses[str(ACCEPTED)] = _content(later, kind)
    for code in sorted(errors):
        responses[str(code)] = _content(PROBLEMS[code], ProblemBody)
    parameters = []
    for place, kind in operation.parameters.items():
        schema = msgspec.json.schema_components([kind], ref_template=REFERENCE)[1][kind.__name__]
        texts = _meanings(kind)
        for name, field in schema["properties"].items():
            if name in texts:
                field["description"] = texts[name]
            required = name in schema["required"]
            parameters.append({"name": name, "in": place, "required": required, "schema": field})
    described: Json = {
        "summary": operation.summary,
        "operationId": operation.handler.__name__,
        "parameters": parameters,
        "responses": responses,
    }
    if operation.description:
        described["description"] = operation.description
    if operation.body is not None:
        _, struct, needed = operation.body
        content = {"application/json": {"schema": _schema(struct)}}
        described["requestBody"] = {"required": needed, "content": content}
    if is_open:
        described["security"] = []
    return described


def _answer(operation: Operation) -> tuple[str, Any]:
    if get_origin(operation.answer) is EventStream:
        return EVENT_STREAM, get_args(operation.answer)[0]
    return "application/json", operation.answer


def _content(description: str, kind: Any, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": _schema(kind)}}}


def _schema(kind: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _classes(kinds: Iterable[Any]) -> set[type]:
    """Return the classes of ours in some types, and in the fields of those."""
    found: set[type] = set()
    left = list(kinds)
    while left:
        kind = left.pop()
        left += get_args(kind)
        if isinstance(kind, type) and kind.__module__.startswith(PACKAGE) and kind not in found:
            found.add(kind)
            left += [*inspect.get_annotations(kind).values(), *kind.__bases__]
    return found


def _meanings(kind: type) -> dict[str, str]:
    own = [one for one in kind.__mro__ if one.__module__.startswith(PACKAGE)]
    texts: dict[str, str] = {}
    for one in reversed(own):
        texts |= _texts_in(one.__module__).get(one.__name__, {})
    return texts


@cache
def _texts_in(module: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for defined in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(defined, ast.ClassDef):
            texts = found.setdefault(defined.name, {})
            for field, below in pairwise(defined.body):
                match field, below:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        texts[name] = inspect.cleandoc(text)
    return found


def text() -> str:
    return json.dumps(describe(OPERATIONS), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
