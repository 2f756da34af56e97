"""The rules of the house: who may import whom, no circle, pure modules, lazy imports."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = "cli_agent_orchestrator"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "demo_project" not in path.parts)

GROUND = {"core", "settings", "errors", "events", "version"}
"""Words, files and settings: every room stands on them."""
ALLOWED = {
    # room: the other rooms it may import, besides the ground
    **{room: set[str]() for room in GROUND},
    "providers": set(),
    "terminals": {"providers"},
    "server": {"terminals", "providers"},
    "client": set(),
    "handoff": set(),
    "work": set(),
    "usage": set(),
    "gates": {"work"},
    "proof": {"work", "gates"},
    "pipeline": {"handoff", "proof", "gates", "work"},
    "runs": {"pipeline", "handoff", "client", "work", "proof", "gates", "usage"},
    "show": {"runs", "pipeline", "proof", "work", "usage"},
    "page": {"show", "server", "terminals", "runs", "pipeline", "usage"},
    "notices": {"client"},
    "hosting": {
        *("server", "page", "notices", "terminals", "providers"),
        *("runs", "pipeline", "client"),
    },
    "public": {"hosting", "runs", "pipeline", "client"},
    "cli": {
        *("hosting", "server", "page", "notices", "terminals", "providers", "show"),
        *("runs", "pipeline", "proof", "gates", "work", "client", "usage", "scripted_agent"),
    },
    "scripted_agent": set(),
    "__init__": {"public"},
    "__main__": {"cli"},
}
PURE = [
    "errors.py",
    "events.py",
    *(f"core/{name}.py" for name in ("text", "ansi", "codec", "models", "markdown")),
    "core/secrets.py",
    "settings/table.py",
    "settings/gates.py",
    "providers/*.py",
    "terminals/tmux/protocol.py",
    "terminals/tracker.py",
    "terminals/sending.py",
    "handoff/wait.py",
    "pipeline/*.py",
    *(f"gates/{name}.py" for name in ("check", "counts")),
    *(f"proof/{name}.py" for name in ("verdict", "suites", "tampering")),
    "work/changes.py",
    "usage/*.py",
    "show/*.py",
    "notices/decide.py",
    "page/sign_in.py",
    *(f"page/{name}.py" for name in ("all_runs", "new_run", "one_run", "one_agent", "words")),
    *(f"cli/{name}.py" for name in ("narration", "picture")),
]
"""They decide, and touch nothing: everything they need is an argument."""
IMPURE_IMPORTS = {
    "os", "time", "subprocess", "random", "logging", "httpx", "asyncio", "socket", "threading",
    "shutil", "tempfile", "sqlite3",
}  # fmt: skip
LAZY = {
    "cli/*",  # each command imports what it needs
    "hosting/server.py",  # most servers show no page
    "runs/service.py",  # nor are they asked about a turn
    "hosting/connect.py",  # most commands find a server and need not import what runs one
    "scripted_agent/agent.py",  # most agents run no command
}
HEAVY = {
    "uvicorn", "starlette", "msgspec", "httpx", "httpx_sse", "httpcore", "rich",
}  # fmt: skip


def module_id(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def full_name(module: Path) -> str:
    words = module.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


NAMES = {full_name(module): module for module in MODULES}


def room_of(name: str) -> str:
    """Return the room a module is in, given its full name."""
    return [*name.split("."), "__init__"][1]


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def imports(tree: ast.AST, module: Path) -> Iterator[str]:
    """Yield the full names that are imported anywhere in a tree of a module."""
    package = full_name(module).split(".")
    if module.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*here, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield inside if inside in NAMES or base not in NAMES else base


@cache
def inner_imports(module: Path) -> set[str]:
    return {*imports(parsed(module), module)} & NAMES.keys()


def named(patterns: Iterable[str]) -> list[Path]:
    return [m for m in MODULES if any(fnmatch(module_id(m), pattern) for pattern in patterns)]


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: inner_imports(m) for name, m in NAMES.items()}
    graph[PACKAGE] = set()  # its public names are imported when they are used
    TopologicalSorter(graph).prepare()  # or an error names the circle


def test_a_room_imports_only_the_rooms_it_may() -> None:
    for name, module in NAMES.items():
        room = room_of(name)
        others = {room_of(other) for other in inner_imports(module)}
        assert others <= GROUND | {room} | ALLOWED[room], module_id(module)


def test_the_tmux_engine_knows_nothing_but_itself_and_the_errors() -> None:
    wing = f"{PACKAGE}.terminals.tmux"
    for name, module in NAMES.items():
        others = inner_imports(module)
        if name.startswith(wing):
            assert all(o.startswith(wing) or o == f"{PACKAGE}.errors" for o in others), name
        else:
            assert not [other for other in others if other.startswith(f"{wing}.")], name


def test_a_pure_module_keeps_away_from_the_world() -> None:
    for pattern in PURE:
        assert named([pattern]), pattern
    for module in named(PURE):
        outer = {name.split(".")[0] for name in imports(parsed(module), module)}
        assert outer.isdisjoint(IMPURE_IMPORTS), module_id(module)
        called = [node.func for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)]
        assert "open" not in {f.id for f in called if isinstance(f, ast.Name)}, module_id(module)


def test_imports_stand_at_the_top_except_heavy_ones_of_commands() -> None:
    for module in {*MODULES} - {*named(LAZY)}:
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert not list(imports(node, module)), f"{module_id(module)}: {node.name}"


def test_the_command_line_defers_heavy_imports() -> None:
    main = SOURCE / "cli" / "main.py"
    at_once = [n for n in parsed(main).body if isinstance(n, ast.Import | ast.ImportFrom)]
    top_level = {name.split(".")[0] for node in at_once for name in imports(node, main)}
    assert top_level.isdisjoint(HEAVY)


def loaded_by(statement: str, *names: str) -> list[str]:
    """Return which of these modules a fresh Python has loaded after a statement."""
    look = f"import sys\n{statement}\nprint(*(n for n in {names!r} if n in sys.modules))"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_help_and_completion_import_neither_events_nor_their_codec() -> None:
    events = f"{PACKAGE}.events"
    for setting in ("sys.argv = ['cao', '--help']", "os.environ['_CAO_COMPLETE'] = 'bash_source'"):
        start = (
            f"import os, sys\nsys.argv = ['cao']\nfrom {PACKAGE}.cli.main import main\n{setting}\n"
        )
        ending = "try: main()\nexcept SystemExit: pass"
        assert not {"msgspec", events} & {*loaded_by(start + ending, "msgspec", events)}


def test_a_server_does_not_import_what_only_its_clients_need() -> None:
    of_runs = [f"{PACKAGE}.{name}" for name in ("gates", "proof", "pipeline.machine")]
    assert loaded_by(f"import {PACKAGE}.cli.serve", "httpx", "rich", "xml", *of_runs) == []


def test_the_scripted_agent_starts_without_what_it_does_not_need() -> None:
    statement = f"import {PACKAGE}.scripted_agent.agent, {PACKAGE}.scripted_agent.console"
    assert loaded_by(statement, "msgspec", "dataclasses", "inspect", "subprocess") == []


def test_a_command_does_not_import_what_only_the_live_view_needs() -> None:
    statement = (
        f"from {PACKAGE}.cli.imports import importing\n"
        f"with importing(): import {PACKAGE}.cli.conduct"
    )
    assert loaded_by(statement, "httpx", "rich", "pygments") == ["httpx"]


def test_the_package_imports_what_it_offers_only_when_it_is_used() -> None:
    rooms = [f"{PACKAGE}.{room}" for room in ("public", "errors", "events", "core", "version")]
    assert loaded_by(f"import {PACKAGE}", *rooms) == []
    used = f"import {PACKAGE} as cao; [getattr(cao, name) for name in cao.__all__]"
    assert loaded_by(used, *rooms) == rooms


def test_only_the_command_line_exits() -> None:
    for name, module in NAMES.items():
        if room_of(name) not in ("cli", "scripted_agent"):
            assert "sys.exit" not in module.read_text(encoding="utf-8"), name


def test_only_who_builds_a_run_looks_at_the_environment_of_the_process() -> None:
    for name, module in NAMES.items():
        if room_of(name) in ("cli", "public"):
            continue
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                looks = node.attr in ("environ", "environb", "getenv") and node.value.id == "os"
                assert not looks, name


PROJECT_FILES = ["handoff/*.py", "pipeline/*.py", "runs/*.py", "settings/*.py"]
"""Rooms that deal with the files of a project, which are not trusted."""
OTHER_FILES = {
    "settings/config.py": "looks at the user's own folders",
    "settings/values.py": "looks whether a file that a program named is there",
    "pipeline/flow_file.py": "reads flows that come with the package",
}
TOUCHING = {
    "open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink",
    "touch", "rename", "symlink_to", "iterdir", "glob", "rglob", "exists", "is_file",
}  # fmt: skip


def test_the_files_of_a_project_are_touched_in_one_module_only() -> None:
    for module in named(PROJECT_FILES):
        if module_id(module) in OTHER_FILES:
            continue
        called = [node.func for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)]
        names = {func.attr for func in called if isinstance(func, ast.Attribute)}
        names |= {func.id for func in called if isinstance(func, ast.Name)}
        assert names.isdisjoint(TOUCHING), module_id(module)
