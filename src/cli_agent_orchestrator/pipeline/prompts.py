"""What agents are told: one builder, from the template and the blocks of a role.

A prompt is: round and cycle, the context as quoted blocks, guard lines, the task, and the
response-file instruction. Text from people and agents is put in once and never read again as a
template. A block is marked so that nothing in its text can end it, and where a text was shortened
a line after its block says by how much and where the whole is kept.

A terminal that has had a turn is *briefed*: what it was told before is in its history, and can be
referred to. A terminal that took the place of a lost one is not, and gets everything. What has
been told before is: the texts of the task, once the terminal is briefed; everything else, from
the second cycle of a round on.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from string import Template

from msgspec import Struct

from ..settings.config import Condensation
from .flow import Amount, Block, BlockSource, Repeat
from .flow_file import response_file_template
from .reply import Excerpt, Output, clean_text, excerpt_of, extract_handoff, extract_implementation
from .review import Findings, findings_block
from .state import RunState, Turn, hints_for
from .task import Task

EXPLORE_REFERENCE = "(Same as initial turn -- refer to your conversation history.)"
UPSTREAM_REFERENCE = "(Same as in cycle 1 of this round -- refer to your conversation history.)"
RESPONSE_END = "CAO_RESPONSE_END"
FINDINGS_TITLE = "OPEN FINDINGS"
HINT_TITLE = "HINT FROM A PERSON"
NOTE_TITLE = "WHERE YOU WORK"
# "===", "  ===": what a line begins with; some programs end a line at U+2028 and U+2029, too
LINE_MARK_PATTERN = r"(?:^|[\u2028\u2029])[^\S\n]*(=+)"

OF_THE_TASK = (BlockSource.TASK, BlockSource.SCENARIO, BlockSource.TEST_COMMAND)
EXTRACTS: Mapping[Amount, Callable[[str, int], str]] = {
    Amount.HANDOFF: extract_handoff,
    Amount.CHANGES: extract_implementation,
}


class Briefing(Struct, frozen=True):
    task: Task
    response_folder: PurePath
    condensation: Condensation
    project_test_cmd: str = ""
    note: str = ""
    """Shown once to every agent: where it works; empty if that is the usual place."""


def build_prompt(turn: Turn, state: RunState, briefing: Briefing) -> str:
    role = state.flow.role(turn.role)
    context = [
        _quoted(title, excerpt)
        for block in role.blocks
        for title, excerpt in _texts(block, turn, state, briefing)
    ]
    if briefing.note and state.terminal_of(turn.role) not in state.progress.briefed:
        context.append(_quoted(NOTE_TITLE, Excerpt(briefing.note)))
    reviewer = state.flow.stage_of(turn.role).reviewer
    if findings := findings_block(state.progress.findings.get(reviewer, Findings())):
        context.append(_quoted(FINDINGS_TITLE, Excerpt(findings)))
    context += [_quoted(HINT_TITLE, Excerpt(hint.text)) for hint in hints_for(state, turn.role)]
    instruction = response_file_instruction(briefing.response_folder / role.response_file)
    return Template(role.template).substitute(
        round=turn.round,
        cycle=turn.cycle,
        context="\n\n".join(context),
        response_file=instruction.rstrip("\n"),
    )


def explore_block_for(
    terminal_id: str, summary: str, briefed: Collection[str], condense: bool
) -> str:
    return EXPLORE_REFERENCE if condense and terminal_id in briefed else summary


def response_file_instruction(path: PurePath) -> str:
    template = Template(response_file_template())
    return template.substitute(path=shlex.quote(str(path)), end=RESPONSE_END)


def _texts(
    block: Block, turn: Turn, state: RunState, briefing: Briefing
) -> list[tuple[str, Excerpt]]:
    source, condensation = block.source, briefing.condensation
    is_briefed = state.terminal_of(turn.role) in state.progress.briefed
    is_of_task = source in OF_THE_TASK
    if is_of_task:
        is_repeated = is_briefed and condensation.explore_on_repeat
    else:
        is_repeated = is_briefed and condensation.upstream_on_repeat and turn.cycle > 1
    # What an earlier agent of this role was told or said is there from the second turn on.
    number = turn.round if source is BlockSource.EVIDENCE else turn.cycle
    is_for_others = block.repeat is Repeat.ONLY_NEW and (is_briefed or number == 1)
    if is_for_others or (block.repeat is Repeat.OMIT and is_repeated):
        return []
    if is_repeated and block.repeat is Repeat.REFER and not is_of_task:
        return [(block.title, Excerpt(UPSTREAM_REFERENCE))]
    text = ""
    match source:
        case BlockSource.TASK:
            text = briefing.task.explore_summary
        case BlockSource.SCENARIO:
            text = briefing.task.scenario_test or state.flow.scenario
        case BlockSource.TEST_COMMAND:
            text = briefing.project_test_cmd
        case BlockSource.OUTPUT:
            return [(block.title, _handed_on(state.output_of(block.of[0]), block, briefing))]
        case BlockSource.NOTES:
            return [(block.title, state.notes_of(block.of[0]))]
        case BlockSource.EVIDENCE:
            return [(block.title, state.feedback)]
        case _:
            number = turn.round - (source is BlockSource.LAST_OPEN_NOTES)
            return [
                (f"OPEN NOTES OF THE {state.flow.role(one.role).title} (round {number})", one.notes)
                for one in state.progress.open_notes
                if one.round == number and one.role in block.of
            ]
    if not text and source is BlockSource.TEST_COMMAND:
        return []
    refer = block.repeat is Repeat.REFER and condensation.explore_on_repeat
    terminal_id, briefed = state.terminal_of(turn.role), state.progress.briefed
    return [(block.title, Excerpt(explore_block_for(terminal_id, text, briefed, refer)))]


def _handed_on(output: Output, block: Block, briefing: Briefing) -> Excerpt:
    condensation = briefing.condensation
    if block.amount is Amount.WHOLE or not condensation.cross_phase:
        return Excerpt(output.text)
    extract = EXTRACTS[block.amount]
    return excerpt_of(output, extract(output.text, condensation.max_cross_phase_lines))


def _quoted(title: str, excerpt: Excerpt) -> str:
    text = clean_text(excerpt.text)
    runs = re.findall(LINE_MARK_PATTERN, text, re.MULTILINE)
    mark = "=" * max(3, 1 + max(map(len, runs), default=0))
    block = f"{mark} {title} {mark}\n{text}\n{mark} end of {title} {mark}"
    if not excerpt.left_out:
        return block
    where = f"; the whole text is in {excerpt.archive}" if excerpt.archive else ""
    lines = "1 line was" if excerpt.left_out == 1 else f"{excerpt.left_out} lines were"
    return f"{block}\n({lines} left out{where})"
