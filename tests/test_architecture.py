"""The import rules of the house: who may import whom, and what pure modules keep away from."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "cli_agent_orchestrator"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE
MODULES = sorted(SOURCE.rglob("*.py"))

SHARED = {
    "models",
    "errors",
    "config",
    "settings",
    "run_config",
    "clock",
    "identity",
    "address",
    "plain_files",
    "__init__",
}
ALLOWED = {
    # part: the other parts it may import, besides the shared words
    "providers": set(),
    "terminals": {"providers"},
    "api": {"terminals", "providers"},
    "transport": set(),
    "client": {"transport"},
    "discovery": {"client"},
    "handoff": set(),
    "pipeline": {"handoff"},
    "scripted_agent": set(),
    "profiles": set(),
    "models": set(),
    "errors": set(),
    "config": set(),
    "settings": set(),
    "run_config": set(),
    "clock": set(),
    "identity": set(),
    "address": set(),
    "plain_files": set(),
    "__init__": set(),
    "__main__": {"cli"},
}
PURE = [
    "models.py",
    "providers/*.py",
    "terminals/protocol.py",
    "terminals/panes.py",
    "terminals/commands.py",
    "terminals/watch.py",
    "terminals/tracker.py",
    "terminals/sending.py",
    "handoff/wait.py",
    "handoff/resuming.py",
    "handoff/sighting.py",
    "pipeline/roles.py",
    "pipeline/state.py",
    "pipeline/stopwatch.py",
    "pipeline/machine.py",
    "pipeline/review.py",
    "pipeline/condense.py",
    "pipeline/prompts.py",
    "pipeline/reply.py",
    "pipeline/resuming.py",
    "pipeline/task.py",
    "cli/remarks.py",
]
IMPURE_IMPORTS = {
    "os", "time", "subprocess", "random", "logging", "httpx", "asyncio", "socket", "threading",
    "shutil", "tempfile", "sqlite3",
}  # fmt: skip
HEAVY = {
    "fastapi", "uvicorn", "starlette", "sse_starlette", "httpx", "httpx_sse", "httpcore", "rich",
}  # fmt: skip


def part_of(module: Path) -> str:
    """Return the room a module is in: its folder below the package, or its own name."""
    inside = module.relative_to(SOURCE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(tree: ast.AST) -> set[str]:
    """Return the parts of our package that a tree imports."""
    return {
        name.split(".")[1]
        for name in imports(tree)
        if name.startswith(PACKAGE + ".") and not name.endswith("__version__")
    }


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def module_id(module: Path) -> str:
    return str(module.relative_to(SOURCE))


@pytest.mark.parametrize("module", MODULES, ids=module_id)
def test_a_module_imports_only_the_parts_it_may(module: Path) -> None:
    part = part_of(module)
    if part == "cli":
        return
    assert own_parts(parsed(module)) - SHARED - {part} <= ALLOWED[part]


@pytest.mark.parametrize(
    "module", [m for pattern in PURE for m in sorted(SOURCE.glob(pattern))], ids=module_id
)
def test_a_pure_module_keeps_away_from_the_world(module: Path) -> None:
    tree = parsed(module)
    assert {name.split(".")[0] for name in imports(tree)}.isdisjoint(IMPURE_IMPORTS)
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert "open" not in {name.id for name in called if isinstance(name, ast.Name)}


@pytest.mark.parametrize("module", MODULES, ids=module_id)
def test_imports_stand_at_the_top_except_heavy_ones_in_the_command_line(module: Path) -> None:
    if part_of(module) == "cli":
        return
    tree = parsed(module)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not list(imports(function)), f"{function.name} imports inside its body"


@pytest.mark.parametrize("pattern", PURE)
def test_the_list_of_pure_modules_names_modules_that_exist(pattern: str) -> None:
    assert list(SOURCE.glob(pattern))


@pytest.mark.parametrize("module", MODULES, ids=module_id)
def test_only_the_command_line_exits_and_prints(module: Path) -> None:
    if part_of(module) in ("cli", "scripted_agent"):
        return
    source = module.read_text(encoding="utf-8")
    assert "sys.exit" not in source


def test_the_command_line_defers_heavy_imports() -> None:
    tree = parsed(SOURCE / "cli" / "main.py")
    statements = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    top_level = {name.split(".")[0] for node in statements for name in imports(node)}
    assert top_level.isdisjoint(HEAVY)


PROJECT_FILES = [
    "handoff/*.py",
    "pipeline/*.py",
    "settings.py",
    "run_config.py",
    *(f"cli/{name}.py" for name in ("conduct", "init", "report", "run", "run_log")),
]
"""Who has to do with the files of a project, which may have come from anybody."""
TOUCHING = {
    "open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink",
    "touch", "rename", "symlink_to", "iterdir", "glob", "rglob", "exists", "is_file",
}  # fmt: skip


@pytest.mark.parametrize(
    "module", [m for pattern in PROJECT_FILES for m in sorted(SOURCE.glob(pattern))], ids=module_id
)
def test_the_files_of_a_project_are_touched_in_one_module_only(module: Path) -> None:
    if module.name in ("prompts.py", "seal.py"):
        return  # templates come with the package, the key lies in the user's own state folder
    called = [node.func for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)]
    names = {func.attr for func in called if isinstance(func, ast.Attribute)}
    names |= {func.id for func in called if isinstance(func, ast.Name)}
    assert names.isdisjoint(TOUCHING)


def test_a_server_does_not_import_what_only_its_clients_need() -> None:
    look = (
        "import sys; import cli_agent_orchestrator.cli.serve; "
        "print([name for name in ('httpx', 'rich') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
