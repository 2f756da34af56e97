"""The import rules of the house: who may import whom, and what pure modules keep away from."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = "cli_agent_orchestrator"
FACE = Path(__file__).parent.parent / "src" / PACKAGE
"""What programs may import: little more than names."""
SOURCE = FACE / "_internal"
"""The house behind it."""
MODULES = sorted(FACE.rglob("*.py"))

SHARED = {
    "ansi",
    "asciicast",
    "caches",
    "models",
    "characters",
    "errors",
    "config",
    "settings",
    "run_config",
    "clock",
    "identity",
    "address",
    "plain_files",
    "short_answer",
    "layout",
    "events",
    "exit_codes",
    "file_watch",
    "retry",
    "toml_text",
    "gates",
    "git_variables",
    "masking",
    "screen_masking",
    "version",
}
ALLOWED = {
    # part: the other parts it may import, besides the shared words
    "providers": set(),
    "terminals": {"providers"},
    "api": {"terminals", "providers"},
    "transport": set(),
    "connection": {"transport"},
    "client": {"connection"},
    "discovery": {"client"},
    "handoff": set(),
    "pipeline": {"handoff"},
    "workspace": set(),
    "usage": set(),
    "runs": {"pipeline", "handoff", "client", "discovery", "workspace", "usage"},
    "html": {"runs", "pipeline", "workspace", "usage"},
    "dashboard": {"html", "api", "runs", "pipeline", "usage"},
    "notices": {"transport"},
    "hosting": {
        "api",
        "dashboard",
        "notices",
        "terminals",
        "runs",
        "pipeline",
        "providers",
        "client",
        "discovery",
        "transport",
    },
    "public": {"hosting", "runs", "pipeline", "discovery", "client"},
    "scripted_agent": set(),
    "profiles": set(),
    "models": set(),
    "ansi": set(),
    "asciicast": set(),
    "caches": set(),
    "characters": set(),
    "errors": set(),
    "config": set(),
    "settings": set(),
    "run_config": set(),
    "clock": set(),
    "identity": set(),
    "address": set(),
    "plain_files": set(),
    "short_answer": set(),
    "layout": set(),
    "events": set(),
    "exit_codes": set(),
    "file_watch": set(),
    "retry": set(),
    "toml_text": set(),
    "gates": set(),
    "git_variables": set(),
    "masking": set(),
    "screen_masking": set(),
    "version": set(),
    "__init__": {"public"},
    "__main__": {"cli"},
}
PURE = [
    "ansi.py",
    "asciicast.py",
    "caches.py",
    "models.py",
    "characters.py",
    "exit_codes.py",
    "layout.py",
    "events.py",
    "retry.py",
    "toml_text.py",
    "gates.py",
    "git_variables.py",
    "masking.py",
    "screen_masking.py",
    "version.py",
    "settings/table.py",
    "settings/agent_names.py",
    "settings/levels.py",
    "settings/values.py",
    "providers/*.py",
    "terminals/tmux/protocol.py",
    "terminals/tmux/panes.py",
    "terminals/tmux/commands.py",
    "terminals/tmux/pacing.py",
    "terminals/tracker.py",
    "terminals/sending.py",
    "terminals/screens/cast.py",
    "handoff/wait.py",
    "handoff/prompt.py",
    "handoff/file_state.py",
    "pipeline/*.py",
    "pipeline/runners/*.py",
    "workspace/changes.py",
    "workspace/traces.py",
    "usage/*.py",
    "html/*.py",
    "notices/deciding.py",
    "notices/settings.py",
    "notices/in_terminal.py",
    "dashboard/sign_in.py",
    "dashboard/update.py",
    "dashboard/comment.py",
    "dashboard/views/*.py",
    "runs/work/moments.py",
    "runs/records/names.py",
    "runs/reports/report.py",
    "runs/reports/durations.py",
    "workspace/commit_message.py",
    "cli/remarks.py",
    "runs/reports/dry_run.py",
    "cli/line.py",
    "cli/ending.py",
    "cli/markdown.py",
    "cli/for_others.py",
    "cli/report_words.py",
    "cli/report_markdown.py",
    "cli/report_html.py",
    "cli/request_page.py",
    "cli/picture.py",
    "cli/drawing.py",
    "cli/keys.py",
    "cli/playback.py",
    "cli/proposals.py",
    "cli/variables.py",
]
IMPURE_IMPORTS = {
    "os", "time", "subprocess", "random", "logging", "httpx", "asyncio", "socket", "threading",
    "shutil", "tempfile", "sqlite3",
}  # fmt: skip
LAZY = {
    "hosting/server.py",  # most servers show no page
    "runs/service.py",  # nor are they asked about a turn
    "hosting/connect.py",  # most commands find a server and need not import what runs one
    "scripted_agent/workspace.py",  # most agents run no command
    "scripted_agent/turn.py",  # nor do they say how a message hashes
}
HEAVY = {
    "uvicorn", "starlette", "msgspec", "httpx", "httpx_sse", "httpcore", "rich",
}  # fmt: skip


def part_of(module: Path) -> str:
    """Return the room a module is in: its folder, or its own name."""
    return behind_the_face(module.relative_to(FACE).with_suffix("").parts)[0]


def behind_the_face(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a name below the package without the one that says it is private."""
    return words[1:] if words[0] == SOURCE.name else words


@cache
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    return tuple(ast.walk(tree))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere in a tree."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(tree: ast.AST) -> set[str]:
    """Return the parts of our package that a tree imports."""
    ours = [name.split(".")[1:] for name in imports(tree) if name.startswith(PACKAGE + ".")]
    return {words[0] for name in ours if (words := behind_the_face(name))}


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def module_id(module: Path) -> str:
    return "/".join(behind_the_face(module.relative_to(FACE).parts))


def full_name(module: Path) -> str:
    """Return the name by which a module is imported."""
    words = module.relative_to(FACE.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


NAMES = {full_name(module): module for module in MODULES}


def named(patterns: Iterable[str]) -> list[Path]:
    """Return the modules that one of some patterns fits."""
    return [m for m in MODULES if any(fnmatch(module_id(m), pattern) for pattern in patterns)]


def imported_modules(module: Path) -> set[str]:
    """Return the modules of ours that a module names in its imports, wherever they stand.

    `from package import name` means the module of that name if there is one, else the package.
    """
    found: set[str] = set()
    for node in nodes_of(parsed(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside
            if not inside <= NAMES.keys():
                found.add(node.module or "")
    return found & NAMES.keys()


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: imported_modules(module) for name, module in NAMES.items()}
    # The package offers names of modules that know its version: it imports them when asked.
    graph[PACKAGE] = set()
    TopologicalSorter(graph).prepare()  # or an error names the circle


def test_a_module_imports_only_the_parts_it_may() -> None:
    for module in MODULES:
        if (part := part_of(module)) != "cli":
            more = own_parts(parsed(module)) - SHARED - {part} - ALLOWED[part]
            assert not more, module_id(module)


WING = f"{PACKAGE}.{SOURCE.name}.terminals.tmux"
"""The tmux engine: it knows tmux and nothing of agents; others know its face alone."""
WING_MODULES = sorted((SOURCE / "terminals" / "tmux").glob("*.py"))
SERVICE_MODULES = sorted(
    module for module in (SOURCE / "terminals").glob("*.py") if module.name != "__init__.py"
)
"""The other half of `terminals/`."""
MOST_MODULES = 14
MOST_FLOORS = 5


def test_the_tmux_engine_imports_nothing_but_itself_and_the_errors() -> None:
    for module in WING_MODULES:
        others = {name for name in imported_modules(module) if not name.startswith(WING)}
        assert others <= {f"{PACKAGE}.errors"}, module_id(module)


def test_others_import_the_face_of_the_tmux_engine_alone() -> None:
    face = {f"{WING}.{name}" for name in face_of(WING)}
    for module in {*MODULES} - {*WING_MODULES}:
        names = {name for name in imports(parsed(module)) if name.startswith(f"{WING}.")}
        assert names <= face, module_id(module)


def face_of(package: str) -> list[str]:
    """Return what a package offers: the names in its `__all__`."""
    for node in parsed(NAMES[package]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{package} does not say what it offers")


WRITERS = {
    # What is written to a terminal's live picture, and the only module that does it.
    "live": "board.py",
    "live.upkeep": "board.py",
    "live.box": "courier.py",
    "live.records": "recording.py",
}


def test_each_part_of_a_live_terminal_has_one_writer() -> None:
    for module in SERVICE_MODULES:
        for node in ast.walk(parsed(module)):
            if not isinstance(node, ast.Attribute):
                continue
            if isinstance(node.ctx, ast.Store) or node.attr in ("add", "discard", "clear"):
                writer = WRITERS.get(ast.unparse(node.value), module.name)
                assert writer == module.name, f"{module_id(module)}: {ast.unparse(node)}"


def floors_of(modules: list[Path]) -> int:
    """Return how many modules of a row import each other, one upon another."""
    inside = {full_name(module): module for module in modules}
    below = {name: imported_modules(module) & inside.keys() for name, module in inside.items()}
    floors: dict[str, int] = {}
    for name in TopologicalSorter(below).static_order():
        floors[name] = 1 + max((floors[other] for other in below[name]), default=0)
    return max(floors.values())


def test_the_service_half_of_terminals_stays_small() -> None:
    assert len(SERVICE_MODULES) <= MOST_MODULES
    assert floors_of(SERVICE_MODULES) <= MOST_FLOORS


def test_the_modules_of_a_turn_stay_few() -> None:
    modules = [m for m in (SOURCE / "handoff").glob("*.py") if m.name != "__init__.py"]
    assert len(modules) <= 8
    assert floors_of(modules) <= MOST_FLOORS


def test_a_pure_module_keeps_away_from_the_world() -> None:
    for module in named(PURE):
        tree = parsed(module)
        outer = {name.split(".")[0] for name in imports(tree)}
        assert outer.isdisjoint(IMPURE_IMPORTS), module_id(module)
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {name.id for name in called if isinstance(name, ast.Name)}
        assert "open" not in names, module_id(module)


def test_imports_stand_at_the_top_except_heavy_ones_of_commands() -> None:
    for module in MODULES:
        if part_of(module) == "cli" or module_id(module) in LAZY:
            continue
        for function in nodes_of(parsed(module)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                assert not list(imports(function)), f"{module_id(module)}: {function.name}"


def test_the_lists_of_modules_name_modules_that_exist() -> None:
    for pattern in (*PURE, *PROJECT_FILES):
        assert named([pattern]), pattern


def test_only_the_command_line_exits_and_prints() -> None:
    for module in MODULES:
        if part_of(module) not in ("cli", "scripted_agent"):
            assert "sys.exit" not in module.read_text(encoding="utf-8"), module_id(module)


def test_only_who_builds_a_run_looks_at_the_environment_of_the_process() -> None:
    looking = {
        module_id(module)
        for module in MODULES
        for node in nodes_of(parsed(module))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
        if isinstance(node.value, ast.Name) and node.value.id == "os"
        if part_of(module) not in ("cli", "public")
    }
    assert not looking


def test_the_command_line_defers_heavy_imports() -> None:
    tree = parsed(SOURCE / "cli" / "main.py")
    statements = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    top_level = {name.split(".")[0] for node in statements for name in imports(node)}
    assert top_level.isdisjoint(HEAVY)


PROJECT_FILES = [
    "handoff/*.py",
    "pipeline/*.py",
    "runs/*.py",
    "runs/*/*.py",
    "settings/*.py",
    "run_config.py",
    *(f"cli/{name}.py" for name in ("init", "project", "report", "run")),
]
"""Who has to do with the files of a project, which may have come from anybody."""
TOUCHING = {
    "open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink",
    "touch", "rename", "symlink_to", "iterdir", "glob", "rglob", "exists", "is_file",
}  # fmt: skip


def test_the_files_of_a_project_are_touched_in_one_module_only() -> None:
    for module in named(PROJECT_FILES):
        if module.name in ("packaged.py", "seal.py", "leftovers.py", "called.py"):
            # Templates come with the package, the key lies in the user's own state folder,
            # processes are listed in a folder of the system, and nothing is read of a file that a
            # program names.
            continue
        called = [node.func for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)]
        names = {func.attr for func in called if isinstance(func, ast.Attribute)}
        names |= {func.id for func in called if isinstance(func, ast.Name)}
        assert names.isdisjoint(TOUCHING), module_id(module)


def test_a_server_does_not_import_what_only_its_clients_need() -> None:
    look = (
        "import sys; import cli_agent_orchestrator.cli.serve; "
        "print([name for name in ('httpx', 'rich') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_package_imports_what_it_offers_only_when_it_is_used() -> None:
    look = (
        "import sys; import cli_agent_orchestrator as cao; "
        "ours = lambda: sum(name.startswith('cli_agent_orchestrator') for name in sys.modules); "
        "before = ours(); offered = [getattr(cao, name) for name in cao.__all__]; "
        "print(before, len(offered) == len(dir(cao)), ours() > before)"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1 True True"


def test_the_package_names_what_it_offers_for_type_checkers_alone() -> None:
    tree = parsed(FACE / "__init__.py")
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    # Python has this already when it runs us with -m; all else it would look for in the project.
    assert {name for node in at_once for name in imports(node)} == {
        "importlib",
        "importlib.import_module",
    }


def test_nobody_inside_uses_the_public_face() -> None:
    for module in MODULES:
        if part_of(module) != "__init__":
            assert "public" not in own_parts(parsed(module)), module_id(module)


def test_what_is_private_says_so_in_its_name() -> None:
    top = {module.relative_to(FACE).parts[0] for module in MODULES}
    face = {"__init__.py", "__main__.py", "errors.py", "events.py", "scripted_agent"}
    assert top == {*face, SOURCE.name}


def test_a_command_does_not_import_what_only_the_live_view_needs() -> None:
    look = (
        "import sys; from cli_agent_orchestrator.cli.imports import importing\n"
        "with importing(): import cli_agent_orchestrator.cli.conduct\n"
        "print([name for name in ('httpx', 'rich', 'pygments') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['httpx']"


SAME_NAME = {
    "Flow": "the public one holds the other",
    "Interrupts": "what a run asks for, and the signals that answer it",
    "Pause": "what a person asks for, and the step that it becomes",
}
"""Names of two classes, and why one word is right for both."""


def test_no_two_classes_have_one_name() -> None:
    """Those of a single provider, and of the scripted agent, a program of its own, are apart."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        if part_of(module) in ("providers", "scripted_agent"):
            continue
        for node in nodes_of(parsed(module)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(module_id(module))
    assert {name: where for name, where in found.items() if len(where) > 1}.keys() == {*SAME_NAME}


WINGS_OF_RUNS = {
    # what of the other wings each may import; nothing of `runs/` itself, which stands on them
    "records": set[str](),
    "work": {"records"},
    "gates": {"records", "work"},
    "reports": {"records", "work"},
}


def test_a_wing_of_the_runs_stands_on_those_below_it() -> None:
    runs = f"{PACKAGE}.{SOURCE.name}.runs."
    for wing, below in WINGS_OF_RUNS.items():
        modules = sorted((SOURCE / "runs" / wing).glob("*.py"))
        assert modules, wing
        for module in modules:
            others = {name for name in imported_modules(module) if name.startswith(runs)}
            parts = {name.removeprefix(runs).partition(".")[0] for name in others}
            assert parts <= {wing, *below}, module_id(module)
