"""Writes the pages of the documentation that the source itself has the words for.

A hook of mkdocs: the pages are made whenever the site is built, and lie nowhere else.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.settings.table import (
    CHANGEABLE_NAMES,
    IN_TASK,
    KEPT_NAMES,
    OUT_OF_PROJECT,
    SETTINGS,
    Setting,
    ValueKind,
)

# Any: JSON, as OpenAPI has it
Json = dict[str, Any]

DOCUMENT = Path(__file__).parent.parent / "src/cli_agent_orchestrator/server/openapi.json"
KINDS = {
    ValueKind.TEXT: "a text",
    ValueKind.PATH: "a path",
    ValueKind.URL: "an address",
    ValueKind.FLAG: "a flag: 1/0, true/false, yes/no, on/off",
    ValueKind.COUNT: "a whole number",
    ValueKind.SECONDS: "seconds",
    ValueKind.GATES: "commands with names",
    ValueKind.PATHS: "paths in the project",
}

SETTINGS_HEAD = """\
# Every setting

Made from the table that `cao` itself goes by. [A run](run.md#settings) has them on one page and
says where they can be given: an option, a variable, the top of the task, `cao.toml`; the first of
these wins.

Settings of the server (`CAO_HOST`, `CAO_STATE_DIR` …) are in [The server](server.md).
"""
ROUTES_HEAD = """\
# Every route

Made from the document that `GET /openapi.json` answers. [The server](server.md#routes) says how the
routes belong together, and [who gets in](server.md#who-gets-in).

Every request but those that are marked as open carries `Authorization: Bearer TOKEN`. Errors are
`{"detail": "what went wrong and what to do"}`; besides those that are named, each request may get
400 (it cannot be read), 401 (no token), 403 (from another site) and 421 (another host was meant).
"""
# Markdown has no table without one.
EMPTY_HEAD_PATTERN = r"<thead>\s*<tr>\s*(?:<th></th>\s*)*</tr>\s*</thead>\s*"
COMMON = ("400", "401", "403", "421")


def settings_page() -> str:
    """Return all settings, each under its own heading."""
    return "\n".join([SETTINGS_HEAD, *map(_setting, SETTINGS)])


def _setting(setting: Setting) -> str:
    rows = {
        "variable": _code(setting.variable),
        "option": _options(setting),
        "in cao.toml": _in_file(setting),
        "value": _values(setting),
        "default": _code(setting.default) if setting.default else "none",
        "at the top of a task": "yes" if setting.name in IN_TASK else "no",
        "kept when a run is resumed": "yes" if setting.name in KEPT_NAMES else "no",
        "changed by `cao set`": "yes" if setting.name in CHANGEABLE_NAMES else "no",
    }
    return f"## {setting.name}\n\n{setting.help}\n\n{_table(('', ''), rows.items())}"


def _options(setting: Setting) -> str:
    both = setting.kind is ValueKind.FLAG
    no = [setting.option.replace("--", "--no-", 1)] if both else []
    return ", ".join(map(_code, [setting.option, *no]))


def _in_file(setting: Setting) -> str:
    if setting.name in OUT_OF_PROJECT:
        return "no: it is about one run"
    return _code(setting.key)


def _values(setting: Setting) -> str:
    if setting.choices:
        return " · ".join(map(_code, setting.choices))
    least = f", {setting.minimum} or more" if setting.minimum else ""
    return KINDS[setting.kind] + least


def routes_page() -> str:
    """Return all routes, and the bodies that they take and give."""
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    routes = [
        _route(method.upper(), path, told)
        for path, methods in sorted(document["paths"].items())
        for method, told in methods.items()
    ]
    bodies = [_body(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n".join([ROUTES_HEAD, *routes, "# Bodies\n", *bodies])


def _route(method: str, path: str, told: Json) -> str:
    lines = [f"## {method} {path}", f"{told['summary']}."]
    if told.get("security") == []:
        lines.append("Open: no token is needed.")
    if "description" in told:
        lines.append(told["description"])
    lines += [
        _table(("parameter", "where", "type", ""), map(_parameter, told.get("parameters", [])))
    ]
    if "requestBody" in told:
        lines.append(f"Takes {_content(told['requestBody'])}.")
    lines.append(_table(("status", "", "body"), _answers(told["responses"])))
    return "\n\n".join(filter(None, lines)) + "\n"


def _parameter(told: Json) -> tuple[str, ...]:
    required = "required" if told["required"] else ""
    return _code(told["name"]), told["in"], _type(told["schema"]), required


def _answers(answers: Mapping[str, Json]) -> Iterator[tuple[str, ...]]:
    for status, told in answers.items():
        if status not in COMMON:
            body = _content(told) if status < "300" else ""
            yield status, _cell(told["description"]), body


def _content(told: Json) -> str:
    ((media_type, content),) = told["content"].items()
    plain = "" if media_type == "application/json" else f" as `{media_type}`"
    return _type(content["schema"]) + plain


def _body(name: str, schema: Json) -> str:
    required = schema.get("required", [])
    rows = [
        (_code(field), _type(told), "required" if field in required else "")
        for field, told in schema.get("properties", {}).items()
    ]
    about = schema.get("description", "")
    values = " · ".join(_code(str(value)) for value in schema.get("enum", []))
    parts = [f"## {name}", about, values, _table(("field", "type", ""), rows)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _type(schema: Json) -> str:
    """Return a type in words, with a link to the body that it is."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(kinds)}:
            return " or ".join(map(_type, kinds))
        case {"enum": list(values)}:
            return " · ".join(_code(str(value)) for value in values)
        case {"type": "array", "items": dict(kind)}:
            return f"list of {_type(kind)}"
        case {"type": "object", "additionalProperties": dict(kind)}:
            return f"object of {_type(kind)}"
        case {"type": str(kind)}:
            return kind
    return "anything"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""])


def _code(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Any: types of mkdocs, which only the documentation needs
def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of the folder; called by mkdocs."""
    from mkdocs.structure.files import File

    for name, page in (("settings.md", settings_page()), ("routes.md", routes_page())):
        files.append(File.generated(config, name, content=page))
    return files


# Any: as above
def on_page_content(html: str, **_: Any) -> str:
    """Take away heads of tables that are empty, and the mark that a bar needs elsewhere."""
    shown = re.sub(EMPTY_HEAD_PATTERN, "", html)
    return re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), shown)
