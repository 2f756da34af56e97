"""A server proves that it knows its token, and tells nothing by it."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.identity import answer_challenge, is_answer, new_challenge
from tests.server.running import TOKEN, RunningApi, running_api

CHALLENGE = "0123456789abcdef" * 4
HERE = ("127.0.0.1", 9889)

addresses = st.tuples(st.sampled_from(["127.0.0.1", "::1", "10.0.0.1"]), st.integers(1, 65535))
tokens = st.text("abcdef", min_size=1)
challenges = st.text("0123456789abcdef", min_size=64, max_size=64)


def ask(api: RunningApi, **parameters: str) -> httpx.Response:
    with api.client(token=None) as http:
        return http.get("/identity", params=parameters)


def test_the_answer_is_that_of_the_token_at_the_address_that_was_asked(api: RunningApi) -> None:
    answer = ask(api, challenge=CHALLENGE)
    expected = answer_challenge(TOKEN, CHALLENGE, ("127.0.0.1", api.port))
    assert answer.json() == {"identity": expected}
    assert TOKEN not in answer.text


def test_the_address_is_where_the_connection_was_taken_and_not_what_is_said(
    api: RunningApi,
) -> None:
    with api.client(token=None) as http:
        said = {"Host": "localhost:9889", "X-Forwarded-Port": "9889", "Forwarded": "host=x:9889"}
        answer = http.get("/identity", params={"challenge": CHALLENGE}, headers=said)
    assert answer.json()["identity"] == answer_challenge(TOKEN, CHALLENGE, ("127.0.0.1", api.port))


@pytest.mark.parametrize(
    "challenge", ["", "00", "0" * 63, "0" * 65, "g" * 64, "A" * 64, "0" * 64 + "\n", "٠" * 64]
)
def test_a_challenge_of_another_form_is_not_answered(api: RunningApi, challenge: str) -> None:
    assert ask(api, challenge=challenge).status_code == 422
    with pytest.raises(ValueError, match="64"):
        answer_challenge(TOKEN, challenge, HERE)


def test_no_challenge_is_a_bad_request(api: RunningApi) -> None:
    assert ask(api).status_code == 422


def test_a_server_that_asks_for_no_token_proves_itself_all_the_same() -> None:
    with running_api(token=None, identity=TOKEN) as api:
        answer = ask(api, challenge=CHALLENGE).json()["identity"]
        assert is_answer(answer, TOKEN, CHALLENGE, ("127.0.0.1", api.port))


def test_a_server_without_any_token_says_that_it_cannot() -> None:
    with running_api(token=None) as api:
        assert ask(api, challenge=CHALLENGE).status_code == 501


def test_another_name_and_other_pages_are_refused(api: RunningApi) -> None:
    with api.client(token=None) as http:
        for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            answer = http.get("/identity", params={"challenge": CHALLENGE}, headers=header)
            assert answer.status_code in (403, 421)


def test_challenges_are_never_the_same() -> None:
    assert len({new_challenge() for _ in range(100)}) == 100


@given(tokens, challenges, addresses, tokens, challenges, addresses)
def test_an_answer_fits_one_question_alone(
    token: str,
    challenge: str,
    address: tuple[str, int],
    other_token: str,
    other_challenge: str,
    other_address: tuple[str, int],
) -> None:
    answer = answer_challenge(token, challenge, address)
    same = (token, challenge, address) == (other_token, other_challenge, other_address)
    assert is_answer(answer, other_token, other_challenge, other_address) == same


@pytest.mark.parametrize("given", ["", "0" * 64, "\ud800", "é"])
def test_anything_else_is_no_answer(given: str) -> None:
    assert not is_answer(given, TOKEN, CHALLENGE, HERE)
