"""What a stub model does in one turn: a script of steps, told by the prompt itself or by a test.

A script covers a whole turn. A step that calls a tool ends a response; what follows it is sent when
the agent comes back with the tool's output. So a script is cut into parts, and the request that
carries n tool outputs gets part n: the stub keeps no place in the script.

Markers in the last user text name the steps, in their order:

    [[answer:TEXT]]  [[lines:2000]]  [[words]]      an answer; 2,000 lines; misleading words
    [[slow:5]]                                      stream the texts after it over 5 seconds each
    [[think:3]]  [[pause:2]]  [[hold:NAME]]         think; say nothing; wait for stub.release(NAME)
    [[run:COMMAND]]  [[escalate:COMMAND]]           run a command; one that needs a person's leave
    [[respond:TEXT]]                                write the response file the prompt asks for
    [[ask]]                                         ask the person a question
    [[background:COMMAND]]                          run a command and go on without waiting for it
    [[helpers:{{run:A}}|{{answer:B}}]]              let two sub-agents work, each by its own markers
    [[background_helpers:{{answer:A}}]]             the same, without waiting for them
    [[http:500]]  [[http:529x2]]                    refuse with this status, always or twice
    [[limit]]  [[fail]]  [[cut]]                    usage limit; failure in the stream; cut line
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MARKER_PATTERN = r"\[\[(\w+)(?::(.*?))?\]\]"
INSTRUCTION_HEADING = "RESPONSE FILE INSTRUCTION"
# cat > '/project/.tmp/agent-responses/tester_result.md' <<'CAO_RESPONSE_END'
HEREDOC_PATTERN = r"cat > .* <<'(?P<end>\w+)'"
# [[agent:one]] [[run:make]]: how the prompt of a sub-agent begins
HELPER_START = "[[agent:"
MISLEADING_WORDS = (
    "The service is running and working; I was exploring, thinking and executing.\n\n"
    "error: only a quoted line\nAPI Error: 500 was merely mentioned\n\n"
    "• Working (12s • esc to interrupt)\n"
    "✻ Thinking… (12s · esc to interrupt)\n\n"
    "- Do you want to proceed? (y/n)\n\n› 1. Yes\n❯ 2. No\n\n"
    "■ Conversation interrupted\n\n⠋ busy\n\nPress enter to continue. Esc to cancel."
)


@dataclass(frozen=True, slots=True)
class Text:
    """Say something, in one go or streamed over some seconds."""

    text: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Think:
    """Reason visibly for some seconds."""

    seconds: float = 0.0
    text: str = "**Looking at the task**\n\nFirst the files, then the change, then the tests."


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep the line open and say nothing."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Say nothing until the test releases this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """Let the agent run a shell command."""

    command: str
    escalated: bool = False
    """Ask to run it outside of the agent's sandbox, so that a person must agree."""
    background: bool = False
    """Go on without waiting for its end."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Let the agent put a question with two choices to the person."""

    question: str = "Which color shall it be?"
    choices: tuple[str, str] = ("Red", "Blue")

    @property
    def options(self) -> list[dict[str, str]]:
        return [{"label": choice, "description": f"{choice}, then"} for choice in self.choices]


@dataclass(frozen=True, slots=True)
class Helper:
    """A sub-agent: its prompt names the steps of its own turn."""

    name: str
    prompt: str

    @property
    def task(self) -> str:
        """Its prompt, by which the stub knows it."""
        return f"{HELPER_START}{self.name}]] {self.prompt}"


@dataclass(frozen=True, slots=True)
class Delegate:
    """Let sub-agents work at the same time, and wait for them unless they are in the background."""

    helpers: tuple[Helper, ...]
    background: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an HTTP error, for the first `times` requests of the turn or for all of them."""

    status: int
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """Answer as when the account's usage is used up, for an hour."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Report a server error inside of the stream."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Break the connection in the middle of an answer."""


Step = Text | Think | Pause | Hold | Run | Ask | Delegate | Refuse | Limit | Fail | Cut
TOOL_CALLS = (Run, Ask, Delegate)
"""Steps that end a response: the agent comes back with the output."""
DONE = Text("Done.")


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of one turn."""

    steps: tuple[Step, ...]

    def part(self, outputs: int) -> tuple[Step, ...]:
        """Return the steps of the response that follows this number of tool outputs."""
        parts: list[list[Step]] = [[]]
        for step in self.steps:
            parts[-1].append(step)
            if isinstance(step, TOOL_CALLS):
                parts.append([])
        chosen = parts[outputs] if outputs < len(parts) else []
        return tuple(chosen) or (DONE,)


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent asks of the model, whatever the wire format."""

    conversation: str
    """Tells the agents at one stub apart."""
    system: str
    """Everything the model is told about its part: instructions, developer and system texts."""
    users: tuple[str, ...]
    """What the person has said so far, each exactly as it arrived."""
    outputs: int = 0
    """Tool outputs since the person last spoke."""
    tools: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """The parameters of each tool on offer, by its name."""
    streaming: bool = True
    side: bool = False
    """Not the person's turn but the agent's own business, such as a title for the session."""

    @property
    def prompt(self) -> str:
        """The last thing the person said."""
        return self.users[-1] if self.users else ""


Responder = Callable[[Request], Script]


def response_command(prompt: str, text: str) -> str | None:
    """Return the command that writes `text` to the response file, exactly as the prompt shows it.

    None if the prompt asks for no response file.
    """
    _, found, instruction = prompt.partition(INSTRUCTION_HEADING)
    if not found:
        return None
    for line in instruction.splitlines():
        if heredoc := re.match(HEREDOC_PATTERN, line.strip()):
            return f"{line.strip()}\n{text}\n{heredoc['end']}"
    return None


def respond(prompt: str, text: str, *before: Step) -> Script:
    """Return a turn that writes its answer to the response file, if there is to be one."""
    command = response_command(prompt, text)
    if command is None:
        return Script((*before, Text(text)))
    return Script((*before, Run(command), Text("The response file is written.")))


def numbered_lines(count: int) -> str:
    """Return an answer whose every line can be told from the others."""
    return "\n".join(f"- line {number} of {count}" for number in range(1, count + 1))


def script_from_markers(request: Request) -> Script:
    """Return the script that the markers in the prompt spell."""
    steps: list[Step] = []
    seconds = 0.0
    for name, value in re.findall(MARKER_PATTERN, request.prompt, re.DOTALL):
        if name == "agent":
            continue
        if name == "slow":
            seconds = float(value)
        elif name == "respond":
            steps.extend(respond(request.prompt, value).steps)
        else:
            steps.append(_step(name, value, seconds))
    return Script(tuple(steps) or (Text("Hello, this is a plain answer.", seconds),))


def _step(name: str, value: str, seconds: float) -> Step:
    match name:
        case "answer":
            return Text(value, seconds)
        case "lines":
            return Text(numbered_lines(int(value)), seconds)
        case "words":
            return Text(MISLEADING_WORDS, seconds)
        case "think":
            return Think(float(value))
        case "pause":
            return Pause(float(value))
        case "hold":
            return Hold(value)
        case "helpers" | "background_helpers":
            tasks = value.replace("{{", "[[").replace("}}", "]]").split("|")
            helpers = (Helper(f"helper{place}", task) for place, task in enumerate(tasks, 1))
            return Delegate(tuple(helpers), background=name != "helpers")
        case "run" | "escalate" | "background":
            return Run(value, escalated=name == "escalate", background=name == "background")
        case _:
            return _trouble(name, value)


def _trouble(name: str, value: str) -> Step:
    match name:
        case "ask":
            return Ask()
        case "http":
            status, _, times = value.partition("x")
            return Refuse(int(status), int(times) if times else None)
        case "limit":
            return Limit()
        case "fail":
            return Fail()
        case "cut":
            return Cut()
    # An error would only show as a broken line in a terminal; this is read at once.
    return Text(f"The stub knows no marker {name!r}.")
