"""Secrets in a text that others will see: known by their shape, and masked.

It is a net, no proof: what looks like an ordinary word stays. So does code that only speaks of
secrets: `password=None`, `token = next(tokens)`, `token: str`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from .ansi import Pen, Piece, columns_of, read_line, write_line

MASK = "(masked)"
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Where `str.lower` makes a text longer: places in the one have to be places in the other."""
NEAR = 32
MOST_NEAR = 1000
"""More of one word, each so near to the last, are a heap: it is masked and not looked into, since
each try takes its time."""
MOST_JOINTS = 12
"""More of them are not tried as the end of one secret."""
CUT = "…"
ROOM = 1000
"""Characters behind a cut that are looked at: what stands before it may only be known by them."""
# Letters that nobody sees, and that break a word for programs alone; and what is shown for one
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\ufffd]"
)


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
# `="…` or `: '…`; in JSON the name has a quotation mark, too, and in JSON within JSON \".
QUOTED = r"""(?:\\{0,3}["'])?[ \t]{0,4}[:=][ \t]{0,4}(?P<quote>\\{0,3}["'])"""
HEADER = r"""["']?[ \t]{0,4}[:=][ \t]{0,4}["']?"""
# A letter and a digit in it, and nothing after it that only code has.
MIXED = r"(?=[^\s\"'A-Za-z]{0,60}[A-Za-z])(?=[^\s\"'0-9]{0,60}[0-9])"
END = r"(?=[\s\"',;&)]|\Z)"
# What takes the place of a secret: $PASSWORD, <yours>
GIVEN = r"(?![$<{(*\[])"
IN_QUERY = r"(?:(?<=[?&])|(?<=[?&]id_)|(?<=[?&]auth_)|(?<=[?&]access_)|(?<=[?&]refresh_))"
# **password**: … and `API_KEY`: `…`
MARKED = (
    r"(?:[*_`]{1,3}[ \t]{0,4}[:=][ \t]{0,4}`?|:[*_]{1,3}[ \t]{1,4}`?|[ \t]{0,4}[:=][ \t]{0,4}`)"
)
END_OF_MARKED = r"(?=[\s\"',;&)`*]|\Z)"
ALONE = r"(?<![A-Za-z0-9])"
# No other one is passed, so that many of them take no longer.
CURL = (
    r"(?<![\w-])curl(?:\.exe)?(?=\s)(?:(?!curl\s)[^\n|;]|\\\n){0,300}?"
    r"[ \t](?:-[A-Za-z]{0,8}u[ \t]{0,4}|--(?:proxy-)?user[ \t=]{1,4})"
)
# Not -p8080:80, which are ports
MYSQL = (
    r"(?<![\w-])(?:mysql|mariadb)(?:dump|admin)?(?=\s)"
    r"(?:(?!(?:mysql|mariadb)(?:dump|admin)?\s)[^\n|;]){0,200}?[ \t]-p(?!\d{1,5}:)"
)
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

# curl -sS --user 'ada:pw' of which the name stays
IN_CURL = (
    _Shape(
        ("curl",), rf"{CURL}[\"'][^\s:\"'$]{{0,100}}:(?P<secret>(?![$<{{(*])[^\n\"']{{1,200}})[\"']"
    ),
    _Shape(
        ("curl",), rf"{CURL}[\"']?[^\s:\"'$]{{0,100}}:(?P<secret>(?![$<{{(*])[^\s\"'<>|;]{{1,200}})"
    ),
)
# Of .netrc
NETRC = _Shape(
    ("machine ",),
    r"machine {1,8}(?:[^\s.]{1,100}\.\S{1,200}|localhost)[\s+>]{1,20}login[\s+>]{1,20}\S{1,100}"
    rf"[\s+>]{{1,20}}password[ \t]{{1,8}}(?P<secret>{GIVEN}\S{{1,200}})",
)
OVER_LINES = (KEY, *IN_CURL, NETRC)


def _token(words: str, rest: str) -> _Shape:
    """Return the shape of a token that begins with one of some words, as they are written."""
    known = tuple(words.split())
    begin = "|".join(map(re.escape, known))
    small = tuple(dict.fromkeys(word.translate(SMALL) for word in known))
    return _Shape(small, rf"{ALONE}(?P<secret>(?:{begin}){rest})")


def _given(words: tuple[str, ...], before: str, bare: str) -> tuple[_Shape, _Shape]:
    """Return the shapes of what is given in quotes, and of what is given without them."""
    quoted = rf"(?P<quote>[\"'])(?P<secret>{GIVEN}[^\n\"']{{3,200}})(?P=quote)"
    return _Shape(words, before + quoted), _Shape(words, rf"{before}(?P<secret>{GIVEN}{bare})")


SHAPES = (
    *OVER_LINES,
    _Shape(
        ("sk-",),
        r"(?<![A-Za-z0-9-])(?P<secret>sk-(?:(?=[\w-]{0,60}\d)|(?:proj|ant|svcacct|admin|or)-)"
        r"[\w-]{20,})",
    ),
    # A part of one is masked, too: the end may have been cut off.
    _token("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ dckr_pat_ dckr_oat_", r"[\w-]{8,}"),
    _token("glpat- glptt- gldt- glrt- glsoat- glcbt- glft- glagent-", r"[\w-]{8,}"),
    _token("AKIA ASIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _token("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[\w-]{10,}"),
    _token("AIza", r"[\w-]{35}(?![\w-])"),
    _token("GOCSPX-", r"[\w-]{8,}"),
    _token(
        "npm_ hf_ tk_ gsk_ xai- r8_ lin_api_ lin_oauth_", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,}"
    ),
    _token("npm_ hf_ gsk_ xai- r8_ lin_api_ lin_oauth_", r"[A-Za-z0-9]{34,}"),
    _token("shpat_ shpca_ shppa_ shpss_", r"[0-9A-Fa-f]{16,}"),
    _token("whsec_", r"[A-Za-z0-9+/]{16,}={0,2}"),
    _token("sq0atp- sq0csp-", r"[\w-]{16,}"),
    # Of Twilio
    _Shape(
        tuple(f"sk{digit}" for digit in "0123456789abcdef"),
        rf"{ALONE}(?P<secret>SK[0-9a-f]{{32}})(?![0-9A-Za-z])",
    ),
    _token("pypi-", r"(?:AgE|(?=[A-Za-z_-]{0,60}\d)[\w-]{30})[\w-]{8,}"),
    _token("sk_live_ sk_test_ rk_live_ rk_test_", r"\w{8,}"),
    _token("SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    _token("ya29. hvs. hvb.", r"[\w-]{20,}"),
    _token("dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{16,}"),
    _token("AGE-SECRET-KEY-", r"[0-9A-Za-z]{16,}"),
    _Shape(
        ("eyj",),
        r"(?<![\w-])(?P<secret>eyJ[\w-]{8,}\."
        r"(?:eyJ[\w-]{8,}(?:\.[\w-]{0,})?|[\w-]{8,}\.[\w-]{8,}))",
    ),
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
    _Shape(("mysql", "mariadb"), rf"{MYSQL}(?P<secret>(?![\"'$<{{(*-])[^\s\"'<>|;&]{{3,200}})"),
    _Shape(
        ("mysql", "mariadb"),
        rf"{MYSQL}(?P<quote>[\"'])(?P<secret>(?![$<{{(*])[^\n\"']{{1,200}})(?P=quote)",
    ),
    *_given(
        ("docker login", "podman login"),
        rf"{NAME}(?=\s)(?:(?!(?:docker|podman) login)[^\n|;&]){{0,200}}?"
        r"[ \t](?:-p[ \t=]{0,4}|--password[ \t=]{1,4})",
        r"[^\s\"'<>|;&-][^\s\"'<>|;&]{0,200}",
    ),
    *_given(
        ("sshpass ",), rf"{NAME}[ \t]{{0,4}}-p[ \t]{{0,4}}", r"[^\s\"'<>|;&-][^\s\"'<>|;&]{0,200}"
    ),
    # Of a connection; PWD of a shell is a folder.
    _Shape(
        ("pwd=",),
        rf"{ALONE}{NAME}(?P<secret>(?![/~.]){MIXED}[^\s\"'<>${{}}()\[\]*,;&]{{6,200}}){END}",
    ),
    _Shape(("accountkey=", "sharedaccesskey="), rf"{NAME}(?P<secret>[A-Za-z0-9+/=]{{16,}})"),
    _Shape(
        PASSWORDS,
        rf"{NAME}{QUOTED}(?P<secret>(?![<${{*(])(?:(?!(?P=quote))(?:\\[^\n]|[^\n\\])){{3,200}})"
        r"(?P=quote)",
    ),
    _Shape(
        PASSWORDS,
        rf"{NAME}(?:=|:[ \t]{{1,4}})(?P<secret>{MIXED}[^\s\"'<>${{}}()\[\]*,;&]{{6,200}}){END}",
    ),
    # Blanks around it are also in code, which has names there: password = self.password2
    _Shape(
        PASSWORDS,
        rf"{NAME}[ \t]{{1,4}}=[ \t]{{1,4}}(?![A-Za-z_]\w{{0,100}}\.|\w{{0,100}}(?i:pass|secret))"
        rf"(?P<secret>{MIXED}[^\s\"'<>${{}}()\[\]*,;&]{{6,200}}){END}",
    ),
    *_given(
        PASSWORDS,
        rf"(?<=--){NAME}[ \t]{{1,4}}",
        rf"(?!-){MIXED}[^\s\"'`<>${{}}()\[\]*|,;&]{{6,200}}{END}",
    ),
    _Shape(
        PASSWORDS,
        rf"{NAME}{MARKED}(?P<secret>{MIXED}[^\s\"'`<>${{}}()\[\]*,;&]{{8,200}}){END_OF_MARKED}",
    ),
    # "password: correct horse 7b", with a word in it that is none
    *(
        _Shape(
            PASSWORDS,
            rf"(?<={quote}){NAME}(?:=|:[ \t]{{1,4}})(?P<secret>(?:[^\s\"'<>${{}}()\[\]*]{{1,60}}"
            rf"[ \t]){{0,8}}{MIXED}[^\n\"'<>${{}}()\[\]*]{{6,200}}){quote}",
        )
        for quote in "\"'"
    ),
    # Where a variable of the environment is set, whatever it is.
    _Shape(
        PASSWORDS,
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)=(?P<secret>[^\s\"'<>${}()\[\]*]{3,200})",
    ),
    *_given(
        ("_pass=",),
        r"(?<=[A-Z0-9])_PASS=",
        r"(?!(?:\d{1,9}|(?i:true|false|yes|no|none|null))(?![\w-]))[^\s\"'<>${}()\[\]*]{3,200}",
    ),
    *_given(
        ("pass=",),
        r"(?<![A-Za-z0-9_])PASS=",
        rf"{MIXED}[^\s\"'<>${{}}()\[\]*,;&]{{6,200}}{END}",
    ),
    _Shape(
        TOKENS,
        r"[A-Z_]{5,20}=[\"']?(?P<secret>(?!\w{0,40}[Tt]oken)(?=[^\sA-Z]{0,60}[A-Z])(?=[^\sa-z]{0,60}[a-z])"
        rf"[\w~+/=-]{{12,400}}+){END}",
    ),
    # ?api_key=…&access_token=…
    _Shape(
        TOKENS,
        rf"{IN_QUERY}{NAME}=(?P<secret>{MIXED}[\w.~+/%-]{{6,400}})(?=[&#\s\"'<>)]|\Z)",
    ),
    _Shape(
        TOKENS,
        rf"(?<=--){NAME}[ \t]{{1,4}}[\"']?(?P<secret>{MIXED}[\w.~+/=:-]{{8,400}}){END}",
    ),
    _Shape(TOKENS, rf"{NAME}{MARKED}(?P<secret>{MIXED}[\w.~+/=-]{{10,400}}){END_OF_MARKED}"),
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


def masked_over_lines(text: str) -> str:
    """Return a text of which lines can be left out: what several of them tell is masked."""
    return _without(text, OVER_LINES)


def before_mask(line: str, most: int) -> int:
    """Return where a line is cut that is to have at most so many characters: not within a mask.

    >>> before_mask("a (masked) b", 20), before_mask("a (masked) b", 5)
    (12, 2)
    """
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
    lost = known = secrets(line[: at + ROOM]) if at < len(line) else []
    while lost:
        kept = secrets(f"{line[:at]}{CUT}")
        lost = [span for span in known if span[0] < at and span not in kept]
        at = min([at, *(start for start, _ in lost)])
    return at


def secrets(text: str, joints: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Return where in a text there are secrets; two of them may overlap.

    `joints` are places at which it was put together: there a word may end and another one begin, or
    one word go on.

    >>> secrets("password=hunter2"), secrets("is" "ghp_a1B2" "c3D4" "so", [2, 10, 14])
    ([(9, 16)], [(2, 16)])
    """
    return _secrets(text, SHAPES, joints)


def _without(text: str, shapes: tuple[_Shape, ...]) -> str:
    parts, done = [], 0
    for start, end in _secrets(text, shapes):
        if start >= done:
            # A key of many lines leaves one word, on a line of its own where it was.
            gap = "\n" if text[start] == "\n" else ""
            parts += [text[done:start], gap, MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _secrets(
    text: str, shapes: tuple[_Shape, ...], joints: Sequence[int] = ()
) -> list[tuple[int, int]]:
    if UNSEEN.search(text) is None:
        return sorted(_spans(shapes, text, joints))
    seen = [place for place, letter in enumerate(text) if UNSEEN.match(letter) is None]
    moved = [bisect_left(seen, joint) for joint in joints]
    spans = _spans(shapes, "".join(text[place] for place in seen), moved)
    return sorted((seen[start], seen[end - 1] + 1) for start, end in spans)


def _spans(
    shapes: tuple[_Shape, ...], text: str, joints: Sequence[int]
) -> Iterator[tuple[int, int]]:
    small = text.lower()
    if len(small) != len(text):
        small = text.translate(SMALL)
    for word, pattern in _patterns(shapes).items():
        near = 0
        at = small.find(word)
        while at >= 0:
            end = at + len(word)
            if span := _span(pattern, text, at, joints):
                yield span
                # What is masked is not looked at again: in a heap that would take long.
                end = span[1]
            following = small.find(word, end)
            near = near + 1 if following - at <= NEAR else 0
            if near > MOST_NEAR and following >= 0:
                end = _end_of_heap(small, word, following)
                yield following, end
                following = small.find(word, end)
            at = following


def _span(
    pattern: re.Pattern[str], text: str, at: int, joints: Sequence[int]
) -> tuple[int, int] | None:
    """Return where the secret is of which a word has been found, if it is one."""
    passed = bisect_right(joints, at)
    begin = joints[passed - 1] if passed else 0
    for end in (len(text), *reversed(joints[passed : passed + MOST_JOINTS])):
        found = pattern.match(text, at, end)
        if found and found[found.lastgroup or 0]:
            return found.span(found.lastgroup or 0)
        found = pattern.match(text[begin:end], at - begin) if begin else None
        if found and found[found.lastgroup or 0]:
            start, stop = found.span(found.lastgroup or 0)
            return start + begin, stop + begin
    return None


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


SIDES = "│┃║▏▕▌▐┆╎┊|█"
"""What stands beside a text: of a box, of a quotation, of a bar that scrolls."""
MARGIN = 8
"""Columns that an agent may leave free to the right of what it writes."""
# What a blank follows: `Authorization: Basic`
BLANK_FOLLOWS = re.compile(r"(?i::|\b(?:bearer|basic|token|digest))\Z")
LONGEST_WORD = 16


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a screen, and where in it something is written."""

    text: str
    start: int
    end: int
    used: int
    """Columns up to its end."""
    room: int
    """Columns up to the side of its box, or of the screen."""

    @property
    def written(self) -> str:
        return self.text[self.start : self.end]


HasBlank = Callable[[str, _Row, _Row], bool]
"""Was a blank where a text was broken, after what had been said, between two rows? Nobody knows:
each way to tell finds some secrets."""


@dataclass(slots=True)
class _Text:
    """Rows put together, and where each letter of that stands on the screen."""

    letters: str = ""
    places: list[int] = field(default_factory=list)
    joints: list[int] = field(default_factory=list)

    def add(self, letters: str, places: Sequence[int]) -> None:
        self.letters += letters
        self.places += places


def masked_screen(ansi: str) -> str:
    """Return a screen in which what looks like a secret is masked, in every row that it touches.

    >>> masked_screen("| see ghp_a1B2c3 |\\n| D4e5F6 for more |")
    '| see (masked)   |\\n| ****** for more |'
    """
    lines = list(_lines(ansi))
    texts = ["".join(piece.text for piece in pieces) for pieces in lines]
    width = max(map(columns_of, texts))
    rows = [_row(text, width) for text in texts]
    hidden = _hidden(rows)
    if not hidden:
        return ansi
    written = []
    at = 0
    for row, pieces in zip(rows, lines, strict=True):
        spans = list(_spans_of(row, at, hidden))
        written.append(write_line(_masked(pieces, spans) if spans else pieces))
        at += len(row.text) + 1
    return "\n".join(written)


def _lines(ansi: str) -> Iterator[list[Piece]]:
    pen = Pen()
    for line in ansi.split("\n"):
        pieces, pen = read_line(line, pen)
        yield pieces


def _row(text: str, width: int) -> _Row:
    end = len(text.rstrip(f" {SIDES}"))
    start = min(len(text) - len(text.lstrip(f" {SIDES}")), end)
    blanks = len(text[end:]) - len(text[end:].lstrip(" "))
    used = columns_of(text[:end])
    return _Row(text, start, end, used, used + blanks if end + blanks < len(text) else width)


def _hidden(rows: Sequence[_Row]) -> set[int]:
    """Return the places of all letters that belong to secrets, counted over all rows."""
    screen = "\n".join(row.text for row in rows)
    hidden = {place for start, end in secrets(screen) for place in range(start, end)}
    goes_on = [_goes_on(upper, lower) for upper, lower in pairwise(rows)]
    for has_blank in (_never, _by_room, _by_words) if any(goes_on) else ():
        text = _put_together(rows, goes_on, has_blank)
        for start, end in secrets(text.letters, text.joints):
            hidden.update(text.places[start:end])
    return hidden


def _put_together(rows: Sequence[_Row], goes_on: Sequence[bool], has_blank: HasBlank) -> _Text:
    """Return what rows say, in one line where one goes on in the next."""
    text = _Text()
    text.add(rows[0].written, range(rows[0].start, rows[0].end))
    at = len(rows[0].text) + 1
    for (upper, lower), is_one in zip(pairwise(rows), goes_on, strict=True):
        if not is_one:
            text.add("\n", (-1,))
        else:
            if has_blank(text.letters, upper, lower):
                text.add(" ", (-1,))
            text.joints.append(len(text.letters))
        text.add(lower.written, range(at + lower.start, at + lower.end))
        at += len(lower.text) + 1
    return text


def _goes_on(upper: _Row, lower: _Row) -> bool:
    """May a row go on in the next: would the first word of that have had no room in it?"""
    if not (upper.written and lower.written):
        return False
    word = lower.written.split(" ", 1)[0]
    return upper.used + columns_of(word) >= upper.room - MARGIN


def _never(before: str, upper: _Row, lower: _Row) -> bool:
    return False


def _by_room(before: str, upper: _Row, lower: _Row) -> bool:
    """Is there room for a blank at the end of a row, or one at the beginning of the next?"""
    begins = lower.text.startswith(" ") or lower.start > upper.start
    return begins or upper.used < upper.room


def _by_words(before: str, upper: _Row, lower: _Row) -> bool:
    return BLANK_FOLLOWS.search(before[-LONGEST_WORD:]) is not None


def _spans_of(row: _Row, at: int, hidden: set[int]) -> Iterator[tuple[int, int]]:
    """Yield what is hidden of a row, which begins at a place; the sides of a box never are."""
    start = None
    for letter in range(row.start, row.end + 1):
        is_hidden = letter < row.end and at + letter in hidden
        if is_hidden and start is None:
            start = letter
        elif not is_hidden and start is not None:
            yield start, letter
            start = None


def _masked(pieces: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    letters = [Piece(letter, piece.style) for piece in pieces for letter in piece.text]
    done = 0
    for start, end in spans:
        yield from letters[done:start]
        columns = columns_of("".join(letter.text for letter in letters[start:end]))
        word = MASK.ljust(columns) if columns >= len(MASK) else "*" * columns
        yield Piece(word, letters[start].style)
        done = end
    yield from letters[done:]
