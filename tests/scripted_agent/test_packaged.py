"""The packaged scripts play their parts: a dry run passes, the demo fails once and then passes."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.review import (
    Findings,
    TestAnswer,
    follow,
    is_review_approved,
    judge_test,
    read_findings,
)
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.scripted_agent import DEFAULT_SCRIPT, DEMO_PROJECT, DEMO_SCRIPT
from cli_agent_orchestrator.scripted_agent.agent import find_rule, read_turn, render_answer
from cli_agent_orchestrator.scripted_agent.script import Script, parse_script
from cli_agent_orchestrator.settings.config import ReviewRules
from tests.pipeline.samples import LOOP
from tests.scripted_agent.driving import PtyAgent, prompt_with_file, read_events

REVIEWERS = ["analyst_review", "programmer_review"]
SECTIONS = [
    "## 1. Artifact review",
    "## 2. P1-P4 traceability",
    "## 3. Phased coverage",
    "## 4. Downstream contract impact",
    "## 5. Explicit handoff",
]


def load(path: Path) -> Script:
    return parse_script(path.read_text(encoding="utf-8"), path.name)


def answer_of(script: Script, role: str, round_: int, cycle: int) -> str:
    turn = read_turn(LOOP.role(role).profile, 1, f"ROUND: {round_}\nCYCLE: {cycle}\n")
    return render_answer(find_rule(script, turn), turn)


@pytest.mark.parametrize("path", [DEFAULT_SCRIPT, DEMO_SCRIPT], ids=lambda path: path.name)
@pytest.mark.parametrize("round_", [1, 2, 8])
@pytest.mark.parametrize("cycle", [2, 3])
@pytest.mark.parametrize("role", REVIEWERS)
def test_reviewers_approve_from_the_second_cycle_on(
    path: Path, round_: int, cycle: int, role: str
) -> None:
    all_groups = ReviewRules(evidence_min_match=4)
    assert is_review_approved(
        answer_of(load(path), role, round_, cycle), LOOP.role(role), cycle, all_groups
    )


@pytest.mark.parametrize(
    ("role", "second"), [("analyst_review", "APPROVED"), ("programmer_review", "REVISE")]
)
def test_the_reviewers_of_the_demo_ask_for_more_in_the_first_cycle(role: str, second: str) -> None:
    assert "REVIEW_RESULT: REVISE" in answer_of(load(DEMO_SCRIPT), role, 1, 1)
    assert f"REVIEW_RESULT: {second}" in answer_of(load(DEMO_SCRIPT), role, 2, 1)


def test_all_findings_of_the_demo_are_answered() -> None:
    ledger = Findings()
    for round_, cycle in ((1, 1), (1, 2), (2, 1), (2, 2)):
        form = read_findings(answer_of(load(DEMO_SCRIPT), "programmer_review", round_, cycle))
        assert form is not None
        ledger = follow(ledger, form, round_, cycle)
        assert bool(ledger.open_blocking) is (cycle == 1)


@pytest.mark.parametrize("path", [DEFAULT_SCRIPT, DEMO_SCRIPT], ids=lambda path: path.name)
@pytest.mark.parametrize("round_", [1, 2])
@pytest.mark.parametrize("cycle", [1, 2])
def test_authors_answer_in_the_form_that_is_asked_for(path: Path, round_: int, cycle: int) -> None:
    summary = answer_of(load(path), "analyst", round_, cycle)
    assert [line for line in summary.splitlines() if line.startswith("## ")] == SECTIONS
    work = answer_of(load(path), "programmer", round_, cycle)
    assert "## Files changed\n" in work
    assert "## Behavior implemented\n" in work


def test_the_default_tester_passes_by_a_command_it_really_runs(
    on_pty: Callable[..., PtyAgent], tmp_path: Path
) -> None:
    agent = on_pty(None, "tester")
    agent.wait_for("scripted ❯")
    agent.send(prompt_with_file(tmp_path / "test_result.md"))
    agent.wait_for_event("Stop")
    text = (tmp_path / "test_result.md").read_text()
    assert judge_test(text).answer is TestAnswer.PASS
    assert "EVIDENCE:" in text
    assert "Python 3." in text


def test_the_task_of_the_demo_has_both_parts() -> None:
    task = parse_task((DEMO_PROJECT / "task.md").read_text(encoding="utf-8"))
    assert "python3 -m unittest" in task.scenario_test


class Demo:
    """The programmer and the tester of the demo, at work on a copy of its project."""

    def __init__(self, on_pty: Callable[..., PtyAgent], project: Path) -> None:
        shutil.copytree(DEMO_PROJECT, project, dirs_exist_ok=True)
        script = DEMO_SCRIPT.read_text(encoding="utf-8")
        self.project = project
        self._agents = {role: on_pty(script, role) for role in ("programmer", "tester")}
        for agent in self._agents.values():
            agent.wait_for("scripted ❯")

    def play(self, role: str, round_: int, cycle: int) -> str:
        response = self.project / f"{role}.md"
        response.unlink(missing_ok=True)
        prompt = prompt_with_file(response).replace("ROUND: 2", f"ROUND: {round_}")
        agent = self._agents[role]
        turns = sum(event["event"] == "Stop" for event in read_events(self.project))
        agent.send(prompt.replace("CYCLE: 1", f"CYCLE: {cycle}"))
        agent.wait_for_event("Stop", turns + 1)
        return response.read_text()


def test_the_demo_claims_a_pass_in_round_1_and_has_one_in_round_2(
    on_pty: Callable[..., PtyAgent], tmp_path: Path
) -> None:
    demo = Demo(on_pty, tmp_path)
    demo.play("programmer", 1, 1)
    demo.play("programmer", 1, 2)
    first = demo.play("tester", 1, 1)
    assert judge_test(first).answer is TestAnswer.PASS
    assert "Ran" not in first
    tests = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"], cwd=tmp_path, capture_output=True, check=False
    )
    assert b"FAILED (failures=1)" in tests.stderr
    demo.play("programmer", 2, 1)
    demo.play("programmer", 2, 2)
    second = demo.play("tester", 2, 1)
    assert judge_test(second).answer is TestAnswer.PASS
    assert "Ran 5 tests" in second
    changed = [
        file.name
        for file in DEMO_PROJECT.rglob("*.*")
        if "__pycache__" not in file.parts
        and file.read_bytes() != (tmp_path / file.relative_to(DEMO_PROJECT)).read_bytes()
    ]
    assert sorted(changed) == ["README.md", "shopping_basket.py"]
