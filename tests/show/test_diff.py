"""Patches as data, and as HTML."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.show import diff
from cli_agent_orchestrator.show.diff import FilePatch, Hunk, patches_html, read_patch
from cli_agent_orchestrator.work.changes import REST_LEFT_OUT
from tests.show.reading import Elements

CHANGED = """\
diff --git a/src/a.py b/src/a.py
index d00491f..0cfbf08 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@ def total():
 one
-two
+2
+two and a half
 three
@@ -10 +11 @@
-ten
+10
\\ No newline at end of file
"""
MORE = """\
diff --git a/new.txt b/new.txt
new file mode 100644
index 0000000..5626abf
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+one
diff --git a/gone b/gone
deleted file mode 100644
index 5626abf..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-one
diff --git a/old name b/new name
similarity index 90%
rename from old name
rename to new name
index 1..2 100644
--- a/old name\t
+++ b/new name\t
@@ -1,2 +1,2 @@
 x
-y
+z
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/x.png b/x.png
new file mode 100644
index 0000000..1
Binary files /dev/null and b/x.png differ
diff --git "a/caf\\303\\251 \\"x\\".txt" "b/caf\\303\\251 \\"x\\".txt"
index 1..2 100644
--- "a/caf\\303\\251 \\"x\\".txt"
+++ "b/caf\\303\\251 \\"x\\".txt"
@@ -1 +1 @@
-a
+b
"""


def shown(file: FilePatch) -> list[tuple[str, int, str]]:
    return [line for hunk in file.hunks for line in hunk.lines(99)]


def test_lines_have_the_numbers_of_their_files() -> None:
    (file,) = read_patch(CHANGED)
    assert (file.path, file.old_path, file.word) == ("src/a.py", "src/a.py", "")
    assert shown(file) == [
        (" ", 1, "one"),
        ("-", 2, "two"),
        ("+", 2, "2"),
        ("+", 3, "two and a half"),
        (" ", 4, "three"),
        ("-", 10, "ten"),
        ("+", 11, "10"),
    ]
    assert [hunk.heading for hunk in file.hunks] == ["def total():", ""]
    assert (file.count("+"), file.count("-"), file.length) == (3, 2, 7)
    assert (file.lacks_end, file.is_cut, file.is_binary) == (True, False, False)


def test_what_became_of_a_file_is_said() -> None:
    files = read_patch(MORE)
    assert [(one.path, one.old_path, one.word) for one in files] == [
        ("new.txt", "new.txt", "new"),
        ("gone", "gone", "removed"),
        ("new name", "old name", "moved"),
        ("run.sh", "run.sh", "mode 100755"),
        ("x.png", "x.png", "new"),
        ('café "x".txt', 'café "x".txt', ""),
    ]
    assert [one.is_binary for one in files] == [False] * 4 + [True, False]
    assert [one.length for one in files] == [1, 1, 3, 0, 0, 2]


def test_what_a_file_holds_is_no_patch_of_its_own() -> None:
    inside = "+diff --git a/x b/x\n+--- a/x\n+@@ -1 +1 @@\n---- x\n"
    patch = f"diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1,3 @@\n{inside}"
    (file,) = read_patch(f"hello\n@@ -1 +1 @@\n-a\n+b\n{patch}")
    assert (file.path, file.count("+"), file.count("-")) == ("y", 3, 1)


def test_one_that_is_cut_says_so() -> None:
    cut = f"{CHANGED[: CHANGED.index('+two and')]}{REST_LEFT_OUT}\n"
    (file,) = read_patch(cut)
    assert (file.is_cut, file.length) == (True, 3)
    assert "The rest of the patch is left out" in patches_html([file])


LINES = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=20), max_size=12)


@given(before=LINES, after=LINES)
def test_a_hunk_has_as_many_lines_as_its_head_says(before: list[str], after: list[str]) -> None:
    written = [f"-{line}" for line in before] + [f"+{line}" for line in after]
    head = f"@@ -{min(1, len(before))},{len(before)} +{min(1, len(after))},{len(after)} @@"
    patch = "\n".join(
        ["diff --git a/x b/x", "--- a/x", "+++ b/x", head, *written, "diff --git a/y b/y"]
    )
    first, second = read_patch(patch)
    lines = shown(first)
    assert [text for kind, _, text in lines if kind == "-"] == before
    assert [text for kind, _, text in lines if kind == "+"] == after
    assert (first.count("-"), first.count("+")) == (len(before), len(after))
    assert second.path == "y"


def test_real_names_of_git_are_read(tmp_path: Path) -> None:
    names = ["a b.txt", "ä.txt", 'q"uote', "tab\there", "new\nline", "b/x b/x"]
    (tmp_path / "b" / "x b").mkdir(parents=True)
    for name in names:
        (tmp_path / name).write_text("1\n")
    words = ["git", "-c", "core.fileMode=false", "-C", str(tmp_path)]
    # Whatever the user's own settings say of colors and prefixes.
    environ = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*more: str) -> str:
        done = subprocess.run([*words, *more], env=environ, check=True, capture_output=True)
        return done.stdout.decode()

    git("init", "-q")
    git("add", "-A")
    assert {one.path for one in read_patch(git("diff", "--cached"))} == set(names)


class TestPage:
    def test_every_file_can_be_folded_and_counts_its_lines(self) -> None:
        page = Elements(patches_html(read_patch(CHANGED + MORE)))
        assert page.is_closed
        assert len(page.of("details", "diff-file")) == 7
        assert all("open" in one for one in page.of("details"))
        for words in ("+3", "−2", "src/a.py", "old name → new name", "mode 100755", "binary"):
            assert words in page.written
        badges = re.findall('<span class="badge">([^<]*)</span>', patches_html(read_patch(MORE)))
        assert badges == ["new", "removed", "moved", "mode 100755", "new", "binary"]
        assert "A binary file: its content is not shown." in page.written
        assert "No line is different." in page.written
        assert "The last line has no line end." in page.written
        assert not page.of("button")

    def test_a_long_file_and_many_are_cut(self) -> None:
        lines = tuple(f"+{n}" for n in range(diff.MOST_LINES_OF_FILE + 1))
        files = [FilePatch(f"f{n}", f"f{n}", hunks=(Hunk("", 0, 1, lines),)) for n in range(6)]
        page = Elements(patches_html(files))
        assert len(page.of("div", "diff-line")) == diff.MOST_LINES
        assert page.written.count("1 more line not shown.") == 4
        assert page.written.count(f"{len(lines):,} more lines not shown.") == 2
        assert ["open" in one for one in page.of("details")] == [True] + [False] * 5
        files = [FilePatch(str(n), str(n)) for n in range(diff.MOST_FILES + 2)]
        assert "2 more files are not shown." in patches_html(files)
        assert "not shown." not in patches_html(files[: diff.MOST_FILES])

    def test_a_hunk_of_which_no_line_is_shown_has_no_heading(self) -> None:
        sizes = {"first": diff.MOST_LINES_OF_FILE - 1, "second": 2, "third": 5}
        hunks = tuple(Hunk(name, 0, 1, ("+x",) * size) for name, size in sizes.items())
        page = patches_html([FilePatch("a", "a", hunks=hunks)])
        assert "@@ second" in page
        assert "@@ third" not in page
        assert "6 more lines not shown." in page

    @pytest.mark.parametrize(
        ("line", "shown"),
        [
            ("x" * diff.LONGEST_LINE, "xx</code>"),
            ("x" * (diff.LONGEST_LINE + 1), 'x<span class="diff-note">… 1 more characters<'),
            # Never within a mask.
            (
                "x" * (diff.LONGEST_LINE - 3) + "(masked)",
                'x<span class="diff-note">… 8 more characters<',
            ),
        ],
    )
    def test_a_long_line_says_how_much_of_it_is_left_out(self, line: str, shown: str) -> None:
        assert shown in patches_html([FilePatch("a", "a", hunks=(Hunk("", 0, 1, (f"+{line}",)),))])

    def test_line_ends_of_another_system_are_marked_where_they_are_mixed(self) -> None:
        mixed = FilePatch("a", "a", hunks=(Hunk("", 1, 1, ("-a\r", "+a")),))
        same = FilePatch("a", "a", hunks=(Hunk("", 1, 1, ("-a\r", "+b\r")),))
        assert Elements(patches_html([mixed])).written.count("␍") == 1
        assert "␍" not in patches_html([same])
        assert "\ufffd" not in patches_html([same])
