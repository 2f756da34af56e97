"""What a user has in a checkout that is in no commit yet."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cli_agent_orchestrator._internal.workspace import staging
from cli_agent_orchestrator._internal.workspace.git import Git
from cli_agent_orchestrator._internal.workspace.left_out import refuse_pipes_of
from cli_agent_orchestrator._internal.workspace.repository import Repository

STATUS = ("status", "-z", "--porcelain", "--no-renames", "--ignore-submodules=all")
# "?? new.txt", " M changed.txt"
STATUS_LETTERS = 3


def uncommitted(
    repository: Repository, environ: Mapping[str, str] = os.environ, apart: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return files and folders with changes, and those that git does not know nor ignore.

    What is kept apart is not looked at.
    """
    refuse_pipes_of(repository.top, repository.common_dir)
    git = Git(repository.git_dir, repository.top, environ=environ)
    git = replace(git, options=staging.user_ignore_file(git)).defused()
    without = (f":(top,exclude,literal){path}" for path in apart)
    names = (entry[STATUS_LETTERS:] for entry in git.names(*STATUS, "--", ":(top)", *without))
    ours = (repository.prefix, repository.top)
    return tuple(name for name in names if not staging.is_ours(name.rstrip("/"), *ours))
