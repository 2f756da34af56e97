"""What a commit of the orchestrator's says, and that nobody else can speak in its name."""

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.work.delivery import (
    JUDGED,
    LONGEST_SUBJECT,
    LONGEST_VALUE,
    NOT_CHECKED,
    NOT_KNOWN,
    CommittedWork,
    commit_message,
    request_text,
    subject,
    trailers,
)

WORK = CommittedWork(
    "r1", 2, "build", ("tests passed (12 tests)", "lint failed"), ("programmer_review (codex)",)
)
TRAILERS = """\
Cao-Run: r1
Cao-Round: 2
Cao-Flow: build
Cao-Gate: tests passed (12 tests)
Cao-Gate: lint failed
Cao-Reviewer: programmer_review (codex)"""


def parsed(message: str) -> str:
    """Return the trailers that git finds."""
    command = ["git", "interpret-trailers", "--parse"]
    result = subprocess.run(command, input=message.encode(), capture_output=True, check=True)
    return result.stdout.decode().removesuffix("\n")


def test_a_message_has_a_subject_and_trailers() -> None:
    message = commit_message("# Slugify: keep digits\n\nMore.", WORK)
    assert message == f"Slugify: keep digits\n\n{TRAILERS}\n"
    assert parsed(message) == TRAILERS


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("\n\n  ---  \n## Add  a\ttab\nmore", "Add a tab"),
        ("a\x1b[31mb\u202ec\u061cd", "a[31mbcd"),
        ("one\u2028two", "one"),
        ("\ud800x", "x"),
        ("***\n--", ""),
        ("x" * 73, "x" * 70 + " …"),
        ("x" * 70 + " yyy", "x" * 70 + " …"),
    ],
)
def test_the_subject_is_the_first_line_that_says_something(task: str, expected: str) -> None:
    assert subject(task) == expected


def test_values_have_a_limit() -> None:
    value = trailers(CommittedWork("x" * 500, 1, "f")).partition("\n")[0]
    assert value == "Cao-Run: " + "x" * (LONGEST_VALUE - 2) + " …"


ANY = st.text(
    st.one_of(st.characters(), st.sampled_from("\n\r:-# \u2028\x0b\x1c\t")), max_size=60
) | st.lists(
    st.sampled_from(
        ["Cao-Run: x", "---", "", "Signed-off-by: a", " b", "diff -", "# -- >8 --", "t"]
    )
).map("\n".join)


@settings(max_examples=40)  # each starts git
@given(ANY, ANY, ANY)
def test_git_finds_our_trailers_and_no_others(task: str, gate: str, role: str) -> None:
    work = CommittedWork("r1", 1, "f", (f"{gate} passed",), (f"{role} (codex)",))
    message = commit_message(task, work)
    assert parsed(message) == trailers(work)
    assert trailers(work).count("\n") == 4
    first, second, *_ = message.split("\n")
    assert 0 < len(first) <= LONGEST_SUBJECT
    assert not second
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", message)


PROVEN = "proven: 2 tests that failed before now pass with the change to price.py"


class TestARequest:
    def test_says_how_the_work_was_judged(self) -> None:
        work = replace(WORK, proof=PROVEN)
        lines = [f"    {line}" for line in trailers(work).split("\n")]
        assert f"    Cao-Proof: {PROVEN}" in lines
        text = "\n".join(["Keep digits.", "", JUDGED, "", *lines, ""])
        assert request_text("Keep digits.", work) == text

    def test_of_which_that_is_not_known_says_so(self) -> None:
        said = request_text("Keep digits.", CommittedWork("r1", 1, "loop", is_known=False))
        assert said.startswith(f"Keep digits.\n\n{NOT_KNOWN}\n\n    Cao-Run: r1\n")
        said = request_text("Keep digits.", CommittedWork("r1", 1, "loop"))
        assert said.startswith(f"Keep digits.\n\n{NOT_CHECKED}\n\n    Cao-Run: r1\n")

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("fails (`/home/ada/.venv/bin/pytest -q` ended)", "fails (`…/pytest -q` ended)"),
            ("in ~/shop/price.py, /x", "in …/price.py, …/x"),
            ("PATH=/opt/a/bin:/usr/bin make", "PATH=…/bin:…/bin make"),
            ("file:///home/ada/x.py", "file:…/x.py"),
            ("'/home/ada/'", "'…/'"),
            ("src/price.py and ./a/b, 1/2", "src/price.py and ./a/b, 1/2"),
        ],
    )
    def test_tells_nobody_where_files_lie_on_this_machine(self, said: str, shown: str) -> None:
        work = replace(WORK, proof=f"not proven: {said}")
        assert f"\n    Cao-Proof: not proven: {shown}\n" in request_text("x", work)
        assert f"\nCao-Proof: not proven: {shown}\n" in commit_message("x", work)

    @given(ANY, ANY, ANY)
    def test_has_no_markup_but_the_users_own(self, proof: str, gate: str, role: str) -> None:
        """A block of code is what each line of it is indented for, and nothing else ends it."""
        work = CommittedWork("r1", 1, "f", (f"{gate} passed",), (f"{role} (x)",), proof)
        first, second, judged, third, *code, last = request_text("One", work).split("\n")
        assert (first, second, judged, third, last) == ("One", "", JUDGED, "", "")
        assert len(code) == (6 if proof else 5)
        assert all(re.match(r"    Cao-[A-Z][a-z]+: \S", line) for line in code)

    def test_of_many_words_is_whole(self) -> None:
        proof = "not proven: " + "word " * 100
        assert proof.strip() in request_text("x", replace(WORK, proof=proof))
