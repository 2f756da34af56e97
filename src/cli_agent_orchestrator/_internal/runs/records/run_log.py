"""What is logged during a run: a file beside its state, a line for each thing that was said."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

from cli_agent_orchestrator._internal.characters import BREAKS, CONTROLS, HALVES
from cli_agent_orchestrator._internal.layout import LOG_FILE
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator.errors import StateError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

WATCHING_LIBRARY = "watchdog"
CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}{HALVES}]"


class OneLine(logging.Formatter):
    """Keeps a record, its traceback too, on a line of its own: it may quote what is not ours."""

    def format(self, record: logging.LogRecord) -> str:
        return re.sub(CONTROL_PATTERN, _escaped, super().format(record))


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


class LogFile(logging.StreamHandler[TextIOWrapper]):
    """A log file; that it cannot be written any more is no reason to end a run."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Is it none of a library's remarks on its own threads? What it cannot do it raises."""
    return record.name.partition(".")[0] != WATCHING_LIBRARY


@contextmanager
def logging_to(folder: Folder) -> Iterator[None]:
    """Write warnings to a file while the context lasts: the terminal belongs to the progress."""
    root = logging.getLogger()
    with _log_of(folder) as handler:
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)


def log_afterwards(folder: Folder, logger: str, text: str) -> None:
    """Add a warning to the log of a run that has ended, if that log is still there."""
    with suppress(OSError, StateError):
        if LOG_FILE in folder.names():
            with _log_of(folder) as handler:
                handler.handle(logging.LogRecord(logger, logging.WARNING, "", 0, text, (), None))


@contextmanager
def _log_of(folder: Folder) -> Iterator[LogFile]:
    try:
        binary = folder.append(LOG_FILE)
    except OSError as error:
        path = folder.path / LOG_FILE
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
    file = TextIOWrapper(binary, encoding="utf-8")
    handler = LogFile(file)
    handler.setFormatter(OneLine(LOG_FORMAT))
    handler.addFilter(is_worth_a_line)
    try:
        yield handler
    finally:
        handler.close()
        with suppress(OSError):
            file.close()
