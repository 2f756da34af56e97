"""What programs leave behind is known by its path."""

import pytest

from cli_agent_orchestrator.core.files import cache_of, is_left_behind


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("a/__pycache__/b/node_modules/c.pyc", "a/__pycache__"),
        ("__pycache__/x.pyc", "__pycache__"),
        ("x.pyc", "x.pyc"),
        ("a/b.pyc", "a/b.pyc"),
        ("node_modules/a/b.js", "node_modules"),
        ("a/.coverage", "a/.coverage"),
        ("node_modules", ""),
        ("my_node_modules/a.js", ""),
        ("a.pyc/b.py", ""),
        ("a/.coveragerc", ""),
        ("target/main.rs", ""),
        ("x.pyc\n", ""),
        (".coverage\n", ""),
        ("", ""),
    ],
)
def test_what_programs_leave_behind_is_known_by_its_place(path: str, cache: str) -> None:
    assert cache_of(path) == cache
    assert is_left_behind(path) is bool(cache)
