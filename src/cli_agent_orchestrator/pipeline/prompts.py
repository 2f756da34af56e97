"""What agents are told: one builder for each role, from packaged templates.

A prompt is: round and cycle, the context as quoted blocks, guard lines, the task, and the
response-file instruction. Text from people and agents is put in once and never read again as a
template. A block is marked so that nothing in its text can end it, and where a text was shortened
a line after its block says by how much and where the whole is kept.

A terminal that has had a turn is *briefed*: what it was told before is in its history, and can be
referred to. A terminal that took the place of a lost one is not, and gets everything.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from string import Template

from cli_agent_orchestrator.config import Condensation
from cli_agent_orchestrator.pipeline.condense import (
    excerpt_of,
    extract_handoff,
    extract_implementation,
)
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output, clean_text
from cli_agent_orchestrator.pipeline.roles import Role
from cli_agent_orchestrator.pipeline.state import RunState, Turn
from cli_agent_orchestrator.pipeline.task import Task

EXPLORE_REFERENCE = "(Same as initial turn -- refer to your conversation history.)"
UPSTREAM_REFERENCE = "(Same as in cycle 1 of this round -- refer to your conversation history.)"
RESPONSE_END = "CAO_RESPONSE_END"
# "===", "  ===": what a line begins with; some programs end a line at U+2028 and U+2029, too
LINE_MARK_PATTERN = r"(?:^|[\u2028\u2029])[^\S\n]*(=+)"

ANALYST_SUMMARY = "ANALYST_SUMMARY"
PROGRAMMER_SUMMARY = "PROGRAMMER_SUMMARY"
REVIEW_NAMES = {
    Role.ANALYST_REVIEW: "PEER ANALYST",
    Role.PROGRAMMER_REVIEW: "PEER PROGRAMMER",
}


@dataclass(frozen=True, slots=True)
class Briefing:
    """What the prompts of a run are built from, besides its state."""

    task: Task
    response_folder: PurePath
    """Absolute; where agents write their response files."""
    condensation: Condensation
    project_test_cmd: str = ""


def build_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return the prompt of a turn."""
    return BUILDERS[turn.role](turn, state, briefing)


def build_analyst_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return what the analyst is told: the task, the tester's evidence, the peer's notes."""
    blocks = [
        _explore(turn, state, briefing),
        _block("TESTER FEEDBACK", state.feedback),
        _block("PEER ANALYST FEEDBACK", state.analyst_feedback),
        *_open_notes(state, turn.round - 1, (Role.ANALYST_REVIEW, Role.PROGRAMMER_REVIEW)),
    ]
    if _is_new_in_phase(turn, state):
        blocks.append(_block("SUMMARY OF THE LAST CYCLE", _whole(state.outputs[Role.ANALYST])))
    return _render(turn, briefing, blocks)


def build_analyst_review_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return what the analyst's reviewer is told: the whole summary."""
    blocks = [
        _explore(turn, state, briefing),
        _block(ANALYST_SUMMARY, _whole(state.outputs[Role.ANALYST])),
    ]
    if _is_new_in_phase(turn, state):
        blocks.append(_block("NOTES OF THE LAST CYCLE", state.analyst_feedback))
    return _render(turn, briefing, blocks)


def build_programmer_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return what the programmer is told: the analyst's handoff, open notes, the peer's notes."""
    analysis = state.outputs[Role.ANALYST]
    blocks = [_explore(turn, state, briefing)]
    if _is_repeat(turn, state, briefing):
        blocks.append(_block(ANALYST_SUMMARY, Excerpt(UPSTREAM_REFERENCE)))
    else:
        blocks += [
            _block(ANALYST_SUMMARY, _handed_on(analysis, extract_handoff, briefing.condensation)),
            *_open_notes(state, turn.round, (Role.ANALYST_REVIEW,)),
            _block("TESTER FEEDBACK", state.feedback),
        ]
    blocks.append(_block("PEER PROGRAMMER FEEDBACK", state.programmer_feedback))
    if _is_new_in_phase(turn, state):
        blocks.append(_block("SUMMARY OF THE LAST CYCLE", _whole(state.outputs[Role.PROGRAMMER])))
    return _render(turn, briefing, [*blocks, *_test_command(briefing)])


def build_programmer_review_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return what the programmer's reviewer is told: both summaries, whole."""
    analysis = _whole(state.outputs[Role.ANALYST])
    if _is_repeat(turn, state, briefing):
        analysis = Excerpt(UPSTREAM_REFERENCE)
    blocks = [
        _explore(turn, state, briefing),
        _block(ANALYST_SUMMARY, analysis),
        _block(PROGRAMMER_SUMMARY, _whole(state.outputs[Role.PROGRAMMER])),
    ]
    if _is_new_in_phase(turn, state):
        blocks.append(_block("NOTES OF THE LAST CYCLE", state.programmer_feedback))
    return _render(turn, briefing, [*blocks, *_test_command(briefing)])


def build_tester_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    """Return what the tester is told: the scenario, what was changed, and open notes."""
    work = state.outputs[Role.PROGRAMMER]
    blocks = [
        _explore(turn, state, briefing),
        _block(PROGRAMMER_SUMMARY, _handed_on(work, extract_implementation, briefing.condensation)),
        *_open_notes(state, turn.round, (Role.PROGRAMMER_REVIEW,)),
    ]
    if turn.round > 1 and not _is_briefed(turn, state):
        blocks.append(_block("EVIDENCE OF THE LAST ROUND", state.feedback))
    blocks += [
        *_test_command(briefing),
        _block("SCENARIO TEST", Excerpt(briefing.task.scenario_test)),
    ]
    return _render(turn, briefing, blocks)


Builder = Callable[[Turn, RunState, Briefing], str]
BUILDERS: Mapping[Role, Builder] = {
    Role.ANALYST: build_analyst_prompt,
    Role.ANALYST_REVIEW: build_analyst_review_prompt,
    Role.PROGRAMMER: build_programmer_prompt,
    Role.PROGRAMMER_REVIEW: build_programmer_review_prompt,
    Role.TESTER: build_tester_prompt,
}


def explore_block_for(
    terminal_id: str, summary: str, briefed: Collection[str], condense: bool
) -> str:
    """Return the explore summary, or a reference to it for a terminal that has had it."""
    return EXPLORE_REFERENCE if condense and terminal_id in briefed else summary


def response_file_instruction(path: PurePath) -> str:
    """Return the block that tells an agent to write its reply to a file."""
    return _template("response_file").substitute(path=shlex.quote(str(path)), end=RESPONSE_END)


def _is_briefed(turn: Turn, state: RunState) -> bool:
    return state.terminal_of(turn.role) in state.progress.briefed


def _is_repeat(turn: Turn, state: RunState, briefing: Briefing) -> bool:
    """Has this terminal had the earlier phases' results of this round, so that a hint will do?"""
    return briefing.condensation.upstream_on_repeat and turn.cycle > 1 and _is_briefed(turn, state)


def _is_new_in_phase(turn: Turn, state: RunState) -> bool:
    """Did this terminal take another's place, so that it does not know the phase's last cycle?"""
    return turn.cycle > 1 and not _is_briefed(turn, state)


def _explore(turn: Turn, state: RunState, briefing: Briefing) -> str:
    text = explore_block_for(
        state.terminal_of(turn.role),
        briefing.task.explore_summary,
        state.progress.briefed,
        briefing.condensation.explore_on_repeat,
    )
    return _block("EXPLORE SUMMARY", Excerpt(text))


def _open_notes(state: RunState, number: int, reviewers: Collection[Role]) -> list[str]:
    return [
        _block(f"OPEN NOTES OF THE {REVIEW_NAMES[opened.role]} (round {number})", opened.notes)
        for opened in state.progress.open_notes
        if opened.round == number and opened.role in reviewers
    ]


def _test_command(briefing: Briefing) -> list[str]:
    command = briefing.project_test_cmd
    return [_block("PROJECT TEST COMMAND", Excerpt(command))] if command else []


def _whole(output: Output) -> Excerpt:
    return Excerpt(output.text)


def _handed_on(
    output: Output, extract: Callable[[str, int], str], condensation: Condensation
) -> Excerpt:
    if not condensation.cross_phase:
        return _whole(output)
    return excerpt_of(output, extract(output.text, condensation.max_cross_phase_lines))


def _block(title: str, excerpt: Excerpt) -> str:
    """Quote a text between two marks that do not begin any of its lines."""
    text = clean_text(excerpt.text)
    runs = re.findall(LINE_MARK_PATTERN, text, re.MULTILINE)
    mark = "=" * max(3, 1 + max(map(len, runs), default=0))
    block = f"{mark} {title} {mark}\n{text}\n{mark} end of {title} {mark}"
    if not excerpt.left_out:
        return block
    where = f"; the whole text is in {excerpt.archive}" if excerpt.archive else ""
    lines = "1 line was" if excerpt.left_out == 1 else f"{excerpt.left_out} lines were"
    return f"{block}\n({lines} left out{where})"


def _render(turn: Turn, briefing: Briefing, blocks: list[str]) -> str:
    return _template(turn.role).substitute(
        round=turn.round,
        cycle=turn.cycle,
        context="\n\n".join(blocks),
        response_file=response_file_instruction(
            briefing.response_folder / turn.role.response_file
        ).rstrip("\n"),
    )


@cache
def _template(name: str) -> Template:
    folder = files("cli_agent_orchestrator.pipeline") / "templates"
    return Template((folder / f"{name}.md").read_text(encoding="utf-8"))
