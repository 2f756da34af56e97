"""What users are told by errors."""

import re
from itertools import product

import pytest

from cli_agent_orchestrator import errors
from cli_agent_orchestrator.errors import (
    ApiRefused,
    GitError,
    GitMissing,
    NotFound,
    OrchestratorError,
    RunError,
    RunLocked,
    UnknownName,
    UsageError,
    error_of,
    in_words,
    kind_of,
    suggestion,
)
from tests.providers.samples import PROVIDERS

# "    │   ├── GitMissing (UsageError)     git is not installed"
DRAWN_PATTERN = r"^ {4}((?:[│├└ ].{3})*)(\w+)(?: \((\w+)\))? *"


@pytest.mark.parametrize("detail", ["Not Found", "", "terminal 9f3c cannot take input: busy"])
def test_no_route_and_no_number_is_told(detail: str) -> None:
    paths = ("/terminals/9f3c/output", "/sessions", "/runs/k3f9", "/terminals/a%2Fb%1b")
    for path, code in product(paths, (200, 400, 401, 404, 409, 500)):
        error = ApiRefused("GET", path, code, detail)
        told = str(error)
        for hidden in ("GET", path, f"{code}:"):
            assert hidden not in told
        assert told.isprintable()
        assert error.request == f"GET {path}: {code}: {detail}"


@pytest.mark.parametrize(
    ("path", "code", "detail", "told"),
    [
        ("/terminals/9f3c/input", 404, "Not Found", "the server has no terminal '9f3c'; `cao ls`"),
        ("/runs/k3f9/turns/9", 404, "no turn '9'", "refused it for run 'k3f9': no turn '9'"),
        ("/terminals/run-step", 502, "no answer", "the server could not do it: no answer"),
        ("/terminals/9f3c", 500, "Internal", "could not do it for terminal '9f3c': Internal"),
        ("/sessions", 200, "it is no list", "it is no list; is it a cao server?"),
        ("/sessions", 404, "", "the server refused it: it says no more than error 404"),
    ],
)
def test_a_refusal_names_the_thing_and_what_to_do(
    path: str, code: int, detail: str, told: str
) -> None:
    assert told in str(ApiRefused("GET", path, code, detail))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude", "claude_code"),
        ("codx", "codex"),
        ("cluade", "claude_code"),
        ("q", "q_cli or qwen_code"),
    ],
)
def test_the_agent_that_was_probably_meant_is_named(name: str, meant: str) -> None:
    told = str(UnknownName("provider", name, PROVIDERS))
    assert suggestion("something else", PROVIDERS) == suggestion(" ", PROVIDERS) == ""
    assert told.startswith(f"unknown provider {name!r} (did you mean {meant}?); there are: codex, ")


def test_what_is_much_is_listed_a_line_each() -> None:
    told = str(NotFound("run", "nope", [f"20261115-084037-{n:04d} (PASS, /p)" for n in range(9)]))
    assert len(told.split("\n")) == 7
    assert told.endswith("\n  and 4 more")
    assert str(NotFound("run", "nope", ["a", "b"])) == "no run 'nope'; there are: a, b"


def test_people_are_not_told_the_numbers_of_errors() -> None:
    full = OSError(28, "No space left on device", "/p")
    assert in_words(full) == "No space left on device: '/p'"
    assert in_words(ValueError("[Errno -2] Name not known")) == "Name not known"
    assert in_words(ValueError("odd [1]")) == "odd [1]"


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
        (RunError("x"), RunError),
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
