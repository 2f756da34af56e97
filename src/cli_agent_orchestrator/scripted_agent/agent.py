"""The agent: it takes messages and plays the rule that holds for each, misbehavior included."""

from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from cli_agent_orchestrator._internal.version import __version__
from cli_agent_orchestrator.scripted_agent import screen
from cli_agent_orchestrator.scripted_agent.console import Console, Interrupted, Question
from cli_agent_orchestrator.scripted_agent.script import Misbehavior, Rule, Script, StartupDialog
from cli_agent_orchestrator.scripted_agent.signals import Event, Look, Signals
from cli_agent_orchestrator.scripted_agent.terminal import Quit
from cli_agent_orchestrator.scripted_agent.turn import (
    MISLEADING_TEXT,
    REFUSED_ANSWER,
    Ran,
    Turn,
    find_rule,
    read_turn,
    render_answer,
    role_of,
)
from cli_agent_orchestrator.scripted_agent.workspace import (
    CannotWork,
    ResponseFile,
    Workspace,
    command_text,
)

EXIT_COMMAND = "/exit"
FOREVER = 1e9
REFUSED_AT_START = 1


class Outcome(Enum):
    """How a turn ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"


class Ending(NamedTuple):
    """The end of a turn: what is left to say, and all that was said."""

    outcome: Outcome
    text: str = ""
    shown: str = ""
    """The part of the text that is on the screen already."""


class Agent:
    """One agent in one terminal."""

    def __init__(
        self, console: Console, workspace: Workspace, signals: Signals, script: Script, profile: str
    ) -> None:
        self._console = console
        self._workspace = workspace
        self._signals = signals
        self._script = script
        self._profile = profile
        self._turns = 0
        self._swallowed = 0
        console.takes_enter = self._takes_enter

    def run(self) -> int:
        """Work until told to quit, and return the exit code."""
        try:
            self._start()
            while (message := self._console.next_message()).strip() != EXIT_COMMAND:
                self._take_turn(message)
            code = 0
        except Quit as quit_:
            if quit_.abrupt:
                return quit_.code
            code = quit_.code
        self._signals.tell(Event.SESSION_END)
        if code < 128:
            self._console.show(Look.NOTHING, [screen.READY + "bye"])
        return code

    def _start(self) -> None:
        settings = self._script.settings
        self._console.pause(settings.start_delay)
        if settings.start_crash is not None:
            raise Quit(settings.start_crash, abrupt=True)
        role = role_of(self._profile)
        self._console.say(
            self._row(screen.BANNER + line)
            for line in (
                f"scripted agent {__version__}",
                f"profile {self._profile} · role {role} · script {self._script.name}",
            )
        )
        if not self._may_start(settings.startup_dialog):
            raise Quit(REFUSED_AT_START)
        self._console.show(Look.IDLE, [screen.READY + "ready"])
        self._signals.tell(Event.SESSION_START)

    def _may_start(self, dialog: StartupDialog) -> bool:
        match dialog:
            case StartupDialog.NONE:
                return True
            case StartupDialog.PASS:
                question = Question("start-up question", "May I work in this folder?", True)
            case StartupDialog.PERSON:
                question = Question("sign-in needed", "Are you signed in now?", False)
        return self._console.ask(question)

    def _takes_enter(self, message: str) -> bool:
        if not any(rule.misbehave.swallow_enter for rule in self._script.rules):
            return True
        rule = find_rule(self._script, read_turn(self._profile, self._turns + 1, message))
        if self._swallowed < rule.misbehave.swallow_enter:
            self._swallowed += 1
            return False
        return True

    def _take_turn(self, message: str) -> None:
        self._turns += 1
        self._swallowed = 0
        turn = read_turn(self._profile, self._turns, message)
        self._console.begin_turn(["", screen.message_row(message, self._console.columns)])
        self._signals.tell(Event.USER_PROMPT_SUBMIT)
        try:
            ending = self._play(turn, find_rule(self._script, turn))
        except Interrupted:
            ending = Ending(Outcome.STOPPED)
        except CannotWork as problem:
            ending = Ending(Outcome.FAILED, str(problem))
        self._finish(turn, ending)

    def _play(self, turn: Turn, rule: Rule) -> Ending:
        bad = rule.misbehave
        if bad.ask and not self._is_permitted(bad.ask):
            return Ending(Outcome.ANSWERED, REFUSED_ANSWER)
        if bad.mislead:
            self._say_answer(MISLEADING_TEXT)
        self._flicker(bad)
        self._console.pause(rule.seconds)
        self._console.say(
            f"{screen.NOTE}line {n:,} of {bad.lines:,}" for n in range(1, bad.lines + 1)
        )
        ran = self._work(rule)
        self._break_down(bad.hang, bad.crash)
        if bad.error:
            return Ending(Outcome.FAILED, bad.error)
        answer = render_answer(rule, turn, ran)
        self._respond(turn, answer, bad)
        self._break_down(bad.hang_after_file, bad.crash_after_file)
        return Ending(Outcome.ANSWERED, answer, f"{MISLEADING_TEXT}\n" if bad.mislead else "")

    def _is_permitted(self, request: str) -> bool:
        self._signals.tell(Event.PERMISSION_REQUEST, request)
        permitted = self._console.ask(Question("permission needed", request, True))
        self._signals.tell(Event.POST_TOOL_USE)
        self._note(f"{request}: {'allowed' if permitted else 'refused'}")
        return permitted

    def _flicker(self, bad: Misbehavior) -> None:
        for _ in range(bad.flicker):
            self._console.show(Look.DONE, [self._end_row()])
            self._console.pause(bad.pause)
            self._console.show(Look.BUSY)
            self._console.pause(bad.pause)

    def _work(self, rule: Rule) -> Ran:
        """Change the files and run the commands; the first that fails gives the exit code."""
        for write in rule.write:
            self._signals.tell(Event.PRE_TOOL_USE, f"write: {write.path}")
            self._workspace.change(write)
            self._note(f"changed {write.path}")
        results = []
        for argv in rule.run:
            self._signals.tell(Event.PRE_TOOL_USE, f"run: {command_text(argv)}")
            ran = self._workspace.run(argv, self._console)
            results.append(ran)
            self._note(f"ran {command_text(argv)}: exit code {ran.exit_code}")
            self._signals.tell(Event.POST_TOOL_USE)
        failed = next((ran.exit_code for ran in results if ran.exit_code), 0)
        return Ran(failed, "".join(ran.output for ran in results))

    def _break_down(self, hang: bool, crash: int | None) -> None:
        if crash is not None:
            raise Quit(crash, abrupt=True)
        if hang:
            self._console.ignore_stops()
            self._console.pause(FOREVER)

    def _respond(self, turn: Turn, answer: str, bad: Misbehavior) -> None:
        """Write the response file if the message wants one: now, slowly, or when at rest."""
        if turn.response_path is None or bad.ignore_file:
            return
        file = ResponseFile(turn.response_path, answer, bad.pieces, reopen=bad.reopen)
        if bad.late_file is not None:
            self._console.later(bad.late_file, lambda: self._write_at_rest(file, bad.pause))
            return
        try:
            while file.write_piece():
                self._console.pause(bad.pause)
            self._note(f"wrote {turn.response_path}")
        except OSError as error:
            self._note(f"cannot write the response file: {error}")

    def _write_at_rest(self, file: ResponseFile, pause: float) -> None:
        # Nothing may be drawn here: the end of the turn has to stay the last row.
        with suppress(OSError):
            if file.write_piece():
                self._console.later(pause, lambda: self._write_at_rest(file, pause))

    def _finish(self, turn: Turn, ending: Ending) -> None:
        match ending.outcome:
            case Outcome.ANSWERED:
                self._say_answer(ending.text.removeprefix(ending.shown))
                self._console.end_turn(Look.DONE, [self._end_row()])
                self._signals.tell(Event.STOP, ending.text)
            case Outcome.FAILED:
                self._console.end_turn(
                    Look.IDLE, [self._row(f"{screen.FAILED}error: {ending.text}")]
                )
                self._signals.tell(Event.STOP_FAILURE, ending.text)
            case Outcome.STOPPED:
                # Real agents fire no event here; the title and the screen have to do.
                self._console.end_turn(Look.IDLE, [f"{screen.READY}turn {turn.number} stopped"])

    def _end_row(self) -> str:
        return f"{screen.OVER}turn {self._turns} over · {self._console.elapsed:.1f}s"

    def _say_answer(self, text: str) -> None:
        self._console.say(screen.answer_rows(text, self._console.columns))

    def _note(self, text: str) -> None:
        self._console.say([self._row(screen.NOTE + text)])

    def _row(self, text: str) -> str:
        return screen.clip(screen.plain(text.replace("\n", " ")), self._console.columns - 1)
