"""Secrets in a text that others will see: known by their shape, and masked.

It is a net, no proof: what looks like an ordinary word stays. So does code that only speaks of
secrets: `password=None`, `token = next(tokens)`, `token: str`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from string import ascii_lowercase, ascii_uppercase

MASK = "(masked)"
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Where `str.lower` makes a text longer: places in the one have to be places in the other."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a kind of secret looks like."""

    words: tuple[str, ...]
    """One of them begins it, in small letters: they are found much faster than a pattern."""
    pattern: str
    """Its group `secret` is what is masked."""


# A line of a key, after nothing, a mark of a diff or of a quotation: data, or `DEK-Info: …`
KEY_LINE = r"\n[+\-> |\t]{0,8}(?:[A-Za-z0-9+/=]{0,200}|[A-Za-z-]{1,40}: [^\n]{0,200})\r?(?=\n|\Z)"
# `="…` or `: '…`; in JSON the name has a quotation mark, too.
QUOTED = r"""["']?[ \t]{0,4}[:=][ \t]{0,4}(?P<quote>["'])"""
# A letter and a digit in it, and nothing after it that only code has.
MIXED = r"(?=[^\s\"']{0,60}[A-Za-z])(?=[^\s\"']{0,60}\d)"
END = r"(?=[\s\"',;&)]|\Z)"
ALONE = r"(?<![A-Za-z0-9])"
PASSWORDS = ("password", "passwd", "passphrase", "secret")
TOKENS = (
    *("token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
    *("secret_key", "secret-key", "secretkey", "credential"),
)
NAME = r"[A-Za-z_-]{1,12}?"
"""One of these words, which has been found."""
KEY_BEGIN = "-----BEGIN "
KEY = _Shape(
    (KEY_BEGIN.translate(SMALL),),
    rf"{KEY_BEGIN}[A-Z0-9 ]{{0,40}}PRIVATE KEY-----"
    rf"(?P<secret>[A-Za-z0-9+/=\\]{{0,20000}}(?:{KEY_LINE}){{0,400}})",
)
SHAPES = (
    KEY,
    _Shape(("sk-",), r"(?<![\w-])(?P<secret>sk-(?=[\w-]{0,60}\d)[\w-]{20,})"),
    # A part of one is masked, too: the end may have been cut off.
    _Shape(
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
        rf"{ALONE}(?P<secret>(?:gh[pousr]_|github_pat_|glpat-)[\w-]{{8,}})",
    ),
    _Shape(("akia", "asia"), rf"{ALONE}(?P<secret>(?:AKIA|ASIA)[0-9A-Z]{{16}})(?![0-9A-Za-z])"),
    _Shape(("xox", "xapp-"), rf"{ALONE}(?P<secret>(?:xox[abeoprs]|xapp)-[\w-]{{10,}})"),
    _Shape(("aiza",), rf"{ALONE}(?P<secret>AIza[\w-]{{35}})(?![\w-])"),
    _Shape(("eyj",), r"(?<![\w-])(?P<secret>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"),
    _Shape(("://",), r"(?<=[A-Za-z0-9])://[^\s/:@\"']{0,200}:(?P<secret>[^\s/@\"']{1,200})@"),
    _Shape(
        ("authorization",),
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?i:bearer|basic|token|digest)"
        r"[ \t]+(?P<secret>[^\s\"'<>$(){}]{4,})",
    ),
    _Shape(("bearer ",), rf"(?i:bearer) (?P<secret>{MIXED}[\w.~+/=-]{{16,}})"),
    _Shape(PASSWORDS, rf"{NAME}{QUOTED}(?P<secret>(?![<${{*(])[^\n\"']{{3,200}})(?P=quote)"),
    _Shape(
        PASSWORDS,
        rf"{NAME}(?:=|:[ \t]{{1,4}})(?P<secret>{MIXED}[^\s\"'<>${{}}()\[\]*,;&]{{6,200}}){END}",
    ),
    # Where a variable of the environment is set, whatever it is.
    _Shape(
        PASSWORDS,
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)=(?P<secret>[^\s\"'<>${}()\[\]*]{3,200})",
    ),
    _Shape(TOKENS, rf"{NAME}{QUOTED}(?P<secret>{MIXED}[^\s\"'<>${{}}()]{{8,400}})(?P=quote)"),
    _Shape(
        TOKENS,
        rf"{NAME}(?:[ \t]{{0,4}}=[ \t]{{0,4}}|:[ \t]{{1,4}})"
        rf"(?P<secret>{MIXED}[\w.~+/=-]{{12,400}}){END}",
    ),
)


def masked(text: str) -> str:
    """Return a text in which what looks like a secret is masked.

    >>> masked("password=hunter2 of https://ada:x@host/")
    'password=(masked) of https://ada:(masked)@host/'
    """
    return _without(text, SHAPES)


def masked_keys(text: str) -> str:
    """Return a text without private keys, of which a part would not be known as one."""
    return _without(text, (KEY,)) if KEY_BEGIN in text else text


def _without(text: str, shapes: tuple[_Shape, ...]) -> str:
    small = text.lower()
    if len(small) != len(text):
        small = text.translate(SMALL)
    parts, done = [], 0
    for start, end in sorted(_spans(shapes, text, small)):
        if start >= done:
            # A key of many lines leaves one word, on a line of its own where it was.
            gap = "\n" if text[start] == "\n" else ""
            parts += [text[done:start], gap, MASK]
            done = end
    return "".join([*parts, text[done:]])


def _spans(shapes: tuple[_Shape, ...], text: str, small: str) -> Iterator[tuple[int, int]]:
    for word, patterns in _patterns(shapes).items():
        at = small.find(word)
        while at >= 0:
            matches = (pattern.match(text, at) for pattern in patterns)
            yield from (found.span("secret") for found in matches if found and found["secret"])
            at = small.find(word, at + len(word))


@cache
def _patterns(shapes: tuple[_Shape, ...]) -> dict[str, list[re.Pattern[str]]]:
    """Return what may begin with each word."""
    patterns: dict[str, list[re.Pattern[str]]] = {}
    for shape in shapes:
        for word in shape.words:
            patterns.setdefault(word, []).append(re.compile(shape.pattern))
    return patterns
