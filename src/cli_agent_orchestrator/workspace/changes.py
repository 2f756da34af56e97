"""What is different between two snapshots, read from what git writes."""

from collections.abc import Iterator
from dataclasses import dataclass

BINARY = -1


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is different."""

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


def read_changes(output: str) -> tuple[Change, ...]:
    """Read what `git diff-tree -z --raw --numstat` writes: first all modes, then all counts."""
    words = iter(output.split("\0"))
    heads = []
    for word in words:
        if not word.startswith(":"):
            break
        old_mode, new_mode, _, _, status = word[1:].split(" ")
        heads.append((*_names(status[0], words), status[0], old_mode, new_mode))
    else:
        return ()
    changes = []
    for old_path, path, status, old_mode, new_mode in heads:
        added, removed, name = word.split("\t", 2)
        if not name:
            next(words), next(words)
        changes.append(
            Change(path, old_path, status, old_mode, new_mode, _count(added), _count(removed))
        )
        word = next(words, "")
    return tuple(changes)


def _names(status: str, words: Iterator[str]) -> tuple[str, str]:
    old = next(words)
    return old, next(words) if status == "R" else old


def _count(number: str) -> int:
    return BINARY if number == "-" else int(number)
