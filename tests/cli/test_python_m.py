"""A project that has modules of its own by the names of others: none of them is run."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = (
    *("asyncio", "dataclasses", "json", "logging", "pathlib", "shutil", "signal", "socket"),
    *("sqlite3", "subprocess", "tempfile", "tomllib", "typing"),
    *("click", "filelock", "httpx", "msgspec", "platformdirs", "rich", "starlette", "uvicorn"),
)
"""What we import. What Python itself needs to find us it imports before us, from wherever it is."""


@pytest.mark.parametrize("words", [["--version"], ["init"], ["doctor", "--json"], ["run", "x.md"]])
def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path, words: list[str]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in NAMES:
        spy = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + ' ')\n"
        (project / f"{name}.py").write_text(spy, encoding="utf-8")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CAO_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "cli_agent_orchestrator", *words],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
