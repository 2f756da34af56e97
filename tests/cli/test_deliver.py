"""What is said when the work of a run is delivered."""

from cli_agent_orchestrator._internal.cli.deliver import Asked, request_words
from cli_agent_orchestrator._internal.workspace.pull_request import PullRequest

ASKED = Asked("cao/r1", "main", "Keep digits", "Keep digits.\n\nCao-Run: r1\n", False)
PUSHED = "Pushed cao/r1 to origin: git push origin cao/r1"
PARTS = [
    "  from cao/r1 into main",
    "  title: Keep digits",
    "  text:",
    "    Keep digits.",
    "",
    "    Cao-Run: r1",
]


def test_of_a_request_that_is_open_its_address_is_enough() -> None:
    done = PullRequest("origin", "https://example.org/7")
    assert [*request_words(done, ASKED)] == [PUSHED, "https://example.org/7"]


def test_without_a_program_all_is_said_that_the_page_of_the_host_asks_for() -> None:
    draft = Asked(ASKED.branch, ASKED.onto, ASKED.title, ASKED.body, draft=True)
    assert [*request_words(PullRequest("origin", said="remote: visit us"), draft)] == [
        PUSHED,
        "remote: visit us",
        "No draft request is open yet: neither gh nor glab is there for origin.",
        "Open it on the page of origin: a new draft request",
        *PARTS,
    ]


def test_a_command_that_opens_it_is_said_beside_that() -> None:
    assert [*request_words(PullRequest("origin", to_type="gh pr create"), ASKED)] == [
        PUSHED,
        "No request is open yet. Open it with:\n  gh pr create",
        "Or on the page of origin: a new request",
        *PARTS,
    ]
