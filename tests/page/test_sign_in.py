"""Links, cookies and keys: what opens the page, and what does not."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.page.sign_in import (
    LINK_SECONDS,
    MOST_COOKIES,
    MOST_LINKS,
    SIGNED_IN_SECONDS,
    Links,
    PageSecret,
    signature,
)

NOON = 1_763_200_000.0
TOKEN = "0123456789abcdef-secret"
SECRET = PageSecret(TOKEN)
NONCE = "5f" * 16

tokens = st.text(min_size=1)
nonces = st.text("0123456789abcdef", min_size=32, max_size=32)
times = st.floats(0, 1e10)


def made_with(key: str, words: str = "c h GET /") -> tuple[str, str]:
    return words, signature(key, words)


def header(signed_in: tuple[str, str], secret: PageSecret = SECRET) -> str:
    return f"{secret.cookie_name}={signed_in[0]}"


@given(tokens, times, nonces, st.floats(0, SIGNED_IN_SECONDS - 1))
def test_cookie_and_key_work_together_until_their_time_is_over(
    token: str, now: float, nonce: str, later: float
) -> None:
    secret = PageSecret(token)
    signed_in = secret.sign_in(now, nonce)
    cookies = header(signed_in, secret)
    assert secret.is_signed_in(cookies, *made_with(signed_in[1]), now + later)
    # A server that was started again knows them.
    assert PageSecret(token).is_signed_in(cookies, *made_with(signed_in[1]), now + later)
    assert not secret.is_signed_in(cookies, *made_with(signed_in[1]), int(now) + SIGNED_IN_SECONDS)


@given(st.text(), st.text())
def test_nothing_that_was_made_up_works(cookie: str, key: str) -> None:
    assert not SECRET.is_signed_in(cookie, *made_with(key), 0)
    assert not SECRET.is_signed_in(f"{SECRET.cookie_name}={cookie}", *made_with(key), 0)


def test_what_another_token_made_is_worthless_and_has_another_name() -> None:
    other = PageSecret("another token")
    theirs = other.sign_in(NOON, NONCE)
    assert other.cookie_name != SECRET.cookie_name
    assert not SECRET.is_signed_in(header(theirs), *made_with(theirs[1]), NOON)
    assert not SECRET.is_signed_in(header(theirs, other), *made_with(theirs[1]), NOON)


@given(st.integers(0, 200), st.characters())
def test_a_cookie_that_was_changed_anywhere_is_none(place: int, letter: str) -> None:
    mine = SECRET.sign_in(NOON, NONCE)
    place %= len(mine[0])
    changed = mine[0][:place] + letter + mine[0][place + 1 :]
    works = SECRET.is_signed_in(f"{SECRET.cookie_name}={changed}", *made_with(mine[1]), NOON)
    assert works == (changed == mine[0])


def test_a_cookie_stands_among_others_and_may_be_doubled_by_other_servers() -> None:
    mine = SECRET.sign_in(NOON, NONCE)
    tossed = "; ".join([f"{SECRET.cookie_name}=1.2.3"] * (MOST_COOKIES - 1))
    assert SECRET.is_signed_in(f"theme=dark;{header(mine)} ; x", *made_with(mine[1]), NOON)
    assert SECRET.is_signed_in(f"{tossed}; {header(mine)}", *made_with(mine[1]), NOON)
    assert not SECRET.is_signed_in(
        f"{tossed}; x; {tossed}; {header(mine)}", *made_with(mine[1]), NOON
    )
    assert not SECRET.is_signed_in(f"x{header(mine)}", *made_with(mine[1]), NOON)
    assert not SECRET.is_signed_in(mine[0], *made_with(mine[1]), NOON)


def test_whoever_is_signed_in_stays_so_with_another_version_of_cao() -> None:
    mine = SECRET.sign_in(NOON, NONCE)
    assert SECRET.cookie_name == "cao_page_3a3339f5"
    assert mine[0] == (
        f"1.1765792000.{NONCE}.d31c467186da07d7c5ced09da4024d4b047c51b99a9318862bf3b37448aff769"
    )
    assert mine[1] == "4bac90d5ff3d3e5a927840e71c799c533e09b3a0f32199eb154a75c621635ed9"


def test_a_link_works_for_five_minutes_and_a_cookie_for_thirty_days() -> None:
    assert (LINK_SECONDS, SIGNED_IN_SECONDS) == (5 * 60, 30 * 24 * 3600)


def test_a_link_works_once() -> None:
    links = Links()
    links.add("code", NOON)
    assert not links.use("other", NOON)
    assert links.use("code", NOON + LINK_SECONDS - 1)
    assert not links.use("code", NOON + LINK_SECONDS - 1)


def test_a_link_works_for_some_minutes() -> None:
    links = Links()
    links.add("code", NOON)
    assert not links.use("code", NOON + LINK_SECONDS)
    links.add("again", NOON)
    links.add("later", NOON + LINK_SECONDS)
    assert not links.use("again", NOON + LINK_SECONDS)
    assert links.use("later", NOON + LINK_SECONDS)


def test_of_too_many_links_the_oldest_do_not_work() -> None:
    links = Links()
    for number in range(MOST_LINKS + 1):
        links.add(str(number), NOON)
    assert not links.use("0", NOON)
    assert links.use("1", NOON)
    assert links.use(str(MOST_LINKS), NOON)


def test_half_a_character_is_no_link() -> None:
    assert not Links().use("\ud800", NOON)


@given(st.text(), st.text())
def test_a_proof_is_of_what_was_signed(words: str, other: str) -> None:
    mine = SECRET.sign_in(NOON, NONCE)
    moved = (other, signature(mine[1], words))
    is_same = words.encode("utf-8", "replace") == other.encode("utf-8", "replace")
    assert SECRET.is_signed_in(header(mine), *moved, NOON) == is_same
