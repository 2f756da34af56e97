"""What users are told by errors."""

import re
from itertools import product

import pytest

from cli_agent_orchestrator import errors
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    GitError,
    GitMissing,
    NotFound,
    OrchestratorError,
    ResumeError,
    RunError,
    RunLocked,
    UnknownName,
    UsageError,
    error_of,
    in_words,
    kind_of,
    suggestion,
)
from cli_agent_orchestrator.providers import PROVIDERS

# "    │   ├── GitMissing (UsageError)     git is not installed"
DRAWN_PATTERN = r"^ {4}((?:[│├└ ].{3})*)(\w+)(?: \((\w+)\))? *"

PATHS = (
    "/terminals/9f3c",
    "/terminals/9f3c/output",
    "/sessions/cao-x/terminals",
    "/sessions",
    "/events",
    "/health",
    "/runs/k3f9",
    "/terminals/a%2Fb%1b",
)
CODES = (200, 400, 401, 403, 404, 409, 413, 422, 500, 503)


@pytest.mark.parametrize("detail", ["Not Found", "", "terminal 9f3c cannot take input: busy"])
def test_no_route_and_no_number_is_told(detail: str) -> None:
    for path, code in product(PATHS, CODES):
        error = ApiRefused("GET", path, code, detail)
        told = str(error)
        assert "GET" not in told
        assert path not in told
        assert f"{code}:" not in told
        assert told.isprintable()
        assert error.request == f"GET {path}: {code}: {detail}"


@pytest.mark.parametrize(
    ("path", "code", "detail", "told"),
    [
        (
            "/terminals/9f3c/input",
            404,
            "Not Found",
            "the server has no terminal '9f3c'; `cao ls` lists what there is",
        ),
        (
            "/runs/k3f9",
            404,
            "no run",
            "the server has no run 'k3f9'; `cao runs` lists what there is",
        ),
        (
            "/runs/k3f9/turns/9",
            404,
            "no turn '9'; there are: 1",
            "the server refused it for run 'k3f9': no turn '9'; there are: 1",
        ),
        (
            "/terminals/run-step",
            502,
            "codex gave no answer",
            "the server could not do it: codex gave no answer",
        ),
        (
            "/terminals/9f3c/key",
            409,
            "terminal 9f3c cannot take input: it works",
            "the server refused it: terminal 9f3c cannot take input: it works",
        ),
        (
            "/terminals/9f3c",
            500,
            "Internal Server Error",
            "the server could not do it for terminal '9f3c': Internal Server Error",
        ),
        (
            "/sessions",
            200,
            "the answer is not a list",
            "the server's answer cannot be used: the answer is not a list; is it a cao server?",
        ),
        ("/sessions", 404, "", "the server refused it: it says no more than error 404"),
        (
            "/terminals/9f3c",
            503,
            "the server is stopping: try again when it is back",
            "the server could not do it for terminal '9f3c': "
            "the server is stopping: try again when it is back",
        ),
    ],
)
def test_a_refusal_names_the_thing_and_what_to_do(
    path: str, code: int, detail: str, told: str
) -> None:
    assert str(ApiRefused("GET", path, code, detail)) == told


def test_who_does_not_answer_is_named_without_the_route() -> None:
    error = ApiUnreachable("http://localhost:1", "refused", maybe_received=False, request="GET /x")
    assert str(error) == "no answer from the server at http://localhost:1: refused"
    assert error.request == "GET /x"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude", "claude_code"),
        ("claude-code", "claude_code"),
        ("Codex", "codex"),
        ("codx", "codex"),
        ("cluade", "claude_code"),
        ("gemini", "gemini_cli"),
        ("q", "q_cli"),
    ],
)
def test_the_agent_that_was_probably_meant_is_named(name: str, meant: str) -> None:
    told = str(UnknownName("provider", name, PROVIDERS))
    assert told.startswith(f"unknown provider {name!r} (did you mean {meant}?); there are: codex, ")


@pytest.mark.parametrize("name", ["", "  ", "something else", "\x1b[2J"])
def test_what_is_like_nothing_is_not_guessed(name: str) -> None:
    assert suggestion(name, PROVIDERS) == ""


def test_what_is_much_is_listed_a_line_each() -> None:
    told = str(NotFound("run", "nope", [f"20261115-084037-{n:04d} (PASS, /p)" for n in range(9)]))
    assert len(told.split("\n")) == 7
    assert told.endswith("\n  and 4 more")
    assert str(NotFound("run", "nope", ["a", "b"])) == "no run 'nope'; there are: a, b"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError(28, "No space left on device", "/p"), "No space left on device: '/p'"),
        (ValueError("[Errno -2] Name or service not known"), "Name or service not known"),
        (ValueError("odd [1]"), "odd [1]"),
    ],
)
def test_people_are_not_told_the_numbers_of_errors(error: Exception, words: str) -> None:
    assert in_words(error) == words


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, list[str]] = {}
    above: list[str] = []
    for indent, name, second in re.findall(DRAWN_PATTERN, errors.__doc__ or "", re.MULTILINE):
        above = [*above[: len(indent) // 4], name]
        drawn[name] = [above[-2] if len(above) > 1 else "Exception", *filter(None, [second])]
    assert drawn == {
        name: [base.__name__ for base in kind.__bases__]
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.OrchestratorError)
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RunLocked("x"), RunLocked),
        (ResumeError("x"), RunError),
        (GitMissing("x"), UsageError),
        (NotFound("run", "x", ()), UsageError),
        (GitError("x"), RunError),
    ],
)
def test_an_error_is_of_the_same_kind_in_another_process(
    error: OrchestratorError, kind: type[OrchestratorError]
) -> None:
    there = error_of(kind_of(error), str(error))
    assert type(there) is kind
    assert str(there) == str(error)
    assert type(error_of("SystemExit", "x")) is RunError
