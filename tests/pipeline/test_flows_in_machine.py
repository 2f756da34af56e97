"""What every flow has in common, and what others than the specification's have: gates, pauses."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import PurePosixPath

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.events import Meaning
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.pipeline.flow import USUAL_SCENARIO, Flow, FlowSource, StageKind
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow, read_flow
from cli_agent_orchestrator.pipeline.machine import (
    DELIVERED,
    Check,
    Done,
    Outcome,
    Pause,
    next_step,
    record_check,
    record_reply,
    skip_review,
)
from cli_agent_orchestrator.pipeline.machine import begin as begin_run
from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import (
    Dispatch,
    FinalStatus,
    Progress,
    RunState,
    Turn,
    decode_state,
    encode_state,
    to_json,
)
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.settings.config import Condensation, LoopRules, ReviewRules
from cli_agent_orchestrator.settings.gates import When
from tests.pipeline.samples import FAIL, PASS, TASK_TEXT, new_state, review
from tests.pipeline.test_flow_file import TEMPLATES, TEXT

RULES = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off")
SHORT = LoopRules(2, 2, ReviewRules(min_cycles=1), proof="off")
MINE = read_flow(FlowSource(TEXT, TEMPLATES), "mine", "mine.toml")
FLOWS = [packaged_flow("loop"), packaged_flow("pair"), packaged_flow("solo"), MINE]
GREEN = CheckResult("make test", 0, "ok")
RED = CheckResult("make test", 1, "one failed", archive="/archive/003-gate.md")
YES = review("APPROVED", "- style of code, tests, risk, fix: P1 artifact, contract and handoff")
NO = review("REVISE", "- look again")


def begin(flow: Flow) -> RunState:
    terminals = {role.name: f"t-{role.name}" for role in flow.roles}
    return replace(new_state(), flow=flow, terminals=terminals, phase=flow.first.name)


GATES = """\
unit=make test
lint=ruff check .
{"name": "e2e", "run": "make e2e", "when": ["after_tester"]}"""


def with_gates(state: RunState, text: str) -> RunState:
    """Return a new run that has these gates."""
    return begin_run(state.progressed(settings={"GATES": text}))


def through_json(state: RunState) -> RunState:
    return decode_state(encode_state(state))


def go(state: RunState, *answers: str | CheckResult) -> tuple[RunState, list[Outcome]]:
    """Answer whatever is due."""
    outcomes = []
    for answer in answers:
        step = next_step(state)
        if isinstance(answer, CheckResult):
            assert isinstance(step, Check)
            state, outcome = record_check(state, step, answer, RULES)
        else:
            assert isinstance(step, Turn)
            state, outcome = record_reply(state, step, Output(answer), RULES)
        outcomes.append(outcome)
    return state, outcomes


def test_a_gate_ends_the_run_or_starts_a_new_round_with_its_evidence() -> None:
    state = begin(packaged_flow("solo"))
    assert next_step(state) == Turn("programmer", 1, 1)
    state, outcomes = go(state, "done")
    assert outcomes == [DELIVERED]
    assert next_step(state) == Check("gate", 1)
    passed, outcomes = go(state, GREEN)
    assert outcomes == [Outcome(Meaning.PASSED)]
    assert next_step(passed) == Done(FinalStatus.PASS)
    failed, outcomes = go(state, RED)
    assert outcomes == [Outcome(Meaning.FAILED, RED, 2)]
    assert next_step(failed) == Turn("programmer", 2, 1)
    assert not failed.has_output("programmer")
    text = "FAIL: `make test` ended with exit code 1. It wrote:\none failed"
    assert failed.feedback == Excerpt(text, 0, "/archive/003-gate.md")
    over, outcomes = go(replace(state, round=8), RED)
    assert outcomes == [Outcome(Meaning.ROUNDS_USED_UP, RED, 8)]
    assert next_step(over) == Done(FinalStatus.FAIL)
    assert over.feedback == failed.feedback


@pytest.mark.parametrize("phase", ["checking", "lunch"])
def test_without_the_work_before_it_a_stage_falls_back_and_so_does_an_unknown_one(
    phase: str,
) -> None:
    assert next_step(replace(begin(MINE), phase=phase, round=2)) == Turn("writer", 2, 1)


def test_a_test_that_is_not_the_last_stage_leads_on() -> None:
    state, outcomes = go(begin(MINE), "text", YES, "text", YES, PASS)
    assert outcomes[-1] == Outcome(Meaning.CLEARED, None, "checking")
    assert next_step(state) == Check("checking", 1)
    state, outcomes = go(state, RED, "text", NO)
    assert state.notes_of("critic").text == "REVIEW_NOTES:\n- look again"
    state, outcomes = go(state, "text", YES, FAIL)
    assert outcomes[-1].meaning is Meaning.FAILED
    assert next_step(state) == Turn("writer", 3, 1)


def replies(state: RunState, turn: Turn) -> tuple[str, ...]:
    stage = state.flow.stage_of(turn.role)
    if turn.role == stage.reviewer:
        return YES, NO
    return (PASS, FAIL) if stage.kind is StageKind.TEST else ("work",)


def all_runs(state: RunState, steps: int = 0) -> Iterator[tuple[RunState, int]]:
    """Yield every state that any sequence of answers can lead to."""
    yield state, steps
    match next_step(state):
        case Turn() as turn:
            for text in replies(state, turn):
                after, _ = record_reply(state, turn, Output(text), SHORT)
                yield from all_runs(after, steps + 1)
        case Check() as check:
            for result in (GREEN, RED):
                after, _ = record_check(state, check, result, SHORT)
                yield from all_runs(after, steps + 1)


@pytest.mark.parametrize(
    ("flow", "gates"),
    [*product(FLOWS, [""]), *product(FLOWS[1:], ["tests=make test"])],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_run_of_every_flow_ends_in_time_and_can_be_resumed_anywhere(
    flow: Flow, gates: str
) -> None:
    cycles, rounds = SHORT.max_review_cycles, SHORT.max_rounds
    most = rounds * sum(2 * cycles if stage.reviewer else 1 for stage in flow.stages)
    most += 1 + 2 * rounds if gates else 0
    ends = set()
    for state, steps in all_runs(with_gates(begin(flow), gates)):
        assert steps <= most
        assert through_json(state) == state
        assert (next_step(state.progressed(paused=True)) == Pause()) == (
            not isinstance(next_step(state), Done)
        )
        if isinstance(next_step(state), Done):
            ends.add(state.final_status)
    assert ends == {FinalStatus.PASS, FinalStatus.FAIL}


def test_a_turn_in_flight_is_finished_before_a_pause() -> None:
    turn = Turn("writer", 1, 1)
    state = replace(begin(MINE), progress=Progress(in_flight=Dispatch(turn, "d1", 1)))
    state = state.progressed(paused=True)
    assert next_step(state) == turn
    state, _ = record_reply(state, turn, Output("text"), RULES)
    assert next_step(state) == Pause()
    other = replace(state.progress, in_flight=Dispatch(Turn("user", 1, 1), "d2", 2))
    assert next_step(replace(state, progress=other)) == Pause()


class TestGates:
    """Commands that are believed instead of an agent's word, in the usual flow."""

    APPROVED = ("text", YES, "text", YES)

    def start(self) -> RunState:
        return with_gates(begin(packaged_flow("loop")), GATES)

    def work(self, state: RunState) -> RunState:
        """Go on from the base to the programmer's approval."""
        state, _ = go(state, *self.APPROVED, *self.APPROVED)
        return state

    def test_a_pass_of_the_tester_is_not_believed_before_they_agree(self) -> None:
        state = self.work(go(self.start(), GREEN, GREEN)[0])
        state, outcomes = go(state, GREEN, GREEN, PASS)
        assert outcomes[-1] == Outcome(Meaning.CLEARED, None, "the gate unit")
        assert state.final_status is FinalStatus.RUNNING
        state, outcomes = go(state, GREEN)
        assert next_step(state) == Check("lint", 1, When.AFTER_TESTER)
        state, outcomes = go(state, RED)
        assert outcomes == [Outcome(Meaning.FAILED, RED, 2)]
        assert next_step(state) == Turn("analyst", 2, 1)
        assert "one failed" in state.feedback.text
        state, outcomes = go(self.work(state), GREEN, GREEN, PASS, GREEN, GREEN, GREEN)
        assert outcomes[-1] == Outcome(Meaning.PASSED)
        assert state.final_status is FinalStatus.PASS

    def test_a_skipped_review_leads_to_them_like_an_approval(self) -> None:
        state, _ = go(self.start(), GREEN, GREEN, *self.APPROVED, "text")
        review = next_step(state)
        assert isinstance(review, Turn)
        assert next_step(skip_review(state, review)) == Check("unit", 1, When.AFTER_PROGRAMMER)

    def test_where_the_flow_has_a_gate_they_are_run_there_alone(self) -> None:
        state = with_gates(begin(packaged_flow("pair")), "tests=make test")
        state, _ = go(state, GREEN, *self.APPROVED)
        assert next_step(state) == Check("tests", 1, When.AFTER_TESTER)
        state, outcomes = go(state, GREEN)
        assert outcomes == [Outcome(Meaning.PASSED)]

    def test_resumed_with_other_gates_the_turn_before_is_due_again(self) -> None:
        state = self.work(go(self.start(), GREEN, GREEN)[0])
        state, _ = go(state, GREEN, GREEN, PASS)
        assert next_step(state.progressed(settings={})) == Turn("tester", 1, 1)


class TestState:
    def test_the_flow_is_saved_with_the_run_but_for_the_specifications(self) -> None:
        assert "flow" not in json.loads(encode_state(new_state()))
        assert through_json(begin(MINE)).flow == MINE

    def test_terminals_have_the_keys_that_the_flow_gives_them(self) -> None:
        data = to_json(begin(MINE))
        assert data["terminals"] == {
            "writer": "t-writer",
            "critic": "t-critic",
            "customer": "t-user",
        }
        assert set(data["outputs"]) == {"writer", "critic", "user"}

    def test_a_flow_that_cannot_be_read_is_refused(self) -> None:
        data = {**json.loads(encode_state(begin(MINE))), "flow": {"name": 7}}
        with pytest.raises(StateError, match="flow"):
            decode_state(json.dumps(data).encode())


class TestPrompts:
    briefing = Briefing(parse_task(TASK_TEXT), PurePosixPath("/r"), Condensation(), "make test")

    def test_a_task_without_a_scenario_is_tested_by_the_one_of_the_flow(self) -> None:
        told = TEXT + 'sees = [{ title = "SCENARIO", show = "scenario" }]\n'
        own = f'scenario = """\nRead it aloud.\n"""\n{told}'
        bare = replace(self.briefing, task=parse_task("# Task\nDo it.\n"))

        def scenario(text: str, briefing: Briefing) -> str:
            flow = read_flow(FlowSource(text, TEMPLATES), "mine", "mine.toml")
            prompt = build_prompt(Turn("user", 1, 1), begin(flow), briefing)
            return prompt.partition("=== SCENARIO ===\n")[2].partition("\n=== end of")[0]

        assert scenario(own, bare) == "Read it aloud."
        assert scenario(own, self.briefing) == "Run `parse empty.txt` and expect exit code 0."
        blank = own.replace("Read it aloud.", " ")
        assert scenario(told, bare) == scenario(blank, bare) == USUAL_SCENARIO
