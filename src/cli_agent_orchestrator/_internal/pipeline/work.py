"""What a turn or a gate did to the work folder, as far as the loop decides by it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """The work folder after a turn or a gate."""

    tree: str = ""
    """Names its content; empty if nobody knows it."""
    changed: tuple[str, ...] = ()
    """The files that changed in the turn."""
    since_review: tuple[str, ...] = ()
    """The files that changed since the review that approved the work."""


UNSEEN = Work()
"""Where no snapshots are taken."""
