"""What is different in a repository, in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.work.watch import (
    Trace,
    Traces,
    differences,
    from_json,
    packed_refs,
    settings_in,
    to_json,
)

ONE, TWO = "1" * 40, "2" * 40


ON_A = Trace(0o644, b"ref: refs/heads/a\n")


def back(name: str) -> str:
    """Return what is said of a branch that was at the first commit."""
    command = f"git update-ref {name} {ONE}"
    return f"was {ONE[:12]}; `{command}` brings it back until git prunes it"


def config(text: str, path: str = ".git/config") -> Traces:
    return Traces({path: Trace(0o644, text.encode())})


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", []),
        ("[core]\n\tbare = false\n", [("core.bare", "false")]),
        ("[Core] fsMonitor = x y \n", [("core.fsmonitor", "x y")]),
        ('[filter "A.b"]\n clean = a \\\n b\n', [("filter.A.b.clean", "a  b")]),
        ("[core]\n# bare = true\n; x = y\nbare\n", [("core.bare", "")]),
        ('[include "x\\"y"]\npath=z', [('include.x\\"y.path', "z")]),
        ("no = section\n[broken\nx y = z\n", [("no", "section")]),
        ("[a]\nx = 1\nx = 2\n", [("a.x", "1"), ("a.x", "2")]),
    ],
)
def test_settings_are_read_as_git_does(text: str, settings: list[tuple[str, str]]) -> None:
    assert settings_in(text.encode()) == settings


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (Traces(), Traces(), ()),
        (config("[a]\nb=1\n"), config("[a]\nb=1\n"), ()),
        (config("[a]\nb=1\n"), config("[a]\nb=2\n[c]\nd=1\n"), (".git/config (a.b, c.d)",)),
        (config("[a]\nb=1\n"), config("[a]\nb=1\nb=1\n"), (".git/config (a.b)",)),
        (config("[a]\nb=1\n"), config("# x\n[a]\nb=1\n"), (".git/config",)),
        (config("[a]\nb=1\n"), Traces(), (".git/config (a.b)",)),
        (Traces(), config("[a]\nb=1\n", "/g/config.worktree"), ("/g/config.worktree (a.b)",)),
        (Traces(), config("x", "h/pre-commit"), ("h/pre-commit (new)",)),
        (config("x", "h/pre-commit"), Traces(), ("h/pre-commit (gone)",)),
        (config("x", "HEAD"), config("y", "HEAD"), ("HEAD",)),
        (config("x", "h/a"), Traces({"h/a": Trace(0o755, b"x")}), ("h/a",)),
        (Traces(refs={"refs/heads/a": ONE}), Traces(refs={"refs/heads/a": ONE}), ()),
        (
            Traces(refs={"refs/heads/a": ONE, "refs/tags/t": ONE}),
            Traces(refs={"refs/heads/a": TWO, "refs/heads/b": ONE}),
            (
                f"refs/heads/a ({back('refs/heads/a')})",
                "refs/heads/b (new)",
                f"refs/tags/t ({back('refs/tags/t')})",
            ),
        ),
        (
            Traces({".git/HEAD": ON_A}, {"refs/heads/a": ONE, "refs/heads/b": ONE}),
            Traces({".git/HEAD": ON_A}, {"refs/heads/a": TWO}),
            (
                f"refs/heads/a ({back('refs/heads/a')}; your files stay as they are then)",
                f"refs/heads/b ({back('refs/heads/b')})",
            ),
        ),
        (
            Traces(refs={"refs/heads/$(x)": ONE}),
            Traces(),
            (f"refs/heads/$(x) ({back(repr('refs/heads/$(x)'))})",),
        ),
        (
            Traces(refs={"refs/remotes/o/HEAD": "ref: refs/remotes/o/a"}),
            Traces(),
            (
                "refs/remotes/o/HEAD (was ref: refs/re; `git symbolic-ref refs/remotes/o/HEAD "
                "refs/remotes/o/a` brings it back)",
            ),
        ),
        (Traces(refs={"refs/heads/a": "1; x"}), Traces(), ("refs/heads/a (was 1; x)",)),
        (Traces(refs={"refs/heads/a": "ref: -d x"}), Traces(), ("refs/heads/a (was ref: -d x)",)),
        (Traces(refs={"refs/heads/cao/x": ONE}), Traces(refs={"refs/heads/cao/x": TWO}), ()),
    ],
)
def test_what_is_different_is_named(old: Traces, new: Traces, said: tuple[str, ...]) -> None:
    assert differences(old, new) == said


def test_what_can_start_a_program_is_named_first() -> None:
    text = '[alias]\nx=!y\n[core]\nbare=0\nfsmonitor=x\n[user]\nname=u\n[filter "a"]\nclean=x\n'
    new = Traces(
        {
            ".git/HEAD": Trace(0o644, b"x"),
            ".git/config": Trace(0o644, text.encode()),
            ".git/hooks/a.sample": Trace(0o755, b"x"),
            ".git/hooks/pre-commit": Trace(0o755, b"x"),
            ".git/info/attributes": Trace(0o644, b"x"),
            ".git/modules/m/config": Trace(0o644, b'[core]\nbare=0\n[branch "a"]\nmerge=b\n'),
        },
        {"refs/heads/a": ONE},
    )
    old = Traces({".git/hooks/gone": Trace(0o755, b"x")})
    assert differences(old, new) == (
        ".git/config (alias.x, core.fsmonitor, filter.a.clean, core.bare, user.name)",
        ".git/hooks/pre-commit (new)",
        ".git/HEAD (new)",
        ".git/hooks/gone (gone)",
        ".git/info/attributes (new)",
        ".git/modules/m/config (branch.a.merge, core.bare)",
        ".git/hooks/a.sample (new)",
        "refs/heads/a (new)",
    )


def test_packed_branches_are_read() -> None:
    text = f"# pack-refs with: peeled sorted \n{ONE} refs/heads/a\n{TWO} refs/tags/t\n^{ONE}\n"
    assert packed_refs(text.encode()) == {"refs/heads/a": ONE, "refs/tags/t": TWO}


@given(
    st.builds(
        Traces,
        st.dictionaries(st.text(), st.builds(Trace, st.integers(0, 0o177777), st.binary())),
        st.dictionaries(st.text(), st.text()),
    )
)
def test_what_is_kept_is_read_again(traces: Traces) -> None:
    assert from_json(to_json(traces)) == traces


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"files": {}}',
        '{"files": {"a": 1}, "refs": {}}',
        '{"files": [], "refs": 1}',
        '{"files": {"a": [1, "?"]}, "refs": {}}',
        '{"files": {"a": ["x", ""]}, "refs": {}}',
    ],
)
def test_what_tells_nothing_is_none(text: str) -> None:
    assert from_json(text) is None


def test_what_was_not_looked_at_is_said_once() -> None:
    was, now = Traces(unseen=("a (why)",)), Traces(unseen=("a (why)", "b (why)"))
    assert differences(was, now) == ("b (why)",)
    assert differences(now, was) == ()
    assert from_json(to_json(now)) == now
    assert from_json('{"files": {}, "refs": {}}') == Traces()
