"""A notice as a terminal takes it: its bell, or an escape sequence that many terminals know."""

from cli_agent_orchestrator._internal.notices.deciding import RunNotice
from cli_agent_orchestrator._internal.notices.settings import TerminalWay

BELL = "\a"


def signal_of(notice: RunNotice, way: TerminalWay) -> str:
    """Return what is written to a terminal; nothing else of it is moved or changed.

    OSC 9 is known to iTerm2, WezTerm, Ghostty and Windows Terminal; OSC 777 to urxvt, foot and
    WezTerm.
    """
    match way:
        case TerminalWay.BELL:
            return BELL
        case TerminalWay.OSC9:
            return f"\x1b]9;{notice.title}: {notice.text}{BELL}"
        case TerminalWay.OSC777:
            # A semicolon would end the title.
            title = notice.title.replace(";", ",")
            return f"\x1b]777;notify;{title};{notice.text}{BELL}"
    return ""
