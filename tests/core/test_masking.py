"""Secrets by their shape, and text that only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.secrets import (
    MASK,
    PASSWORDS,
    TOKENS,
    before_mask,
    before_secret,
    masked,
    secrets,
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
    *(f"gh{kind}_" + "a1B2" * 9 for kind in "pousr"),
    "github_pat_" + "a1B2_" * 9,
    "glpat-" + "a1B2-" * 4,
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdef",
    "xapp-1-A0000-1234",
    "AIza" + "x" * 35,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
    "npm_" + "a1B2" * 9,
    "pypi-AgEIcHlwaS5vcmcCJDY3",
    "pypi-" + "a1B2" * 12,
    *(f"{kind}k_{mode}_4eC39HqLyjWDarjt" for kind in "sr" for mode in ("live", "test")),
    "hf_" + "abCD" * 9,
    "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2",
    "SG." + "a1B2_c" * 4 + "." + "a1-B2c" * 7,
    "ya29.a0AfH6SMBx-y_zabcdefgh",
    "hvs.CAESIJlWh3xYz-abcdefghij",
    "dop_v1_" + "a1b2" * 16,
    "AGE-SECRET-KEY-1QQPQZ7AZXHRD3T0L9X",
    "xai-" + "a1B2" * 20,
    *(f"{kind}_" + "a1b2" * 8 for kind in ("shpat", "shpca", "shppa", "shpss")),
    *(f"dckr_{kind}_a1B2-c3D4_e5F6g7H8i9J0k1L2m" for kind in ("pat", "oat")),
    "whsec_" + "a1B2" * 8,
    "whsec_" + "a1+/" * 7 + "aB==",
    *(f"lin_{kind}_" + "a1B2" * 10 for kind in ("api", "oauth")),
    "r8_" + "a1B2" * 9 + "c",
    "gsk_" + "abCD" * 13,
    *(f"sq0{kind}-a1B2-c3D4_e5F6g7H8i9J0" for kind in ("atp", "csp")),
    *(f"{kind}-a1B2c3D4e5F6" for kind in ("glptt", "gldt", "glrt", "glsoat", "glcbt")),
]
AROUND = st.sampled_from(["", " ", "\n", '"', "'", "(", ",", "`", "="])


@given(st.sampled_from(SECRETS), AROUND, AROUND)
def test_what_is_known_by_its_own_shape_is_masked(secret: str, before: str, after: str) -> None:
    assert masked(f"{before}{secret}{after}") == f"{before}{MASK}{after}"
    assert masked(f"x {before}{secret}{after}") == f"x {before}{MASK}{after}"


SAID = [
    ("password=hunter2", "password=(masked)"),
    ("db_password: hunter2\n", "db_password: (masked)\n"),
    ("?password=hunter2&x=1", "?password=(masked)&x=1"),
    ('PASSWORD = "correct horse"', 'PASSWORD = "(masked)"'),
    ('{"passphrase": "abc"}', '{"passphrase": "(masked)"}'),
    ("token: abcdefgh12345678", "token: (masked)"),
    ('"api-key": "abcd1234"', '"api-key": "(masked)"'),
    ("aws_secret_access_key = wJalr/K7MDENG", "aws_secret_access_key = (masked)"),
    ("Authorization: Bearer abcd", "Authorization: Bearer (masked)"),
    ('{"authorization": "Basic dXNlcg=="}', '{"authorization": "Basic (masked)"}'),
    ("curl -H 'x: Bearer abcdefgh12345678'", "curl -H 'x: Bearer (masked)'"),
    ("https://ada:pw@host/x", "https://ada:(masked)@host/x"),
    ("postgres://:pw@host", "postgres://:(masked)@host"),
    ("KEY_sk-ant-api03-" + "x" * 20, "KEY_(masked)"),
    ("Authorization: a1b2c3d4e5f6a7b8", "Authorization: (masked)"),
    ("authorization = 'ApiKey a1b2c3d4e5f6'", "authorization = 'ApiKey (masked)'"),
    ("https://ada:p/w@host/x", "https://ada:(masked)@host/x"),
    ("https://ada:8000@host/x", "https://ada:(masked)@host/x"),
    ("https://a1b2c3d4e5f6a7b8@host/x.git", "https://(masked)@host/x.git"),
    (r'password: "a\"b" x', 'password: "(masked)" x'),
    ('password = "it\'s me"', 'password = "(masked)"'),
    ("AccountKey=" + "a1+/" * 5 + "==;x", "AccountKey=(masked);x"),
    ("SharedAccessKey=" + "a1+/" * 5, "SharedAccessKey=(masked)"),
    ("curl -u ada:pw https://x", "curl -u ada:(masked) https://x"),
    ("curl -uada:pw x", "curl -uada:(masked) x"),
    ("curl.exe x --user ada:pw", "curl.exe x --user ada:(masked)"),
    ("curl x --proxy-user=ada:pw", "curl x --proxy-user=ada:(masked)"),
    ("curl -u 'ada:two words' x", "curl -u 'ada:(masked)' x"),
    ('curl -u "ada:p', 'curl -u "ada:(masked)'),
    ("curl -X POST \\\n  -u ada:pw \\\n  x", "curl -X POST \\\n  -u ada:(masked) \\\n  x"),
    ("curl https://curl.se/x -u ada:pw", "curl https://curl.se/x -u ada:(masked)"),
    ("curl x curl -u ada:pw", "curl x curl -u ada:(masked)"),
    (
        r"{\"password\": \"S84 hunter\", \"token\": \"S85a1b2c3d4\"}",
        r"{\"password\": \"(masked)\", \"token\": \"(masked)\"}",
    ),
    ("mysqldump --password S87hunter2 x", "mysqldump --password (masked) x"),
    ("x --password 'correct horse' y", "x --password '(masked)' y"),
    ("x --token abcDEF123456789", "x --token (masked)"),
    ("**password**: S54hunter2", "**password**: (masked)"),
    ("**Password:** S54hunter2.", "**Password:** (masked)"),
    ("`API_KEY`: `S55hunter2abc`", "`API_KEY`: `(masked)`"),
    ("/?api_key=S50abcdefgh&access_token=S51abcdefgh", "/?api_key=(masked)&access_token=(masked)"),
    ("DB_PASS=correct", "DB_PASS=(masked)"),
    ("export DB_PASS='correct horse'", "export DB_PASS='(masked)'"),
    ("GOCSPX-abcDEF-ghi_jkl", "(masked)"),
    ('password = "my ghp_a1B2c3D4e5F6 and more"', 'password = "(masked)"'),
    # small letters make it longer
    ("İİ password=hunter2 İ", "İİ password=(masked) İ"),
    ("AWS_SESSION_TOKEN=FwoGZXIvYXdzEBY", "AWS_SESSION_TOKEN=(masked)"),
]


def test_what_is_said_to_be_a_secret_is_masked() -> None:
    shown = [masked(text) for text, _ in SAID]
    assert shown == [expected for _, expected in SAID]
    assert [masked(text) for text in shown] == shown


ORDINARY = [
    "def login(user, password=None, token=token2):",
    "token = lexer.next1()",
    "token = lexer.next_token_1234()",
    "self.token = self.tokens[0]",
    "token: str",
    "the secret: never tell",
    "password = os.environ['PASSWORD']",
    'password="${PASSWORD}"',
    'password: "<your password>"',
    "max_tokens=100000000000",
    "sk-learn-is-a-library-for-python",
    "task-1234567890123456789012",
    "https://git@github.com/me/x.git",
    "ssh://deploy@example.org:2222/x",
    "authorization = request.headers1['x']",
    "npm_config_registry and npm_package_version_1",
    "hf_hub_download_2",
    "tk_widget_1",
    "xai-grok-2-latest of xai-org",
    "gsk_widget_2 and gsk_signal_handler",
    "whsec_your_webhook_signing_secret",
    "lin_api_version_2",
    "VK_FORMAT_R8_UNORM or r8_unorm_pack16",
    "sq0idp-a1B2-c3D4_e5F6g7H8i9J0 is no secret",
    "docker run -u 1000:1000 x",
    "curl --user-agent a:b x",
    "curl -u ada:$PASSWORD x",
    'curl -u "$USER:$PASSWORD" x',
    "curl -u ada:<password> x",
    "password = password2",
    "secret = self.value2",
    "password = derive1(key)",
    r"{\"password\": \"<yours>\"}",
    r"print('password: \'', x)",
    "x --password $PASSWORD or --password-stdin",
    "`password`: `str`",
    "**password**: at least 8 characters",
    "?token=next&page_token=abc123",
    "TESTS_PASS=120, ALL_PASS=true",
    "DB_PASS=$PASS or DB_PASS=<yours>",
    "first_pass = 'lexing'",
    "NEXT_TOKEN=placeholder",
    "TOKEN=TokenOfSomeKind",
    "TOKEN=Lexer.NextToken",
    "a bearer token is needed",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "the line -----BEGIN PRIVATE KEY----- alone",
    "a_variable_namedghp_a1B2a1B2a1B2",
    "xAKIAIOSFODNN7EXAMPLE",
]


def test_ordinary_text_is_as_it_was() -> None:
    assert [masked(text) for text in ORDINARY] == ORDINARY


@given(st.sampled_from([*PASSWORDS, *TOKENS, "DB_Password", "GITHUB_TOKEN"]))
def test_every_name_of_a_secret_is_known(name: str) -> None:
    for text in (f"my {name}={{}} x", f"my {name}: {{}}\n", f"my '{name}' : \"{{}}\""):
        assert masked(text.format("abcdefgh12345678")) == text.format(MASK)


@pytest.mark.parametrize(
    ("kind", "mark"),
    [("", ""), ("RSA ", "+"), ("EC ", "> "), ("OPENSSH ", "│ "), ("", "  12 │ "), ("", "12\t")],
)
def test_of_a_private_key_nothing_is_left(kind: str, mark: str) -> None:
    written = "\n".join(f"{mark}{line}" for line in KEY.format(kind).split("\n"))
    shown = masked(f"a\n{written}\nb")
    assert shown.startswith(f"a\n{mark}-----BEGIN {kind}PRIVATE KEY-----\n{MASK}\n")
    assert shown.endswith(f"-----END {kind}PRIVATE KEY-----\nb")
    assert "MIIE" not in shown
    assert "q0Fb" not in shown


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (
            r'"-----BEGIN PRIVATE KEY-----\nMIIEow\nq0Fb\n-----END PRIVATE KEY-----"',
            '"-----BEGIN PRIVATE KEY-----(masked)-----END PRIVATE KEY-----"',
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEow\nq0Fb\nand then some prose",
            "-----BEGIN PRIVATE KEY-----\n(masked)\nand then some prose",
        ),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\nlQOYBF\n=aB1c\n-----END P",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n(masked)\n-----END P",
        ),
        (
            "│ -----BEGIN PRIVATE KEY----- │\n│ MIIEow==                    │\n│ q0Fb/x+   │\n└──┘",
            "│ -----BEGIN PRIVATE KEY----- │\n(masked)\n└──┘",
        ),
    ],
    ids=["on one line", "without an end", "of PGP", "in a box"],
)
def test_a_key_may_look_otherwise(key: str, shown: str) -> None:
    assert masked(key) == shown


def test_a_word_may_begin_where_a_text_was_put_together_or_go_on() -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    assert secrets(f"is{key}") == []
    assert secrets(f"is{key}", [2, 10]) == [(2, 22)]


def test_a_line_is_not_cut_within_a_mask() -> None:
    line = f"ab{MASK}c"
    assert [before_mask(line, most) for most in range(13)] == [0, 1, *[2] * 8, 10, 11, 11]
    assert before_mask(f"{MASK}{MASK}", 9) == 8


@given(st.sampled_from([*SECRETS, *(text for text, _ in SAID)]), st.integers(0, 60))
def test_wherever_a_line_is_cut_no_part_of_a_secret_is_left(text: str, most: int) -> None:
    line = f"is {text} and so on"
    at = before_secret(line, most)
    assert at <= most
    assert {place for place in places_of(line) if place < at} <= places_of(f"{line[:at]}…")


def places_of(text: str) -> set[int]:
    return {place for start, end in secrets(text) for place in range(start, end)}


def test_of_secrets_that_overlap_nothing_is_left() -> None:
    text = "password=hunter2://a:b,c@d"
    assert secrets(text) == [(9, 22), (21, 24)]
    assert masked(text) == f"password={MASK}@d"


def test_only_what_has_to_be_is_left_out_by_a_cut() -> None:
    line = f"see https://ada:hunter2@host and {'x' * 200}"
    shown = [before_secret(line, most) for most in (15, 16, 17, 23, 26, 27, 300)]
    assert shown == [15, 16, 16, 16, 16, 27, len(line)]
    assert before_secret("password=hunter2 ghp_a1B2c3D4e5", 22) == 9


WORDS = """the a token of password secret key tests pass bearer is was src/a.py http://localhost
F1 blocking 12 3.5 (x) [y] {z} = : ; , . + - def return None"""


@given(st.lists(st.sampled_from(WORDS.split())).map(" ".join))
def test_prose_is_as_it_was(text: str) -> None:
    assert masked(text) == text
