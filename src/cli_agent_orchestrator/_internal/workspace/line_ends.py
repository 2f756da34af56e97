"""Which files git has laid out with other line ends than it has stored; nothing of them is read.

By its notes git takes such a file for unchanged, and what it has stored for its bytes: whoever
would bring that back would bring back other line ends.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.workspace import staging
from cli_agent_orchestrator._internal.workspace.git import Git
from cli_agent_orchestrator._internal.workspace.repository import Repository

SETTINGS_PATTERN = r"^core\.(autocrlf|eol)$"
ATTRIBUTES_NAME = ".gitattributes"
LONGEST_LOOK = 10.0


def line_ends(git: Git) -> Mapping[str, str]:
    """Return what the user has set for line ends, in the repository or for all of them."""
    reader = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    answer = reader.ask("config", "-z", "--get-regexp", SETTINGS_PATTERN)
    entries = filter(None, answer.text.split("\0"))
    return dict(entry.partition("\n")[::2] for entry in entries)


def laid_out_otherwise(repository: Repository, store: Git, blobs: Mapping[str, str]) -> list[str]:
    """Return which files have another size than what is stored of them, by their ids.

    Those that go through a filter do not count: it may stand for a large file that is elsewhere.
    """
    users = Git(repository.git_dir, repository.top, store.environ)
    if not (_have_attributes(repository, blobs) or line_ends(users)):
        return []
    asked = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    answer = store.text("cat-file", "--batch-check=%(objectsize)", given=asked)
    sizes = zip(blobs, answer.split("\n"), strict=True)
    found = [path for path, size in sizes if size != _size(repository.top / path)]
    filtered = {one for files in staging.filters(users, found).values() for one in files}
    return [path for path in found if path not in filtered]


def _have_attributes(repository: Repository, paths: Mapping[str, str]) -> bool:
    """May there be attributes that say how files are laid out?"""
    return os.path.lexists(repository.common_dir / "info/attributes") or any(
        path.rpartition("/")[2] == ATTRIBUTES_NAME for path in paths
    )


def _size(path: Path) -> str:
    try:
        return str(path.lstat().st_size)
    except OSError:
        return ""
