"""Every scenario of the specification has a test, and every test that names one means one.

A test names a scenario in its docstring, on a line of its own: `Scenario: <title>`. Which tests
stand for which scenario is printed by `python -m tests.test_scenarios`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TITLES = [
    line
    for line in (TESTS / "scenarios.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
SCENARIO_PATTERN = r"^\s*Scenario: (.+?)\s*$"


def scenarios_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each scenario that a file's tests name, and the test."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "Scenario: " in text else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_test(node.name):
            for title in re.findall(SCENARIO_PATTERN, ast.get_docstring(node) or "", re.MULTILINE):
                yield title, f"{path.relative_to(TESTS)}::{node.name}"


def is_test(name: str) -> bool:
    return name.startswith("test_")


@cache
def named_scenarios() -> Mapping[str, list[str]]:
    named: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for title, test in scenarios_of(path):
            named[title].append(test)
    return named


def test_the_list_has_every_title_once() -> None:
    assert len(TITLES) == len(set(TITLES))
    assert len(TITLES) > 50


def test_every_scenario_has_a_test_and_no_test_names_another_one() -> None:
    assert set(named_scenarios()) == set(TITLES)


def main() -> None:
    """Print each scenario and the tests that stand for it."""
    for title in TITLES:
        sys.stdout.write(f"{title}\n")
        sys.stdout.writelines(f"    {test}\n" for test in named_scenarios().get(title, []))


if __name__ == "__main__":
    main()
