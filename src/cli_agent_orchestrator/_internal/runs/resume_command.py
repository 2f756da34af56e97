"""How a run is resumed that says so itself, in the words of why it ended."""

import re

from cli_agent_orchestrator._internal.runs.run_id import short_name


def command_to_resume(reason: str, run: str) -> str:
    """Return the first command that resumes a run out of why it ended; empty if it names none.

    What an agent said stands in quotation marks, and does not count.
    """
    own = re.sub(r"“[^”]*”", "", reason)
    names = "|".join(map(re.escape, filter(None, (run, short_name(run)))))
    found = re.search(rf"`(cao resume (?:{names})(?: --[^`]+)?)`", own) if names else None
    return found[1] if found else ""
