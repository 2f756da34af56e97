"""A project that has modules of its own by the names of others: none of them is run."""

import subprocess
import sys
from pathlib import Path

NAMES = (
    *sys.stdlib_module_names,
    *("click", "httpx", "msgspec", "platformdirs", "rich", "starlette", "uvicorn"),
)
"""What we may import."""
EMPTY = "empty_package"


def imported_by_python_itself(folder: Path) -> set[str]:
    """Return what Python has imported before the first line of a package that it is to run.

    It looks for some of it in the current folder, and nothing of ours is there yet to prevent it.
    """
    (folder / EMPTY).mkdir()
    (folder / EMPTY / "__init__.py").write_text("import sys; print(*sys.modules)\n")
    done = subprocess.run(
        [sys.executable, "-m", EMPTY], cwd=folder, capture_output=True, text=True, check=False
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in {*NAMES} - imported_by_python_itself(tmp_path):
        spy = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + ' ')\n"
        (project / f"{name}.py").write_text(spy, encoding="utf-8")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CAO_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "cli_agent_orchestrator", "doctor", "--json"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
