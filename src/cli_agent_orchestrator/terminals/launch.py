"""Starts agents: finds the program, prepares its command, and waits until it can take work."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.clock import Clock
from ..core.files import read_file
from ..core.models import RUN_INDEX, TerminalStatus
from ..core.programs import ask, without_repository
from ..errors import BadFolder, ProgramEnded, StartError, TmuxError, UnknownName, UsageError
from ..providers.base import (
    SIGN_IN,
    Dialog,
    LaunchRequest,
    Permissions,
    find_version,
    not_found,
)
from ..settings.config import ServerConfig
from .board import LiveTerminal, reached, wait_for_change
from .courier import look_at, proceed
from .sending import LOOK_SECONDS, Do, Refuse, Sending, squeeze
from .tmux import Command, Tmux

PACKAGED = Path(__file__).parent.parent / "profiles"

NAME_PATTERN = r"[A-Za-z0-9_-]+"
FRONT_MATTER_PATTERN = r"(?ms)---[ \t]*\n(.*?)^---[ \t]*$"
# name: "tester"
FRONT_NAME_PATTERN = r"(?m)^name:[ \t]*[\"']?([\w-]+)"
MAX_BYTES = 100_000
"""A profile is one argument of a command; the system takes no more than 128 KiB."""


def find_profile(name: str, folders: Sequence[Path], project: Path) -> str:
    """Return the prompt of a profile, from the first folder that has it; the packaged come last.

    No link in the project is followed.
    """
    if re.fullmatch(NAME_PATTERN, name):
        for folder in (*folders, PACKAGED):
            file = folder / f"{name}.md"
            if file.is_file():
                try:
                    return _read(name, file, project)
                except UsageError as error:
                    raise UsageError(f"the profile {str(file)!r} {error}") from None
    raise UnknownName("profile", name, profile_names(folders))


def profile_folders(project: Path, config_folder: Path) -> tuple[Path, Path]:
    return project / ".cao" / "profiles", config_folder / "profiles"


def profile_names(folders: Sequence[Path]) -> tuple[str, ...]:
    files = [file for folder in (*folders, PACKAGED) for file in folder.glob("*.md")]
    named = (file for file in files if re.fullmatch(NAME_PATTERN, file.stem) and file.is_file())
    return tuple(sorted({file.stem for file in named}))


def _read(name: str, file: Path, project: Path) -> str:
    """Read a profile; an error names what is wrong with it without quoting it."""
    try:
        data = read_file(file, project)
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"is not UTF-8 (byte {error.start})") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"has more than {MAX_BYTES} bytes")
    if "\0" in text:
        raise UsageError("has a zero byte in it")
    front = re.match(FRONT_MATTER_PATTERN, text)
    if front is None:
        raise UsageError("does not begin with front matter: name and description between two '---'")
    named = re.search(FRONT_NAME_PATTERN, front[1])
    if named is not None and named[1] != name:
        raise UsageError(f"has another name in its front matter; {name!r} was expected")
    prompt = text[front.end() :].strip()
    if not prompt:
        raise UsageError("has no text below its front matter")
    return prompt


VERSION_SECONDS = 20.0
DIALOG_SECONDS = 3.0
"""After how long a start-up dialog that is still there is answered again, or reported."""
MAX_DIALOG_ANSWERS = 2
TRY_SECONDS = 5.0
"""How long a screen that is not recognized must stand still before its box is tried."""
LOADING_SECONDS = 20.0
"""The same, if it shows a known box: then it may be loading, and ask before it is ready."""
STUCK_SECONDS = 30.0

NOT_INHERITED_PATTERN = (
    r"CAO_|TMUX|CLAUDECODE$|CLAUDE_CODE_(ENTRYPOINT|SSE_PORT)$"
    r"|(COLOR)?TERM$|TERM_(PROGRAM|PROGRAM_VERSION|SESSION_ID)$|LC_TERMINAL|COLUMNS$|LINES$"
    r"|VTE_VERSION$|ITERM_|KITTY_|WEZTERM_|GHOSTTY_|ALACRITTY_|KONSOLE_|WT_SESSION$"
)
"""Our own variables, and those of an outer tmux, agent and terminal: tmux sets the agent's own."""


def agent_environment(
    environ: Mapping[str, str], own: Mapping[str, str], run_index: int | None
) -> dict[str, str]:
    kept = {
        name: value
        for name, value in without_repository(environ).items()
        if not re.match(NOT_INHERITED_PATTERN, name)
    }
    number = {} if run_index is None else {RUN_INDEX: str(run_index)}
    return {**kept, **own, **number}


def check_folder(folder: str | None) -> str:
    """Return a working directory, made absolute; BadFolder if it cannot be used.

    None means the folder that the server was started in.
    """
    if folder is not None and not Path(folder).is_absolute():
        raise BadFolder(folder, "is not an absolute path")
    path = Path(folder or ".")
    try:
        if not path.is_dir():
            raise BadFolder(str(path), "does not exist or is not a folder")
        if not os.access(path, os.R_OK | os.X_OK):
            raise BadFolder(str(path), "may not be entered")
        resolved = str(path.resolve())
        resolved.encode()
    except UnicodeEncodeError:
        raise BadFolder(str(path), "has a name that is not UTF-8; rename it") from None
    except OSError as error:
        raise BadFolder(str(path), f"cannot be used: {error.strerror}") from None
    return resolved


def _not_ready(live: LiveTerminal, seconds: float, tried: Mapping[str, str]) -> str:
    shows = "is empty"
    if live.track.screen is not None and live.text.strip():
        shows = "; ".join((live.track.screen.detail, *tried.values()))
    return (
        f"it was not ready after {seconds:.0f} seconds: its screen {shows}. `cao doctor` says "
        f"whether its version was tested, CAO_{live.row.provider.upper()}_COMMAND names another "
        "program; if it only needs longer, raise CAO_START_SECONDS"
    )


class Launcher(Struct):
    config: ServerConfig
    tmux: Tmux
    clock: Clock
    dialog_seconds: float = DIALOG_SECONDS
    _versions: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)

    async def prepare(
        self, live: LiveTerminal, prompt: str, event_file: Path, run_index: int | None = None
    ) -> Command:
        provider, row = live.provider, live.row
        settings = self.config.provider(provider.name)
        # By it a `cao` in the agent's terminal knows whose terminal that is.
        given = {**settings.env, "CAO_STATE_DIR": str(self.config.state_dir)}
        env = agent_environment(self.config.environ, given, run_index)
        own = sys.executable if provider.name == "scripted" else provider.program
        wanted = settings.command or own
        found = shutil.which(Path(wanted).expanduser(), path=env.get("PATH"))
        if found is None:
            raise StartError(
                provider.name, not_found(provider, wanted, "on the PATH of the server")
            )
        program = str(Path(found).absolute())
        launch = provider.launch(
            LaunchRequest(
                program=program,
                version=await self._version(program, env),
                args=settings.args,
                working_directory=row.working_directory,
                profile=row.agent_profile,
                prompt=prompt,
                permissions=Permissions(row.permissions or self.config.permissions),
                event_file=str(event_file),
            )
        )
        live.pieces = launch.pieces
        env = {**env, **launch.env}
        return Command(launch.argv, row.working_directory, env, launch.raw_output)

    async def wait_until_ready(self, live: LiveTerminal) -> None:
        """Wait until an agent shows its input box, passing the start-up dialogs that are safe."""
        deadline = self.clock.monotonic() + self.config.start_seconds
        # Of ours it is known that they will show something, and that some install first.
        blank_until = self.clock.monotonic() + max(self.config.start_seconds / 2, STUCK_SECONDS)
        answered: dict[str, int] = {}
        tried: dict[str, str] = {}
        while True:
            if not live.alive:
                raise ProgramEnded(live.row.provider, live.verdict.reason, live.text)
            dialog = live.provider.startup_dialog(live.text)
            if dialog is not None:
                times = answered.get(dialog.name, 0)
                if not dialog.keys or times == MAX_DIALOG_ANSWERS:
                    screen = "" if dialog.name == SIGN_IN else live.text
                    raise StartError(live.row.provider, dialog.reason, screen)
                answered[dialog.name] = times + 1
                await self._press(live, dialog)
                continue
            seen = live.track.screen.status if live.track.screen else None
            if seen is not None and seen.at_rest:
                # What stands in its box now is no draft: nobody has typed yet.
                with suppress(TmuxError):
                    look = await look_at(self.tmux, live, Sending(), self.clock.now())
                    known = live.box.known | {squeeze(look.draft or "")}
                    live.remember(replace(live.box, known=known, leftover=False))
                return
            left = deadline - self.clock.monotonic()
            if seen is TerminalStatus.UNKNOWN and live.text.strip():
                left = min(left, await self._try_when_still(live, tried))
                if "" in tried.values():
                    return
            if live.provider.file and not live.text.strip():
                left = min(left, blank_until - self.clock.monotonic())
            if left <= 0:
                took = self.clock.monotonic() - deadline + self.config.start_seconds
                raise StartError(live.row.provider, _not_ready(live, took, tried), live.text)
            asks = seen is TerminalStatus.WAITING_USER_ANSWER
            seconds = min(left, DIALOG_SECONDS if asks else left)
            changed = await wait_for_change(live.changed, seconds)
            if asks and not changed:
                reason = "it asks a question that only a person can answer; start it once by hand"
                raise StartError(live.row.provider, reason, live.text)

    async def _try_when_still(self, live: LiveTerminal, tried: dict[str, str]) -> float:
        """Try the box of a screen that is not recognized and stands still; note why it is none.

        Returns for how many seconds it makes sense to wait for a change.
        """
        still = self.clock.now() - live.track.screen_changed_at
        if live.text in tried:
            return STUCK_SECONDS - still
        due = LOADING_SECONDS if live.provider.draft(live.text) is not None else TRY_SECONDS
        if still < due:
            return due - still
        text = live.text
        box = replace(live.box, leftover=bool(tried))
        state = Sending(since=self.clock.now(), fresh=True, box=box)
        _, state, action = await proceed(self.tmux, live, state, self.clock.now)
        tried[text] = action.reason if isinstance(action, Refuse) else ""
        if action is Do.PASTE:
            unknown = state.before is not None and state.before.status is TerminalStatus.UNKNOWN
            live.remember(replace(state.box, leftover=False, by_rest=unknown))
            live.track = replace(live.track, screen_changed_at=self.clock.now())
        return LOOK_SECONDS

    async def pass_dialog(self, live: LiveTerminal) -> None:
        """Pass a dialog that may come up at any time, if one is on the screen now.

        While it is being drawn there may be nothing to press yet, or a key may get lost.
        """
        async with live.typing:
            for _ in range(MAX_DIALOG_ANSWERS):
                dialog = live.provider.startup_dialog(live.text)
                if dialog is None or not dialog.anytime or not live.alive or live.pane is None:
                    return
                with suppress(TmuxError):
                    await self._press(live, dialog)

    async def _press(self, live: LiveTerminal, dialog: Dialog) -> None:
        assert live.pane is not None, "it is alive"
        await self.tmux.press(live.pane, dialog.keys)

        def is_gone() -> bool:
            return not live.alive or live.provider.startup_dialog(live.text) != dialog

        await reached(live, self.clock, is_gone, self.dialog_seconds)

    async def _version(self, program: str, env: Mapping[str, str]) -> tuple[int, ...]:
        """Return the answer to `--version`, asked once for each build of a program."""
        key = (program, Path(program).stat().st_mtime_ns)
        if key not in self._versions:
            said = ""
            with suppress(OSError):
                asking = asyncio.to_thread(ask, [program, "--version"], env, VERSION_SECONDS)
                said = (await asking).text
            if not said:
                return ()
            self._versions[key] = find_version(said)
        return self._versions[key]
