"""What is noticed about tests that were changed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.proof.suites import Kinds, PathKind, kind_of
from cli_agent_orchestrator.proof.tampering import (
    LARGEST_TEXT,
    MOST_LINES,
    ChangedFile,
    Suspicion,
    Trick,
    find_tampering,
)

FILE, PROGRAM, LINK, MODULE, NOTHING = "100644", "100755", "120000", "160000", "000000"
PYTHON_TEST = """import pytest

def test_adds():
    assert total([1, 2]) == 3
    assert total([2, 2]) == 4

def test_empty():
    assert total([]) == 0
"""


def modified(old: str | None, new: str | None, path: str = "tests/test_total.py") -> ChangedFile:
    return ChangedFile(path, path, "M", FILE, FILE, old, new)


def added(path: str, new: str | None) -> ChangedFile:
    return ChangedFile(path, path, "A", NOTHING, FILE, None, new)


def deleted(path: str, old: str | None) -> ChangedFile:
    return ChangedFile(path, path, "D", FILE, NOTHING, old, None)


def moved(old_path: str, path: str, old: str = PYTHON_TEST, new: str | None = None) -> ChangedFile:
    return ChangedFile(path, old_path, "R", FILE, FILE, old, old if new is None else new)


def told(*changes: ChangedFile) -> list[tuple[Trick, str]]:
    return [(suspicion.trick, suspicion.detail) for suspicion in find_tampering(changes)]


def tricks(*changes: ChangedFile) -> list[Trick]:
    return [trick for trick, _ in told(*changes)]


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


def test_a_deleted_test_says_how_much_is_gone() -> None:
    assert find_tampering([deleted("tests/test_total.py", PYTHON_TEST)]) == (
        Suspicion("tests/test_total.py", Trick.DELETED, "deleted (2 cases, 3 assertions)"),
    )
    assert told(deleted("tests/data.bin", None)) == [(Trick.DELETED, "deleted")]
    one = deleted("a_test.go", "func TestA(t *testing.T) {\n\tt.Fatal(1)\n}")
    assert told(one) == [(Trick.DELETED, "deleted (1 case, 1 assertion)")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tests/test_2.py", "src/helper.py"), ("tests/test_5.py", "tests/_test_5.py.bak"),
        ("tests/test_5.py", "tests/helper.py"), ("tests/helper.py", "src/helper.py"),
        ("src/a.test.ts", "src/a.ts"), ("a_test.go", "a_test.go.txt"),
        ("src/test/java/ATest.java", "src/main/java/ATest.java"), ("tests/a.rs", "tests/old/a.rs"),
    ],
)  # fmt: skip
def test_a_test_that_no_runner_finds_was_moved_out(old: str, new: str) -> None:
    (suspicion,) = find_tampering([moved(old, new)])
    assert (suspicion.path, suspicion.trick) == (old, Trick.MOVED_OUT)
    assert suspicion.detail.startswith(f"moved to {new}, where no test runner looks for it")


def test_a_test_that_was_moved_out_says_how_much_it_held() -> None:
    ((_, detail),) = told(moved("test_a.py", "a.py"))
    assert detail == "moved to a.py, where no test runner looks for it (2 cases, 3 assertions)"


def test_a_move_is_told_without_what_could_rule_a_screen() -> None:
    ((_, detail),) = told(moved("test_a.py", "a\x1b[2J\n" + "b" * 300))
    assert detail.startswith("moved to a?[2J?b")
    assert detail.isprintable()
    assert len(detail) < 300


def test_a_test_may_get_another_name_in_its_folder() -> None:
    assert told(moved("tests/test_a.py", "tests/test_b.py")) == []


def test_a_test_in_another_folder_is_the_least_of_suspicions() -> None:
    change = moved("tests/test_a.py", "tests/old/test_a.py")
    assert find_tampering([change]) == (
        Suspicion("tests/test_a.py", Trick.MOVED, "moved to tests/old/test_a.py"),
    )


def test_a_test_that_was_moved_is_compared_with_what_it_was() -> None:
    change = moved("test_a.py", "test_b.py", new=PYTHON_TEST.replace("== 4", "== 5"))
    assert find_tampering([change]) == (
        Suspicion("test_b.py", Trick.LINES_CHANGED, "1 of 6 lines removed or changed"),
    )


def test_new_lines_in_a_test_are_welcome() -> None:
    more = PYTHON_TEST + "\n\ndef test_more():\n    assert total([9]) == 9\n"
    assert told(modified(PYTHON_TEST, more)) == []
    assert told(modified(PYTHON_TEST, "import os\n\n" + more)) == []


def test_line_ends_and_blank_lines_do_not_matter_in_code() -> None:
    other = PYTHON_TEST.replace("\n\n", "\n").replace("\n", " \r\n")
    assert told(modified(PYTHON_TEST, other)) == []
    assert told(modified(PYTHON_TEST, PYTHON_TEST.replace("\n", "\r"))) == []


def test_spaces_matter_in_golden_data() -> None:
    assert told(modified("a \nb", "a\nb", "tests/want.txt")) == [
        (Trick.LINES_CHANGED, "1 of 2 lines removed or changed")
    ]
    assert told(modified("a\n\nb", "a\nb", "tests/want.txt")) == [
        (Trick.LINES_CHANGED, "1 of 3 lines removed or changed")
    ]


def test_a_loosened_assertion_is_a_changed_line() -> None:
    loose = PYTHON_TEST.replace("assert total([]) == 0", "assert True")
    assert told(modified(PYTHON_TEST, loose)) == [
        (Trick.LINES_CHANGED, "1 of 6 lines removed or changed")
    ]


def test_lines_in_another_order_are_told() -> None:
    lines = PYTHON_TEST.splitlines()
    other = "\n".join([*lines[:3], lines[4], lines[3], *lines[5:]])
    assert told(modified(PYTHON_TEST, other)) == [
        (Trick.LINES_CHANGED, "lines are in another order")
    ]


def test_cases_and_assertions_that_are_gone_are_counted() -> None:
    assert told(modified(PYTHON_TEST, PYTHON_TEST.partition("def test_empty")[0])) == [
        (Trick.FEWER_CASES, "1 case fewer (2 → 1)"),
        (Trick.FEWER_ASSERTIONS, "1 assertion fewer (3 → 2)"),
        (Trick.LINES_CHANGED, "2 of 6 lines removed or changed"),
    ]
    assert told(modified(PYTHON_TEST, "")) == [
        (Trick.FEWER_CASES, "2 cases fewer (2 → 0)"),
        (Trick.FEWER_ASSERTIONS, "3 assertions fewer (3 → 0)"),
        (Trick.LINES_CHANGED, "6 of 6 lines removed or changed"),
    ]


@pytest.mark.parametrize(
    ("path", "test", "before", "after"),
    [
        ("test_a.py", PYTHON_TEST, '"""', '"""'),
        ("test_a.py", PYTHON_TEST, "'''", ""),
        ("a.test.js", "it('a', () => {\nexpect(1)\n})", "/*", "*/"),
        ("a.test.js", "it('a', () => {\nexpect(1)\n})", "`", "`"),
        ("a_test.go", "func TestA(t *testing.T) {\n\tt.Fail()\n}", "/*", ""),
        ("ATest.java", "@Test\nvoid a() {\nassertTrue(b);\n}", "/* no", "*/"),
        ("tests/a.rs", "#[test]\nfn a() { assert!(b); }", "/*", "*/"),
    ],
)
def test_a_test_within_a_comment_counts_as_none(
    path: str, test: str, before: str, after: str
) -> None:
    """Only lines were added, but nothing is tested any more."""
    change = modified(test, f"{before}\n{test}\n{after}", path)
    assert tricks(change) == [Trick.FEWER_CASES, Trick.FEWER_ASSERTIONS]


def test_new_skips_are_told_with_one_of_them() -> None:
    skipped = PYTHON_TEST.replace("def test_empty", "@pytest.mark.skip\ndef test_empty")
    assert told(modified(PYTHON_TEST, skipped)) == [
        (Trick.NEW_SKIPS, "1 mark more that skip or narrow tests (0 → 1): pytest.mark.skip")
    ]
    assert tricks(modified(skipped, skipped + "\n")) == []
    twice = skipped + "\ncollect_ignore = []\npytest.skip()\n"
    assert told(modified(skipped, twice)) == [
        (Trick.NEW_SKIPS, "2 marks more that skip or narrow tests (1 → 3): collect_ignore")
    ]
    ignoring = PYTHON_TEST + "\ncollect_ignore = []\n"
    assert told(modified(ignoring, ignoring + "pytest.skip()\n")) == [
        (Trick.NEW_SKIPS, "1 mark more that skip or narrow tests (1 → 2): pytest.skip(")
    ]


def test_new_tests_are_welcome_unless_they_skip() -> None:
    assert told(added("tests/test_new.py", PYTHON_TEST)) == []
    assert tricks(added("src/a.test.ts", "it.only('a', () => {})")) == [Trick.NEW_SKIPS]
    assert tricks(added("conftest.py", "collect_ignore = ['test_a.py']")) == [Trick.NEW_SKIPS]
    assert tricks(moved("src/a.py", "tests/test_a.py", "pytest.skip()")) == [Trick.NEW_SKIPS]
    assert told(added("tests/data.bin", None)) == []
    assert told(added("tests/readme.md", "it.only(")) == []


def test_sources_are_not_looked_at() -> None:
    assert told(modified("assert a\n", "pytest.skip()\n", "src/total.py")) == []
    assert told(deleted("src/total.py", PYTHON_TEST)) == []
    assert told(moved("src/a.py", "src/b.py")) == []


@pytest.mark.parametrize(
    ("path", "trick"), [("pytest.ini", Trick.SETTINGS_CHANGED), ("Makefile", Trick.CI_CHANGED)]
)
def test_settings_are_suspicious_in_any_case(path: str, trick: Trick) -> None:
    assert told(added(path, "a")) == [(trick, "new")]
    assert told(deleted(path, "a")) == [(trick, "deleted")]
    assert told(modified("a", "b", path)) == [(trick, "1 of 1 line removed or changed")]
    assert told(modified("a", "a\nb\nc", path)) == [(trick, "2 lines added")]
    assert told(modified("a\nb", "b\na", path)) == [(trick, "lines are in another order")]
    assert told(modified("a\r\n", "a\n", path)) == []
    assert told(modified(None, "a", path)) == [
        (trick, "changed; it is not text, or too large to be looked into")
    ]
    assert told(moved(path, "other", "a")) == [(trick, "moved to other")]
    assert told(moved("other", path, "a")) == [(trick, "new")]


def test_marks_in_settings_of_any_language_count() -> None:
    change = modified("test:\n\tpytest", "test:\n\tpytest || true", "Makefile")
    assert told(change) == [
        (Trick.NEW_SKIPS, "1 mark more that skip or narrow tests (0 → 1): || true"),
        (Trick.CI_CHANGED, "1 of 2 lines removed or changed"),
    ]
    package = modified('{"test": "jest"}', '{"test": "jest --passWithNoTests"}', "package.json")
    assert tricks(package) == [Trick.NEW_SKIPS, Trick.SETTINGS_CHANGED]
    workflow = added(".github/workflows/a.yml", "run: mvn verify -DskipTests")
    assert tricks(workflow) == [Trick.NEW_SKIPS, Trick.CI_CHANGED]


def test_other_rights_of_a_test_are_told() -> None:
    change = modified(PYTHON_TEST, PYTHON_TEST)
    assert told(replace(change, new_mode=PROGRAM)) == [(Trick.MODE_CHANGED, "it is executable now")]
    assert told(replace(change, old_mode=PROGRAM)) == [
        (Trick.MODE_CHANGED, "it is not executable any more")
    ]
    assert told(replace(change, path="Makefile", old_path="Makefile", new_mode=PROGRAM)) == [
        (Trick.MODE_CHANGED, "it is executable now")
    ]
    source = replace(change, path="src/a.py", old_path="src/a.py", new_mode=PROGRAM)
    assert told(source) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (FILE, LINK, "it is a symbolic link now"),
        (FILE, MODULE, "it is a submodule now"),
        (LINK, FILE, "it is a plain file now"),
        (FILE, "040000", "it is of mode 040000 now"),
    ],
)
@pytest.mark.parametrize("path", ["tests/test_total.py", "tox.ini"])
def test_a_test_that_became_something_else_was_replaced(
    old: str, new: str, words: str, path: str
) -> None:
    change = ChangedFile(path, path, "T", old, new, PYTHON_TEST, "../other")
    assert told(change) == [(Trick.REPLACED, words)]


@pytest.mark.parametrize(
    "text", [None, "x" * (LARGEST_TEXT + 1), "\n" * MOST_LINES], ids=["none", "long", "lines"]
)
def test_what_cannot_be_looked_into_is_only_said_to_be_changed(text: str | None) -> None:
    unreadable = "changed; it is not text, or too large to be looked into"
    assert told(modified(text, PYTHON_TEST)) == [(Trick.LINES_CHANGED, unreadable)]
    assert told(modified(PYTHON_TEST, text)) == [(Trick.LINES_CHANGED, unreadable)]
    assert told(modified(text, "#[test]", "src/lib.rs")) == []
    assert told(modified("a", text, "notes.txt")) == []
    assert told(deleted("tests/test_total.py", text)) == [(Trick.DELETED, "deleted")]


@pytest.mark.parametrize("path", ["src/lib.rs", "price.py", "price.js"])
@pytest.mark.parametrize(
    "text", [None, "x" * (LARGEST_TEXT + 1), "\n" * MOST_LINES], ids=["none", "long", "lines"]
)
def test_source_code_that_cannot_be_looked_into_could_hold_anything(
    path: str, text: str | None
) -> None:
    doubt = [(Trick.MISLEADS, "it is not text, or too large to be looked into")]
    assert told(added(path, text)) == doubt
    assert told(modified("a = 1\n", text, path)) == doubt
    assert told(deleted(path, text)) == []


def test_source_code_behind_a_link_could_hold_anything() -> None:
    link = replace(added("price.py", "price\n.dat"), new_mode=LINK)
    assert told(link) == [(Trick.MISLEADS, "it is a link to price?.dat")]
    assert told(replace(link, path="price", old_path="price")) == []


def test_files_that_are_too_many_to_be_looked_into_are_told() -> None:
    change = added("price.py", "import unittest\n")
    found = find_tampering([change], left_out=("a.py",))
    assert [(one.path, one.trick) for one in found] == [
        ("price.py", Trick.REACHES),
        ("a.py", Trick.MISLEADS),
    ]
    assert found[1].detail == "not looked into, as too many files were changed"
    (told,) = find_tampering([], left_out=("a.py", "b.py", "c.py"))
    assert told.detail == "not looked into, as too many files were changed; 2 more files like that"


def test_the_largest_text_is_looked_into() -> None:
    old = "x" * LARGEST_TEXT
    assert told(modified(old, old, "tests/a.txt")) == []
    assert told(modified("\n" * (MOST_LINES - 1), "a", "tests/a.txt")) == [
        (Trick.LINES_CHANGED, "20,000 of 20,000 lines removed or changed")
    ]


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


def rust(new: str, path: str = "src/lib.rs") -> list[tuple[Trick, str]]:
    return told(modified(RUST, new, path))


def test_unit_tests_within_rust_sources_are_looked_at() -> None:
    assert rust(RUST.replace("    #[test]", "    #[test]\n    #[ignore]")) == [
        (Trick.NEW_SKIPS, "1 mark more that skip or narrow tests (0 → 1): #[ignore")
    ]
    assert rust(RUST.replace(", 3);", ", 4);")) == [
        (Trick.LINES_CHANGED, "1 of 8 lines removed or changed")
    ]
    assert rust(RUST.replace(RUST_TESTS, "")) == [
        (Trick.FEWER_CASES, "1 case fewer (1 → 0)"),
        (Trick.FEWER_ASSERTIONS, "1 assertion fewer (1 → 0)"),
        (Trick.LINES_CHANGED, "8 of 8 lines removed or changed"),
    ]
    assert rust(RUST.replace("cfg(test)", "cfg(any())")) == [
        (
            Trick.NEW_SKIPS,
            "1 mark more that skip or narrow tests (0 → 1): #[cfg(any())",
        ),
        (Trick.FEWER_ASSERTIONS, "1 assertion fewer (1 → 0)"),
        (Trick.LINES_CHANGED, "8 of 8 lines removed or changed"),
    ]
    assert Trick.FEWER_CASES in tricks(deleted("src/lib.rs", RUST))
    assert Trick.FEWER_CASES in tricks(moved("src/lib.rs", "src/lib.txt", RUST))
    assert tricks(added("src/new.rs", "#[test]\n#[ignore]\nfn a() {}")) == [Trick.NEW_SKIPS]


def test_the_code_of_a_rust_source_may_change() -> None:
    assert rust(RUST.replace("a.iter().sum()", "0")) == []
    assert rust(RUST.replace("    assert!(true);\n", "").replace("assert!(false);", "")) == []
    assert told(moved("src/lib.rs", "src/total.rs", RUST)) == []
    assert told(deleted("src/total.rs", "pub fn total() {}")) == []
    assert told(modified("mod a;", "mod b;", "src/lib.rs")) == []


def test_tests_in_a_file_of_their_own_do_not_make_code_a_test() -> None:
    old = '#[cfg(test)]\n#[path = "a.rs"]\nmod tests;\n\nfn total() {\n    1;\n}\n'
    assert told(modified(old, old.replace("1;", "2;"), "src/lib.rs")) == []
    assert tricks(modified(old, old.replace("mod tests;", ""), "src/lib.rs")) == [
        Trick.LINES_CHANGED
    ]


def test_unit_tests_may_stand_deeper() -> None:
    old = "mod a {\n    #[cfg(all(test, unix))]\n    mod b {\n        x;\n    }\n    y;\n}\n"
    assert tricks(modified(old, old.replace("x;", "z;"), "src/lib.rs")) == [Trick.LINES_CHANGED]
    assert told(modified(old, old.replace("y;", "z;"), "src/lib.rs")) == []


def test_the_worst_comes_first() -> None:
    changes = [
        replace(modified(PYTHON_TEST, PYTHON_TEST, "tests/test_a.py"), new_mode=PROGRAM),
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
        ChangedFile("tests/i", "tests/i", "T", FILE, LINK, "a", "b"),
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
LINES = st.lists(
    st.sampled_from(
        ["assert a", "def test_a():", "@pytest.mark.skip", "it.only('a')", "expect(a)", "#[test]",
         "#[cfg(test)]", "mod a {", "}", "", "x", '"""', "/*", "*/", "|| true"]
    )
    | st.text(max_size=8)
)  # fmt: skip
TEXTS = LINES.map("\n".join)
MODES = st.sampled_from([FILE, PROGRAM, LINK, MODULE, NOTHING, ""])


@st.composite
def any_change(draw: st.DrawFn) -> ChangedFile:
    status = draw(st.sampled_from("AMDRT"))
    path = draw(PATHS)
    old_path = draw(PATHS) if status == "R" else path
    texts = st.none() | TEXTS
    old, new = draw(texts), draw(texts)
    return ChangedFile(path, old_path, status, draw(MODES), draw(MODES), old, new)


@given(st.lists(any_change(), max_size=6))
def test_the_order_of_changes_does_not_matter(changes: list[ChangedFile]) -> None:
    found = find_tampering(changes)
    assert find_tampering(changes[::-1]) == found
    assert find_tampering([*changes, *changes]) == found
    assert len(set(found)) == len(found)
    assert set(found) == {s for change in changes for s in find_tampering([change])}


@given(any_change())
def test_what_is_told_is_a_plain_line_about_the_file(change: ChangedFile) -> None:
    for suspicion in find_tampering([change]):
        assert suspicion.path in (change.path, change.old_path)
        assert suspicion.detail
        assert suspicion.detail.isprintable()


@given(any_change())
def test_only_what_is_gone_was_deleted_and_only_what_was_moved_is_moved(
    change: ChangedFile,
) -> None:
    found = set(tricks(change))
    assert Trick.DELETED not in found or change.status == "D"
    assert found.isdisjoint({Trick.MOVED, Trick.MOVED_OUT}) or change.status == "R"


@given(LINES, st.lists(st.tuples(st.integers(0, 20), st.text("xyz# \t", max_size=5)), max_size=8))
def test_added_lines_without_marks_are_never_suspicious(
    lines: list[str], more: list[tuple[int, str]]
) -> None:
    old = [line for line in lines if '"' not in line and "'" not in line]
    new = list(old)
    for place, line in more:
        new.insert(place, line)
    assert told(modified("\n".join(old), "\n".join(new))) == []


@given(TEXTS, PATHS)
def test_a_file_that_stayed_as_it_was_is_not_suspicious(text: str, path: str) -> None:
    assert told(modified(text, text, path)) == []


@given(LINES, st.data())
def test_a_line_that_is_gone_is_always_told(lines: list[str], data: st.DataObject) -> None:
    said = [line for line in lines if line.strip()] or ["x"]
    gone = data.draw(st.integers(0, len(said) - 1))
    rest = said[:gone] + said[gone + 1 :]
    assert Trick.LINES_CHANGED in tricks(modified("\n".join(said), "\n".join(rest)))


@given(TEXTS, TEXTS)
def test_a_move_hides_nothing_that_a_change_in_place_shows(old: str, new: str) -> None:
    in_place = tricks(modified(old, new, "tests/test_b.py"))
    assert tricks(moved("tests/test_a.py", "tests/test_b.py", old, new)) == in_place


def test_every_trick_has_words_of_its_own() -> None:
    assert [str(trick) for trick in Trick] == [
        "deleted", "moved out", "replaced", "fewer cases", "new skips", "fewer assertions",
        "reaches into the tests", "could mislead the tests", "settings changed", "CI changed",
        "lines changed", "moved", "mode changed",
    ]  # fmt: skip
    assert [str(kind) for kind in PathKind] == ["test", "settings", "ci", "other"]
