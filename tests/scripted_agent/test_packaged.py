"""The packaged scripts play their parts; tests/e2e/test_demo.py plays the whole demo."""

from collections.abc import Callable
from pathlib import Path

from cli_agent_orchestrator.pipeline.review import Findings, follow, judge_test, read_findings
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.scripted_agent import DEMO_PROJECT, DEMO_SCRIPT
from cli_agent_orchestrator.scripted_agent.agent import find_rule, read_turn, render_answer
from cli_agent_orchestrator.scripted_agent.script import Script, parse_script
from tests.pipeline.samples import LOOP
from tests.scripted_agent.driving import PtyAgent, prompt_with_file


def load(path: Path) -> Script:
    return parse_script(path.read_text(encoding="utf-8"), path.name)


def answer_of(script: Script, role: str, round_: int, cycle: int) -> str:
    turn = read_turn(LOOP.role(role).profile, 1, f"ROUND: {round_}\nCYCLE: {cycle}\n")
    return render_answer(find_rule(script, turn), turn)


def test_all_findings_of_the_demo_are_answered() -> None:
    ledger = Findings()
    for round_, cycle in ((1, 1), (1, 2), (2, 1), (2, 2)):
        form = read_findings(answer_of(load(DEMO_SCRIPT), "programmer_review", round_, cycle))
        assert form is not None
        ledger = follow(ledger, form, round_, cycle)
        assert bool(ledger.open_blocking) is (cycle == 1)


def test_the_default_tester_passes_by_a_command_it_really_runs(
    started: Callable[..., PtyAgent], tmp_path: Path
) -> None:
    agent = started(None, "tester")
    agent.send(prompt_with_file(tmp_path / "test_result.md"))
    agent.wait_for_event("Stop")
    text = (tmp_path / "test_result.md").read_text()
    assert judge_test(text).positive
    assert "EVIDENCE:" in text
    assert "Python 3." in text


def test_the_task_of_the_demo_has_both_parts() -> None:
    task = parse_task((DEMO_PROJECT / "task.md").read_text(encoding="utf-8"))
    assert "python3 -m unittest" in task.scenario_test
