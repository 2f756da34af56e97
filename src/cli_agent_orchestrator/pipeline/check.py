"""What the command of a gate came to, and what of its output is handed on."""

import re
from dataclasses import dataclass, field

from cli_agent_orchestrator.config import Condensation
from cli_agent_orchestrator.pipeline.reply import Excerpt, split_lines

# "\x1b[31m", "\x1b]0;title\x07", and what else a terminal would obey
ESCAPE_PATTERN = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
CONTROL_PATTERN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
LONGEST_LINE = 500
"""Characters of a line that is handed on; the archive has the whole of it."""
NO_OUTPUT = "(It wrote nothing.)"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A command of a gate that has ended, or was ended."""

    command: str
    exit_code: int | None
    """None if it did not end in time; negative if a signal ended it."""
    output: str = field(repr=False)
    """What it wrote, on both channels."""
    limit: float = 0.0
    """How many seconds it may take."""
    archive: str = ""
    """Where the output is kept."""

    @property
    def passed(self) -> bool:
        """Did it end well?"""
        return self.exit_code == 0

    def __str__(self) -> str:
        if self.passed:
            return "PASS"
        if self.exit_code is None:
            return f"FAIL: `{self.command}` did not end within {self.limit:g} s"
        if self.exit_code < 0:
            return f"FAIL: `{self.command}` was ended by signal {-self.exit_code}"
        return f"FAIL: `{self.command}` ended with exit code {self.exit_code}"


def page_of(result: CheckResult) -> str:
    """Return a check as it is kept in the archive."""
    code = "none" if result.exit_code is None else result.exit_code
    lines = _lines(result) or [NO_OUTPUT]
    return "\n".join(
        [
            f"RESULT: {'PASS' if result.passed else 'FAIL'}",
            f"COMMAND: {result.command}",
            f"EXIT_CODE: {code}",
            "EVIDENCE:",
            *lines,
            "",
        ]
    )


def evidence_of(result: CheckResult, condensation: Condensation) -> Excerpt:
    """Return what the next round is told: how it ended, and the last lines of its output."""
    lines = _lines(result)
    most = max(condensation.max_feedback_lines - 1, 1) if condensation.review_feedback else None
    shown = lines if most is None else [_cut(line) for line in lines[-most:]]
    text = "\n".join([f"{result}. It wrote:", *shown] if shown else [f"{result}. {NO_OUTPUT}"])
    return Excerpt(text, len(lines) - len(shown), result.archive)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _lines(result: CheckResult) -> list[str]:
    plain = re.sub(ESCAPE_PATTERN, "", result.output.replace("\r\n", "\n"))
    return split_lines(re.sub(CONTROL_PATTERN, "", plain))
