"""Programs that `cao doctor` asks, all at the same time: one that hangs holds up no other."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from cli_agent_orchestrator._internal.cli.diagnosis import Diagnosis
from cli_agent_orchestrator._internal.runs.gates.sandbox import Search, find_sandbox
from cli_agent_orchestrator._internal.short_answer import ShortAnswer, ask

ASK_SECONDS = 5
AGENT_SECONDS = 10
"""Some agents take seconds to start on a cold machine, and here all start at once."""
MOST_AT_ONCE = 32


class Programs:
    """Asks programs side by side; when the context ends, none of them is left."""

    def __init__(
        self,
        environ: Mapping[str, str],
        seconds: float = ASK_SECONDS,
        agent_seconds: float = AGENT_SECONDS,
    ) -> None:
        self._environ = environ
        self._seconds = seconds
        self._agent_seconds = agent_seconds

    def __enter__(self) -> "Programs":
        self._left, self._leave = os.pipe()
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._threads.shutdown()
        os.close(self._leave)
        os.close(self._left)

    def leave(self) -> None:
        """Wait for no answer any more; it may be called more than once, and by any thread."""
        os.write(self._leave, b"\n")

    def begin(self, look: Callable[[], Diagnosis]) -> Future[Diagnosis]:
        """Begin to find something out."""
        return self._threads.submit(look)

    def find(self, name: str) -> str | None:
        """Return where a program is, if it is anywhere."""
        return shutil.which(name, path=self._environ.get("PATH"))

    def ask(
        self, argv: Sequence[str], *, is_agent: bool = False, with_errors: bool = False
    ) -> ShortAnswer:
        """Ask a program something short; if it does not answer, the text says why."""
        seconds = self._agent_seconds if is_agent else self._seconds
        try:
            answer = ask(argv, self._environ, seconds, with_errors=with_errors, leave=self._left)
        except OSError as error:
            return ShortAnswer(None, f"cannot be started ({error.strerror})")
        if answer.code is None:
            return ShortAnswer(None, f"did not answer within {seconds:g} seconds")
        return answer

    def find_sandbox(self) -> Search:
        """Return the sandbox of this machine, or why it has none."""
        return find_sandbox(seconds=self._seconds, leave=self._left)
