"""The command: samples changes, tries each, and tells which the tests let pass."""

import argparse
import multiprocessing
import os
import random
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

# Imported once here and not again in every process that is forked.
import hypothesis.strategies  # noqa: F401
import pytest_asyncio  # noqa: F401

from tests.mutants.changes import Change, changes_of
from tests.mutants.trial import Outcome, Trial, run

ROOT = Path(__file__).parents[2]
PACKAGE = "cli_agent_orchestrator"
FACE = ROOT / "src" / PACKAGE
ALLOWED = Path(__file__).with_name("equivalent.toml")
NEEDED = 0.95
SLOWER = 10
"""A change may make the tests this many times as slow before it is called endless."""

ALL = "providers/test_registry.py providers/test_screens.py"
CLAUDE = (
    "providers/test_claude_hooks.py providers/test_claude_code_session.py "
    "providers/test_claude_code.py providers/test_claude_screen.py providers/test_actions.py "
    f"{ALL} -kclaude"
)
CODEX = f"providers/test_codex_session.py providers/test_codex.py {ALL} -kcodex"
LINE_MODE = f"providers/test_q_cli.py providers/test_kiro_cli.py {ALL} -kq_cli|kiro_cli"
PARTS = "html/test_golden_parts.py"
PAGES = "dashboard/test_golden_pages.py"
COUNTS = "pipeline/test_counts.py pipeline/test_runners.py"
TESTS = {
    # Each pure module and the tests that know it, the quickest first.
    "pipeline/asks.py": "pipeline/test_asks.py",
    "pipeline/condense.py": "pipeline/test_condense.py",
    "pipeline/counts.py": COUNTS,
    "pipeline/runners/cargo.py": COUNTS,
    "pipeline/runners/go.py": COUNTS,
    "pipeline/runners/jest.py": COUNTS,
    "pipeline/runners/junit.py": COUNTS,
    "pipeline/runners/mocha.py": COUNTS,
    "pipeline/runners/pytest.py": COUNTS,
    "pipeline/runners/tally.py": COUNTS,
    "pipeline/runners/tap.py": COUNTS,
    "pipeline/runners/unittest.py": COUNTS,
    "pipeline/machine.py": (
        "pipeline/test_machine.py pipeline/test_flows_in_machine.py pipeline/test_steering.py "
        "pipeline/test_work.py "
        "pipeline/test_gigantic_replies.py"
    ),
    "pipeline/prompts.py": (
        "pipeline/test_prompts.py pipeline/test_golden_prompts.py pipeline/test_steering.py"
    ),
    "pipeline/reply.py": (
        "pipeline/test_reply.py pipeline/test_review.py pipeline/test_condense.py "
        "pipeline/test_gigantic_replies.py"
    ),
    "pipeline/rounds.py": "pipeline/test_rounds.py",
    "pipeline/course.py": "pipeline/test_course.py",
    "pipeline/resuming.py": "pipeline/test_resuming.py",
    "pipeline/review.py": "pipeline/test_review.py",
    "pipeline/check.py": "pipeline/test_check.py",
    "pipeline/proof.py": "pipeline/test_proof.py",
    "pipeline/patches.py": "pipeline/test_patches.py",
    "gates.py": "test_gates.py",
    "git_variables.py": "test_git_variables.py",
    "masking.py": "test_masking.py",
    "screen_masking.py": "test_screen_masking.py",
    "caches.py": "test_caches.py",
    "settings/agent_names.py": "test_agent_names.py",
    "settings/levels.py": "test_settings.py cli/test_options.py",
    "settings/values.py": "test_settings.py test_config.py pipeline/test_resuming.py",
    "pipeline/canary.py": "pipeline/test_canary.py",
    "pipeline/suites.py": "pipeline/test_suites.py pipeline/test_tampering.py",
    "pipeline/command_words.py": "pipeline/test_command_words.py",
    "pipeline/kinds.py": "pipeline/test_layers.py pipeline/test_tampering.py",
    "pipeline/layers.py": "pipeline/test_layers.py",
    "pipeline/meddling.py": "pipeline/test_meddling.py",
    "pipeline/tampering.py": "pipeline/test_tampering.py",
    "pipeline/finding_lines.py": "pipeline/test_finding_lines.py",
    "pipeline/findings.py": "pipeline/test_findings.py",
    "pipeline/flow.py": (
        "pipeline/test_flow.py pipeline/test_flow_file.py pipeline/test_flows_in_machine.py"
    ),
    "pipeline/flow_file.py": "pipeline/test_flow_file.py",
    "pipeline/toml_lines.py": "pipeline/test_toml_lines.py",
    "pipeline/state.py": "pipeline/test_state.py pipeline/test_flows_in_machine.py",
    "pipeline/state_json.py": "pipeline/test_state.py pipeline/test_flows_in_machine.py",
    "pipeline/outcomes.py": "pipeline/test_outcomes.py",
    "pipeline/missing.py": "pipeline/test_missing.py",
    "pipeline/steering.py": "pipeline/test_steering.py",
    "pipeline/personal.py": "pipeline/test_steering.py",
    "pipeline/stall.py": "pipeline/test_work.py",
    "pipeline/stopwatch.py": "pipeline/test_stopwatch.py",
    "pipeline/front_matter.py": "pipeline/test_front_matter.py",
    "pipeline/task.py": "pipeline/test_task.py",
    "workspace/changes.py": "workspace/test_changes.py",
    "workspace/traces.py": "workspace/test_traces.py",
    "handoff/file_state.py": "handoff/test_file_state.py",
    "handoff/prompt.py": "handoff/test_prompt.py",
    "handoff/wait.py": "handoff/test_wait.py handoff/test_wait_properties.py",
    "terminals/tmux/panes.py": "terminals/tmux/test_panes.py",
    "terminals/tmux/protocol.py": "terminals/tmux/test_protocol.py",
    "ansi.py": "test_ansi.py",
    "asciicast.py": "test_asciicast.py",
    "terminals/sending.py": "terminals/test_sending.py",
    "terminals/screens/cast.py": "terminals/screens/test_cast.py",
    "terminals/steady_clock.py": "terminals/test_steady_clock.py",
    "terminals/tracker.py": "terminals/test_tracker.py",
    "terminals/tmux/pacing.py": "terminals/tmux/test_pacing.py",
    "providers/claude_code.py": CLAUDE,
    "providers/claude_dialogs.py": CLAUDE,
    "providers/claude_hooks.py": CLAUDE,
    "providers/claude_screen.py": CLAUDE,
    "providers/codex.py": CODEX,
    "providers/codex_dialogs.py": CODEX,
    "providers/codex_transcript.py": CODEX,
    "providers/copilot_cli.py": f"providers/test_copilot_cli.py {ALL} -kcopilot_cli",
    "providers/gemini_cli.py": f"providers/test_gemini_cli.py {ALL} -kgemini_cli",
    "providers/kiro_cli.py": LINE_MODE,
    "providers/line_mode.py": LINE_MODE,
    "providers/marks.py": "providers/test_marks.py",
    "providers/opencode.py": f"providers/test_opencode.py {ALL} -kopencode",
    "providers/q_cli.py": LINE_MODE,
    "providers/questions.py": "providers/test_questions.py",
    "providers/screen.py": "providers/test_screen.py providers/test_claude_code.py",
    "providers/scripted.py": (
        f"providers/test_scripted.py providers/test_actions.py {ALL} -kscripted"
    ),
    "providers/stream_state.py": "providers/test_stream_state.py",
    "providers/versions.py": "providers/test_versions.py",
    "html/markup.py": "html/test_markup.py",
    "html/diff.py": f"html/test_diff.py {PARTS}",
    "html/timeline.py": f"html/test_timeline.py {PARTS}",
    "html/outcome.py": f"html/test_timeline.py {PARTS}",
    "html/long_text.py": "html/test_turn.py",
    "html/turn.py": f"html/test_turn.py {PARTS}",
    "html/report_page.py": f"html/test_report_page.py {PARTS}",
    "dashboard/sign_in.py": "dashboard/test_sign_in.py",
    "dashboard/update.py": "dashboard/test_update.py",
    "dashboard/comment.py": "dashboard/test_comment.py",
    "dashboard/views/all_runs.py": f"dashboard/test_all_runs.py {PAGES}",
    "dashboard/views/asking.py": f"{PAGES} dashboard/test_one_run.py",
    "dashboard/views/new_run.py": f"dashboard/test_new_run.py {PAGES}",
    "dashboard/views/one_agent.py": f"dashboard/test_one_agent.py {PAGES}",
    "dashboard/views/one_run.py": f"{PAGES} dashboard/test_one_run.py",
    "dashboard/views/standing.py": f"dashboard/test_standing.py {PAGES}",
    "dashboard/views/turn_rows.py": f"{PAGES} dashboard/test_one_run.py",
    "dashboard/views/words.py": f"dashboard/test_words.py {PAGES}",
    "html/screen.py": "html/test_screen.py",
    "notices/deciding.py": "notices/test_deciding.py",
    "notices/settings.py": "notices/test_settings.py",
    "notices/in_terminal.py": "notices/test_in_terminal.py",
    "usage/claude_code.py": "usage/test_claude_code.py",
    "usage/codex.py": "usage/test_codex.py",
    "usage/lines.py": "usage/test_lines.py",
    "usage/tokens.py": "usage/test_tokens.py",
    "events.py": "test_events.py",
    "layout.py": "test_layout.py",
    "retry.py": "test_retry.py",
    "toml_text.py": "test_toml_text.py",
    "cli/drawing.py": "cli/test_drawing.py",
    "cli/keys.py": "cli/test_keys.py",
    "cli/playback.py": "cli/test_playback.py",
    "cli/picture.py": "cli/test_picture.py",
    "runs/work/moments.py": "runs/test_moments.py",
    "runs/reports/durations.py": "runs/test_durations.py",
    "runs/records/names.py": "runs/test_names.py",
    "workspace/commit_message.py": "workspace/test_commit_message.py",
    "providers/actions.py": "providers/test_actions.py",
    "providers/codex_actions.py": "providers/test_actions.py",
    "cli/printable.py": "cli/test_printable.py",
    "cli/proposals.py": "cli/test_proposals.py",
    "cli/variables.py": "cli/test_variables.py",
    "cli/remarks.py": "cli/test_remarks.py",
    "runs/reports/dry_run.py": "cli/test_runs.py",
    "cli/ending.py": "cli/test_ending.py cli/test_progress.py",
    "cli/markdown.py": "cli/test_markdown.py",
    "cli/for_others.py": "cli/test_for_others.py cli/test_report_markdown.py",
    "cli/report_words.py": "cli/test_report_words.py",
    "cli/report_markdown.py": "cli/test_report_markdown.py",
    "cli/report_html.py": "cli/test_report_html.py",
    "cli/request_page.py": "cli/test_request_page.py",
}
NOT_TRIED = {
    # Pure modules of which a small change says nothing, and why.
    "characters.py": "parts of patterns, names on a line; whatever uses them is tried itself",
    "exit_codes.py": "a table; every command is tried for its own",
    "version.py": "a number",
    "settings/table.py": "a table; test_settings.py has all its names and defaults",
    "models.py": "words; whatever decides by them is tried itself",
    "pipeline/__init__.py": "a sentence and no code",
    "pipeline/work.py": "a class without behavior",
    "runs/reports/report.py": "a class without behavior",
    "cli/line.py": "a class without behavior",
    "pipeline/runners/__init__.py": "a sentence and no code",
    "html/__init__.py": "a sentence and no code",
    "dashboard/views/__init__.py": "a sentence and no code",
    "html/stylesheets.py": "where the files of the package are",
    "usage/__init__.py": "a sentence and no code",
    "providers/base.py": "the contract: it has no behavior",
    "providers/__init__.py": "the table of providers and a look into it",
    "pipeline/packaged.py": "where the files of the package are",
    "terminals/tmux/commands.py": "lines for tmux, which alone can judge them",
}


@dataclass
class Tally:
    """What became of the changes of one module."""

    killed: int = 0
    equivalent: int = 0
    survived: list[Change] = field(default_factory=list)

    @property
    def judged(self) -> int:
        return self.killed + len(self.survived)


def main() -> int:
    """Try the changes and return the exit code."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sample", type=int, default=12, help="changes per module")
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="such as pipeline/reply.py")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.sample} changes per module")
    tallies = _try_all(given.modules, given.seed, given.sample)
    killed, judged = sum(t.killed for t in tallies), sum(t.judged for t in tallies)
    share = killed / judged if judged else 1.0
    print(f"{killed} of {judged} changes were noticed: {share:.1%}; needed are {NEEDED:.0%}")
    return 0 if share >= NEEDED else 1


def file_of(module: str) -> Path:
    """Return the file of a module; all but a few are private."""
    public = FACE / module
    return public if public.is_file() else FACE / "_internal" / module


def _try_all(modules: Sequence[str], seed: int, sample: int) -> list[Tally]:
    """Try as many modules at a time as there are processors."""
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), forking) as pool:
        trials = [pool.submit(_try_module, module, seed, sample) for module in modules]
        return [trial.result() for trial in trials]


def _try_module(module: str, seed: int, sample: int) -> Tally:
    path = file_of(module)
    name = ".".join(path.relative_to(FACE.parent).with_suffix("").parts)
    tests = [_argument(word) for word in TESTS[module].split()]
    source = path.read_text(encoding="utf-8")
    began = time.monotonic()
    outcome, seconds = run(Trial(name, path, None, tests, cpu_seconds=600))
    if outcome is not Outcome.GREEN:
        raise RuntimeError(f"{module}: its tests are not green as it is")
    limit = int(10 + SLOWER * seconds)
    tally = Tally()
    for change in _chosen(changes_of(source), f"{seed} {module}", sample):
        if (module, change.where, change.words) in EQUIVALENT:
            tally.equivalent += 1
            continue
        code = compile(change.made(source), str(path), "exec")
        if run(Trial(name, path, code, tests, limit))[0] is Outcome.GREEN:
            tally.survived.append(change)
            where = f" in {change.where}" if change.where else ""
            print(f"  {module}:{change.line}{where}: {change.words}", flush=True)
        else:
            tally.killed += 1
    spent = time.monotonic() - began
    remark = f", {tally.equivalent} judged equivalent" if tally.equivalent else ""
    print(f"{module}: {tally.killed} of {tally.judged} noticed{remark}  [{spent:.0f}s]", flush=True)
    return tally


def _argument(word: str) -> str:
    """Return a word of `TESTS` for pytest: a file, or `-k` with the names that are wanted."""
    return word.replace("|", " or ") if word.startswith("-k") else str(ROOT / "tests" / word)


def _chosen(changes: Sequence[Change], seed: str, sample: int) -> list[Change]:
    chosen = random.Random(seed).sample(changes, min(sample, len(changes)))
    return sorted(chosen, key=lambda change: (change.line, change.node))


def _equivalent() -> set[tuple[str, str, str]]:
    """Return the changes that change nothing anyone could notice; the file says why."""
    listed = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))
    return {
        (module, where, change)
        for module, entries in listed.items()
        for where, changes in entries.items()
        for change in changes
    }


EQUIVALENT = _equivalent()

if __name__ == "__main__":
    sys.exit(main())
