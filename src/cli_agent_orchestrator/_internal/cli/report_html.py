"""A report as an HTML page: what it says, without what belongs to this machine or is secret."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.cli.for_others import in_each_text
from cli_agent_orchestrator._internal.cli.report_words import (
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    title_of,
)
from cli_agent_orchestrator._internal.html.long_text import (
    FIRST_LINES,
    LAST_LINES,
    CutText,
    cut_text,
)
from cli_agent_orchestrator._internal.html.report_page import PageWords, report_page
from cli_agent_orchestrator._internal.masking import before_secret, masked_over_lines
from cli_agent_orchestrator._internal.runs.records.run_record import RunRecord, SavedSetting
from cli_agent_orchestrator._internal.runs.reports.in_full import RunInFull
from cli_agent_orchestrator._internal.runs.reports.report import Report
from cli_agent_orchestrator._internal.runs.reports.story import TurnDetail
from cli_agent_orchestrator._internal.screen_masking import masked_screen
from cli_agent_orchestrator._internal.settings.table import PREFIX

REPLY_LINES = (150, 50)
PROMPT_LINES = (60, 20)
SCREEN_LINES = (30, 30)
"""Of each turn: the first and the last that are shown."""
TOLD = ("Folder", "Branch", "Agents", "Time")
"""Facts that mean something to whoever does not have the run."""
ONLY_HERE = ("WD", "STATE_FILE", "API", "PROMPT_FILE")
"""Settings that say nothing elsewhere."""


def html_page(
    found: Report,
    full: RunInFull,
    home: Path,
    made: str,
    steps: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the page of a report and a run that are for others already."""
    words = PageWords(
        title=title_of(found),
        facts=[(fact.name, fact.text) for fact in facts_of(found, home) if fact.name in TOLD],
        evidence_title=evidence_title(found.gate),
        setbacks=found.setbacks,
        notes=last_notes(found),
        open_notes=grouped(found.open_notes),
        acts=[f"{local_time(act.at)}: {act.text}" for act in found.acts],
        reproduce=reproduction(full.story.record),
        made=made,
    )
    return report_page(found, full, words, steps)


def run_for_others(full: RunInFull, clean: Callable[[str], str]) -> RunInFull:
    """Return a run for a page that is sent around: long texts are cut, and all are cleaned."""

    def cut(text: str, lines: tuple[int, int] = (FIRST_LINES, LAST_LINES)) -> str:
        whole = masked_over_lines(text)
        return CutText(clean(cut_text(whole, *lines, place=before_secret)))

    def shortened(detail: TurnDetail) -> TurnDetail:
        return replace(
            detail,
            reply=detail.reply and cut(detail.reply, REPLY_LINES),
            prompt=detail.prompt and cut(detail.prompt, PROMPT_LINES),
            screen=detail.screen and cut(masked_screen(detail.screen), SCREEN_LINES),
        )

    record = replace(full.story.record, task=cut(full.story.record.task))
    details = tuple(map(shortened, full.details))
    shown = replace(full, story=replace(full.story, record=record), details=details)
    return in_each_text(shown, clean)


def reproduction(record: RunRecord) -> str:
    """Return the commands that begin the same run elsewhere."""
    given = [
        f"{PREFIX}{name}={shlex.quote(saved.value)}"
        for name, saved in sorted(record.settings.items())
        if _counts(name, saved)
    ]
    at = f"git checkout {record.base[:12]}\n" if record.base else ""
    lines = [*given, "cao run task.md"]
    return f"{at}# task.md holds the whole task\n" + " \\\n".join(lines)


def _counts(name: str, saved: SavedSetting) -> bool:
    return bool(saved.value) and saved.source != "default" and name not in ONLY_HERE
