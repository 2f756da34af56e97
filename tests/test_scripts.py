"""What the scripts print with which `make` brings up what it needs."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent / "scripts"

# Stands for the Python of a virtual environment; nothing is fetched from anywhere.
PIP = """\
#!/bin/sh
case "$*" in
*--version) exit 0 ;;
*install*) echo "Collecting click"; echo "a fault of pip" >&2; exit {code} ;;
esac
"""


def install(folder: Path, code: int) -> subprocess.CompletedProcess[str]:
    """Let packages be installed by a pip that ends with a code."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP.format(code=code), encoding="utf-8")
    python.chmod(0o755)
    temporary = folder / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        ["sh", str(SCRIPTS / "make-venv.sh"), sys.executable, ".venv"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert list(temporary.iterdir()) == []
    return done


class TestPackages:
    def test_one_line_says_what_is_installed_and_pip_says_nothing(self, tmp_path: Path) -> None:
        done = install(tmp_path, 0)
        assert (done.returncode, done.stderr) == (0, "")
        (line,) = done.stdout.splitlines()
        assert line.startswith("Installing cao and the packages that it and its tests need")

    def test_if_it_fails_all_that_pip_said_is_shown(self, tmp_path: Path) -> None:
        done = install(tmp_path, 3)
        assert done.returncode == 3
        assert "Collecting click\n" in done.stderr
        assert "a fault of pip\n" in done.stderr
        assert done.stderr.endswith("What is above is all that pip said; it ended with 3.\n")
