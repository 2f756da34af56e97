"""Which files the words of a command name."""

import pytest

from cli_agent_orchestrator.proof.suites import named_files

FILES = [
    "run_tests.sh", "price.py", "checks.py", "checks.js", "x.mk", "suite/foo.py", "suite/bar.py",
    "pkg/__init__.py", "pkg/__main__.py", "pkg/checks.py", "web/checks.js", "web/run_tests.sh",
    "check_a.py", "deep/check_b.py", "data.txt",
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("sh run_tests.sh", ["run_tests.sh"]),
        ("./run_tests.sh --fast", ["run_tests.sh"]),
        ("bash -ec 'set -u; sh run_tests.sh'", ["run_tests.sh"]),
        ("$PWD/run_tests.sh", ["run_tests.sh"]),
        ("(sh run_tests.sh)&&true", ["run_tests.sh"]),
        ("python -m unittest checks", ["checks.py"]),
        ("python -S -B -m unittest -v checks pkg.checks.A.test_b",
         ["checks.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/checks.py"]),
        ("python -m pkg", ["pkg/__init__.py", "pkg/__main__.py"]),
        ("pytest suite/foo.py::test_a", ["suite/foo.py"]),
        ("A=1 pytest --rootdir=suite foo.py", ["suite/foo.py"]),
        ("make --file=x.mk", ["x.mk"]),
        ("cd web && node checks.js", ["checks.js", "web/checks.js"]),
        ("cd web && sh ../run_tests.sh", ["run_tests.sh"]),
        ("python -m unittest discover -p 'check_*.py'", ["check_a.py", "deep/check_b.py"]),
        ("pytest suite/*", []),
        ("mypy *.py", []),
        ("pytest --cov price -k checks", []),
        ("pytest", []),
        ("sh 'run_tests.sh", []),
        ("sh run_tests.sh 'it", ["run_tests.sh"]),
        ("sh /elsewhere/run_tests.sh", []),
        ("# run_tests.sh", ["run_tests.sh"]),
        ("", []),
    ],
)  # fmt: skip
def test_the_files_that_a_command_names(command: str, named: list[str]) -> None:
    assert sorted(named_files(command, FILES)) == named


def test_a_command_is_run_in_the_work_folder() -> None:
    assert named_files("sh run_tests.sh", FILES, "web") == {"web/run_tests.sh"}
    assert named_files("sh ../run_tests.sh", FILES, "web") == {"run_tests.sh"}
    assert named_files("python -m unittest checks", FILES, "pkg") == {"pkg/checks.py"}


def test_a_long_command_is_read_in_time() -> None:
    assert named_files("a/b=*c.d " * 1100, FILES) == frozenset()
