"""What a report says of the work itself: who changed which files, and what was proven."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cli_agent_orchestrator._internal.gates import PROOF
from cli_agent_orchestrator._internal.pipeline.patches import read_block
from cli_agent_orchestrator._internal.pipeline.proof import (
    BEFORE_TITLE,
    DIFF_TITLE,
    NOT_PROVEN,
    PROVEN,
)
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import read_events
from cli_agent_orchestrator._internal.runs.records.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.records.run_record import read_record
from cli_agent_orchestrator._internal.runs.records.turns import archive_of, read_reply
from cli_agent_orchestrator._internal.runs.work.work_folder import said_of_repository
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import CheckEnded, FilesChanged, NotConverging, RunEvent

MARK = "- "
"""Begins each suspicion on the page of a proof."""


@dataclass(frozen=True, slots=True)
class Deeds:
    """What was done to the files of a run, and what that is worth."""

    changes: tuple[str, ...] = ()
    """Who changed what, in words, in order."""
    proof: str = ""
    """`proven: …` or `not proven: …`; empty if that was not looked into."""
    suspicions: tuple[str, ...] = ()
    """What the run did to tests and their settings: path, trick, detail."""
    circles: tuple[str, ...] = ()
    """Why the run did not converge, whenever that was noticed."""
    logs: str = ""
    """The folder with what gates wrote; empty if nothing is kept."""
    repository: tuple[str, ...] = ()
    """What was changed in the repository itself: its settings, hooks and branches."""
    before: tuple[str, ...] = ()
    """What had been done to tests before the run, and was not committed."""
    patch: str = ""
    """The diff of the files that are suspicious, cut to a page."""

    @property
    def verdict(self) -> str:
        """`proven` or `not proven`; empty if that was not looked into."""
        words = (PROVEN, NOT_PROVEN)
        return next((word for word in words if self.proof.startswith(f"{word}:")), "")


def deeds_in(folder: Folder | None) -> Deeds:
    """Return what a run folder, and the archive it names, tell of the work."""
    record = None if folder is None else read_record(folder)
    if folder is None or record is None:
        return Deeds()
    events = read_events(folder)
    last, page = last_proof(events), None
    if last is not None:
        with suppress(UsageError):
            page = read_reply(archive_of(folder, record), last.sequence, PROOF)
    return deeds_of(events, page or "")


def with_proof_of(deeds: Deeds, turns: Sequence[TurnRecord], archive: Folder) -> Deeds:
    """Return deeds with what an archive tells of the last proof; the run's own folder is gone."""
    proofs = [turn for turn in turns if turn.role == PROOF]
    if not proofs:
        return deeds
    page = read_reply(archive, proofs[-1].sequence, PROOF) or ""
    return _with_page(replace(deeds, proof=proofs[-1].why or proofs[-1].outcome), page)


def deeds_of(events: Sequence[RunEvent], page: str = "") -> Deeds:
    """Return what events tell of the work, with the page of the last proof."""
    last = last_proof(events)
    found = Deeds(
        changes=tuple(_changes(events)),
        proof="" if last is None else last.why or last.detail,
        circles=tuple(dict.fromkeys(_circles(events))),
        logs=_logs(events),
        repository=said_of_repository(events),
    )
    return _with_page(found, page)


def _logs(events: Sequence[RunEvent]) -> str:
    logs = [e.log for e in events if isinstance(e, CheckEnded) and e.log]
    return str(Path(logs[-1]).parent) if logs else ""


def last_proof(events: Sequence[RunEvent]) -> CheckEnded | None:
    """Return the end of the last proof, if there was one."""
    proofs = [e for e in events if isinstance(e, CheckEnded) and e.gate == PROOF]
    return proofs[-1] if proofs else None


def _changes(events: Sequence[RunEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, FilesChanged):
            named = "" if not event.allowed else f": {event.named}"
            yield f"Round {event.round}, {event.role} (turn {event.sequence}) {event.words}{named}"


def _circles(events: Sequence[RunEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, NotConverging):
            yield event.why


def _with_page(deeds: Deeds, page: str) -> Deeds:
    """Return deeds with what the page of a proof lists: at its head, and in the parts after it."""
    head, _, rest = page.partition("\n\n")
    before = rest.partition("\n\n")[0] if rest.startswith(f"{BEFORE_TITLE}\n") else ""
    parts = rest.removeprefix(before).lstrip("\n")
    patch = read_block(parts) if parts.startswith(DIFF_TITLE) else ""
    return replace(deeds, suspicions=_listed(head), before=_listed(before), patch=patch)


def _listed(part: str) -> tuple[str, ...]:
    lines = part.split("\n")
    return tuple(line.removeprefix(MARK) for line in lines if line.startswith(MARK))
