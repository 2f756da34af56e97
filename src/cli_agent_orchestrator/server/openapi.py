"""The OpenAPI document: everything that somebody needs who writes a client."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from ..version import __version__
from .access import OPEN_REQUESTS
from .problems import PROBLEMS
from .reading import Operation, Success, body_of
from .schemas import ProblemBody

DESCRIPTION = """Runs CLI coding agents in tmux terminals, and tasks through them.

Every request but `GET /health` carries `Authorization: Bearer TOKEN`.
Errors are `{"detail": "what went wrong and what to do"}`."""

PLACES = {"path": "path", "query": "query", "headers": "header"}
"""Where a parameter is, in the words of OpenAPI, by where a handler finds it."""
COMMON_ERRORS = {400, 403, 421}
TOKEN_ERROR = 401
REFERENCE = "#/components/schemas/{name}"

# Any: JSON; elsewhere in this module a type as annotations have it, which may be a union
Json = dict[str, Any]


def describe(operations: Sequence[Operation]) -> Json:
    """Return the document of all operations."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "CLI agent orchestrator",
            "version": __version__,
            "description": DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "schemas": _named_schemas(operations),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe(operation: Operation) -> Json:
    is_open = (operation.method, operation.path) in OPEN_REQUESTS
    errors = COMMON_ERRORS | {*operation.errors} | (set() if is_open else {TOKEN_ERROR})
    described = {
        "summary": operation.summary,
        "operationId": operation.handler.__name__,
        "description": operation.description,
        "parameters": list(_parameters(operation)),
        "requestBody": _request_body(operation),
        "responses": {
            **{str(answer.status_code): _answer(answer) for answer in operation.answers},
            **{str(code): _problem(code) for code in sorted(errors)},
        },
        "security": [] if is_open else None,
    }
    return {name: value for name, value in described.items() if value not in ("", None)}


def _parameters(operation: Operation) -> Iterator[Json]:
    for kind, place in _parameter_types(operation).items():
        schema = _components([kind])[kind.__name__]
        for name, described in schema["properties"].items():
            required = name in schema["required"]
            yield {"name": name, "in": place, "required": required, "schema": described}


def _request_body(operation: Operation) -> Json | None:
    if "body" not in operation.reads:
        return None
    kind, required = body_of(operation.reads["body"])
    return {"required": required, "content": {"application/json": {"schema": _schema(kind)}}}


def _answer(answer: Success) -> Json:
    content = {answer.media_type: {"schema": _schema(answer.body)}}
    return {"description": answer.description, "content": content}


def _problem(status_code: int) -> Json:
    description, detail = PROBLEMS[status_code]
    content = {"schema": _schema(ProblemBody), "example": {"detail": detail}}
    return {"description": description, "content": {"application/json": content}}


def _parameter_types(operation: Operation) -> dict[Any, str]:
    """Return the Structs of parameters, and where in a request they are."""
    reads = operation.reads
    return {reads[name]: place for name, place in PLACES.items() if name in reads}


def _named_schemas(operations: Sequence[Operation]) -> Json:
    """Return all that the document refers to; parameters it has one by one where they belong."""
    parameters = {kind for operation in operations for kind in _parameter_types(operation)}
    kinds: list[Any] = [ProblemBody, *parameters]
    for operation in operations:
        kinds += [answer.body for answer in operation.answers]
        kinds += [operation.reads["body"]] if "body" in operation.reads else []
    unnamed = {kind.__name__ for kind in parameters}
    schemas = _components(kinds)
    return {name: schemas[name] for name in sorted(schemas.keys() - unnamed)}


@cache
def _schema(kind: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _components(kinds: Iterable[Any]) -> Json:
    return msgspec.json.schema_components(kinds, ref_template=REFERENCE)[1]
