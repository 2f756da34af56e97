"""Makes once what every worker of a parallel test run would make for itself.

That is the test files as pytest rewrites them, and Hypothesis's table of characters.
"""

import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from hypothesis import given, settings, strategies

TESTS = Path(__file__).parent


def stale_files() -> list[Path]:
    """Return the test files that were never rewritten, or not since they were changed."""
    return [file for file in sorted(TESTS.rglob("test_*.py")) if is_stale(file)]


def is_stale(file: Path) -> bool:
    # pytest adds its own version to the name
    plain = Path(cache_from_source(str(file)))
    made = plain.parent.glob(f"{plain.stem}-pytest-*.pyc")
    return all(one.stat().st_mtime < file.stat().st_mtime for one in made)


@settings(max_examples=1, database=None)
@given(strategies.text())
def look_at_characters(text: str) -> None:
    """Let Hypothesis make its table, which it keeps."""


def main() -> None:
    """Share the work among the cores; what goes wrong, the tests themselves will tell."""
    files = stale_files()
    shares = [files[start :: os.cpu_count() or 1] for start in range(os.cpu_count() or 1)]
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    collecting = [
        subprocess.Popen([*collect, *share], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for share in shares
        if share
    ]
    look_at_characters()
    for process in collecting:
        process.wait()


if __name__ == "__main__":
    main()
