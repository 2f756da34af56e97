"""What is proposed for a project."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.init import (
    MARK_FILES,
    READ_FILES,
    InstalledAgent,
    Proposal,
    propose,
)
from cli_agent_orchestrator.settings.gates import read_gates_table
from cli_agent_orchestrator.settings.table import BY_KEY
from cli_agent_orchestrator.settings.values import settings_toml


def package(test: str) -> str:
    return json.dumps({"scripts": {"test": test}})


def proposed(files: dict[str, str], name: str = "PROJECT_TEST_CMD") -> str:
    return next((one.value for one in propose(files, []) if one.name == name), "")


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, ""),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, "python3 -m pytest"),
        ({"setup.cfg": "[tool:pytest]"}, "python3 -m pytest"),
        ({"requirements.txt": "pytest"}, "python3 -m pytest"),
        ({"setup.py": "", "requirements-dev.txt": "pytest"}, "python3 -m pytest"),
        ({"setup.py": "", "tox.ini": "commands = pytest"}, "python3 -m pytest"),
        ({"setup.py": "", "conftest.py": ""}, "python3 -m pytest"),
        ({"pytest.ini": ""}, "python3 -m pytest"),
        ({"pyproject.toml": "pytest", "uv.lock": ""}, "uv run pytest"),
        ({"pyproject.toml": "pytest", "poetry.lock": ""}, "poetry run pytest"),
        ({"setup.py": ""}, "python3 -m unittest"),
        ({"package.json": package("vitest")}, "npm test"),
        ({"package.json": package("vitest"), "pnpm-lock.yaml": ""}, "pnpm test"),
        ({"package.json": package("vitest"), "yarn.lock": ""}, "yarn test"),
        ({"package.json": package("vitest"), "bun.lock": ""}, "bun run test"),
        ({"package.json": package("vitest"), "bun.lockb": ""}, "bun run test"),
        ({"package.json": package('echo "Error: no test specified" && exit 1')}, ""),
        ({"package.json": '{"scripts": []}'}, ""),
        ({"package.json": "[" * 10_000}, ""),
        ({"package.json": "no JSON"}, ""),
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
    assert set(files) <= set(MARK_FILES)
    assert {name for name, text in files.items() if text} <= set(READ_FILES)


UNITTEST, PYTEST = "import os\nimport unittest\n", "from pytest import raises\n"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"test_a.py": UNITTEST}, "python3 -m unittest"),
        ({"test_a.py": "from unittest import TestCase"}, "python3 -m unittest"),
        ({"tests/test_a.py": UNITTEST}, "python3 -m unittest discover -s tests"),
        ({"setup.py": "", "tests/test_a.py": UNITTEST}, "python3 -m unittest discover -s tests"),
        ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, "python3 -m unittest"),
        (
            {"tests/__init__.py": "", "tests/test_a.py": UNITTEST, "test_b.py": UNITTEST},
            "python3 -m unittest",
        ),
        (
            {"test_a.py": UNITTEST, "test/test_b.py": UNITTEST},
            "python3 -m unittest && python3 -m unittest discover -s test",
        ),
        ({"test_a.py": UNITTEST, "test_b.py": PYTEST}, "python3 -m pytest"),
        ({"test_a.py": UNITTEST, "conftest.py": ""}, "python3 -m pytest"),
        ({"test_a.py": UNITTEST, "tox.ini": "pytest"}, "python3 -m pytest"),
        ({"test_a.py": "# import unittest"}, ""),
        ({"test_a.py": "import unittests"}, ""),
        ({"tests/helper.py": UNITTEST}, ""),
        ({"conftest.py": ""}, ""),
        ({"tests/__init__.py": ""}, ""),
    ],
)
def test_tests_of_python_need_no_other_mark(files: dict[str, str], command: str) -> None:
    assert proposed(files) == command


ONE = [InstalledAgent("codex", "0.9", False)]
ONE_LOGGED_IN = [*ONE, InstalledAgent("claude_code", "2.1", True)]
TWO = [*ONE, InstalledAgent("claude_code", "2.1", False)]
TESTS = {"go.mod": ""}


@pytest.mark.parametrize(
    ("files", "agents", "flow", "reason"),
    [
        ({}, [], "loop", "there is no test command, so an agent has to test"),
        ({}, ONE, "loop", "there is no test command, so an agent has to test"),
        (TESTS, ONE, "pair", "codex writes and reviews, and your tests decide"),
        (TESTS, ONE_LOGGED_IN, "pair", "codex writes and reviews, and your tests decide"),
        (TESTS, TWO, "loop", "there are tests and several agents"),
        (TESTS, [], "loop", "analysis, program and test"),
    ],
)
def test_the_flow_fits_the_tests_and_the_agents(
    files: dict[str, str], agents: list[InstalledAgent], flow: str, reason: str
) -> None:
    (found,) = [one for one in propose(files, agents) if one.name == "FLOW"]
    assert found.value == flow
    assert reason in found.reason


def test_the_agent_is_one_that_is_logged_in_if_there_is_one() -> None:
    codex, claude = (
        InstalledAgent("codex", "0.9", True),
        InstalledAgent("claude_code", "2.1, logged in", False),
    )
    *_, chosen = propose({}, [codex, claude])
    assert chosen == Proposal("PROVIDER", "claude_code", "2.1, logged in; also installed: codex")
    *_, only = propose({}, [codex])
    assert only.value == "codex"
    assert "PROVIDER" not in {one.name for one in propose({}, [])}


FILES = st.dictionaries(st.sampled_from(MARK_FILES), st.text(max_size=20))
AGENTS = st.lists(
    st.builds(InstalledAgent, st.text(), st.text(min_size=1), st.booleans()), max_size=3
)


@given(FILES, AGENTS)
def test_what_is_proposed_stands_in_the_file_as_it_is(
    files: dict[str, str], agents: list[InstalledAgent]
) -> None:
    proposals = propose(files, agents)
    assert all(one.reason for one in proposals)
    text = settings_toml({one.name: one.value for one in proposals})
    assert text.count("\n") <= 12
    read = tomllib.loads(text)
    if "gates" in read:
        read["gates"] = read_gates_table(read["gates"], "")
    assert {BY_KEY[key].name: value for key, value in read.items()} == {
        one.name: one.value for one in proposals
    }


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"setup.cfg": "[tool:pytest]"}, "setup.cfg speaks of pytest"),
        ({"pytest.ini": ""}, "pytest.ini is there"),
        ({"pytest.ini": "", "uv.lock": ""}, "pytest.ini is there, and uv.lock is there"),
        ({"setup.py": ""}, "setup.py is there, and nothing speaks of pytest"),
        ({"build.gradle.kts": ""}, "build.gradle.kts is there"),
        (
            {"test_a.py": UNITTEST},
            "test_a.py imports unittest, and nothing speaks of pytest",
        ),
        ({"test_a.py": PYTEST}, "test_a.py imports pytest"),
    ],
)
def test_what_speaks_for_a_command_is_said(files: dict[str, str], reason: str) -> None:
    assert propose(files, [])[0].reason == reason
