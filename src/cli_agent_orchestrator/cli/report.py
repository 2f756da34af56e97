"""`cao report`: a run on one page, from its state file and its archive."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from textwrap import shorten
from typing import Any

import click

from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.cli.run import read_all_settings
from cli_agent_orchestrator.cli.timeline import HEADINGS, duration, rows_of
from cli_agent_orchestrator.errors import PromptError, RunError, StateError
from cli_agent_orchestrator.handoff.responses import ResponseFiles
from cli_agent_orchestrator.pipeline.condense import extract_review_notes, extract_test_evidence
from cli_agent_orchestrator.pipeline.flow import StageKind
from cli_agent_orchestrator.pipeline.machine import Check, due_step
from cli_agent_orchestrator.pipeline.state import (
    FinalStatus,
    RunState,
    find_half_character,
    from_json,
)
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.plain_files import folder_of
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.runs.journal import Journal, TurnRecord
from cli_agent_orchestrator.runs.state_file import LARGEST_STATE, check_text

EXCERPT_LINES = 30
TASK_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say about a run."""

    status: FinalStatus
    wd: str
    state_file: str
    archive: str
    """Empty for a run of the earlier script, which kept none."""
    task: str
    """The beginning of what was to be done."""
    session_name: str
    agents: dict[str, str]
    """Which agent each role has."""
    terminals: dict[str, str]
    round: int
    due: str
    """Whose turn it is; empty when the run is over."""
    turns: Sequence[TurnRecord]
    evidence: str
    """What the last tester found."""
    notes: dict[str, str]
    """What the reviewers last had to say, by role."""
    open_notes: dict[str, str]
    """What was still open when the review cycles were used up."""


@click.command()
@click.option("--wd", "WD", metavar="PATH", help="The project's folder.  [default: here; WD]")
@click.option("--state-file", "STATE_FILE", metavar="PATH", help="The saved run.  [STATE_FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def report(as_json: bool, **options: str | None) -> None:
    """Print a run on one page of Markdown: verdict, timeline, evidence, notes, files."""
    config = RunConfig.from_env(read_all_settings(options, os.environ, None))
    found = build_report(read_state(config), config)
    if as_json:
        click.echo(json.dumps(fields_of(found), indent=2))
    else:
        click.echo(printable(markdown(found)))


def read_state(config: RunConfig) -> RunState:
    """Return the saved state; unlike a run, leave a file alone that cannot be read."""
    path = config.state_file
    try:
        data = folder_of(path, config.wd).read(path.name, LARGEST_STATE)
        content = json.loads(data.decode("utf-8-sig"))
        state, half = from_json(content), find_half_character(content)
    except FileNotFoundError:
        raise RunError(f"there is no saved run in {path}; `cao run` makes one") from None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    except (StateError, ValueError, RecursionError) as error:
        raise StateError(f"{path} is not the state of a run: {error}") from error
    check_text(path, half, "mend it")
    return state


def build_report(state: RunState, config: RunConfig) -> Report:
    """Join the state of a run with what its archive tells."""
    archive, turns = None, []
    if state.progress.archive:
        kept = ResponseFiles(config.wd, state.progress.archive, {}).kept
        archive, turns = kept.path, Journal(kept).read()
    tested = _last_test(state) or _last_feedback(state)
    return Report(
        status=state.final_status,
        wd=state.wd or str(config.wd),
        state_file=str(config.state_file),
        archive=str(archive or ""),
        task=_task_line(state),
        session_name=state.session_name,
        agents={role.name: state.provider_of(role.name) for role in state.flow.roles},
        terminals={role.name: state.terminal_of(role.name) for role in state.flow.roles},
        round=state.round,
        due=_due(state),
        turns=turns,
        evidence=extract_test_evidence(tested, EXCERPT_LINES),
        notes={
            stage.reviewer: extract_review_notes(
                state.output_of(stage.reviewer).text, EXCERPT_LINES
            )
            for stage in state.flow.stages
            if state.has_output(stage.reviewer)
        },
        open_notes={
            f"{opened.role}, round {opened.round}": opened.notes.text
            for opened in state.progress.open_notes
        },
    )


def fields_of(found: Report) -> dict[str, Any]:
    """Return a report for programs."""
    fields = {name: getattr(found, name) for name in Report.__slots__}
    return {**fields, "turns": [asdict(turn) for turn in found.turns]}


def markdown(found: Report) -> str:
    """Return a report for people."""
    parts = [f"# {_title(found)}", "\n".join(_facts(found))]
    if found.turns:
        parts += ["## Timeline", _table(found.turns)]
    if found.evidence:
        parts += ["## What the tester found", _quote(found.evidence)]
    for role, notes in found.notes.items():
        parts += [f"## Last notes of {role}", _quote(notes)]
    for where, notes in found.open_notes.items():
        parts += [f"## Still open after the last cycle ({where})", _quote(notes)]
    return "\n\n".join(parts)


def _title(found: Report) -> str:
    rounds = f"{found.round} round{'' if found.round == 1 else 's'}"
    match found.status:
        case FinalStatus.RUNNING:
            return f"Not finished: {found.due} is due"
        case _:
            return f"{found.status} after {rounds}"


def _facts(found: Report) -> list[str]:
    kinds = sorted(set(found.agents.values()))
    each = (f"{role}: {agent}" for role, agent in found.agents.items())
    agents = kinds[0] if len(kinds) == 1 else ", ".join(each)
    lines = [f"- Task: {found.task}", f"- Folder: {found.wd}", f"- Agents: {agents}"]
    if found.turns:
        began, ended = found.turns[0].began, max(turn.ended for turn in found.turns)
        working = sum(turn.worked for turn in found.turns)
        lines.append(
            f"- Time: {_when(began)} to {_when(ended)}, {len(found.turns)} turns, "
            f"agents worked {duration(working)}"
        )
    if found.archive:
        lines.append(f"- Prompts and replies: {found.archive}")
    lines.append(f"- State: {found.state_file}")
    if found.status is FinalStatus.RUNNING:
        lines.append("- To go on: `cao run` in the folder")
    return lines


def _table(turns: Sequence[TurnRecord]) -> str:
    rows = [(*HEADINGS, "reply"), ("---",) * (len(HEADINGS) + 1)]
    rows += [(*row, turn.reply) for row, turn in zip(rows_of(turns), turns, strict=True)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    )


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def _task_line(state: RunState) -> str:
    try:
        summary = parse_task(state.prompt).explore_summary
    except PromptError:
        summary = state.prompt.strip() or "(not saved)"
    paragraph = " ".join(summary.split("\n\n")[0].split())
    return shorten(paragraph, TASK_CHARACTERS, placeholder=" …")


def _due(state: RunState) -> str:
    """Say what comes next; nothing when the run is over."""
    step = due_step(state)
    if step is None:
        return ""
    if isinstance(step, Check):
        return f"round {step.round}, {step.stage}"
    return f"round {step.round}, cycle {step.cycle}, {step.role}"


def _last_test(state: RunState) -> str:
    """Return what the last tester of this round said, if one did."""
    tests = [stage.author for stage in state.flow.stages if stage.kind is StageKind.TEST]
    said = [state.output_of(tester).text for tester in tests if state.has_output(tester)]
    return said[-1] if said else ""


def _last_feedback(state: RunState) -> str:
    return state.feedback.text if state.round > 1 else ""
