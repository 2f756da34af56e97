"""What is recognized as a test, and as a mark inside of one."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.proof.suites import (
    GO,
    JAVA,
    JAVASCRIPT,
    LANGUAGES,
    PYTHON,
    RUST,
    SETTINGS_SKIPS,
    Language,
    holds_tests,
    is_found,
    marks_of,
    spoken_part,
)

MARKS = [
    (PYTHON.skips, [
        "@pytest.mark.skip", "@unittest.skipIf(True, 'later')", "    pytest.skip('later')",
        "        self.skipTest('later')", "    raise unittest.SkipTest",
        "collect_ignore = ['test_total.py']", "def pytest_collection_modifyitems(items):",
        "addopts = '--deselect tests/test_total.py'", "    __test__ = False",
        "def total():  # pragma: no cover", "sys.exit(0)",
        "pytestmark = pytest.mark.xfail(strict=False)", "@pytest.mark.skipif(True, reason='x')",
        "@skipUnless(x, 'y')", "@unittest.expectedFailure", "@unittest.skip",
        "pytest.importorskip('numpy')", "pytest.xfail('later')", "raise SkipTest",
        "collect_ignore_glob = ['*']", "def pytest_ignore_collect(path):",
        "def pytest_runtest_makereport(item):", "--ignore=tests/test_a.py", "os._exit(0)",
        "sys.exit()",
    ]),
    (JAVASCRIPT.skips, [
        "test.concurrent.only('adds', () => {", "xdescribe('total', () => {", "fit('adds', () => {",
        "    this.skip();", "test('adds', { skip: true }, () => {",
        "  testPathIgnorePatterns: ['total'],", '"test": "jest --passWithNoTests"',
        "/* istanbul ignore next */", "process.exit(0)", "it.skip('a', b)", "describe.only('a', b)",
        "test.todo('a')", "test.skipIf(a)('b', c)", "test.fails('a')", "test.describe.fixme('a')",
        "it.failing('a')", "context.skip('a')", "suite.only('a')", "xit.each`a`", "xtest('a')",
        "xcontext('a')", "fdescribe('a')", "fdescribe.each([1])", "t.skip('a')", "{ only: true }",
        "{ todo: true }", "/* c8 ignore start */", "/* v8 ignore next */", "passWithNoTests: true",
    ]),
    (GO.skips, [
        "\tt.Skipf(\"later\")", "\tif testing.Short() {", "//go:build ignore", "// +build never",
        "\tos.Exit(0)",
    ]),
    (RUST.skips, [
        '#[ignore = "later"]', "#[cfg_attr(miri, ignore)]", "#[should_panic]", "#[cfg(any())]",
        "std::process::exit(0);",
    ]),
    (JAVA.skips, [
        "@DisabledOnOs(OS.LINUX)", "@Test(enabled = false)", "assumeTrue(false);",
        "<skipTests>true</skipTests>", "mvn verify -DskipTests", "-Dmaven.test.skip=true",
        "<testFailureIgnore>true</testFailureIgnore>", "test { ignoreFailures = true }",
        "System.exit(0);",
    ]),
    (SETTINGS_SKIPS, [
        "\tpytest || true", "    run: exit 0", "    continue-on-error: true",
        "    if: ${{ false }}", "pytest -k 'not total'", "go test -short ./...",
        "cargo test -- --skip total", "gradle build -x test", "harness = false",
    ]),
    (PYTHON.assertions, [
        "    assert total([]) == 0", "        self.assertEqual(total([]), 0)",
        "        self.fail('no error')", "    with pytest.raises(ValueError):",
        "    sent.assert_called_once_with(1)",
    ]),
    (JAVASCRIPT.assertions, [
        "  await expect.soft(page).toHaveTitle('a');", "  assert.strict.equal(total([]), 0);",
        "  total([]).should.equal(0);",
    ]),
    (GO.assertions, [
        "\t\tt.Errorf(\"got %d\", got)", "\trequire.NoError(t, err)",
        "\tif diff := cmp.Diff(want, got); diff != \"\" {",
    ]),
    (RUST.assertions, [
        "    assert_eq!(total(&[]), 0);", "    prop_assert_eq!(a, b);",
        "    insta::assert_snapshot!(page);",
    ]),
    (JAVA.assertions, [
        "    assertEquals(0, total());", '    fail("no error");', "    verify(sender).send(1);",
    ]),
    (PYTHON.cases, [
        "    async def test_total(self) -> None:", "class TestTotal(unittest.TestCase):",
    ]),
    (JAVASCRIPT.cases, ["test.each`a | b`('adds', () => {"]),
    (GO.cases, ["func TestTotal(t *testing.T) {", "\tt.Run(\"empty\", func(t *testing.T) {"]),
    (RUST.cases, ["#[tokio::test]", "#[rstest]"]),
    (JAVA.cases, ["    @ParameterizedTest"]),
]  # fmt: skip
NONE = [
    (PYTHON.skips, [
        "def test_skip_is_shown() -> None:", "@pytest.mark.skipped_rows", "@skipper", "skip(1)",
        "git('--ignored')", "sys.exit(1)", "__test__ = True",
    ]),
    (JAVASCRIPT.skips, [
        "it('skips what is read only', () => {", "model.fit(data)", "edit.only(line)",
        "page.test.only", "prefixit('a')", "process.exit(1)",
    ]),
    (GO.skips, ["\tlist.Skip(1)", "\tos.Exit(1)", "\t// see //go:build ignore"]),
    (RUST.skips, ["// this we ignore", "#[cfg(test)]", "#[cfg_attr(miri, allow(dead_code))]"]),
    (JAVA.skips, ["@IgnoreExtraProperties", "enabled = true", "<skipTests>false</skipTests>"]),
    (SETTINGS_SKIPS, [
        "    run: exit 1", "pytest || truest", "continue-on-error: false", "pytest -k total",
        "test = true", "tool --no-skip",
    ]),
    (PYTHON.assertions, ["def assert_total(): ...", "assertion = 1"]),
    (JAVASCRIPT.assertions, ["unexpected('a')", "const assertion = 1"]),
    (GO.assertions, ["\tlog.Fatal(err)", "\tt.Log(got)"]),
    (RUST.assertions, ["// we assert that", "my_assert!(1)"]),
    (JAVA.assertions, ["void failing() {}"]),
    (PYTHON.cases, ["def latest_total():", "    self.test_total()"]),
    (JAVASCRIPT.cases, ["/total/.test('a')", "await(total)"]),
    (GO.cases, ["func total() {", "\tcmd.Run()"]),
    (RUST.cases, ["#[cfg(test)]", "#[testing]"]),
    (JAVA.cases, ["@TestOnly"]),
]  # fmt: skip


def each(table: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, str]]:
    return [(pattern, line) for pattern, lines in table for line in lines]


@pytest.mark.parametrize(("pattern", "line"), each(MARKS))
def test_a_mark_is_found_once(pattern: str, line: str) -> None:
    assert len(marks_of(pattern, line)) == 1
    assert len(marks_of(pattern, f"x\n{line}\n\n{line}\n")) == 2


@pytest.mark.parametrize(("pattern", "line"), each(NONE))
def test_what_only_looks_like_a_mark_is_none(pattern: str, line: str) -> None:
    assert marks_of(pattern, line) == []


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        (PYTHON, 'x = "# no"  # yes', 'x = "# no"  #'),
        (PYTHON, 'a\n"""\nassert b\n"""\nc', 'a\n"\nc'),
        (PYTHON, "a\n'''\nassert \"b'\n'''\nc", "a\n'\nc"),
        (PYTHON, 'a = ""\nassert b', 'a = ""\nassert b'), (PYTHON, '"""open\nassert a\\', '"'),
        (PYTHON, '"""a\\"""b""" c', '" c'), (PYTHON, "it's\nassert a", "it's\nassert a"),
        (PYTHON, 'E = "\\\n"""\nassert a\n# """', 'E = "\\\n"""\nassert a\n#'),
        (JAVASCRIPT, "a('http://b') // c", "a('http://b') /"),
        (JAVASCRIPT, "/*\nit('a')\n*/ b", "/ b"),
        (JAVASCRIPT, "/**/ a /***/ b /* c * / d", "/ a / b /"),
        (JAVASCRIPT, "test.each`a\\`b\n`('c')", "test.each`('c')"),
        (JAVASCRIPT, "`open\nit('a')", "`"), (JAVASCRIPT, "'**/*.js' a '*/'", "'**/*.js' a '*/'"),
        (JAVASCRIPT, 'e = "\\\n/*";\nit(a)\n// */', 'e = "\\\n/*";\nit(a)\n/'),
        (JAVASCRIPT, "// a\u2028it(b) // c\u2029it(d)", "/\u2028it(b) /\u2029it(d)"),
        (JAVASCRIPT, "#!/bin/node /*\nit(a)\n// */", "#\nit(a)\n/"), (JAVA, "// a\u2028@Test", "/"),
        (GO, "a := `\\` + b // c", "a := ` + b /"),
        (RUST, "fn a<'b>() {} // c\nd", "fn a<'b>() {} // c\nd"), (RUST, '"/*"; a', '"/*"; a'),
        (JAVA, '"""\n@Test " ""\n""" a', '" a'),
    ],
)  # fmt: skip
def test_comments_and_long_texts_are_not_spoken(language: Language, text: str, spoken: str) -> None:
    assert spoken_part(text, language) == spoken


@given(st.sampled_from(LANGUAGES), st.text(alphabet="\"'`#/*\\\na ", max_size=60))
def test_what_is_spoken_is_a_part_of_the_text_in_its_order(language: Language, text: str) -> None:
    rest = iter(text)
    assert all(char in rest for char in spoken_part(text, language))


FOUND = (
    "test_a.py tests/unit/a_test.py src/a.test.ts src/__tests__/deep/a.js a_test.go tests/a.rs "
    "src/tests.rs src/test/java/ATest.java src/test/java/TestA.kt tests.py test.cjs spec.tsx "
    "test/deep/a.mjs t/a.t a.bats "
)
NOT_FOUND = (
    "tests/a.py tests/_test_a.py.bak tests/conftest.py src/a.test.ts.off src/__tests__/a.txt "
    "tests/old/a.rs src/a.rs src/main/java/ATest.java app/src/main/java/ATest.java "
    "src/test/java/A.java test/a.txt testprice.py test-price.js "
)


def test_runners_find_tests_by_their_paths() -> None:
    assert [path for path in FOUND.split() if not is_found(path)] == []
    assert [path for path in NOT_FOUND.split() if is_found(path)] == []


CASE = "class A(TestCase):\n    def testA(self): pass\n"


@pytest.mark.parametrize(
    ("path", "text", "held"),
    [
        ("test_a.py", "", True), ("test_a.py", None, True), ("a.py", CASE, False),
        ("app/testprice.py", CASE, True), ("testprice.py", None, False),
        ("testimonials.py", "class Testimonial:\n    def text(self): ...\n", False),
        ("testclient.py", "class TestClient:\n    def get(self): ...\n", False),
        ("testa.py", '"""\ndef test_a(): ...\n"""\n', False),
        ("test-price.js", "test('a', () => {})", True),
        ("price-test.mjs", "  it('a', () => {})", True),
        ("price_test.ts", "assert.equal(1, 1)", True), ("price_test.cjs", "describe('a', b)", True),
        ("speed-test.js", "if (/a/.test(b)) latest(c)", False),
        ("speed-test.js", "// test('a')", False),
    ],
)  # fmt: skip
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
