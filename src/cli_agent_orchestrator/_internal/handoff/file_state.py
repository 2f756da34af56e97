"""Is a file complete? A file that is still being written is not.

A file is complete when it was closed after writing or moved to its place, and has not changed
since. Where nobody reports the closing (a file that was there before the watch began, a full event
queue, a network drive, macOS) it is complete when it stays unchanged for a while; for a good while
if its writer has been noticed and has not been seen to close it.
"""

from dataclasses import dataclass, replace
from math import inf

from cli_agent_orchestrator._internal.models import FileChange

WRITER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells two forms of a file apart without reading it."""

    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FileState:
    """What is known about the file at one path."""

    unchanged_seconds: float
    """How long a file must stay unchanged if nobody reports its closing."""
    signature: Signature | None = None
    since: float = 0.0
    """When the file was first seen in this form."""
    closed: bool = False
    """Was it closed in this form?"""
    writing: bool = False
    """Has a writer been noticed that has not closed it?"""
    closing: bool = False
    """Was it closed after it was last looked at?"""

    def on_event(self, change: FileChange) -> "FileState":
        """Return what is known after the file watch has reported a change."""
        if change is FileChange.TOUCHED:
            return self
        closed = change is FileChange.CLOSED
        return replace(self, closing=closed, writing=not closed)

    def on_look(self, signature: Signature | None, now: float) -> "FileState":
        """Return what is known after a look at the file; None if it is not there."""
        if signature is None:
            return replace(self, signature=None, closing=False)
        if signature == self.signature:
            return replace(self, closed=self.closed or self.closing, closing=False)
        return replace(self, signature=signature, since=now, closed=self.closing, closing=False)

    @property
    def complete_at(self) -> float:
        """When the file counts as complete if nothing more happens to it."""
        if self.signature is None:
            return inf
        if self.closed:
            return self.since
        return self.since + (WRITER_SECONDS if self.writing else self.unchanged_seconds)
