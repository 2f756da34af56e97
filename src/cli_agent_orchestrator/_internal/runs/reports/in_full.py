"""A run with every turn of it, for a report that is read elsewhere: gathered in one go."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.screens import read_screen
from cli_agent_orchestrator._internal.runs.records.state_file import read_state_of
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn, read_turn
from cli_agent_orchestrator._internal.runs.records.usage import usage_of_turns
from cli_agent_orchestrator._internal.runs.reports.story import (
    RunStory,
    TurnDetail,
    evidence_in,
    flow_of,
    follow_findings,
    story_of,
)
from cli_agent_orchestrator._internal.runs.work.bringing_back import Kept, read_kept
from cli_agent_orchestrator._internal.runs.work.moments import before, find_span
from cli_agent_orchestrator._internal.workspace.changes import REST_LEFT_OUT
from cli_agent_orchestrator.errors import GitError, OrchestratorError, RunError

LARGEST_PATCH = 2 * 1024 * 1024
"""Bytes of what the whole run changed, and as many of what all turns changed."""
MOST_LINES = 120
"""Of what one turn changed: what the run did with all of them is told at greater length."""


@dataclass(frozen=True, slots=True)
class RunInFull:
    """A run and its turns."""

    story: RunStory
    details: tuple[TurnDetail, ...] = ()
    patch: str = ""
    """What the run changed; empty if no snapshot tells it."""


def run_in_full(folder: Folder, environ: Mapping[str, str]) -> RunInFull:
    """Return the run in a folder with all its turns; raise `StateError` if there is none."""
    story = story_of(folder)
    patch, of_turns = _patches(folder, story.turns, environ)
    used = usage_of_turns(folder, story.turns, story.record.ended)
    flow = flow_of(story.record, read_state_of(story.record))
    findings = {
        sequence: entries
        for role in story.reviewers
        for sequence, entries in follow_findings(
            folder, story.record, [turn for turn in story.turns if turn.role == role]
        ).by_turn.items()
    }
    details = []
    for turn in story.turns:
        texts = read_turn(folder, story.record, turn)
        is_review = turn.role in story.reviewers
        details.append(
            TurnDetail(
                turn=turn,
                prompt=texts.prompt,
                reply=texts.reply,
                screen=read_screen(folder, turn.sequence, turn.role),
                patch=of_turns.get(turn.sequence),
                files=None,
                usage=used.get(turn.sequence),
                evidence=evidence_in(texts.reply, flow, turn.role) if is_review else (),
                findings=findings.get(turn.sequence, ()),
            )
        )
    return RunInFull(story, tuple(details), patch)


def _patches(
    folder: Folder, turns: Sequence[RunTurn], environ: Mapping[str, str]
) -> tuple[str, dict[int, str]]:
    """Return what the run changed, and what each turn did; nothing where no snapshot tells it."""
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        old, new = find_span(kept.taken, "")
        whole = kept.snapshots.diff(old.commit, new.commit, limit=LARGEST_PATCH)
        return whole.decode(errors="replace"), _of_turns(kept, {turn.sequence for turn in turns})
    return "", {}


def _of_turns(kept: Kept, numbers: set[int]) -> dict[int, str]:
    pairs = {
        one.sequence: (before(kept.taken, one).tree, one.tree)
        for one in kept.taken
        if one.sequence in numbers
    }
    changed = {number: pair for number, pair in pairs.items() if pair[0] != pair[1]}
    with suppress(RunError, GitError):
        patches = kept.snapshots.diffs(list(changed.values()), LARGEST_PATCH)
        return {
            number: _cut(patch).decode(errors="replace")
            for number, patch in zip(changed, patches, strict=True)
        }
    return {}


def _cut(patch: bytes) -> bytes:
    lines = patch.split(b"\n", MOST_LINES)
    if len(lines) <= MOST_LINES or not lines[-1]:
        return patch
    return b"\n".join([*lines[:-1], f"{REST_LEFT_OUT}\n".encode()])
