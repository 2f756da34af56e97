"""What is proposed for a project."""

import json

import pytest

from cli_agent_orchestrator.cli.doctor import OK, Diagnosis
from cli_agent_orchestrator.cli.init import MARK_FILES, READ_FILES, propose


def package(test: str) -> str:
    return json.dumps({"scripts": {"test": test}})


def reason_of(files: dict[str, str]) -> str:
    return next(propose(files, {}))[2]


def proposed(files: dict[str, str], name: str = "PROJECT_TEST_CMD") -> str:
    return next((value for one, value, _ in propose(files, {}) if one == name), "")


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, ""),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, "python3 -m pytest"),
        ({"setup.cfg": "[tool:pytest]"}, "python3 -m pytest"),
        ({"setup.py": "", "tox.ini": "commands = pytest"}, "python3 -m pytest"),
        ({"pyproject.toml": "pytest", "uv.lock": ""}, "uv run pytest"),
        ({"pyproject.toml": "pytest", "poetry.lock": ""}, "poetry run pytest"),
        ({"setup.py": ""}, "python3 -m unittest"),
        ({"package.json": package("vitest")}, "npm test"),
        ({"package.json": package("vitest"), "pnpm-lock.yaml": ""}, "pnpm test"),
        ({"package.json": package('echo "Error: no test specified" && exit 1')}, ""),
        ({"package.json": "[" * 10_000}, ""),
        ({"go.mod": ""}, "go test -v ./..."),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"pom.xml": ""}, "mvn test"),
        ({"pom.xml": "", "mvnw": "", "build.gradle": ""}, "./mvnw test"),
        ({"build.gradle.kts": ""}, "gradle test"),
        ({"build.gradle": "", "gradlew": ""}, "./gradlew test"),
        ({"go.mod": "", "package.json": package("vitest")}, "npm test && go test -v ./..."),
        ({"go.mod": "", "Makefile": "all:\n\ntest: all\n"}, "make test"),
        ({"go.mod": "", "Makefile": "test := x\ntests:\n"}, "go test -v ./..."),
    ],
)
def test_the_test_command_follows_from_the_files(files: dict[str, str], command: str) -> None:
    assert proposed(files) == command
    assert proposed(files, "GATES") == (f"tests={command}" if command else "")
    assert not command or reason_of(files)
    assert set(files) <= set(MARK_FILES)
    assert {name for name, text in files.items() if text} <= set(READ_FILES)


UNITTEST, PYTEST = "import os\nimport unittest\n", "from pytest import raises\n"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"test_a.py": UNITTEST}, "python3 -m unittest"),
        ({"tests/test_a.py": UNITTEST}, "python3 -m unittest discover -s tests"),
        ({"setup.py": "", "tests/test_a.py": UNITTEST}, "python3 -m unittest discover -s tests"),
        ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, "python3 -m unittest"),
        (
            {"test_a.py": UNITTEST, "test/test_b.py": UNITTEST},
            "python3 -m unittest && python3 -m unittest discover -s test",
        ),
        ({"test_a.py": UNITTEST, "test_b.py": PYTEST}, "python3 -m pytest"),
        ({"test_a.py": UNITTEST, "conftest.py": ""}, "python3 -m pytest"),
        ({"test_a.py": "# import unittest"}, ""),
        ({"tests/helper.py": UNITTEST}, ""),
        ({"conftest.py": ""}, ""),
    ],
)
def test_tests_of_python_need_no_other_mark(files: dict[str, str], command: str) -> None:
    assert proposed(files) == command


def agent(detail: str, *, logged_out: bool = False) -> Diagnosis:
    return Diagnosis("agent", OK, detail, logged_out=logged_out)


NONE: dict[str, Diagnosis] = {}
ONE = {"codex": agent("0.9")}
ONE_LOGGED_IN = {**ONE, "claude_code": agent("2.1", logged_out=True)}
TWO = {**ONE, "claude_code": agent("2.1")}
TESTS = {"go.mod": ""}


@pytest.mark.parametrize(
    ("files", "agents", "flow", "reason"),
    [
        ({}, NONE, "loop", "there is no test command, so an agent has to test"),
        ({}, ONE, "loop", "there is no test command, so an agent has to test"),
        (TESTS, ONE, "pair", "codex writes and reviews, and your tests decide"),
        (TESTS, ONE_LOGGED_IN, "pair", "codex writes and reviews, and your tests decide"),
        (TESTS, TWO, "loop", "there are tests and several agents"),
        (TESTS, NONE, "loop", "analysis, program and test"),
    ],
)
def test_the_flow_fits_the_tests_and_the_agents(
    files: dict[str, str], agents: dict[str, Diagnosis], flow: str, reason: str
) -> None:
    [(_, value, why)] = [one for one in propose(files, agents) if one[0] == "FLOW"]
    assert value == flow
    assert reason in why


def test_the_agent_is_one_that_is_logged_in_if_there_is_one() -> None:
    codex, claude = agent("0.9", logged_out=True), agent("2.1, logged in")
    *_, chosen = propose({}, {"codex": codex, "claude_code": claude})
    assert chosen == ("PROVIDER", "claude_code", "2.1, logged in; also installed: codex")
    *_, only = propose({}, {"codex": codex})
    assert only[1] == "codex"
    assert "PROVIDER" not in {name for name, *_ in propose({}, {})}
