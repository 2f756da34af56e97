"""The OpenAPI document is complete: nobody has to read the source to write a client.

The routes and fields themselves are in tests/contract.
"""

import json
import re
from typing import Any

import httpx

from cli_agent_orchestrator.server.openapi import describe
from cli_agent_orchestrator.server.routes import OPERATIONS as OFFERED

SCHEMA: dict[str, Any] = describe(OFFERED)
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in SCHEMA["paths"].items()
    for method, operation in operations.items()
}


def test_a_route_documents_its_answer_its_errors_and_the_token() -> None:
    assert len(OPERATIONS) == len(OFFERED)
    for route, operation in OPERATIONS.items():
        is_open = route == "GET /health"
        assert operation["summary"]
        codes = set(operation["responses"])
        assert codes & {"200", "201"}, route
        assert codes >= {"400", "403", "421"}
        assert ("401" in codes) is not is_open
        assert ("404" in codes) == ("{" in route)
        assert operation.get("security", SCHEMA["security"]) == ([] if is_open else [{"token": []}])
        in_path = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", route))


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)


def test_what_stands_below_a_field_in_the_source_describes_it() -> None:
    schemas = SCHEMA["components"]["schemas"]
    for name, field in (("TerminalBody", "exit_code"), ("RunDetailBody", "paused_seconds")):
        assert schemas[name]["properties"][field]["description"]


def test_both_ways_to_send_a_message_are_documented() -> None:
    operation = OPERATIONS["POST /terminals/{terminal_id}/input"]
    assert operation["requestBody"]["required"] is False
    parameters = {p["name"]: p["in"] for p in operation["parameters"]}
    assert parameters["message"] == "query"
    assert parameters["idempotency-key"] == "header"
    assert {"200", "202", "409", "413"} <= set(operation["responses"])


def test_the_document_is_served(http: httpx.Client) -> None:
    assert http.get("/openapi.json").json() == SCHEMA


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(SCHEMA)
    assert "#/$defs" not in text
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in SCHEMA["components"]["schemas"]
