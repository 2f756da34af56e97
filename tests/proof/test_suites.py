"""What is recognized as a test, and as a mark inside of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.proof.languages import (
    GO,
    JAVA,
    JAVASCRIPT,
    LANGUAGES,
    PYTHON,
    RUST,
    SETTINGS_SKIPS,
    Language,
    language_of,
    marks_of,
    spoken_part,
)
from cli_agent_orchestrator.proof.suites import holds_tests, is_found

SKIPS = [
    # one line for each pattern of a table, in its order
    *[
        (PYTHON.skips, line)
        for line in (
            "@pytest.mark.skip",
            "@unittest.skipIf(True, 'later')",
            "    pytest.skip('later')",
            "        self.skipTest('later')",
            "    raise unittest.SkipTest",
            "collect_ignore = ['test_total.py']",
            "def pytest_collection_modifyitems(items):",
            "addopts = '--deselect tests/test_total.py'",
            "    __test__ = False",
            "def total():  # pragma: no cover",
            "sys.exit(0)",
        )
    ],
    *[
        (JAVASCRIPT.skips, line)
        for line in (
            "test.concurrent.only('adds', () => {",
            "xdescribe('total', () => {",
            "fit('adds', () => {",
            "    this.skip();",
            "test('adds', { skip: true }, () => {",
            "  testPathIgnorePatterns: ['total'],",
            '"test": "jest --passWithNoTests"',
            "/* istanbul ignore next */",
            "process.exit(0)",
        )
    ],
    *[
        (GO.skips, line)
        for line in (
            '\tt.Skipf("later")',
            "\tif testing.Short() {",
            "//go:build ignore",
            "// +build never",
            "\tos.Exit(0)",
        )
    ],
    *[
        (RUST.skips, line)
        for line in (
            '#[ignore = "later"]',
            "#[cfg_attr(miri, ignore)]",
            "#[should_panic]",
            "#[cfg(any())]",
            "std::process::exit(0);",
        )
    ],
    *[
        (JAVA.skips, line)
        for line in (
            "@DisabledOnOs(OS.LINUX)",
            "@Test(enabled = false)",
            "assumeTrue(false);",
            "<skipTests>true</skipTests>",
            "mvn verify -DskipTests",
            "-Dmaven.test.skip=true",
            "<testFailureIgnore>true</testFailureIgnore>",
            "test { ignoreFailures = true }",
            "System.exit(0);",
        )
    ],
    *[
        (SETTINGS_SKIPS, line)
        for line in (
            "\tpytest || true",
            "    run: exit 0",
            "    continue-on-error: true",
            "    if: ${{ false }}",
            "pytest -k 'not total'",
            "go test -short ./...",
            "cargo test -- --skip total",
            "gradle build -x test",
            "harness = false",
        )
    ],
]
ASSERTIONS = [
    *[
        (PYTHON.assertions, line)
        for line in (
            "    assert total([]) == 0",
            "        self.assertEqual(total([]), 0)",
            "        self.fail('no error')",
            "    with pytest.raises(ValueError):",
            "    sent.assert_called_once_with(1)",
        )
    ],
    *[
        (JAVASCRIPT.assertions, line)
        for line in (
            "  await expect.soft(page).toHaveTitle('a');",
            "  assert.strict.equal(total([]), 0);",
            "  total([]).should.equal(0);",
        )
    ],
    *[
        (GO.assertions, line)
        for line in (
            '\t\tt.Errorf("got %d", got)',
            "\trequire.NoError(t, err)",
            '\tif diff := cmp.Diff(want, got); diff != "" {',
        )
    ],
    *[
        (RUST.assertions, line)
        for line in (
            "    assert_eq!(total(&[]), 0);",
            "    prop_assert_eq!(a, b);",
            "    insta::assert_snapshot!(page);",
        )
    ],
    *[
        (JAVA.assertions, line)
        for line in (
            "    assertEquals(0, total());",
            '    fail("no error");',
            "    verify(sender).send(1);",
        )
    ],
]
CASES = [
    (PYTHON.cases, "    async def test_total(self) -> None:"),
    (PYTHON.cases, "class TestTotal(unittest.TestCase):"),
    (JAVASCRIPT.cases, "test.each`a | b`('adds', () => {"),
    (GO.cases, "func TestTotal(t *testing.T) {"),
    (GO.cases, '\tt.Run("empty", func(t *testing.T) {'),
    (RUST.cases, "#[tokio::test]"),
    (RUST.cases, "#[rstest]"),
    (JAVA.cases, "    @ParameterizedTest"),
]
NONE = [
    (PYTHON.skips, "def test_skip_is_shown() -> None:"),
    (PYTHON.skips, "@pytest.mark.skipped_rows"),
    (PYTHON.skips, "@skipper"),
    (PYTHON.skips, "skip(1)"),
    (PYTHON.skips, "git('--ignored')"),
    (PYTHON.skips, "sys.exit(1)"),
    (PYTHON.skips, "__test__ = True"),
    (JAVASCRIPT.skips, "it('skips what is read only', () => {"),
    (JAVASCRIPT.skips, "model.fit(data)"),
    (JAVASCRIPT.skips, "edit.only(line)"),
    (JAVASCRIPT.skips, "page.test.only"),
    (JAVASCRIPT.skips, "prefixit('a')"),
    (JAVASCRIPT.skips, "process.exit(1)"),
    (GO.skips, "\tlist.Skip(1)"),
    (GO.skips, "\tos.Exit(1)"),
    (GO.skips, "\t// see //go:build ignore"),
    (RUST.skips, "// this we ignore"),
    (RUST.skips, "#[cfg(test)]"),
    (RUST.skips, "#[cfg_attr(miri, allow(dead_code))]"),
    (JAVA.skips, "@IgnoreExtraProperties"),
    (JAVA.skips, "enabled = true"),
    (JAVA.skips, "<skipTests>false</skipTests>"),
    (SETTINGS_SKIPS, "    run: exit 1"),
    (SETTINGS_SKIPS, "pytest || truest"),
    (SETTINGS_SKIPS, "continue-on-error: false"),
    (SETTINGS_SKIPS, "pytest -k total"),
    (SETTINGS_SKIPS, "test = true"),
    (SETTINGS_SKIPS, "tool --no-skip"),
    (PYTHON.assertions, "def assert_total(): ..."),
    (PYTHON.assertions, "assertion = 1"),
    (JAVASCRIPT.assertions, "unexpected('a')"),
    (JAVASCRIPT.assertions, "const assertion = 1"),
    (GO.assertions, "\tlog.Fatal(err)"),
    (GO.assertions, "\tt.Log(got)"),
    (RUST.assertions, "// we assert that"),
    (RUST.assertions, "my_assert!(1)"),
    (JAVA.assertions, "void failing() {}"),
    (PYTHON.cases, "def latest_total():"),
    (PYTHON.cases, "    self.test_total()"),
    (JAVASCRIPT.cases, "/total/.test('a')"),
    (JAVASCRIPT.cases, "await(total)"),
    (GO.cases, "func total() {"),
    (GO.cases, "\tcmd.Run()"),
    (RUST.cases, "#[cfg(test)]"),
    (RUST.cases, "#[testing]"),
    (JAVA.cases, "@TestOnly"),
]


@pytest.mark.parametrize(("pattern", "line"), [*SKIPS, *ASSERTIONS, *CASES])
def test_a_mark_is_found_once(pattern: str, line: str) -> None:
    assert len(marks_of(pattern, line)) == 1
    assert len(marks_of(pattern, f"x\n{line}\n\n{line}\n")) == 2


@pytest.mark.parametrize(("pattern", "line"), NONE)
def test_what_only_looks_like_a_mark_is_none(pattern: str, line: str) -> None:
    assert marks_of(pattern, line) == []


@pytest.mark.parametrize(
    "line",
    [
        "pytestmark = pytest.mark.xfail(strict=False)",
        "@pytest.mark.skipif(True, reason='x')",
        "@skipUnless(x, 'y')",
        "@unittest.expectedFailure",
        "@unittest.skip",
        "pytest.importorskip('numpy')",
        "pytest.xfail('later')",
        "raise SkipTest",
        "collect_ignore_glob = ['*']",
        "def pytest_ignore_collect(path):",
        "def pytest_runtest_makereport(item):",
        "--ignore=tests/test_a.py",
        "os._exit(0)",
        "sys.exit()",
    ],
)
def test_python_has_many_ways_to_skip(line: str) -> None:
    assert len(marks_of(PYTHON.skips, line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "it.skip('a', b)",
        "describe.only('a', b)",
        "test.todo('a')",
        "test.skipIf(a)('b', c)",
        "test.fails('a')",
        "test.describe.fixme('a')",
        "it.failing('a')",
        "context.skip('a')",
        "suite.only('a')",
        "xit.each`a`",
        "xtest('a')",
        "xcontext('a')",
        "fdescribe('a')",
        "fdescribe.each([1])",
        "t.skip('a')",
        "{ only: true }",
        "{ todo: true }",
        "/* c8 ignore start */",
        "/* v8 ignore next */",
        "passWithNoTests: true",
    ],
)
def test_javascript_has_many_ways_to_skip(line: str) -> None:
    assert len(marks_of(JAVASCRIPT.skips, line)) == 1


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        (PYTHON, 'x = "# no"  # yes', 'x = "# no"  #'),
        (PYTHON, 'a\n"""\nassert b\n"""\nc', 'a\n"\nc'),
        (PYTHON, "a\n'''\nassert \"b'\n'''\nc", "a\n'\nc"),
        (PYTHON, 'a = ""\nassert b', 'a = ""\nassert b'),
        (PYTHON, '"""open\nassert a\\', '"'),
        (PYTHON, '"""a\\"""b""" c', '" c'),
        (PYTHON, "it's\nassert a", "it's\nassert a"),
        (PYTHON, 'E = "\\\n"""\nassert a\n# """', 'E = "\\\n"""\nassert a\n#'),
        (JAVASCRIPT, "a('http://b') // c", "a('http://b') /"),
        (JAVASCRIPT, "/*\nit('a')\n*/ b", "/ b"),
        (JAVASCRIPT, "/**/ a /***/ b /* c * / d", "/ a / b /"),
        (JAVASCRIPT, "test.each`a\\`b\n`('c')", "test.each`('c')"),
        (JAVASCRIPT, "`open\nit('a')", "`"),
        (JAVASCRIPT, "'**/*.js' a '*/'", "'**/*.js' a '*/'"),
        (JAVASCRIPT, 'e = "\\\n/*";\nit(a)\n// */', 'e = "\\\n/*";\nit(a)\n/'),
        (JAVASCRIPT, "// a\u2028it(b) // c\u2029it(d)", "/\u2028it(b) /\u2029it(d)"),
        (JAVASCRIPT, "#!/bin/node /*\nit(a)\n// */", "#\nit(a)\n/"),
        (JAVA, "// a\u2028@Test", "/"),
        (GO, "a := `\\` + b // c", "a := ` + b /"),
        (RUST, "fn a<'b>() {} // c\nd", "fn a<'b>() {} // c\nd"),
        (RUST, '"/*"; a', '"/*"; a'),
        (JAVA, '"""\n@Test " ""\n""" a', '" a'),
    ],
)
def test_comments_and_long_texts_are_not_spoken(language: Language, text: str, spoken: str) -> None:
    assert spoken_part(text, language) == spoken


@given(st.sampled_from(LANGUAGES), st.text(alphabet="\"'`#/*\\\na ", max_size=60))
def test_what_is_spoken_is_a_part_of_the_text_in_its_order(language: Language, text: str) -> None:
    rest = iter(text)
    assert all(char in rest for char in spoken_part(text, language))


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", PYTHON),
        ("a/b.tsx", JAVASCRIPT),
        ("a.mjs", JAVASCRIPT),
        ("a.go", GO),
        ("src/lib.rs", RUST),
        ("A.kt", JAVA),
        ("build.gradle.kts", JAVA),
        ("a.txt", None),
        ("py", None),
    ],
)
def test_the_language_is_that_of_the_suffix(path: str, language: Language | None) -> None:
    assert language_of(path) is language


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("test_a.py", True),
        ("tests/unit/a_test.py", True),
        ("tests/a.py", False),
        ("tests/_test_a.py.bak", False),
        ("tests/conftest.py", False),
        ("src/a.test.ts", True),
        ("src/a.test.ts.off", False),
        ("src/__tests__/deep/a.js", True),
        ("src/__tests__/a.txt", False),
        ("a_test.go", True),
        ("tests/a.rs", True),
        ("tests/old/a.rs", False),
        ("src/tests.rs", True),
        ("src/a.rs", False),
        ("src/test/java/ATest.java", True),
        ("src/main/java/ATest.java", False),
        ("app/src/main/java/ATest.java", False),
        ("src/test/java/TestA.kt", True),
        ("src/test/java/A.java", False),
        ("tests.py", True),
        ("test.cjs", True),
        ("spec.tsx", True),
        ("test/deep/a.mjs", True),
        ("test/a.txt", False),
        ("t/a.t", True),
        ("a.bats", True),
        ("testprice.py", False),
        ("test-price.js", False),
    ],
)
def test_runners_find_tests_by_their_paths(path: str, found: bool) -> None:
    assert is_found(path) is found


CASE = "class A(TestCase):\n    def testA(self): pass\n"


@pytest.mark.parametrize(
    ("path", "text", "held"),
    [
        ("test_a.py", "", True),
        ("test_a.py", None, True),
        ("a.py", CASE, False),
        ("app/testprice.py", CASE, True),
        ("testprice.py", None, False),
        ("testimonials.py", "class Testimonial:\n    def text(self): ...\n", False),
        ("testclient.py", "class TestClient:\n    def get(self): ...\n", False),
        ("testa.py", '"""\ndef test_a(): ...\n"""\n', False),
        ("test-price.js", "test('a', () => {})", True),
        ("price-test.mjs", "  it('a', () => {})", True),
        ("price_test.ts", "assert.equal(1, 1)", True),
        ("price_test.cjs", "describe('a', b)", True),
        ("speed-test.js", "if (/a/.test(b)) latest(c)", False),
        ("speed-test.js", "// test('a')", False),
    ],
)
def test_where_a_name_says_too_little_the_text_decides(
    path: str, text: str | None, held: bool
) -> None:
    assert holds_tests(path, text) is held


HOSTILE = [
    "it.", "@", "#[cfg_attr(", "self.assert", "assert.", '"""', "'", "`", "/*", "\\", " ", "\t",
    "\n", "test", "<skip>", "#[ ", "expect.", "assertThat", "|| ", "__tests__/",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    """With a pattern that begins again and again this would take hours."""
    text = piece * (30_000 // len(piece))
    for language in LANGUAGES:
        spoken = spoken_part(text, language)
        for patterns in (language.skips, language.assertions, language.cases):
            marks_of(patterns, spoken)
            marks_of(patterns, text)
    marks_of(SETTINGS_SKIPS, text)
