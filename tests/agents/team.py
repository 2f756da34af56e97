"""A model that plays all five roles of a run, so that whole runs need no account."""

import re

from tests.e2e.runs import REPLIES
from tests.stubs.script import Request, Run, Script, Step, Text, respond

ROLES = {
    "analyst_summary": "analyst",
    "analyst_review": "analyst_review",
    "programmer_summary": "programmer",
    "programmer_review": "programmer_review",
    "test_result": "tester",
}
# cat > /project/.tmp/agent-responses/test_result.md <<'CAO_RESPONSE_END'
FILE_PATTERN = r"^cat > .*/(?P<name>\w+)\.md'? <<'"


class Team:
    """Answers every prompt of a run in the form its role asks for.

    The tester says PASS, and the programmer just answers, unless they are told otherwise.
    """

    def __init__(self) -> None:
        self.roles: list[str] = []
        """Who was asked, in order."""
        self._verdicts = ["PASS"]
        self._commands: list[Step] = []

    def fail_first(self) -> None:
        """Let the first test fail."""
        self._verdicts.insert(0, "FAIL")

    def programmer_runs(self, command: Run) -> None:
        """Let the programmer run a command before its first answer."""
        self._commands += [Text("I look at the project first."), command]

    def __call__(self, request: Request) -> Script:
        """Return the turn of the role whose response file the prompt names."""
        named = re.search(FILE_PATTERN, request.prompt, re.MULTILINE)
        if named is None:
            return Script((Text("Nobody asked for a response file."),))
        role = ROLES[named["name"]]
        self.roles.append(role)
        return respond(request.prompt, self._reply(role), *self._before(role))

    def _reply(self, role: str) -> str:
        reply = REPLIES[role].replace("{turn}", str(self.roles.count(role)))
        if role != "tester":
            return reply
        verdict = self._verdicts.pop(0) if len(self._verdicts) > 1 else self._verdicts[0]
        return reply.replace("PASS", verdict)

    def _before(self, role: str) -> list[Step]:
        if role != "programmer":
            return []
        commands, self._commands = self._commands, []
        return commands
