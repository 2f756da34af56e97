"""What a person writes at a line of a diff, as the hint that an author is given."""

from dataclasses import dataclass

from cli_agent_orchestrator._internal.characters import on_a_line

LONGEST_CODE = 300
"""Characters of the line: it is there so that the agent finds it, and it may be of any length."""
OLD = "old"


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark of a person about one line."""

    turn: int
    """In whose diff the line stands."""
    path: str
    line: int
    side: str
    """`old` if the turn has removed or replaced the line, else `new`."""
    text: str
    code: str = ""
    """The line itself, if it is known."""


def hint_of(comment: Comment) -> str:
    """Return a comment as a hint.

    >>> print(hint_of(Comment(3, "src/a.py", 12, "new", "Why not a set?", "seen = []")))
    About src/a.py:12, as turn 3 left it:
        seen = []
    Why not a set?
    """
    turn = f"turn {comment.turn}"
    when = f"as it was before {turn}" if comment.side == OLD else f"as {turn} left it"
    lines = [f"About {on_a_line(comment.path)}:{comment.line}, {when}:"]
    if comment.code.strip():
        lines.append(f"    {on_a_line(comment.code.expandtabs(4)[:LONGEST_CODE])}")
    return "\n".join([*lines, comment.text])
