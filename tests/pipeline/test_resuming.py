"""What becomes of a saved run when another is asked for."""

from dataclasses import replace
from itertools import product

import pytest

from cli_agent_orchestrator.errors import ResumeChoice, UsageError
from cli_agent_orchestrator.pipeline.resuming import (
    GivenTask,
    Wanted,
    choose_settings,
    find_objections,
    should_auto_resume,
)
from cli_agent_orchestrator.pipeline.state import FinalStatus, Progress, RunState
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import BY_NAME, KEPT_NAMES, ValueKind
from cli_agent_orchestrator.settings.values import canonical
from tests.pipeline.samples import TASK_TEXT, new_state

RUNNING = FinalStatus.RUNNING


def finished(status: FinalStatus) -> RunState:
    return replace(new_state(), final_status=status)


class TestAutoResume:
    def test_a_running_state_is_resumed(self) -> None:
        """Scenario: Auto-resume when state file has RUNNING status"""
        assert should_auto_resume(finished(FinalStatus.RUNNING), None)

    def test_a_passed_state_is_not(self) -> None:
        """Scenario: No auto-resume when state file has PASS status"""
        assert not should_auto_resume(finished(FinalStatus.PASS), None)

    def test_a_failed_state_is_not(self) -> None:
        """Scenario: No auto-resume when state file has FAIL status"""
        assert not should_auto_resume(finished(FinalStatus.FAIL), None)

    def test_without_a_state_there_is_nothing_to_resume(self) -> None:
        """Scenario: No auto-resume when no state file exists"""
        assert not should_auto_resume(None, None)

    def test_a_new_run_that_is_asked_for_is_begun(self) -> None:
        assert not should_auto_resume(finished(FinalStatus.RUNNING), False)

    def test_a_resume_that_is_asked_for_is_done(self) -> None:
        assert should_auto_resume(finished(FinalStatus.RUNNING), True)

    def test_a_resume_without_a_state_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="no saved run"):
            should_auto_resume(None, True)

    def test_a_resume_of_a_finished_run_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="ended with PASS"):
            should_auto_resume(finished(FinalStatus.PASS), True)

    @pytest.mark.parametrize(
        ("status", "resume", "against"),
        list(product([None, *FinalStatus], [None, True, False], [(), ("its task is another",)])),
    )
    def test_every_case(
        self, status: FinalStatus | None, resume: bool | None, against: tuple[str, ...]
    ) -> None:
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

    @pytest.mark.parametrize("saved", [None, finished(FinalStatus.PASS)])
    def test_a_new_run_is_begun_by_an_option(self, saved: RunState | None) -> None:
        with pytest.raises(UsageError, match="leave out --resume to start a new one"):
            should_auto_resume(saved, True)

    def test_both_choices_are_spelled_out(self) -> None:
        with pytest.raises(ResumeChoice) as raised:
            should_auto_resume(finished(RUNNING), None, ("a is b", "c is d"))
        for words in ("a is b; c is d", "Nothing was started", "--resume", "--no-resume"):
            assert words in str(raised.value)


class TestObjections:
    saved = replace(
        new_state(),
        provider="codex",
        prompt=TASK_TEXT,
        progress=Progress(providers={"analyst_review": "claude_code", "tester": "codex"}),
    )

    @pytest.mark.parametrize(
        "asked",
        [
            Wanted(),
            Wanted(GivenTask("task.md", TASK_TEXT)),
            Wanted(provider="codex"),
            Wanted(flow="loop"),
            Wanted(role_providers={"designer": "codex"}),
            Wanted(role_providers={"analyst_review": "claude_code", "tester": "codex"}),
            # As it was begun: one role's agent by option, the others' by variable.
            Wanted(GivenTask("PROMPT", TASK_TEXT), "codex", {"programmer": "codex"}),
        ],
    )
    def test_nothing_speaks_against_the_same_again(self, asked: Wanted) -> None:
        assert find_objections(self.saved, asked) == ()

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (
                Wanted(GivenTask("the task file b.md", "other")),
                "the task file b.md is not the task",
            ),
            (Wanted(GivenTask("b.md", "", "b.md cannot be read")), "b.md cannot be read"),
            (Wanted(provider="nope"), "its agents are codex, not nope"),
            (Wanted(flow="pair"), "its flow is loop, not pair"),
            (
                Wanted(role_providers={"analyst_review": "codex"}),
                "its analyst_review is claude_code, not codex",
            ),
        ],
    )
    def test_what_differs_is_named(self, asked: Wanted, words: str) -> None:
        (objection,) = find_objections(self.saved, asked)
        assert words in objection

    def test_everything_is_named_at_once(self) -> None:
        asked = Wanted(GivenTask("b.md", "other"), "nope", {"tester": "nope"})
        assert len(find_objections(self.saved, asked)) == 3

    def test_a_state_that_says_nothing_is_not_contradicted(self) -> None:
        empty = replace(self.saved, prompt=" ", provider="", progress=Progress())
        asked = Wanted(GivenTask("b.md", "other"), "codex", {"tester": "codex"})
        assert find_objections(empty, asked) == ()


class TestSettings:
    def test_a_run_goes_on_with_what_it_began_with(self) -> None:
        began = RunConfig.from_env({"MAX_ROUNDS": "4", "PROJECT_TEST_CMD": "make check"})
        resumed = choose_settings(began.settings, {}, {})
        assert resumed.settings == began.settings
        assert resumed.remarks == ()

    @pytest.mark.parametrize("name", KEPT_NAMES)
    def test_one_given_anew_wins_and_is_said(self, name: str) -> None:
        before = RunConfig.from_env({}).settings
        setting = BY_NAME[name]
        match setting.kind:
            case ValueKind.FLAG:
                value = "0" if setting.default == "1" else "1"
            case ValueKind.CHOICE:
                value = next(one for one in setting.choices if one != setting.default)
            case ValueKind.GATES:
                value = "tests=make test"
            case _:
                value = "5"
        given = {name: value}
        resumed = choose_settings(before, given, given)
        assert resumed.settings[name] == value
        (remark,) = resumed.remarks
        assert name in remark
        assert "the run began with" in remark

    def test_a_value_that_could_be_misread_is_quoted(self) -> None:
        given = {"PROJECT_TEST_CMD": "make test", "POLL_SECONDS": "2.5"}
        before = {"PROJECT_TEST_CMD": "", "POLL_SECONDS": "1"}
        assert set(choose_settings(before, given, given).remarks) == {
            "PROJECT_TEST_CMD is 'make test' now; the run began with ''",
            "POLL_SECONDS is 2.5 now; the run began with 1",
        }

    def test_one_in_a_settings_file_does_not_win_and_is_said(self) -> None:
        resumed = choose_settings({"MAX_ROUNDS": "4"}, {}, {"MAX_ROUNDS": "8"})
        assert resumed.settings["MAX_ROUNDS"] == "4"
        (remark,) = resumed.remarks
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
        resumed = choose_settings({name: before}, {name: now}, {name: now})
        assert resumed.settings[name] == before
        assert resumed.remarks == ()

    def test_a_state_without_settings_takes_those_of_now(self) -> None:
        resumed = choose_settings({}, {"MAX_ROUNDS": "2"}, {"MAX_ROUNDS": "2", "POLL_SECONDS": "1"})
        assert resumed.settings == {"MAX_ROUNDS": "2", "POLL_SECONDS": "1"}
        assert resumed.remarks == ()

    def test_a_damaged_value_is_as_good_as_none(self) -> None:
        resumed = choose_settings({"MAX_ROUNDS": "many"}, {}, {})
        assert resumed.settings == {}

    def test_neither_task_nor_server_nor_secrets_are_among_them(self) -> None:
        names = {"PROMPT", "PROMPT_FILE", "WD", "STATE_FILE", "API", "RESUME", "PROVIDER"}
        assert not names & set(KEPT_NAMES)
        assert all(canonical(name, BY_NAME[name].default) is not None for name in KEPT_NAMES)
