"""What programs leave behind in a project when they are merely run: it is nobody's work."""

import re

# src/__pycache__/a.cpython-311.pyc
CACHE_PATTERN = (
    r"^(?:.*?/)??(?:(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|node_modules)(?=/)"
    r"|[^/]+\.pyc\Z|\.coverage\Z)"
)


def is_left_behind(path: str) -> bool:
    """Is a file one that programs leave behind when they are merely run?"""
    return bool(cache_of(path))


def cache_of(path: str) -> str:
    """Return the outermost file or folder that programs leave behind, of which a path is a part."""
    match = re.match(CACHE_PATTERN, path)
    return match.group() if match else ""
