"""What is different between two snapshots, read from what git writes, and what is in none."""

from dataclasses import dataclass

BINARY = -1
LINK_MODE, REPOSITORY_MODE = "120000", "160000"
REST_LEFT_OUT = "(the rest is left out: it is too long)"
"""The last line of a patch that is cut; no line of a patch begins like that."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
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
        """Is or was it a repository of its own? Nobody knows which of its files are different."""
        return REPOSITORY_MODE in (self.old_mode, self.new_mode)


def read_changes(output: str) -> tuple[Change, ...]:
    """Read what `git diff-tree -z --raw` writes: all modes first, and with `--numstat` all counts.

    :100644 100644 d00491f 0cfbf08 M␀a.txt␀1␉1␉a.txt␀
    """
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


@dataclass(frozen=True, slots=True)
class Work:
    """The work folder after a turn or a gate."""

    tree: str = ""
    """Names its content; empty if nobody knows it."""
    changed: tuple[str, ...] = ()
    since_review: tuple[str, ...] = ()


UNSEEN = Work()
"""Where no snapshots are taken."""
