"""Secrets by their shape, and text that only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator._internal.masking import (
    MASK,
    PASSWORDS,
    TOKENS,
    masked,
    masked_keys,
)

KEY = """\
-----BEGIN {0}PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED

MIIEow==
q0Fb/x+
-----END {0}PRIVATE KEY-----"""
SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk-ant-api03-" + "x" * 20,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 9,
    "glpat-" + "a1B2-" * 4,
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdef",
    "xapp-1-A0000-1234",
    "AIza" + "x" * 35,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
]
AROUND = st.sampled_from(["", " ", "\n", '"', "'", "(", ",", "`", "="])


@given(st.sampled_from(SECRETS), AROUND, AROUND)
def test_what_is_known_by_its_own_shape_is_masked(secret: str, before: str, after: str) -> None:
    assert masked(f"{before}{secret}{after}") == f"{before}{MASK}{after}"
    assert masked(f"x {before}{secret}{after}") == f"x {before}{MASK}{after}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=(masked)"),
        ("db_password: hunter2\n", "db_password: (masked)\n"),
        ("?password=hunter2&x=1", "?password=(masked)&x=1"),
        ('PASSWORD = "correct horse"', 'PASSWORD = "(masked)"'),
        ('{"passphrase": "abc"}', '{"passphrase": "(masked)"}'),
        ("passwd='abc1'", "passwd='(masked)'"),
        ("export DB_PASSWORD=correct", "export DB_PASSWORD=(masked)"),
        ("+CLIENT_SECRET=correct", "+CLIENT_SECRET=(masked)"),
        ("token: abcdefgh12345678", "token: (masked)"),
        ("API_KEY = abcdefgh12345678", "API_KEY = (masked)"),
        ('"api-key": "abcd1234"', '"api-key": "(masked)"'),
        ("aws_secret_access_key = wJalr/K7MDENG", "aws_secret_access_key = (masked)"),
        ("Authorization: Bearer abcd", "Authorization: Bearer (masked)"),
        ('{"authorization": "Basic dXNlcg=="}', '{"authorization": "Basic (masked)"}'),
        ("curl -H 'x: Bearer abcdefgh12345678'", "curl -H 'x: Bearer (masked)'"),
        ("https://ada:pw@host/x", "https://ada:(masked)@host/x"),
        ("postgres://:pw@host", "postgres://:(masked)@host"),
        ("password=hunter2, token=abcdefgh12345678", "password=(masked), token=(masked)"),
    ],
)
def test_what_is_said_to_be_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "def login(user, password=None, token=token2):",
        "token = lexer.next1()",
        "token = lexer.next_token_1234()",
        "self.token = self.tokens[0]",
        "token: str",
        "token: float64",
        "password: string;",
        "the secret: never tell",
        "password = os.environ['PASSWORD']",
        'password="${PASSWORD}"',
        'password: "<your password>"',
        "12,300 tokens: 450 out",
        "max_tokens=100000000000",
        "sk-learn-is-a-library-for-python",
        "task-1234567890123456789012",
        "https://host:8000/x@y",
        "see http://localhost:80",
        "git@github.com:me/x.git",
        "Bearer of bad news",
        "a bearer token is needed",
        "Authorization is checked",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the line -----BEGIN PRIVATE KEY----- alone",
        "eyJ.eyJ.eyJ",
        "commit 1b4f0e9851971998e732078544c96b36c3d01ced",
    ],
)
def test_ordinary_text_is_as_it_was(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("name", [*PASSWORDS, *TOKENS, "DB_Password", "GITHUB_TOKEN"])
def test_every_name_of_a_secret_is_known(name: str) -> None:
    assert masked(f"my {name}=abcdefgh12345678 x") == f"my {name}={MASK} x"
    assert masked(f"my {name}: abcdefgh12345678\n") == f"my {name}: {MASK}\n"
    assert masked(f"my '{name}' : \"abcdefgh12345678\"") == f"my '{name}' : \"{MASK}\""


@pytest.mark.parametrize("kind", ["", "RSA ", "OPENSSH ", "EC "])
@pytest.mark.parametrize("mark", ["", "+", "> ", "    "])
def test_of_a_private_key_nothing_is_left(kind: str, mark: str) -> None:
    written = "\n".join(f"{mark}{line}" for line in KEY.format(kind).split("\n"))
    for shown in (masked(f"a\n{written}\nb"), masked_keys(f"a\n{written}\nb")):
        assert shown.startswith(f"a\n{mark}-----BEGIN {kind}PRIVATE KEY-----\n{MASK}\n")
        assert shown.endswith(f"-----END {kind}PRIVATE KEY-----\nb")
        assert "MIIE" not in shown
        assert "q0Fb" not in shown


def test_a_key_may_stand_on_one_line_or_have_no_end() -> None:
    line = r'"-----BEGIN PRIVATE KEY-----\nMIIEow\nq0Fb\n-----END PRIVATE KEY-----"'
    assert "MIIE" not in masked(line)
    cut = "-----BEGIN PRIVATE KEY-----\nMIIEow\nq0Fb\nand then some prose"
    assert masked(cut) == f"-----BEGIN PRIVATE KEY-----\n{MASK}\nand then some prose"


def test_only_keys_are_masked_where_only_keys_are_meant() -> None:
    assert masked_keys("password=hunter2") == "password=hunter2"


WORDS = st.lists(
    st.sampled_from(
        [
            *("the", "a", "token", "of", "password", "secret", "key", "tests", "pass", "bearer"),
            *("is", "was", "src/a.py", "http://localhost", "F1", "blocking", "12", "3.5", "(x)"),
            *("[y]", "{z}", "=", ":", ";", ",", ".", "+", "-", "def", "return", "None"),
        ]
    )
)


@given(WORDS)
def test_prose_is_as_it_was(words: list[str]) -> None:
    text = " ".join(words)
    assert masked(text) == text


@given(st.text())
def test_what_is_masked_stays_so(text: str) -> None:
    assert masked(masked(text)) == masked(text)
