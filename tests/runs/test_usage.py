"""How many tokens a turn took, from records as agents leave them in real folders."""

import json
import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.runs.usage import (
    LARGEST_RECORDS,
    LATE_SECONDS,
    MOST_FILES,
    note_records,
    usage_of_turns,
)
from cli_agent_orchestrator.runs.view import Turn
from tests.usage.lines import (
    NOON,
    claude_line,
    claude_usage,
    codex_head,
    codex_usage,
    sub_agent_head,
    usage_record,
)

BEFORE, DURING, AFTER = NOON - 5, NOON + 5, NOON + 65


def turn_of(sequence: int, terminal: str, began: float, provider: str = "codex") -> Turn:
    return Turn(sequence, "tester", 1, 1, provider, terminal, began)


@pytest.fixture
def run(folder: Folder) -> Folder:
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def write(path: Path, *lines: bytes, at: float = DURING) -> Path:
    """Write a record that was last written to at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    os.utime(path, (at, at))
    return path


def rollout(home: Path, thread: str, day: str = "2026/11/17") -> Path:
    return home / ".codex/sessions" / day / f"rollout-{day.replace('/', '-')}-{thread}.jsonl"


def codex_call(at: float, name: str, size: int = 1) -> bytes:
    return usage_record(at, name, codex_usage(100 * size, 10 * size, 5 * size, size))


def claude_call(at: float, name: str, size: int = 1) -> bytes:
    return claude_line(at, name, claude_usage(40 * size, 50 * size, 10 * size, 5 * size, size))


def took(size: int) -> Tokens:
    """Return what calls of this size took, together."""
    return Tokens(100 * size, 10 * size, 5 * size, size)


def used(run: Folder, *records: Path, provider: str = "codex") -> Tokens | None:
    note_records(run, "a1", [str(record) for record in records])
    return usage(run, provider)


def usage(run: Folder, provider: str = "codex", largest: int = LARGEST_RECORDS) -> Tokens | None:
    """Return what a turn took that lasted a minute."""
    turns = [turn_of(number, "a1", NOON + 60 * number, provider) for number in (0, 1)]
    return usage_of_turns(run, turns, None, largest).get(0)


class TestNote:
    def noted(self, run: Folder) -> object:
        return json.loads((run.path / "records/a1.json").read_bytes())["records"]

    def test_what_was_noted_stays(self, run: Folder) -> None:
        note_records(run, "a1", ["/x", "/y"])
        note_records(run, "a1", ["/y", "/z"])
        note_records(run, "a1", [])
        assert self.noted(run) == ["/x", "/y", "/z"]

    @pytest.mark.parametrize("name", ["", "../x", "a\0", "x" * 200])
    def test_no_terminal_leads_elsewhere(self, run: Folder, home: Path, name: str) -> None:
        note_records(run, name, ["/x"])
        assert not (run.path / "records").exists()
        record = write(rollout(home, "t1"), codex_head(), codex_call(DURING, "r1"))
        (run.path / "x.json").write_text(json.dumps({"records": [str(record)]}))
        assert usage_of_turns(run, [turn_of(1, name, NOON)], None) == {}

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{}",
            '{"records": 7}',
            '{"records": ["relative.jsonl"]}',
            '{"records": ["/a\\u0000b"]}',
            '{"records": ' + "[" * 20_000,
            '{"records": ["/' + "x" * 70_000 + '"]}',
        ],
    )
    def test_a_note_that_is_none_tells_nothing(self, run: Folder, text: str) -> None:
        folder = run.path / "records"
        folder.mkdir()
        (folder / "a1.json").write_text(text)
        assert usage(run) is None


class TestCodex:
    def test_sub_agents_count_wherever_their_records_are(self, run: Folder, home: Path) -> None:
        own = write(rollout(home, "t1"), codex_head("t1"), codex_call(DURING, "r1"))
        heads = {
            ("s1", "2026/11/17"): sub_agent_head("s1", "t1", "t1"),
            ("s2", "2026/11/18"): sub_agent_head("s2", "s1", "t1"),
            ("s3", "2027/01/01"): sub_agent_head("s3", "s2", "x"),
        }
        for size, ((thread, day), head) in enumerate(heads.items(), 1):
            call = codex_call(DURING, f"r{thread}", 10**size)
            write(rollout(home, thread, day), head, call, codex_call(AFTER, "late"))
        assert used(run, own) == took(1111)

    def test_others_do_not_count(self, run: Folder, home: Path) -> None:
        """Nor does a program that the agent ran."""
        own = write(rollout(home, "t1"), codex_head("t1"), codex_call(DURING, "r1"))
        program = codex_head("e1", source="exec")
        program_record = write(rollout(home, "e1"), program, codex_call(DURING, "r2"))
        write(rollout(home, "t2"), codex_head("t2"), codex_call(DURING, "r2"))
        write(rollout(home, "s2"), sub_agent_head("s2", "t2", "t2"), codex_call(DURING, "r3"))
        write(rollout(home, "x1"), b"what is this", codex_call(DURING, "r4"))
        write(rollout(home, "x2"))
        write(own.with_name("notes.jsonl"), codex_head("t1"), codex_call(DURING, "r5"))
        assert used(run, own, program_record) == took(1)

    def test_of_too_many_files_it_is_not_known(self, run: Folder, home: Path) -> None:
        own = write(rollout(home, "t1"), codex_head("t1"), codex_call(DURING, "r1"))
        folder = own.parent
        for number in range(MOST_FILES + 1):
            (folder / f"rollout-{number}.jsonl").touch()
        assert used(run, own) is None


class TestClaudeCode:
    def record(self, home: Path) -> Path:
        return home / ".claude/projects/-home-ada-shop/7861f032.jsonl"

    def test_its_calls_and_those_of_sub_agents_count(self, run: Folder, home: Path) -> None:
        calls = [claude_call(at, f"m{at}") for at in (BEFORE, DURING, DURING, AFTER)]
        record = write(self.record(home), b'{"type":"mode"}', *calls)
        folder = record.with_suffix("") / "subagents"
        write(folder / "agent-a1.jsonl", claude_call(DURING, "m2", 10), claude_call(AFTER, "m3"))
        write(folder / "agent-b2.jsonl", claude_call(DURING, "m4", 100))
        write(folder / "agent-b2.meta.json", claude_call(DURING, "m5"))
        write(folder / "notes.jsonl", claude_call(DURING, "m6"))
        write(folder.parent / "agent-c3.jsonl", claude_call(DURING, "m7"))
        assert used(run, record, provider="claude_code") == took(111)


def test_a_turn_lasts_until_the_agents_next_prompt(run: Folder, home: Path) -> None:
    calls = (codex_call(DURING, "r1"), codex_call(AFTER, "r2", 2), codex_call(AFTER + 1, "r3"))
    record = write(rollout(home, "t1"), codex_head(), *calls, at=AFTER + 1)
    other = write(home / ".claude/projects/p/1.jsonl", claude_call(DURING, "m1", 3))
    note_records(run, "a1", [str(record)])
    note_records(run, "b2", [str(other)])
    turns = [
        turn_of(1, "a1", NOON),
        turn_of(2, "b2", NOON + 1, "claude_code"),
        turn_of(3, "a1", NOON + 60),
        turn_of(4, "", NOON + 61, "command"),
        turn_of(5, "c3", NOON + 62),
    ]
    assert usage_of_turns(run, turns, None) == {1: took(1), 2: took(3), 3: took(3)}
    # What an agent says a little later than the run ended is the last turn's.
    assert usage_of_turns(run, turns, AFTER - LATE_SECONDS + 0.5) == {
        1: took(1), 2: took(3), 3: took(2),
    }  # fmt: skip


class TestNotKnown:
    def test_of_other_agents_and_without_calls(self, run: Folder, home: Path) -> None:
        record = write(rollout(home, "t1"), codex_head(), codex_call(AFTER, "r1"))
        assert used(run, record) is None
        write(record, codex_head(), codex_call(DURING, "r1"))
        for provider in ("scripted", "kiro_cli", "command", ""):
            assert used(run, record, provider=provider) is None

    @pytest.mark.parametrize("provider", ["codex", "claude_code"])
    def test_a_record_that_is_a_link_a_pipe_or_a_folder(
        self, run: Folder, home: Path, provider: str
    ) -> None:
        lines = [codex_head(), codex_call(DURING, "r1"), claude_call(DURING, "m1")]
        record = write(rollout(home, "t1"), *lines)
        target = record.rename(home / "elsewhere.jsonl")
        record.symlink_to(target)
        assert used(run, record, provider=provider) is None
        record.unlink()
        os.mkfifo(record)
        assert used(run, record, provider=provider) is None
        record.unlink()
        record.mkdir()
        assert used(run, record, provider=provider) is None
        record.rmdir()
        target.rename(record)
        assert used(run, record, provider=provider) == took(1)

    def test_records_that_are_too_large(self, run: Folder, home: Path) -> None:
        record = write(rollout(home, "t1"), codex_head(), codex_call(DURING, "r1"))
        note_records(run, "a1", [str(record)])
        # The first line, which says whose it is, is read where it was named and beside.
        size = record.stat().st_size + 2 * (len(codex_head()) + 1)
        assert usage(run, largest=size) == took(1)
        assert usage(run, largest=size - 1) is None


def test_a_line_that_is_not_written_to_its_end_does_not_count(run: Folder, home: Path) -> None:
    record = write(home / "s.jsonl", claude_call(DURING, "m1"), b"", claude_call(DURING, "m2"))
    with record.open("ab") as file:
        file.write(claude_call(DURING, "m3"))
    assert used(run, record, provider="claude_code") == took(2)
