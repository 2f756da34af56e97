"""What becomes of a saved run when another is asked for, and of a reply that did not come."""

from itertools import product

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import ResumeChoice, UsageError
from cli_agent_orchestrator.handoff.wait import Sent
from cli_agent_orchestrator.pipeline.resuming import (
    choose_settings,
    find_fault,
    find_objections,
    missing_turn,
    should_auto_resume,
)
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, Progress, RunState, Turn
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import BY_NAME, KEPT_NAMES
from cli_agent_orchestrator.settings.values import canonical
from tests.pipeline.samples import TASK_TEXT, new_state

RUNNING = FinalStatus.RUNNING


def finished(status: FinalStatus) -> RunState:
    return replace(new_state(), final_status=status)


class TestAutoResume:
    @pytest.mark.parametrize(
        ("status", "resume", "against"),
        list(product([None, *FinalStatus], [None, True, False], [(), ("its task is another",)])),
    )
    def test_every_case(
        self, status: FinalStatus | None, resume: bool | None, against: tuple[str, ...]
    ) -> None:
        """
        Scenario: Auto-resume when state file has RUNNING status
        Scenario: No auto-resume when state file has PASS status
        Scenario: No auto-resume when state file has FAIL status
        Scenario: No auto-resume when no state file exists
        """
        saved = None if status is None else finished(status)

        def decision() -> str:
            try:
                return "resume" if should_auto_resume(saved, resume, against) else "begin"
            except ResumeChoice:
                return "ask"
            except UsageError:
                return "refuse"

        if resume is False:
            expected = "begin"
        elif status is not RUNNING:
            expected = "refuse" if resume else "begin"
        else:
            expected = "ask" if against and resume is None else "resume"
        assert decision() == expected


class TestObjections:
    saved = replace(
        new_state(),
        provider="codex",
        prompt=TASK_TEXT,
        progress=Progress(providers={"analyst_review": "claude_code", "tester": "codex"}),
    )

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"PROVIDER": "codex"},
            {"FLOW": "loop"},
            {"ROLE_PROVIDERS": "designer=codex"},
            {"ROLE_PROVIDERS": "analyst_review=claude_code,tester=codex"},
            # As it was begun: one role's agent by option, the others' by variable.
            {"PROVIDER": "codex", "ROLE_PROVIDERS": "programmer=codex"},
        ],
    )
    def test_nothing_speaks_against_the_same_again(self, given: dict[str, str]) -> None:
        assert find_objections(self.saved, given) == ()
        assert find_objections(self.saved, given, "task.md", TASK_TEXT) == ()

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"PROVIDER": "nope"}, "its agents are codex, not nope"),
            ({"FLOW": "flows/pair.toml"}, "its flow is loop, not pair"),
            (
                {"ROLE_PROVIDERS": "analyst_review=codex"},
                "its analyst_review is claude_code, not codex",
            ),
        ],
    )
    def test_what_differs_is_named(self, given: dict[str, str], words: str) -> None:
        assert find_objections(self.saved, given) == (words,)
        both = find_objections(self.saved, given, "the task file b.md", "other")
        assert both == (
            "the task file b.md is not the task it works on, or was edited since",
            words,
        )

    def test_a_state_that_says_nothing_is_not_contradicted(self) -> None:
        empty = replace(self.saved, prompt=" ", provider="", progress=Progress())
        given = {"PROVIDER": "codex", "ROLE_PROVIDERS": "tester=codex"}
        assert find_objections(empty, given, "b.md", "other") == ()


class TestSettings:
    def test_a_run_goes_on_with_what_it_began_with(self) -> None:
        began = RunConfig.from_env({"MAX_ROUNDS": "4", "PROJECT_TEST_CMD": "make check"})
        settings, remarks = choose_settings(began.settings, {}, {})
        assert settings == began.settings
        assert remarks == ()

    def test_one_given_anew_wins_and_is_said(self) -> None:
        before = {"PROJECT_TEST_CMD": "", "POLL_SECONDS": "1"}
        given = {"PROJECT_TEST_CMD": "make test", "POLL_SECONDS": "2.5"}
        settings, remarks = choose_settings(before, given, given)
        assert settings == given
        assert set(remarks) == {
            "PROJECT_TEST_CMD is 'make test' now; the run began with ''",
            "POLL_SECONDS is 2.5 now; the run began with 1",
        }

    def test_one_in_a_settings_file_does_not_win_and_is_said(self) -> None:
        settings, remarks = choose_settings({"MAX_ROUNDS": "4"}, {}, {"MAX_ROUNDS": "8"})
        assert settings["MAX_ROUNDS"] == "4"
        (remark,) = remarks
        assert "max_rounds is 8 in the task or the settings file" in remark
        assert "--max-rounds" in remark

    @pytest.mark.parametrize(
        ("name", "before", "now"),
        [
            ("STRICT_FILE_HANDOFF", "1", "yes"),
            ("MAX_ROUNDS", "8", "08"),
            ("POLL_SECONDS", "2.5", "2.50"),
            ("PROJECT_TEST_CMD", "make", " make "),
        ],
    )
    def test_the_same_in_other_words_is_no_news(self, name: str, before: str, now: str) -> None:
        settings, remarks = choose_settings({name: before}, {name: now}, {name: now})
        assert settings[name] == before
        assert remarks == ()

    def test_a_damaged_value_is_as_good_as_none(self) -> None:
        settings, _ = choose_settings({"MAX_ROUNDS": "many"}, {}, {})
        assert settings == {}

    def test_neither_task_nor_server_nor_secrets_are_among_them(self) -> None:
        names = {"PROMPT", "PROMPT_FILE", "WD", "STATE_FILE", "API", "RESUME", "PROVIDER"}
        assert not names & set(KEPT_NAMES)
        assert all(canonical(name, BY_NAME[name].default) is not None for name in KEPT_NAMES)


ANALYST = Turn("analyst", 1, 1)
REVIEW = Turn("analyst_review", 1, 1)


def stopped(turn: Turn, sent: Sent = Sent.YES) -> RunState:
    in_flight = Dispatch(turn, "k", 1, 1.0, sent)
    return replace(new_state(), progress=Progress(in_flight=in_flight))


@pytest.mark.parametrize("sent", [Sent.YES, Sent.MAYBE, Sent.FAILED])
def test_a_turn_whose_prompt_went_out_is_missing(sent: Sent) -> None:
    state = stopped(ANALYST, sent)
    assert missing_turn(state) == state.progress.in_flight


@pytest.mark.parametrize("state", [new_state(), stopped(ANALYST, Sent.NO), stopped(REVIEW)])
def test_where_nothing_is_missing_nothing_can_be_decided(state: RunState) -> None:
    assert missing_turn(state) is None
    for remedy in BY_NAME["MISSING"].choices:
        assert "no reply is missing" in find_fault(state, remedy)


def test_only_a_review_can_be_skipped() -> None:
    state = stopped(ANALYST)
    assert find_fault(state, "ask") == find_fault(state, "take") == ""
    assert find_fault(state, "skip") == (
        "analyst is no review, and only a review can be skipped; use --missing ask or take"
    )
