"""What is different between two snapshots, read from what git writes, and what is in none."""

from msgspec import Struct

BINARY = -1
LINK_MODE, REPOSITORY_MODE = "120000", "160000"
REST_LEFT_OUT = "(the rest is left out: it is too long)"
"""The last line of a patch that is cut; no line of a patch begins like that."""


class LeftOut(Struct, frozen=True):
    path: str
    reason: str


class Change(Struct, frozen=True):
    path: str
    old_path: str
    """Its former name; the same unless it was moved."""
    status: str
    """`A` added, `M` modified, `D` deleted, `R` moved, `T` became something else, a link say."""
    old_mode: str
    new_mode: str
    added: int
    """Lines; -1 if it is binary."""
    removed: int

    @property
    def is_repository(self) -> bool:
        """Is or was it a repository of its own? Which of its files differ is not known."""
        return REPOSITORY_MODE in (self.old_mode, self.new_mode)


def read_changes(output: str) -> tuple[Change, ...]:
    """Read what `git diff-tree -z --raw` writes: all modes first, then all counts of --numstat."""
    words = iter(output.split("\0"))
    heads = []
    word = next(words)
    while word.startswith(":"):
        old_mode, new_mode, _, _, status = word[1:].split(" ")
        old_path = path = next(words)
        if status.startswith("R"):
            path = next(words)
        heads.append((path, old_path, status[0], old_mode, new_mode))
        word = next(words)
    changes = []
    for head in heads:
        added, removed, name = word.split("\t", 2) if word else ("0", "0", "-")
        if not name:
            # Moved: both names follow.
            next(words), next(words)
        counts = (BINARY if number == "-" else int(number) for number in (added, removed))
        changes.append(Change(*head, *counts))
        word = next(words, "")
    return tuple(changes)


class Work(Struct, frozen=True):
    tree: str = ""
    changed: tuple[str, ...] = ()
    since_review: tuple[str, ...] = ()


UNSEEN = Work()
