"""The command lines that the engine sends to tmux, each group with its reasons."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.terminals.tmux.panes import (
    HUB_SESSION,
    PANE_FORMAT,
    TAG_PATTERN,
    Command,
    PaneInfo,
    Size,
    parse_pane,
)
from cli_agent_orchestrator._internal.terminals.tmux.protocol import Answer, command, literal
from cli_agent_orchestrator.errors import UsageError

SESSION_PATTERN = r"[A-Za-z0-9_-]+"
"""Names that tmux takes over unchanged and that are no special targets."""
PLACEHOLDER = ("cat", "-")
"""A program that does nothing, for windows that only hold a session open."""
PLACEHOLDER_WINDOW = "cao-placeholder"
HISTORY_LINES = 200_000
DEFAULT_SHELL = "/bin/sh"
ENDED = "cao: the program has ended"
"""What a guarded command answers in place of doing its work."""

SERVER_OPTIONS = {
    "exit-empty": "off",
    "escape-time": "0",
    "focus-events": "off",
    # Known to every terminal database, and it has colors.
    "default-terminal": "screen-256color",
}
SESSION_OPTIONS = {
    "history-limit": str(HISTORY_LINES),
    "update-environment": "",
    "status": "off",
    "set-titles": "off",
    "destroy-unattached": "off",
    "mouse": "off",
}
WINDOW_OPTIONS = {
    # Keeps the exit code and the last screen of a program.
    "remain-on-exit": "on",
    # No line of tmux's own on that screen.
    "remain-on-exit-format": "",
    "allow-rename": "off",
    "automatic-rename": "off",
}


@dataclass(frozen=True, slots=True)
class Window:
    """A window to be opened."""

    session: str
    name: str
    tag: str
    command: Command
    raw_output: bool
    size: Size

    @property
    def temporary_name(self) -> str:
        """The name it is known by until it is set up; no other window has it."""
        return f"cao-new-{self.tag}"


def check_window(window: Window) -> None:
    """Refuse what tmux would misunderstand."""
    if not re.fullmatch(SESSION_PATTERN, window.session) or window.session == HUB_SESSION:
        raise UsageError(f"session name {window.session!r}: use letters, digits, `-` and `_`")
    if not re.fullmatch(TAG_PATTERN, window.tag):
        raise UsageError(f"terminal id {window.tag!r}: use letters, digits, `-` and `_`")
    argv = window.command.argv
    if not argv or not argv[0] or (len(argv) == 1 and "=" in argv[0]):
        raise UsageError(f"{argv!r} is no command that can be run")
    env = window.command.env
    words = (window.name, window.command.cwd, *argv, *env.keys(), *env.values())
    if not all(map(_can_be_sent, words)):
        raise UsageError("a command, its folder and environment cannot hold NUL or half characters")


def _can_be_sent(word: str) -> bool:
    try:
        return b"\0" not in word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def opened_pane(window: Window, answer: Answer) -> PaneInfo | None:
    """Return the pane that new-window made; tmux knows it by a temporary name at that time."""
    info = parse_pane(answer.lines[0]) if answer.ok and answer.lines else None
    if info is None:
        return None
    return replace(
        info,
        session=window.session,
        name=window.name,
        tag=window.tag,
        raw_output=window.raw_output,
    )


def attach_words(size: Size) -> tuple[str, ...]:
    """Return the command of the control client: attach to the hub, or make it first.

    The client is told to have no say in the size of windows.
    """
    return (
        *("new-session", "-A", "-E", "-s", HUB_SESSION, "-n", PLACEHOLDER_WINDOW),
        *("-x", str(size.columns), "-y", str(size.rows), "-f", "ignore-size", "--", *PLACEHOLDER),
    )


def option_lines(size: Size) -> list[str]:
    """Return the commands that make the server ours.

    Some options are not known to every version; that they are refused does no harm.
    """
    default_size = f"{size.columns}x{size.rows}"
    return [
        *(command("set-option", "-s", name, value) for name, value in SERVER_OPTIONS.items()),
        *(command("set-option", "-g", name, value) for name, value in SESSION_OPTIONS.items()),
        *(command("set-option", "-gw", name, value) for name, value in WINDOW_OPTIONS.items()),
        command("set-option", "-g", "default-size", default_size),
        command("set-option", "-t", f"={HUB_SESSION}:", "default-size", default_size),
    ]


def unset_lines(environment: Sequence[str]) -> list[str]:
    """Return the commands that empty the global environment, as `show-environment -g` lists it."""
    names = (line.partition("=")[0].lstrip("-") for line in environment)
    return [command("set-environment", "-g", "-u", name) for name in names if name]


def open_lines(window: Window) -> list[str]:
    """Return the commands that open a window; `opened_pane` reads the one to new-window.

    The window is made in the hub, so that not a byte of its output is missed, and linked into its
    session. It goes by a temporary name until then: a command that follows a failed one finds
    nothing, rather than another terminal. The session, if it is new, is held open by a placeholder,
    because variables given to new-session would stay in the session for every later window.
    """
    temporary = f"={HUB_SESSION}:={window.temporary_name}"
    session = f"={window.session}:"
    shell = window.command.env.get("SHELL", DEFAULT_SHELL)
    marks = {"@cao_id": window.tag} | ({"@cao_raw": "1"} if window.raw_output else {})
    return [
        _new_session(window),
        # tmux sets SHELL to this option, whatever the environment says.
        command("set-option", "-t", f"={HUB_SESSION}:", "default-shell", DEFAULT_SHELL),
        command("set-option", "-t", f"={HUB_SESSION}:", "default-shell", shell),
        command(*_new_window_words(window)),
        *(command("set-option", "-p", "-t", temporary, mark, marks[mark]) for mark in marks),
        # tmux gives a new pane the name of the machine for a title.
        command("select-pane", "-t", temporary, "-T", ""),
        command("link-window", "-d", "-s", temporary, "-t", session),
        command("kill-window", "-t", f"{session}={PLACEHOLDER_WINDOW}"),
        command("rename-window", "-t", temporary, literal(window.name)),
    ]


NEW_WINDOW = 3
"""The place of new-window among the answers to `open_lines`; link-window is third from the end."""
LINK_WINDOW = -3


def _new_session(window: Window) -> str:
    size = ("-x", str(window.size.columns), "-y", str(window.size.rows))
    named = ("-s", window.session, "-n", PLACEHOLDER_WINDOW)
    return command("new-session", "-d", "-E", *named, *size, "--", *PLACEHOLDER)


def _new_window_words(window: Window) -> Iterator[str]:
    yield from ("new-window", "-d", "-P", "-F", PANE_FORMAT)
    yield from ("-n", window.temporary_name, "-t", f"={HUB_SESSION}:")
    yield from ("-c", literal(window.command.cwd))
    yield from _environment_words(window.command.env)
    yield "--"
    yield from program_words(window.command.argv)


def _environment_words(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield "-e"
        yield f"{name}={value}"


def program_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Return what makes tmux run exactly this program: it hands a single word to a shell."""
    return tuple(argv) if len(argv) > 1 else ("/usr/bin/env", "--", *argv)


def guarded(pane: str, words: Sequence[str]) -> str:
    """Return a command that is carried out only while the pane's program lives; two answers come.

    tmux 3.3a crashes when something is pasted into a dead pane, and a program may end at any time:
    only tmux itself can look and act in one step.
    """
    report = command("display-message", "-p", ENDED)
    return command("if-shell", "-F", "-t", pane, "#{pane_dead}", report, command(*words))


def leave_mode(pane: str) -> str:
    """Return the command that ends copy mode and its like, which eat what is typed."""
    return command("copy-mode", "-q", "-t", pane)


def paste_lines(pane: str, buffer: str, path: str, *, keep_bytes: bool) -> list[str]:
    """Return the commands that paste a file; `keep_bytes` for versions that rewrite pastes."""
    flags = ("-p", "-r", "-d", "-S") if keep_bytes else ("-p", "-r", "-d")
    return [
        command("load-buffer", "-b", buffer, literal(path)),
        leave_mode(pane),
        guarded(pane, ("paste-buffer", *flags, "-b", buffer, "-t", pane)),
        # Only there if the paste did not take place.
        command("delete-buffer", "-b", buffer),
    ]


PASTE_ANSWERS = 5


def press_lines(pane: str, keys: Sequence[str]) -> list[str]:
    """Return the commands that press keys, by tmux's names for them."""
    return [leave_mode(pane), guarded(pane, ("send-keys", "-t", pane, "--", *keys))]


PRESS_ANSWERS = 3


def flow_line(panes: Sequence[str], state: str) -> str:
    """Return the command that pauses or continues the output of panes."""
    return command("refresh-client", *(w for pane in panes for w in ("-A", f"{pane}:{state}")))
