"""The variables by which git is told of one repository; programs that work in another must not.

Git sets them itself for what its hooks and aliases start, and would look nowhere else.
"""

from collections.abc import Mapping

OF_ONE_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""What `git rev-parse --local-env-vars` lists, in any version of it."""


def without_repository(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git finds its repository by the folder it works in.

    What else is said to git (who commits, by which ssh) stays.
    """
    return {name: value for name, value in environ.items() if name not in OF_ONE_REPOSITORY}
