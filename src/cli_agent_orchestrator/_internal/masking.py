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
NEAR = 32
MOST_NEAR = 1000
"""More of one word, each so near to the last, are a heap: it is masked and not looked into, since
each try takes its time."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a kind of secret looks like."""

    words: tuple[str, ...]
    """One of them begins it, in small letters: they are found much faster than a pattern."""
    pattern: str
    """Its group `secret` is what is masked."""


# A line of a key: data, or `DEK-Info: …`. Before it may be marks of a diff, of a quotation, the
# number of the line or the side of a box; behind it the other side.
KEY_LINE = (
    r"\n[+\-> |\t0-9:.→│┃║▏▌]{0,16}"
    r"(?:[A-Za-z0-9+/=]{0,200}|[A-Za-z-]{1,40}: [^\n]{0,200})[ \t|│┃║▕▐]{0,200}\r?(?=\n|\Z)"
)
# `="…` or `: '…`; in JSON the name has a quotation mark, too.
QUOTED = r"""["']?[ \t]{0,4}[:=][ \t]{0,4}(?P<quote>["'])"""
HEADER = r"""["']?[ \t]{0,4}[:=][ \t]{0,4}["']?"""
# A letter and a digit in it, and nothing after it that only code has.
MIXED = r"(?=[^\s\"'A-Za-z]{0,60}[A-Za-z])(?=[^\s\"'0-9]{0,60}[0-9])"
END = r"(?=[\s\"',;&)]|\Z)"
ALONE = r"(?<![A-Za-z0-9])"
PASSWORDS = ("password", "passwd", "passphrase", "secret")
TOKENS = (
    *("token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
    *("secret_key", "secret-key", "secretkey", "credential", "x-cao-proof"),
)
NAME = "<NAME>"
"""The word that has been found."""
KEY_BEGIN = "-----BEGIN "
KEY = _Shape(
    (KEY_BEGIN.translate(SMALL),),
    rf"{KEY_BEGIN}[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----(?:[ \t]{{0,200}}[|│┃║▕▐](?=\n))?"
    rf"(?P<secret>[A-Za-z0-9+/=\\]{{0,20000}}(?:{KEY_LINE}){{0,400}})",
)


def _token(words: str, rest: str) -> _Shape:
    """Return the shape of a token that begins with one of some words, as they are written."""
    known = tuple(words.split())
    begin = "|".join(map(re.escape, known))
    small = tuple(dict.fromkeys(word.translate(SMALL) for word in known))
    return _Shape(small, rf"{ALONE}(?P<secret>(?:{begin}){rest})")


SHAPES = (
    KEY,
    _Shape(
        ("sk-",),
        r"(?<![A-Za-z0-9-])(?P<secret>sk-(?:(?=[\w-]{0,60}\d)|(?:proj|ant|svcacct|admin|or)-)"
        r"[\w-]{20,})",
    ),
    # A part of one is masked, too: the end may have been cut off.
    _token("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"[\w-]{8,}"),
    _token("glpat- glptt- gldt- glrt- glsoat- glcbt- glft- glagent-", r"[\w-]{8,}"),
    _token("AKIA ASIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _token("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[\w-]{10,}"),
    _token("AIza", r"[\w-]{35}(?![\w-])"),
    _token("npm_ hf_ tk_", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,}"),
    _token("npm_ hf_", r"[A-Za-z0-9]{34,}"),
    _token("pypi-", r"(?:AgE|(?=[A-Za-z_-]{0,60}\d)[\w-]{30})[\w-]{8,}"),
    _token("sk_live_ sk_test_ rk_live_ rk_test_", r"\w{8,}"),
    _token("SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    _token("ya29. hvs. hvb.", r"[\w-]{20,}"),
    _token("dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{16,}"),
    _token("AGE-SECRET-KEY-", r"[0-9A-Za-z]{16,}"),
    _Shape(("eyj",), r"(?<![\w-])(?P<secret>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"),
    # A bot of Telegram: its number stays.
    _Shape((":aa",), r"(?<=\d{6}):(?P<secret>AA[\w-]{28,})"),
    _Shape(("hooks.slack.com/",), r".{16}[a-z]{1,20}/(?P<secret>[\w/-]{8,})"),
    _Shape(("/webhooks/",), r"/[^/]{8}/(?P<secret>\d{5,}/[\w-]{8,})"),
    # A number there is a port.
    _Shape(
        ("://",),
        r"(?<=[A-Za-z0-9])://[^\s/:@\"']{0,200}:(?!\d{1,5}(?:[/?#]|\Z))"
        r"(?P<secret>[^\s\"'<>]{1,200})@(?=[\w\[])",
    ),
    _Shape(("://",), rf"(?<=[A-Za-z0-9])://(?P<secret>{MIXED}[\w.~+=%-]{{16,400}})@"),
    _Shape(
        ("authorization",),
        rf"{NAME}{HEADER}(?i:bearer|basic|token|digest)[ \t]+(?P<secret>[^\s\"'<>$(){{}}]{{4,}})",
    ),
    _Shape(
        ("authorization",),
        rf"{NAME}{HEADER}(?:[A-Za-z][\w-]{{0,20}}[ \t]+)?"
        rf"(?P<secret>{MIXED}[\w.~+/=:-]{{12,400}}){END}",
    ),
    _Shape(("cookie",), rf"{NAME}{HEADER}(?<!=)(?P<secret>[\w.-]{{1,100}}=[^\n\"'<>(]{{4,}})"),
    _Shape(("bearer ",), rf"{NAME}(?P<secret>{MIXED}[\w.~+/=-]{{16,}})"),
    _Shape(("accountkey=", "sharedaccesskey="), rf"{NAME}(?P<secret>[A-Za-z0-9+/=]{{16,}})"),
    _Shape(
        PASSWORDS,
        rf"{NAME}{QUOTED}(?P<secret>(?![<${{*(])(?:\\[^\n]|(?!(?P=quote))[^\n\\]){{3,200}})"
        r"(?P=quote)",
    ),
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
    for word, pattern in _patterns(shapes).items():
        near = 0
        at = small.find(word)
        while at >= 0:
            end = at + len(word)
            found = pattern.match(text, at)
            if found and found[found.lastgroup or 0]:
                yield (span := found.span(found.lastgroup or 0))
                # What is masked is not looked at again: in a heap that would take long.
                end = span[1]
            following = small.find(word, end)
            near = near + 1 if following - at <= NEAR else 0
            if near > MOST_NEAR and following >= 0:
                end = _end_of_heap(small, word, following)
                yield following, end
                following = small.find(word, end)
            at = following


def _end_of_heap(small: str, word: str, at: int) -> int:
    """Return where a heap of one word ends."""
    end = at + len(word)
    while (following := small.rfind(word, end, end + NEAR)) >= 0:
        end = following + len(word)
    return end


@cache
def _patterns(shapes: tuple[_Shape, ...]) -> dict[str, re.Pattern[str]]:
    """Return what may begin with each word, as one pattern: its last group is the secret."""
    patterns: dict[str, list[str]] = {}
    for shape in shapes:
        for word in shape.words:
            known = patterns.setdefault(word, [])
            pattern = shape.pattern.replace(NAME, f".{{{len(word)}}}")
            known.append(re.sub(r"\(\?P(<|=)(\w+)", rf"(?P\1\2_{len(known)}", pattern))
    return {word: re.compile("|".join(known)) for word, known in patterns.items()}
