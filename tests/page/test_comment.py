"""A comment at a line becomes words that an agent can act upon."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.page.app import CommentBody, hint_of


def test_a_line_that_is_gone_is_named_as_it_was() -> None:
    comment = CommentBody(3, "src/a.py", 12, "Keep it.\nPlease.", "old", "x = 1")
    assert hint_of(comment) == (
        "About src/a.py:12, as it was before turn 3:\n    x = 1\nKeep it.\nPlease."
    )
    long = hint_of(CommentBody(1, "a", 1, "", code="x" * 600))
    assert long.split("\n")[1] == " " * 4 + "x" * 300


@given(st.text(), st.text())
def test_a_name_and_a_line_stay_on_their_lines(path: str, code: str) -> None:
    lines = hint_of(CommentBody(1, path, 1, "mine", code=code)).split("\n")
    assert lines[-1] == "mine"
    assert len(lines) == 2 + bool(code.strip())
    assert all(line.isprintable() for line in lines)
