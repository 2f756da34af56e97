"""What is noticed about tests that were changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.proof.suites import Kinds, PathKind, kind_of
from cli_agent_orchestrator.proof.tampering import (
    LARGEST_TEXT,
    MOST_LINES,
    ReadChange,
    Suspicion,
    Trick,
    find_tampering,
)
from cli_agent_orchestrator.work.changes import Change

FILE, PROGRAM, LINK, MODULE, NOTHING = "100644", "100755", "120000", "160000", "000000"
PYTHON_TEST = """import pytest

def test_adds():
    assert total([1, 2]) == 3
    assert total([2, 2]) == 4

def test_empty():
    assert total([]) == 0
"""


def change(
    path: str, status: str, modes: tuple[str, str], texts: tuple[str | None, str | None]
) -> ReadChange:
    return Change(path, path, status, *modes, 0, 0), *texts


def modified(old: str | None, new: str | None, path: str = "tests/test_total.py") -> ReadChange:
    return change(path, "M", (FILE, FILE), (old, new))


def added(path: str, new: str | None) -> ReadChange:
    return change(path, "A", (NOTHING, FILE), (None, new))


def deleted(path: str, old: str | None) -> ReadChange:
    return change(path, "D", (FILE, NOTHING), (old, None))


def moved(old_path: str, path: str, old: str = PYTHON_TEST, new: str | None = None) -> ReadChange:
    return Change(path, old_path, "R", FILE, FILE, 0, 0), old, old if new is None else new


# Any: values of fields
def with_facts(read: ReadChange, **facts: Any) -> ReadChange:
    return replace(read[0], **facts), *read[1:]


def told(*changes: ReadChange) -> list[str]:
    """Return what is said of changes: "lines changed: 1 of 6 lines removed or changed"."""
    return [f"{one.trick}: {one.detail}" for one in find_tampering(changes)]


def tricks(*changes: ReadChange) -> list[Trick]:
    return [suspicion.trick for suspicion in find_tampering(changes)]


KINDS = {
    PathKind.TEST: (
        "tests/anything.txt a/test/b.py test_a.py src/a_test.py conftest.py src/__tests__/a.ts "
        "src/__mocks__/a.ts __snapshots__/a.txt spec/a.js e2e/a.ts cypress/a.ts src/a.spec.tsx "
        "src/a.cy.js src/a.e2e.mts src/a.snap pkg/a_test.go pkg/testdata/want.json benches/a.rs "
        "src/test.rs src/a/tests.rs app/src/test/kotlin/Helper.kt src/it/java/A.java "
        "src/integrationTest/java/A.java src/androidTest/java/A.java a/TotalTests.java "
        "a/TotalTestCase.java a/OrderIT.java a/TotalSpec.scala a/TestTotal.kt tests.py "
        "app/test.py test.js web/test.mjs spec.ts t/basic.t t/data/prices.txt lib/more.t "
        "checks.bats lib/total_spec.rb lib/test_total.rb src/TotalTest.php src/total_test.cc "
    ),
    PathKind.SETTINGS: (
        "pytest.ini a/tox.ini setup.cfg pyproject.toml noxfile.py .coveragerc jest.config.mjs "
        "vitest.config.ts playwright.config.ts .mocharc.yml web/package.json tests/package.json "
        "Cargo.toml pom.xml build.gradle.kts "
    ),
    PathKind.CI: (
        ".github/workflows/test.yml .github/workflows/a/b.sh .gitlab-ci.yml .circleci/config.yml "
        "Jenkinsfile Makefile a/GNUmakefile justfile "
    ),
    PathKind.OTHER: (
        "src/total.py src/latest.py contest/a.py src/t/a.py latest.js src/contest.py "
        "testimonials.py speed-test.js src/testing/a.py src/a.go src/lib.rs src/Latest.java my-"
        "package.json docs/Makefile.md .github/CODEOWNERS pytest.ini.bak "
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_known_by_its_path(kind: PathKind) -> None:
    assert {path: kind_of(path) for path in KINDS[kind].split()} == dict.fromkeys(
        KINDS[kind].split(), kind
    )
    assert kind_of("") is PathKind.OTHER


def test_what_is_known_of_a_project_counts_besides() -> None:
    kinds = Kinds(frozenset({"testprice.py", "pytest.ini"}))
    assert kinds.of("testprice.py") is PathKind.TEST
    assert kinds.of("price.py") is PathKind.OTHER
    assert kinds.of("pytest.ini") is PathKind.SETTINGS
    change = modified("assert a\n", "assert b\n", "testprice.py")
    assert find_tampering([change]) == ()
    assert find_tampering([change], kinds) == (
        Suspicion("testprice.py", Trick.LINES_CHANGED, "1 of 1 line removed or changed"),
    )
    gone = moved("testprice.py", "helper.py")
    assert [one.trick for one in find_tampering([gone], kinds)] == [Trick.MOVED_OUT]
    new = added("testprice.py", "import pytest\npytest.skip('a')\n")
    assert [one.trick for one in find_tampering([new], kinds)] == [Trick.NEW_SKIPS]


SKIPPED = PYTHON_TEST.replace("def test_empty", "@pytest.mark.skip\ndef test_empty")
IGNORING = PYTHON_TEST + "\ncollect_ignore = []\n"
MORE_SKIPS = "new skips: 1 mark more that skip or narrow tests ({} → {}): {}".format
UNREADABLE = "it is not text, or too large to be looked into"
SAME = modified(PYTHON_TEST, PYTHON_TEST)
WITHOUT_ONE = PYTHON_TEST.replace("assert total([]) == 0", "assert True")
WANTED = "tests/want.txt"
NOT_LOOKED_FOR = ", where no test runner looks for it (2 cases, 3 assertions)"
OF_ONE_CASE = ", where no test runner looks for it (1 case, 0 assertions)"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # what is gone, and how much
        (deleted("tests/test_a.py", PYTHON_TEST), ["deleted: deleted (2 cases, 3 assertions)"]),
        (deleted("tests/data.bin", None), ["deleted: deleted"]),
        *(
            (moved(old, new), [f"moved out: moved to {new}{NOT_LOOKED_FOR}"])
            for old, new in (
                ("test_a.py", "a.py"),
                ("tests/test_5.py", "tests/helper.py"),
                ("tests/helper.py", "src/helper.py"),
            )
        ),
        (moved("a_test.go", "a.txt", "func TestA("), [f"moved out: moved to a.txt{OF_ONE_CASE}"]),
        (
            moved("test_a.py", "a\x1b[2J\n" + "b" * 300),
            [f"moved out: moved to a?[2J?{'b' * 194}{NOT_LOOKED_FOR}"],
        ),
        # a test may get another name in its folder, and new lines
        (moved("tests/test_a.py", "tests/test_b.py"), []),
        (moved("tests/test_a.py", "tests/b/test_a.py"), ["moved: moved to tests/b/test_a.py"]),
        (
            moved("test_a.py", "test_b.py", new=WITHOUT_ONE),
            ["lines changed: 1 of 6 lines removed or changed"],
        ),
        (modified(PYTHON_TEST, f"import os\n\n{PYTHON_TEST}\n\ndef test_more():\n    x\n"), []),
        (modified(PYTHON_TEST, PYTHON_TEST.replace("\n\n", "\n").replace("\n", " \r\n")), []),
        (modified(PYTHON_TEST, PYTHON_TEST.replace("\n", "\r")), []),
        # spaces matter in golden data
        (modified("a \nb", "a\nb", WANTED), ["lines changed: 1 of 2 lines removed or changed"]),
        (modified("a\n\nb", "a\nb", WANTED), ["lines changed: 1 of 3 lines removed or changed"]),
        # lines, cases and assertions
        (modified("a\nb", "b\na", WANTED), ["lines changed: lines are in another order"]),
        (
            modified(PYTHON_TEST, PYTHON_TEST.partition("def test_empty")[0]),
            [
                "fewer cases: 1 case fewer (2 → 1)",
                "fewer assertions: 1 assertion fewer (3 → 2)",
                "lines changed: 2 of 6 lines removed or changed",
            ],
        ),
        # skips, with one of them
        (modified(PYTHON_TEST, SKIPPED), [MORE_SKIPS(0, 1, "pytest.mark.skip")]),
        (modified(SKIPPED, SKIPPED + "\n"), []),
        (modified(IGNORING, IGNORING + "pytest.skip()\n"), [MORE_SKIPS(1, 2, "pytest.skip(")]),
        (
            modified("test:\n\tpytest", "test:\n\tpytest || true", "Makefile"),
            [MORE_SKIPS(0, 1, "|| true"), "CI changed: 1 of 2 lines removed or changed"],
        ),
        # rights and kinds of files
        (with_facts(SAME, new_mode=PROGRAM), ["mode changed: it is executable now"]),
        (with_facts(SAME, old_mode=PROGRAM), ["mode changed: it is not executable any more"]),
        (with_facts(SAME, path="src/a.py", old_path="src/a.py", new_mode=PROGRAM), []),
        (with_facts(SAME, new_mode=LINK), ["replaced: it is a symbolic link now"]),
        (with_facts(SAME, new_mode=MODULE), ["replaced: it is a submodule now"]),
        (with_facts(SAME, old_mode=LINK), ["replaced: it is a plain file now"]),
        (with_facts(SAME, new_mode="040000"), ["replaced: it is of mode 040000 now"]),
        # sources are not looked at for marks of tests
        (modified("assert a\n", "pytest.skip()\n", "src/total.py"), []),
        (deleted("src/total.py", PYTHON_TEST), []),
        (moved("src/a.py", "src/b.py"), []),
        # source code behind a link could hold anything
        (
            with_facts(added("price.py", "price\n.dat"), new_mode=LINK),
            ["could mislead the tests: it is a link to price?.dat"],
        ),
        (with_facts(added("price", "price.dat"), new_mode=LINK), []),
        (modified("x" * LARGEST_TEXT, "x" * LARGEST_TEXT, "tests/a.txt"), []),
        (
            modified("\n" * (MOST_LINES - 1), "a", "tests/a.txt"),
            ["lines changed: 20,000 of 20,000 lines removed or changed"],
        ),
    ],
)
def test_what_is_told_of_a_change(change: ReadChange, expected: list[str]) -> None:
    assert told(change) == expected


@pytest.mark.parametrize(
    ("path", "test", "before", "after"),
    [
        ("test_a.py", PYTHON_TEST, '"""', '"""'),
        ("a.test.js", "it('a', () => {\nexpect(1)\n})", "/*", "*/"),
        ("tests/a.rs", "#[test]\nfn a() { assert!(b); }", "/*", "*/"),
    ],
)
def test_a_test_within_a_comment_counts_as_none(
    path: str, test: str, before: str, after: str
) -> None:
    """Only lines were added, but nothing is tested any more."""
    change = modified(test, f"{before}\n{test}\n{after}", path)
    assert tricks(change) == [Trick.FEWER_CASES, Trick.FEWER_ASSERTIONS]


def test_new_tests_are_welcome_unless_they_skip() -> None:
    assert told(added("tests/test_new.py", PYTHON_TEST)) == []
    assert tricks(added("src/a.test.ts", "it.only('a', () => {})")) == [Trick.NEW_SKIPS]
    assert tricks(added("conftest.py", "collect_ignore = ['test_a.py']")) == [Trick.NEW_SKIPS]
    assert tricks(moved("src/a.py", "tests/test_a.py", "pytest.skip()")) == [Trick.NEW_SKIPS]
    assert told(added("tests/data.bin", None)) == told(added("tests/readme.md", "it.only(")) == []


@pytest.mark.parametrize(
    ("path", "trick"), [("pytest.ini", Trick.SETTINGS_CHANGED), ("Makefile", Trick.CI_CHANGED)]
)
def test_settings_are_suspicious_in_any_case(path: str, trick: Trick) -> None:
    for change, words in {
        added(path, "a"): "new",
        deleted(path, "a"): "deleted",
        modified("a", "b", path): "1 of 1 line removed or changed",
        modified("a", "a\nb\nc", path): "2 lines added",
        modified(None, "a", path): f"changed; {UNREADABLE}",
        moved(path, "other", "a"): "moved to other",
        moved("other", path, "a"): "new",
    }.items():
        assert told(change) == [f"{trick}: {words}"]
    assert told(modified("a\r\n", "a\n", path)) == []
    assert tricks(added(path, "run: mvn verify -DskipTests")) == [Trick.NEW_SKIPS, trick]


@pytest.mark.parametrize(
    "text", [None, "x" * (LARGEST_TEXT + 1), "\n" * MOST_LINES], ids=["none", "long", "lines"]
)
def test_what_cannot_be_looked_into_is_only_said_to_be_changed(text: str | None) -> None:
    changed = [f"lines changed: changed; {UNREADABLE}"]
    assert told(modified(text, PYTHON_TEST)) == told(modified(PYTHON_TEST, text)) == changed
    assert told(deleted("tests/test_total.py", text)) == ["deleted: deleted"]
    assert told(modified(text, "#[test]", "src/lib.rs")) == []
    assert told(modified("a", text, "notes.txt")) == []
    for path in ("src/lib.rs", "price.py"):
        misleads = [f"could mislead the tests: {UNREADABLE}"]
        assert told(added(path, text)) == told(modified("a = 1\n", text, path)) == misleads
        assert told(deleted(path, text)) == []


RUST = """use std::fmt;

pub fn total(a: &[i32]) -> i32 {
    assert!(true);
    a.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(total(&[1, 2]), 3);
    }
}

pub fn more() {
    assert!(false);
}
"""
RUST_TESTS = RUST[RUST.index("#[cfg(test)]") : RUST.index("pub fn more")]


LINES, CASES = (Trick.LINES_CHANGED,), (Trick.FEWER_CASES, Trick.FEWER_ASSERTIONS)
TESTS_ELSEWHERE = '#[cfg(test)]\n#[path = "a.rs"]\nmod tests;\n\nfn total() {\n    1;\n}\n'
DEEPER = "mod a {\n    #[cfg(all(test, unix))]\n    mod b {\n        x;\n    }\n    y;\n}\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (RUST, RUST.replace("    #[test]", "    #[test]\n    #[ignore]"), (Trick.NEW_SKIPS,)),
        (RUST, RUST.replace(", 3);", ", 4);"), LINES),
        (RUST, RUST.replace(RUST_TESTS, ""), (*CASES, *LINES)),
        (
            RUST,
            RUST.replace("cfg(test)", "cfg(any())"),
            (Trick.NEW_SKIPS, Trick.FEWER_ASSERTIONS, *LINES),
        ),
        # the code itself may change
        (RUST, RUST.replace("a.iter().sum()", "0"), ()),
        (RUST, RUST.replace("    assert!(true);\n", "").replace("assert!(false);", ""), ()),
        ("mod a;", "mod b;", ()),
        (TESTS_ELSEWHERE, TESTS_ELSEWHERE.replace("1;", "2;"), ()),
        (TESTS_ELSEWHERE, TESTS_ELSEWHERE.replace("mod tests;", ""), LINES),
        (DEEPER, DEEPER.replace("x;", "z;"), LINES),
        (DEEPER, DEEPER.replace("y;", "z;"), ()),
    ],
)
def test_unit_tests_within_rust_sources_are_looked_at(
    old: str, new: str, expected: tuple[Trick, ...]
) -> None:
    assert tuple(tricks(modified(old, new, "src/lib.rs"))) == expected


def test_rust_sources_with_tests_may_not_go() -> None:
    assert Trick.FEWER_CASES in tricks(deleted("src/lib.rs", RUST))
    assert Trick.FEWER_CASES in tricks(moved("src/lib.rs", "src/lib.txt", RUST))
    assert tricks(added("src/new.rs", "#[test]\n#[ignore]\nfn a() {}")) == [Trick.NEW_SKIPS]
    assert told(moved("src/lib.rs", "src/total.rs", RUST)) == []
    assert told(deleted("src/total.rs", "pub fn total() {}")) == []


def test_the_worst_comes_first() -> None:
    changes = [
        with_facts(modified(PYTHON_TEST, PYTHON_TEST, "tests/test_a.py"), new_mode=PROGRAM),
        moved("tests/test_b.py", "tests/c/test_b.py"),
        modified(PYTHON_TEST, PYTHON_TEST.replace("4", "5"), "tests/test_d.py"),
        added("Makefile", ""),
        added("pytest.ini", ""),
        added("price.py", "import unittest"),
        added("total.py", "def __eq__(self, other): ..."),
        modified("assert a\nassert b", "assert a\nassert b, c", "tests/test_e.py"),
        modified("assert a\nassert b", "assert a", "tests/test_f.py"),
        added("tests/test_g.py", "pytest.skip()"),
        modified("def test_a():", "", "tests/test_h.py"),
        change("tests/i", "T", (FILE, LINK), ("a", "b")),
        moved("tests/test_j.py", "j.py"),
        deleted("tests/test_k.py", ""),
    ]
    found = tricks(*changes)
    assert found == sorted(found, key=list(Trick).index)
    assert set(found) == set(Trick)


PATHS = st.sampled_from(
    ["tests/test_a.py", "tests/test_b.py", "src/a.py", "src/lib.rs", "pytest.ini", "Makefile",
     "a.test.ts", "tests/want.txt", "a_test.go", "src/test/java/ATest.java"]
)  # fmt: skip
SOME_LINES = st.lists(
    st.sampled_from(
        ["assert a", "def test_a():", "@pytest.mark.skip", "it.only('a')", "expect(a)", "#[test]",
         "#[cfg(test)]", "mod a {", "}", "", "x", '"""', "/*", "*/", "|| true"]
    )
    | st.text(max_size=8)
)  # fmt: skip
TEXTS = SOME_LINES.map("\n".join)
MODES = st.sampled_from([FILE, PROGRAM, LINK, MODULE, NOTHING, ""])


@st.composite
def any_change(draw: st.DrawFn) -> ReadChange:
    status = draw(st.sampled_from("AMDRT"))
    path = draw(PATHS)
    old_path = draw(PATHS) if status == "R" else path
    texts = st.none() | TEXTS
    old, new = draw(texts), draw(texts)
    return Change(path, old_path, status, draw(MODES), draw(MODES), 0, 0), old, new


@given(any_change())
def test_what_is_told_is_a_plain_line_about_the_file(read: ReadChange) -> None:
    for suspicion in find_tampering([read]):
        assert suspicion.path in (read[0].path, read[0].old_path)
        assert suspicion.detail
        assert suspicion.detail.isprintable()


@given(
    SOME_LINES, st.lists(st.tuples(st.integers(0, 20), st.text("xyz# \t", max_size=5)), max_size=8)
)
def test_added_lines_without_marks_are_never_suspicious(
    lines: list[str], more: list[tuple[int, str]]
) -> None:
    old = [line for line in lines if '"' not in line and "'" not in line]
    new = list(old)
    for place, line in more:
        new.insert(place, line)
    assert told(modified("\n".join(old), "\n".join(new))) == []


@given(SOME_LINES, st.data())
def test_a_line_that_is_gone_is_always_told(lines: list[str], data: st.DataObject) -> None:
    said = [line for line in lines if line.strip()] or ["x"]
    gone = data.draw(st.integers(0, len(said) - 1))
    rest = said[:gone] + said[gone + 1 :]
    assert Trick.LINES_CHANGED in tricks(modified("\n".join(said), "\n".join(rest)))


@given(TEXTS, TEXTS)
def test_a_move_hides_nothing_that_a_change_in_place_shows(old: str, new: str) -> None:
    in_place = tricks(modified(old, new, "tests/test_b.py"))
    assert tricks(moved("tests/test_a.py", "tests/test_b.py", old, new)) == in_place
