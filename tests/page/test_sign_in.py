"""Links and keys: what opens the page, and what does not."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.page.sign_in import (
    SIGNED_IN_SECONDS,
    is_key,
    new_key,
    server_proof,
)

NOON = 1_763_200_000.0
TOKEN = "0123456789abcdef-secret"
KEY = new_key(TOKEN, NOON)


@given(st.text(min_size=1), st.floats(0, 1e10), st.floats(0, SIGNED_IN_SECONDS - 1))
def test_a_key_works_until_its_time_is_over(token: str, now: float, later: float) -> None:
    key = new_key(token, now)
    assert is_key(token, key, now + later)
    assert not is_key(token, key, int(now) + SIGNED_IN_SECONDS)


@given(st.text() | st.from_regex(r"[0-9]{1,12}\.[0-9a-f]{64}", fullmatch=True))
def test_nothing_that_was_made_up_works(key: str) -> None:
    assert not is_key(TOKEN, key, 0)


@given(st.integers(0, len(KEY) - 1), st.characters())
def test_a_key_that_was_changed_anywhere_is_none(place: int, letter: str) -> None:
    changed = KEY[:place] + letter + KEY[place + 1 :]
    assert is_key(TOKEN, changed, NOON) == (changed == KEY)


def test_a_server_proves_its_own_key_and_no_other() -> None:
    expiry = int(KEY.partition(".")[0])
    assert not is_key("another token", KEY, NOON)
    proof = server_proof(TOKEN, expiry, 9889, "nonce")
    assert proof == hmac.digest(KEY.encode(), b"9889 nonce", "sha256").hex()
    assert proof != server_proof("another token", expiry, 9889, "nonce")

    # Who is signed in stays so with another version of cao.
    assert KEY == ("1765792000.30e2a5b0b0f236e21fc1697211543907fd1d4f6156b1fd94a5f08a999e79878b")
