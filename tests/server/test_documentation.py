"""The OpenAPI document is complete: nobody has to read the source to write a client."""

import json
import re
from typing import Any

import httpx
import pytest

from cli_agent_orchestrator.server.app import OPERATIONS as OFFERED
from cli_agent_orchestrator.server.openapi import describe
from cli_agent_orchestrator.server.reading import READERS, SERVED, Operation

SCHEMA: dict[str, Any] = describe(OFFERED)
OPEN = ("GET /health",)
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in SCHEMA["paths"].items()
    for method, operation in operations.items()
}
ROUTES = [
    "GET /health",
    "POST /sessions",
    "GET /sessions",
    "GET /sessions/{name}",
    "DELETE /sessions/{name}",
    "POST /sessions/{name}/terminals",
    "GET /sessions/{name}/terminals",
    "GET /terminals/{terminal_id}",
    "DELETE /terminals/{terminal_id}",
    "POST /terminals/run-step",
    "POST /terminals/{terminal_id}/input",
    "POST /terminals/{terminal_id}/key",
    "GET /terminals/{terminal_id}/question",
    "POST /terminals/{terminal_id}/answer",
    "GET /terminals/{terminal_id}/output",
    "GET /terminals/{terminal_id}/explain",
    "GET /terminals/{terminal_id}/working-directory",
    "POST /terminals/{terminal_id}/exit",
    "GET /events",
    "GET /runs",
    "POST /runs",
    "GET /runs/{run}",
    "GET /runs/{run}/turns/{sequence}",
    "GET /runs/{run}/events",
    "POST /runs/{run}/hint",
    "POST /runs/{run}/answer",
    "POST /runs/{run}/set",
    "POST /runs/{run}/skip",
    "POST /runs/{run}/{do}",
]


def test_every_route_is_documented_and_no_other() -> None:
    assert sorted(OPERATIONS) == sorted(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_documents_its_answer_and_its_errors(route: str) -> None:
    operation = OPERATIONS[route]
    assert operation["summary"]
    success = [code for code in operation["responses"] if code.startswith("2")]
    errors = {code for code in operation["responses"] if not code.startswith("2")}
    assert success
    assert errors >= {"400", "403", "421"}
    assert ("401" in errors) == (route not in OPEN)
    assert ("404" in errors) == ("{" in route)
    for code in errors:
        content = operation["responses"][code]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
        assert content["example"]["detail"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_token_is_documented_where_it_is_needed(route: str) -> None:
    security = OPERATIONS[route].get("security", SCHEMA["security"])
    assert security == ([] if route in OPEN else [{"token": []}])


@pytest.mark.parametrize("operation", OFFERED, ids=lambda operation: operation.handler.__name__)
def test_a_handler_takes_what_a_request_has(operation: Operation) -> None:
    taken = operation.handler.__annotations__.keys() - {"return"}
    assert taken <= READERS.keys() | SERVED.keys()
    in_path = set(re.findall(r"{(\w+)}", operation.path))
    assert set(getattr(operation.reads.get("path"), "__struct_fields__", ())) == in_path


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)


def test_the_token_is_a_bearer_token() -> None:
    schemes = SCHEMA["components"]["securitySchemes"]
    assert schemes == {"token": {"type": "http", "scheme": "bearer"}}


def test_both_ways_to_send_a_message_are_documented() -> None:
    operation = OPERATIONS["POST /terminals/{terminal_id}/input"]
    assert "application/json" in operation["requestBody"]["content"]
    parameters = {p["name"]: p["in"] for p in operation["parameters"]}
    assert parameters["message"] == "query"
    assert parameters["idempotency-key"] == "header"
    assert {"200", "202", "409", "413"} <= set(operation["responses"])


def test_the_event_stream_is_documented_as_one() -> None:
    assert "text/event-stream" in OPERATIONS["GET /events"]["responses"]["200"]["content"]


def test_the_document_is_served(http: httpx.Client) -> None:
    assert http.get("/openapi.json").json() == SCHEMA


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(SCHEMA)
    assert "#/$defs" not in text
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in SCHEMA["components"]["schemas"]
