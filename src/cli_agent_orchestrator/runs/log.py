"""The log of a run, and what keeps each record of a log on one line."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

from ..core.files import Folder
from ..core.text import BREAKS, CONTROLS, HALVES
from ..errors import StateError
from ..settings.layout import LOG_FILE

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}{HALVES}]"


class OneLine(logging.Formatter):
    """Keeps a record, with its traceback, on one line: it may quote text of others."""

    def format(self, record: logging.LogRecord) -> str:
        return re.sub(CONTROL_PATTERN, lambda c: ascii(c[0])[1:-1], super().format(record))


class LogFile(logging.StreamHandler[TextIOWrapper]):
    """A log file; one that cannot be written any more does not end a run."""

    def __init__(self, file: TextIOWrapper) -> None:
        super().__init__(file)
        self.setFormatter(OneLine(LOG_FORMAT))
        # What the library cannot do it raises; the rest is about its own threads.
        self.addFilter(lambda record: record.name.partition(".")[0] != "watchdog")

    def handleError(self, record: logging.LogRecord) -> None:
        pass


@contextmanager
def logging_to(folder: Folder, source: logging.Logger | None = None) -> Iterator[None]:
    source = source or logging.getLogger()
    try:
        binary = folder.append(LOG_FILE)
    except OSError as error:
        path = folder.path / LOG_FILE
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
    file = TextIOWrapper(binary, encoding="utf-8")
    handler = LogFile(file)
    source.addHandler(handler)
    try:
        yield
    finally:
        source.removeHandler(handler)
        handler.close()
        with suppress(OSError):
            file.close()


def log_afterwards(folder: Folder, name: str, text: str) -> None:
    with suppress(OSError, StateError):
        if LOG_FILE in folder.names():
            source = logging.Logger(name)
            with logging_to(folder, source):
                source.warning(text)
