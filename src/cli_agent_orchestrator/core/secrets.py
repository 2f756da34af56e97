"""Secrets in a text that others will see: known by their shape, and masked.

It is a net, no proof: what looks like an ordinary word stays. So does code that only speaks of
secrets: `password=None`, `token = next(tokens)`, `token: str`.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise
from string import ascii_lowercase, ascii_uppercase

from msgspec import Struct

from .ansi import Piece, read_lines, write_line
from .text import columns_of

MASK = "(masked)"
CUT = "…"
ROOM = 1000
"""Characters behind a cut that are looked at: what stands before it may only be known by them."""
LONGEST_END = 4
"""Characters behind a secret by which it may be known: the @ of an address, a quotation mark."""
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
"""`str.lower` can make a text longer: places in the one have to be places in the other."""

NAME = "<NAME>"

# A line of a key: data, or `DEK-Info: …`. Before it may be marks of a diff, of a quotation, the
# number of the line or the side of a box; behind it the other side.
KEY_LINE = (
    r"\n[+\-> |\t0-9:.→│┃║▏▌]{0,16}"
    r"(?:[A-Za-z0-9+/=]{0,200}|[A-Za-z-]{1,40}: [^\n]{0,200})[ \t|│┃║▕▐]{0,200}\r?(?=\n|\Z)"
)
ALONE = r"(?<![A-Za-z0-9])"
# A letter and a digit in it, and nothing after it that only code has.
MIXED = r"(?=[^\s\"'A-Za-z]{0,60}[A-Za-z])(?=[^\s\"'0-9]{0,60}[0-9])"
END = r"(?=[\s\"'\\,;&#<>)`*]|\Z)"
# name=…  "name" : …  **name**: …  `NAME`: …  --name …; in JSON within JSON a mark is \".
SAID = (
    rf"(?:(?<=--){NAME}[ \t]{{1,4}}"
    rf"|{NAME}[\\\"'*_`]{{0,4}}[ \t]{{0,4}}[:=][*_]{{0,3}}[ \t]{{0,4}})"
)
# What takes the place of a secret: $PASSWORD, <yours>
GIVEN = r"(?![$<{(*\[])"
QUOTE = r"(?P<quote>\\{0,3}[\"'])"
IN_QUOTES = rf"{QUOTE}({GIVEN}(?:(?!(?P=quote))(?:\\[^\n]|[^\n\\])){{3,200}})(?P=quote)"
HEADER = r"""["']?[ \t]{0,4}[:=][ \t]{0,4}["']?"""
# No other call is passed, so that many of them take no longer.
CURL = (
    r"(?<![\w-])curl(?:\.exe)?(?=\s)(?:(?!curl\s)[^\n|;]|\\\n){0,300}?"
    r"[ \t](?:-[A-Za-z]{0,8}u[ \t]{0,4}|--(?:proxy-)?user[ \t=]{1,4})"
)

# Where one begins with these words, as they are written, it ends like this. A part of one is
# masked, too: the end may have been cut off.
KNOWN_TOKENS = {
    "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ dckr_pat_ dckr_oat_ "
    "glpat- glptt- gldt- glrt- glsoat- glcbt- glft- glagent- GOCSPX- "
    "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- "
    "sk_live_ sk_test_ rk_live_ rk_test_": r"[\w-]{8,}",
    "ya29. hvs. hvb. AIza AGE-SECRET-KEY- sq0atp- sq0csp-": r"[\w-]{16,}",
    "AKIA ASIA": r"[0-9A-Z]{16,}",
    "shpat_ shpca_ shppa_ shpss_ dop_v1_ doo_v1_ dor_v1_": r"[0-9A-Fa-f]{16,}",
    "npm_ hf_ gsk_ xai- r8_ tk_ lin_api_ lin_oauth_ whsec_": (
        r"(?:(?=[A-Za-z+/]{0,60}\d)[A-Za-z0-9+/]{20,}|[A-Za-z0-9+/]{34,})={0,2}"
    ),
    "pypi-": r"(?:AgE|(?=[A-Za-z_-]{0,60}\d)[\w-]{30})[\w-]{8,}",
    "SG.": r"[\w-]{16,}\.[\w-]{16,}",
}
PASSWORDS = ("password", "passwd", "passphrase", "secret")
TOKENS = (
    *("token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
    *("secret_key", "secret-key", "secretkey", "accountkey", "credential"),
)
SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("-----begin ",),
        rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----(?:[ \t]{{0,200}}[|│┃║▕▐](?=\n))?"
        rf"([A-Za-z0-9+/=\\]{{0,20000}}(?:{KEY_LINE}){{0,400}})",
    ),
    # curl -sS --user 'ada:pw' of which the name stays
    (
        ("curl",),
        rf"{CURL}(?:[\"'][^\s:\"'$]{{0,100}}:({GIVEN}[^\n\"']{{1,200}})[\"']"
        rf"|[\"']?[^\s:\"'$]{{0,100}}:({GIVEN}[^\s\"'<>|;]{{1,200}}))",
    ),
    *(
        (
            tuple(word.translate(SMALL) for word in words.split()),
            rf"{ALONE}((?:{'|'.join(map(re.escape, words.split()))}){rest})",
        )
        for words, rest in KNOWN_TOKENS.items()
    ),
    (
        ("sk-",),
        r"(?<![A-Za-z0-9-])(sk-(?:(?=[\w-]{0,60}\d)|(?:proj|ant|svcacct|admin|or)-)[\w-]{20,})",
    ),
    (("eyj",), r"(?<![\w-])(eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}(?:\.[\w-]{0,})?|[\w-]{8,}\.[\w-]{8,}))"),
    # A number there is a port.
    (
        ("://",),
        r"(?<=[A-Za-z0-9])://(?:[^\s/:@\"']{0,200}:(?!\d{1,5}(?:[/?#]|\Z))"
        rf"([^\s\"'<>]{{1,200}})@(?=[\w\[])|({MIXED}[\w.~+=%-]{{16,400}})@)",
    ),
    (
        ("authorization",),
        rf"{NAME}{HEADER}(?:(?i:bearer|basic|token|digest)[ \t]+([^\s\"'<>$(){{}}]{{4,}})"
        rf"|(?:[A-Za-z][\w-]{{0,20}}[ \t]+)?({MIXED}[\w.~+/=:-]{{12,400}}){END})",
    ),
    (("bearer ",), rf"{NAME}({MIXED}[\w.~+/=-]{{16,}})"),
    (PASSWORDS, rf"{SAID}{IN_QUOTES}"),
    # Blanks around the sign are also in code, which has names there: password = self.password2
    (
        PASSWORDS,
        rf"{SAID}`?(?:(?<!= )|(?![A-Za-z_]\w{{0,100}}\.|\w{{0,100}}(?i:pass|secret)))"
        rf"({MIXED}[^\s\"'`<>${{}}()\[\]*,;&]{{6,200}}){END}",
    ),
    # Where a variable of the environment is set, whatever it is; but TESTS_PASS=120
    (
        (*PASSWORDS, "_pass="),
        r"(?:(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)="
        r"|(?<=[A-Z0-9])_PASS=(?!(?:\d{1,9}|(?i:true|false|yes|no|none|null))(?![\w-])))"
        rf"(?:{IN_QUOTES}|([^\s\"'<>${{}}()\[\]*]{{3,200}}))",
    ),
    (
        TOKENS,
        r"[A-Z_]{5,20}=[\"']?((?!\w{0,40}[Tt]oken)(?=[^\sA-Z]{0,60}[A-Z])(?=[^\sa-z]{0,60}[a-z])"
        rf"[\w~+/=-]{{12,400}}+){END}",
    ),
    (TOKENS, rf"{SAID}{QUOTE}({MIXED}[^\s\"'<>${{}}()]{{8,400}})(?P=quote)"),
    (TOKENS, rf"{SAID}[\"'`]?(?!\w{{1,9}}://)({MIXED}[\w.~+/=:%-]{{8,400}}){END}"),
)
"""Words of which one begins a kind of secret, in small letters: they are found much faster than the
pattern that follows. Its last group is the secret; NAME in it is the word."""


def masked(text: str) -> str:
    parts, done = [], 0
    for start, end in secrets(text):
        if start >= done:
            # A key of many lines leaves one word, on a line of its own where it was.
            gap = "\n" if text[start] == "\n" else ""
            parts += [text[done:start], gap, MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def before_mask(line: str, most: int) -> int:
    """Return where a line is cut that is to have at most so many characters: not within a mask."""
    if len(line) <= most:
        return len(line)
    start = line.rfind(MASK, 0, most + len(MASK) - 1)
    return start if start >= 0 and start + len(MASK) > most else most


def before_secret(line: str, most: int) -> int:
    """Return where a line is cut that is to be masked later: not so that a secret is not known.

    >>> before_secret("see https://ada:pw@host/", 18)
    16
    """
    at = before_mask(line, most)
    known = secrets(line[: at + ROOM]) if at < len(line) else []
    for start, end in reversed(known):
        if start < at < end + LONGEST_END:
            at = start
    return at


def cut_before_secret(line: str, most: int) -> str:
    at = before_secret(line, most)
    return line if at == len(line) else f"{line[:at]}{CUT}"


def secrets(text: str, joints: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Return where secrets are in a text; at `joints` a word may begin, or one go on."""
    found = []
    small = text.translate(SMALL)
    for word, patterns in _patterns().items():
        at = small.find(word)
        while at >= 0:
            passed = bisect_right(joints, at)
            begin = joints[passed - 1] if passed else 0
            end = at + len(word)
            if span := _span(patterns, text, at, 0) or (
                _span(patterns, text[begin:], at - begin, begin) if begin else None
            ):
                found.append(span)
                end = span[1]
            at = small.find(word, end)
    return sorted(found)


def _span(
    patterns: Sequence[re.Pattern[str]], text: str, at: int, offset: int
) -> tuple[int, int] | None:
    for pattern in patterns:
        found = pattern.match(text, at)
        if found and found[found.lastindex or 0]:
            start, end = found.span(found.lastindex or 0)
            return start + offset, end + offset
    return None


@cache
def _patterns() -> dict[str, list[re.Pattern[str]]]:
    patterns: dict[str, list[re.Pattern[str]]] = {}
    for words, pattern in SHAPES:
        for word in words:
            here = pattern.replace(NAME, f".{{{len(word)}}}")
            patterns.setdefault(word, []).append(re.compile(here))
    return patterns


SIDES = "│┃║▏▕▌▐┆╎┊|█"
"""What stands beside a text: of a box, of a quotation, of a bar that scrolls."""
MARGIN = 8
"""Columns that an agent may leave free to the right of what it writes."""
# What a blank follows where a text was broken: `--password`, `Authorization: Basic`
BLANK_FOLLOWS = re.compile(
    rf"(?i:--(?:{'|'.join((*PASSWORDS, *TOKENS))})|\b(?:bearer|basic|token|digest))\Z"
)
LONGEST_WORD = 16


class _Row(Struct, frozen=True):
    text: str
    start: int
    end: int
    used: int
    room: int
    """Columns up to the side of its box, or of the screen."""

    @property
    def written(self) -> str:
        return self.text[self.start : self.end]


def masked_screen(ansi: str) -> str:
    """Return a screen in which what looks like a secret is masked, in every row that it touches."""
    lines = read_lines(ansi)
    texts = ["".join(piece.text for piece in pieces) for pieces in lines]
    width = max(map(columns_of, texts))
    rows = [_row(text, width) for text in texts]
    hidden = {
        place for start, end in secrets("\n".join(texts)) for place in range(start, end)
    } | _hidden_over_rows(rows)
    if not hidden:
        return ansi
    written = []
    at = 0
    for row, pieces in zip(rows, lines, strict=True):
        # The sides of a box are never hidden.
        places = {place for place in range(row.start, row.end) if at + place in hidden}
        written.append(write_line(_masked(pieces, places) if places else pieces))
        at += len(row.text) + 1
    return "\n".join(written)


def _row(text: str, width: int) -> _Row:
    end = len(text.rstrip(f" {SIDES}"))
    start = min(len(text) - len(text.lstrip(f" {SIDES}")), end)
    blanks = len(text[end:]) - len(text[end:].lstrip(" "))
    used = columns_of(text[:end])
    return _Row(text, start, end, used, used + blanks if end + blanks < len(text) else width)


def _hidden_over_rows(rows: Sequence[_Row]) -> set[int]:
    """Return the places of all letters of secrets that go on in the next row, over all rows.

    Was there a blank where a text was broken? Nobody knows: none is assumed where a secret could
    go on.
    """
    text, at = rows[0].written, len(rows[0].text) + 1
    places = list(range(rows[0].start, rows[0].end))
    joints = []
    for upper, lower in pairwise(rows):
        between = "\n"
        if _goes_on(upper, lower):
            between = " " if BLANK_FOLLOWS.search(text[-LONGEST_WORD:]) else ""
            joints.append(len(text) + len(between))
        text += between + lower.written
        places += [-1] * len(between)
        places += range(at + lower.start, at + lower.end)
        at += len(lower.text) + 1
    found = secrets(text, joints) if joints else []
    return {place for start, end in found for place in places[start:end]}


def _goes_on(upper: _Row, lower: _Row) -> bool:
    """May a row go on in the next: would the first word of that have had no room in it?"""
    if not (upper.written and lower.written):
        return False
    word = lower.written.split(" ", 1)[0]
    return upper.used + columns_of(word) >= upper.room - MARGIN


def _masked(pieces: Sequence[Piece], places: Collection[int]) -> Iterator[Piece]:
    letters = (Piece(letter, piece.style) for piece in pieces for letter in piece.text)
    for is_hidden, run in groupby(enumerate(letters), lambda one: one[0] in places):
        found = [letter for _, letter in run]
        if not is_hidden:
            yield from found
            continue
        columns = columns_of("".join(letter.text for letter in found))
        word = MASK.ljust(columns) if columns >= len(MASK) else "*" * columns
        yield Piece(word, found[0].style)
