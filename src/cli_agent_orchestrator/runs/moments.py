"""Which snapshots of a run somebody means who writes a word for them.

start         before the first turn
7             after turn 7, or the gate of that number
programmer    after the last turn of that role, or of a gate of that name
3..7          from after turn 3 to after turn 7; a side that is left out is the start, or the end
"""

from collections.abc import Iterable, Sequence

from ..errors import NotFound
from ..work.folder import START_LABEL
from ..work.snapshots import Snapshot

BETWEEN = ".."
BEFORE_LABEL, AFTER_LABEL = "before going back", "after going back"
"""Of what a person kept by going back; no role has such a name."""
DISCARDED_LABEL = "discarded"
"""Of a work tree that was removed."""

Span = tuple[Snapshot, Snapshot]
"""Two snapshots: what is different in the second one is what is meant."""


def in_order(taken: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """Return snapshots by their time.

    Those of a person who went back while a turn was open have higher numbers than that turn.
    """
    return tuple(sorted(taken, key=lambda one: (one.at, one.sequence)))


def find_moment(taken: Sequence[Snapshot], word: str) -> Snapshot:
    """Return the snapshot that a word means, of those in their order."""
    fitting = [one for one in taken if word in (str(one.sequence), one.label)]
    if not fitting:
        raise NotFound("snapshot for", word, map(name_of, taken))
    return fitting[-1]


def find_span(taken: Sequence[Snapshot], word: str) -> Span:
    """Return the two snapshots that a word means: for a turn, what it changed; for none, all."""
    first, between, second = word.partition(BETWEEN)
    if not between and word not in ("", START_LABEL):
        after = find_moment(taken, word)
        return before(taken, after), after
    return find_moment(taken, first or START_LABEL), (
        find_moment(taken, second) if second else last_of_run(taken)
    )


def has_moment(taken: Sequence[Snapshot], word: str) -> bool:
    """Is there a snapshot that a word means?"""
    return any(word in (str(one.sequence), one.label) for one in taken)


def others_of(taken: Sequence[Snapshot], word: str, meant: Snapshot) -> tuple[Snapshot, ...]:
    """Return the earlier turns of a role or gate that a word names; none if it is a number."""
    if word != meant.label or word == START_LABEL:
        return ()
    return tuple(one for one in taken[: taken.index(meant)] if one.label == word)


def before(taken: Sequence[Snapshot], snapshot: Snapshot) -> Snapshot:
    """Return the snapshot before one; the first has itself."""
    return taken[max(taken.index(snapshot) - 1, 0)]


def last_of_run(taken: Sequence[Snapshot]) -> Snapshot:
    """Return the last snapshot that the run itself took."""
    return own_of_run(taken)[-1]


def own_of_run(taken: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the snapshots that the run itself took: at its start, after turns and gates."""
    of_people = (BEFORE_LABEL, AFTER_LABEL, DISCARDED_LABEL)
    return tuple(one for one in taken if one.label not in of_people)


def name_of(snapshot: Snapshot) -> str:
    """Return the number of a snapshot, and whose turn it was: `7 (programmer)`."""
    return f"{snapshot.sequence} ({snapshot.label})"
