"""The routes, what they take and what they answer: clients rely on every line of routes.txt.

`python -m tests.contract.test_routes` writes the file anew. A line may be added, none removed.
"""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONTRACT = Path(__file__).with_name("routes.txt")
SERVED = ROOT / "src" / "cli_agent_orchestrator" / "server" / "openapi.json"
DOCUMENT = json.loads(SERVED.read_text(encoding="utf-8"))
DEPTH = 4


def lines_of() -> list[str]:
    found: set[str] = set()
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            route = f"{method.upper()} {path}"
            found.add(route)
            for one in operation.get("parameters", []):
                found.add(f"{route} {one['in']} {one['name']}")
            bodies = {"takes": operation.get("requestBody") or {}}
            bodies |= operation["responses"]
            for name, body in bodies.items():
                for media, content in body.get("content", {}).items():
                    found.add(f"{route} {name} {media}")
                    if media == "application/json":
                        fields = fields_of(content.get("schema", {}), DEPTH)
                        found |= {f"{route} {name} {field}" for field in fields}
    return sorted(found)


# Any: JSON schemas
def fields_of(schema: Any, depth: int, prefix: str = "") -> Iterator[str]:
    if not isinstance(schema, dict) or not depth:
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from fields_of(DOCUMENT["components"]["schemas"][name], depth, prefix)
    for one in (*schema.get("anyOf", []), *schema.get("oneOf", [])):
        yield from fields_of(one, depth, prefix)
    for name, inner in schema.get("properties", {}).items():
        yield f"{prefix}.{name}"
        yield from fields_of(inner, depth - 1, f"{prefix}.{name}")
    yield from fields_of(schema.get("items"), depth - 1, f"{prefix}[]")


def test_the_document_that_is_served_is_that_of_the_source() -> None:
    """If not: `make openapi`."""
    assert runpy.run_path(str(ROOT / "scripts" / "openapi.py"))["text"]() == SERVED.read_text()


def test_clients_find_every_route_parameter_and_field_that_they_rely_on() -> None:
    relied_on = CONTRACT.read_text(encoding="utf-8").splitlines()
    assert not set(relied_on) - set(lines_of())


if __name__ == "__main__":
    CONTRACT.write_text("\n".join(lines_of()) + "\n", encoding="utf-8")
