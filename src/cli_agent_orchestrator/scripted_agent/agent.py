"""The agent: it takes messages and plays the rule that holds for each, misbehavior included."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..version import __version__
from . import console as screen
from .console import Console, Interrupted, Quit
from .script import Misbehavior, Rule, Script, Signals, Write

ROLE_OF_PROFILE = {
    "system_analyst": "analyst",
    "peer_system_analyst": "analyst_review",
    "programmer": "programmer",
    "peer_programmer": "programmer_review",
    "tester": "tester",
}

# A pattern that starts with a line end is found ten times faster than one that starts with ^,
# and a message may have megabytes.
# ROUND: 1
ROUND_PATTERN = r"\nROUND:[ \t]*(\d{1,9})[ \t]*(?=\n)"
# CYCLE: 2
CYCLE_PATTERN = r"\nCYCLE:[ \t]*(\d{1,9})[ \t]*(?=\n)"
INSTRUCTION = "\nRESPONSE FILE INSTRUCTION\n"
# cat > '/project/.tmp/agent-responses/analyst_summary.md' <<'CAO_RESPONSE_END'
HEREDOC_PATTERN = r"(?m)^cat > (.*) <<'\w+'$"
# {output}
PLACEHOLDER_PATTERN = r"\{([a-z0-9_]+)\}"

PYTHON = "{python}"
ECHO_ANSWER = "Received {chars} characters, {bytes} bytes.\nsha256 {sha256}"
REFUSED_ANSWER = "I was not given permission, so nothing was done."

# Marks of several agents' interfaces, this one's included: busy, finished, asking, failed.
MISLEADING_TEXT = """\
These marks are quoted, they say nothing about me:
▖ working · 3s · esc stops
▣ turn 1 over · 0.1s
▧ error: no connection
▨ permission needed
scripted ❯
▌ a message that nobody sent
• Working (3s • esc to interrupt)
› 1. Yes, allow once
  press enter to confirm
■ stream disconnected before completion
● API Error: 529 overloaded
✻ Worked for 3s
❯\u00a0
  Esc to cancel
> [agent]>
Allow this action? [y/n/t]:
[ ! ] Action Required
RESPONSE FILE INSTRUCTION
▖ working · 4s · esc stops"""


class Turn(NamedTuple):
    profile: str
    role: str
    number: int
    message: str
    round: int | None = None
    cycle: int | None = None
    response_path: str | None = None


def role_of(profile: str) -> str:
    return ROLE_OF_PROFILE.get(profile, profile)


def read_turn(profile: str, number: int, message: str) -> Turn:
    text = "\n{}\n".format(message.replace("\r\n", "\n").replace("\r", "\n"))
    round_, cycle = re.search(ROUND_PATTERN, text), re.search(CYCLE_PATTERN, text)
    return Turn(
        profile=profile,
        role=role_of(profile),
        number=number,
        message=message,
        round=int(round_[1]) if round_ else None,
        cycle=int(cycle[1]) if cycle else None,
        response_path=response_path(text),
    )


def response_path(text: str) -> str | None:
    """Return the file that the last response file instruction names; a task may quote another."""
    _, found, below = text.rpartition(INSTRUCTION)
    heredoc = re.search(HEREDOC_PATTERN, below) if found else None
    if heredoc is None:
        return None
    try:
        words = shlex.split(heredoc[1])
    except ValueError:
        return None
    return words[0] if words else None


def find_rule(script: Script, turn: Turn) -> Rule:
    for rule in script.rule:
        if (
            (not rule.role or bool({turn.role, turn.profile} & set(rule.role)))
            and (not rule.turn or turn.number in rule.turn)
            and (not rule.round or turn.round in rule.round)
            and (not rule.cycle or turn.cycle in rule.cycle)
            and rule.contains in turn.message
        ):
            return rule
    return Rule()


def render_answer(rule: Rule, turn: Turn, exit_code: int = 0, output: str = "") -> str:
    """Return the answer with its placeholders filled in, once; unknown ones stay as they are."""
    received = turn.message.encode("utf-8", "surrogateescape")
    values = {
        "role": turn.role,
        "profile": turn.profile,
        "round": "?" if turn.round is None else str(turn.round),
        "cycle": "?" if turn.cycle is None else str(turn.cycle),
        "turn": str(turn.number),
        "output": output.rstrip("\n"),
        "exit_code": str(exit_code),
        "result": "FAIL" if exit_code else "PASS",
        "chars": str(len(turn.message)),
        "bytes": str(len(received)),
    }
    answer = ECHO_ANSWER if rule.answer is None else rule.answer
    if "{sha256}" in answer:
        # Only then: it would lengthen the start of every agent.
        from hashlib import sha256

        values["sha256"] = sha256(received).hexdigest()
    filled = re.sub(PLACEHOLDER_PATTERN, lambda found: values.get(found[1], found[0]), answer)
    text = filled.strip("\n")
    return f"{MISLEADING_TEXT}\n{text}" if rule.misbehave.mislead else text


class CannotWork(Exception):
    """A change that the script wants cannot be made."""


def change_file(write: Write, folder: Path) -> None:
    path = (folder / write.path).resolve()
    if not path.is_relative_to(folder):
        raise CannotWork(f"{write.path} leads out of the working directory")
    try:
        if write.content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write.content, encoding="utf-8")
            return
        text = path.read_text(encoding="utf-8")
        made_already = write.old in write.new and write.new in text
        if write.old in text and not made_already:
            path.write_text(text.replace(write.old, write.new), encoding="utf-8")
        elif write.new not in text:
            raise CannotWork(f"{write.path} does not contain the text to replace")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotWork(f"{write.path} cannot be changed: {error}") from error


def write_pieces(path: str, text: str, pieces: int, *, reopen: bool) -> Iterator[None]:
    """Write an answer where the prompt wants it, as `cat > FILE` would; yield between pieces."""
    data = f"{text}\n".encode("utf-8", "replace")
    size = max(1, -(-len(data) // pieces))
    file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - a piece may be the last one for long
    try:
        for start in range(0, len(data), size):
            if start:
                yield
                if reopen:
                    file = Path(path).open("ab", buffering=0)  # noqa: SIM115
            file.write(data[start : start + size])
            if reopen:
                file.close()
    finally:
        file.close()


FOREVER = 1e9


class Agent:
    def __init__(
        self, console: Console, folder: Path, signals: Signals, script: Script, profile: str
    ) -> None:
        self._console = console
        self._folder = folder.resolve()
        self._signals = signals
        self._script = script
        self._profile = profile
        self._turns = 0
        self._swallowed = 0
        console.takes_enter = self._takes_enter

    def run(self) -> int:
        try:
            self._start()
            while (message := self._console.next_message()).strip() != "/exit":
                self._take_turn(message)
            code = 0
        except Quit as quit_:
            if quit_.abrupt:
                return quit_.code
            code = quit_.code
        self._signals.tell("SessionEnd")
        if code < 128:
            self._console.show("", [screen.READY + "bye"])
        return code

    def _start(self) -> None:
        script = self._script
        self._console.pause(script.start_delay)
        if script.start_crash is not None:
            raise Quit(script.start_crash, abrupt=True)
        role = role_of(self._profile)
        self._console.say(
            self._row(screen.BANNER + line)
            for line in (
                f"scripted agent {__version__}",
                f"profile {self._profile} · role {role} · script {script.name}",
            )
        )
        ask = self._console.ask
        answer = True
        if script.startup_dialog == "pass":
            answer = ask("start-up question", "May I work in this folder?")
        elif script.startup_dialog == "person":
            answer = ask("sign-in needed", "Are you signed in now?", yes_marked=False)
        if not answer:
            raise Quit(1)
        self._console.show("idle", [screen.READY + "ready"])
        self._signals.tell("SessionStart")

    def _takes_enter(self, message: str) -> bool:
        if not any(rule.misbehave.swallow_enter for rule in self._script.rule):
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
        self._signals.tell("UserPromptSubmit")
        try:
            answer, shown = self._play(turn, find_rule(self._script, turn))
            self._say_answer(answer.removeprefix(shown))
            self._console.end_turn("done", [self._end_row()])
            self._signals.tell("Stop", answer)
        except CannotWork as problem:
            row = self._row(f"{screen.FAILED}error: {problem}")
            self._console.end_turn("idle", [row])
            self._signals.tell("StopFailure", str(problem))
        except Interrupted:
            # Real agents fire no event here; the title and the screen have to do.
            self._console.end_turn("idle", [f"{screen.READY}turn {turn.number} stopped"])

    def _play(self, turn: Turn, rule: Rule) -> tuple[str, str]:
        bad = rule.misbehave
        if bad.ask:
            self._signals.tell("PermissionRequest", bad.ask)
            permitted = self._console.ask("permission needed", bad.ask)
            self._signals.tell("PostToolUse")
            self._note(f"{bad.ask}: {'allowed' if permitted else 'refused'}")
            if not permitted:
                return REFUSED_ANSWER, ""
        if bad.mislead:
            self._say_answer(MISLEADING_TEXT)
        for _ in range(bad.flicker):
            self._console.show("done", [self._end_row()])
            self._console.pause(bad.pause)
            self._console.show("working")
            self._console.pause(bad.pause)
        self._console.pause(rule.seconds)
        self._console.say(
            f"{screen.NOTE}line {n:,} of {bad.lines:,}" for n in range(1, bad.lines + 1)
        )
        failure, outputs = self._work(rule)
        if bad.crash is not None:
            raise Quit(bad.crash, abrupt=True)
        if bad.hang:
            self._console.ignore_stops()
            self._console.pause(FOREVER)
        if bad.error:
            raise CannotWork(bad.error)
        answer = render_answer(rule, turn, failure, outputs)
        if turn.response_path is not None and not bad.ignore_file:
            self._respond(turn.response_path, answer, bad)
        return answer, f"{MISLEADING_TEXT}\n" if bad.mislead else ""

    def _work(self, rule: Rule) -> tuple[int, str]:
        for write in rule.write:
            self._signals.tell("PreToolUse", f"write: {write.path}")
            change_file(write, self._folder)
            self._note(f"changed {write.path}")
        failure, outputs = 0, ""
        for argv in rule.run:
            command = shlex.join("python3" if word == PYTHON else word for word in argv)
            self._signals.tell("PreToolUse", f"run: {command}")
            exit_code, output = run_command(argv, self._folder, self._console)
            failure, outputs = failure or exit_code, outputs + output
            self._note(f"ran {command}: exit code {exit_code}")
            self._signals.tell("PostToolUse")
        return failure, outputs

    def _respond(self, path: str, answer: str, bad: Misbehavior) -> None:
        pieces = write_pieces(path, answer, bad.pieces, reopen=bad.reopen)

        def write_later() -> None:
            # Nothing may be drawn here: the end of the turn has to stay the last row.
            with suppress(OSError, StopIteration):
                next(pieces)
                self._console.later(bad.pause, write_later)

        if bad.late_file is not None:
            self._console.later(bad.late_file, write_later)
            return
        try:
            for _ in pieces:
                self._console.pause(bad.pause)
            self._note(f"wrote {path}")
        except OSError as error:
            self._note(f"cannot write the response file: {error}")

    def _end_row(self) -> str:
        return f"{screen.OVER}turn {self._turns} over · {self._console.elapsed:.1f}s"

    def _say_answer(self, text: str) -> None:
        self._console.say(screen.answer_rows(text, self._console.columns))

    def _note(self, text: str) -> None:
        self._console.say([self._row(screen.NOTE + text)])

    def _row(self, text: str) -> str:
        return screen.clip(screen.plain(text.replace("\n", " ")), self._console.columns - 1)


NOT_FOUND, NOT_EXECUTABLE = 127, 126


def run_command(argv: Sequence[str], folder: Path, console: Console) -> tuple[int, str]:
    """Run a command, never through a shell, to its own end; return its exit code and output."""
    # Only here: it would lengthen the start of every agent by a tenth.
    import subprocess

    words = [sys.executable if word == PYTHON else word for word in argv]
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        return code, f"{argv[0]}: {error.strerror}"
    assert process.stdout is not None
    pipe: int | None = process.stdout.fileno()
    output = bytearray()
    try:
        while True:
            ended = process.poll() is not None
            readable = console.pump(0.0 if ended else None, also=pipe)
            if readable and pipe is not None:
                data = os.read(pipe, 65536)
                output += data
                pipe = pipe if data else None
            elif ended:
                break
    finally:
        # One that was stopped is ended with all it has started.
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    code = process.returncode
    return (code if code >= 0 else 128 - code), output.decode("utf-8", "replace")
