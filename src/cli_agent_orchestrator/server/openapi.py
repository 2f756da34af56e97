"""The OpenAPI document: everything that somebody needs who writes a client.

What a field means is what stands below it in the source.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, get_args, get_origin

import msgspec

from ..version import __version__
from .access import OPEN_REQUESTS
from .answers import EVENT_STREAM, PROBLEMS, EventStream
from .operations import ACCEPTED, Operation
from .schemas import ProblemBody

DESCRIPTION = """Runs CLI coding agents in tmux terminals, and tasks through them.

Every request but `GET /health` carries `Authorization: Bearer TOKEN`.
Errors are `{"detail": "what went wrong and what to do"}`."""

COMMON_ERRORS = {400, 403, 421}
TOKEN_ERROR = 401
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
    for kind in parameters:  # they stand one by one where they belong
        schemas.pop(kind.__name__, None)
    for kind in _classes(kinds):
        properties = schemas.get(kind.__name__, {}).get("properties", {})
        for name, text in _meanings(kind):
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
    errors = COMMON_ERRORS | operation.errors | (set() if is_open else {TOKEN_ERROR})
    media_type, kind = _answer(operation)
    responses = {str(operation.status): _content(operation.meaning, kind, media_type)}
    _, later = operation.later
    if later:
        responses[str(ACCEPTED)] = _content(later, kind)
    for code in sorted(errors):
        responses[str(code)] = _content(PROBLEMS[code], ProblemBody)
    described: Json = {
        "summary": operation.summary,
        "operationId": operation.handler.__name__,
        "parameters": list(_parameters(operation)),
        "responses": responses,
    }
    if operation.description:
        described["description"] = operation.description
    if operation.body is not None:
        _, struct, required = operation.body
        content = {"application/json": {"schema": _schema(struct)}}
        described["requestBody"] = {"required": required, "content": content}
    if is_open:
        described["security"] = []
    return described


def _answer(operation: Operation) -> tuple[str, Any]:
    if get_origin(operation.answer) is EventStream:
        return EVENT_STREAM, get_args(operation.answer)[0]
    return "application/json", operation.answer


def _parameters(operation: Operation) -> Iterator[Json]:
    for place, kind in operation.parameters.items():
        schema = msgspec.json.schema_components([kind], ref_template=REFERENCE)[1][kind.__name__]
        for name, described in schema["properties"].items():
            required = name in schema["required"]
            yield {"name": name, "in": place, "required": required, "schema": described}


def _content(description: str, kind: Any, media_type: str = "application/json") -> Json:
    return {"description": description, "content": {media_type: {"schema": _schema(kind)}}}


def _schema(kind: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _classes(kinds: Iterable[Any]) -> set[type]:
    found: set[type] = set()
    left = list(kinds)
    while left:
        kind = left.pop()
        left += get_args(kind)
        if isinstance(kind, type) and kind not in found:
            found.add(kind)
            left += inspect.get_annotations(kind).values()
            left += kind.__mro__[1:]
    return found


def _meanings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class and what stands below them."""
    for parent in reversed(kind.__mro__):
        try:
            source = textwrap.dedent(inspect.getsource(parent))
        except (OSError, TypeError):
            continue
        (defined,) = ast.parse(source).body
        for field, below in pairwise(getattr(defined, "body", [])):
            match field, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    yield name, inspect.cleandoc(text)
