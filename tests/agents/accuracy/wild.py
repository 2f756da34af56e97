"""Agents as people use them: sub-agents, work in the background, hooks, commands, small windows."""

import asyncio
import json
import os
import random
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents import driving
from tests.agents.accuracy.kinds import Course, TurnKind
from tests.agents.accuracy.score import Span, Truth
from tests.agents.accuracy.taking import Mode, Sent, Taken, answered, finished, plain, send, watched
from tests.agents.driving import (
    KINDS,
    MEASURED,
    NEWEST,
    PATIENCE,
    TYPING_PAUSE,
    Driven,
    Ground,
    Kind,
)
from tests.programs import attached
from tests.stubs.ledger import Turn

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
ERROR = TerminalStatus.ERROR

PERSON_SECONDS = 1.0
"""Within so long it is told that a person has begun something: the server did not type it."""
COMPACTION_SECONDS = 1.0
NARROW = (60, 20)
LIMITS = {
    "x-codex-primary-used-percent": "96",
    "x-codex-primary-window-minutes": "300",
    "x-codex-secondary-used-percent": "92",
    "x-codex-secondary-window-minutes": "10080",
}
"""What the model says in the head of an answer when an account is nearly used up."""
TYPED_LETTERS = 8
LONG_SILENCE = 60
SILENT_TURNS = 2
"""So many turns of a minute are enough."""
WORK = "[[pause:0.5]][[answer:done {n}]]"
BUSY = "{{pause:0.3}}{{run:echo busy}}" * 4 + "{{answer:The second is over.}}"
OBJECTION = "Not yet. [[pause:0.6]][[answer:Now it is done.]]"

NEWEST_CODEX, NEWEST_CLAUDE = NEWEST
CODEX = {kind for kind in KINDS if kind.agent == "codex"}
CLAUDE = {kind for kind in KINDS if kind.agent == "claude_code"}
QUESTIONS = {*KINDS} - driving.ASK_NOTHING


def numbered(script: str, number: int) -> str:
    """Return the message of a turn: no two are the same."""
    return f"turn {number} " + script.replace("{n}", str(number))


async def got(driven: Driven, prompt: str) -> Turn:
    """Wait until the model has got a prompt; return its turn."""
    return await driven.until(lambda: [one for one in driven.stub.turns if one.prompt == prompt])


async def helper(driven: Driven, place: int, task: str) -> Turn:
    """Wait for the turn of a sub-agent."""
    markers = task.replace("{{", "[[").replace("}}", "]]")
    return await got(driven, f"[[agent:helper{place}]] {markers}")


async def follow_up(driven: Driven, after: float) -> Turn:
    """Wait until Claude Code has gone on by itself after a moment; return that turn."""

    def found() -> list[Turn]:
        own = [turn for turn in driven.stub.turns if "/" not in turn.conversation]
        own = [turn for turn in own if turn.finished and turn.finished > after]
        return sorted(own, key=lambda turn: turn.finished or after)

    return await driven.until(found)


async def gone_on(
    driven: Driven, number: int, sent: Sent, after: float, asks: Span | None = None
) -> Taken:
    """Watch a turn with which Claude Code goes on by itself after a moment, perhaps repeatedly."""
    while True:
        end = (await follow_up(driven, after)).finished or after
        truth = rested(sent.at, end, COMPLETED, asks)
        taken = await settle(driven, number, truth, sent.failure())
        if (await follow_up(driven, after)).finished == end:
            return taken


async def aside(driven: Driven, after: float) -> tuple[float, float]:
    """Wait for a request of the agent's own after a moment; return its begin and its end."""

    def found() -> list[tuple[float, float]]:
        asides = [one for one in driven.stub.ledger.asides if one.started > after]
        return [(one.started, one.finished) for one in asides if one.finished]

    return await driven.until(found)


async def settle(driven: Driven, number: int, truth: Truth, sending: str = "") -> Taken:
    """Return a turn that was watched to its end."""
    return Taken((await watched(driven, number, truth),), sending)


def rested(sent: float, end: float, rest: TerminalStatus, asks: Span | None = None) -> Truth:
    """Return what is true of a turn whose end is still to be watched."""
    return Truth(sent, end, rest, end, asks=asks)


# Sub-agents and work in the background


async def take_asking_helper(driven: Driven, number: int) -> Taken:
    """One sub-agent asks while another one works."""
    asking = f"{{{{escalate:touch ../outside-{number}.txt}}}}{{{{answer:The first is over.}}}}"
    busy = f"{BUSY}{{{{answer:{number}}}}}"
    sent = await send(driven, numbered(f"[[helpers:{asking}|{busy}]][[answer:both]]", number))
    asker = await helper(driven, 1, asking)
    asks = await answered(driven, asker, sent.at, driven.kind.manners.allow)
    over = await finished(driven, asker), await finished(driven, await helper(driven, 2, busy))
    return await gone_on(driven, number, sent, max(over), asks)


async def take_helpers(driven: Driven, number: int) -> Taken:
    """Two sub-agents work at the same time, and the agent waits for both."""
    tasks = (f"{{{{run:echo quick}}}}{{{{answer:{number}}}}}", f"{BUSY}{{{{answer:{number}}}}}")
    sent = await send(driven, numbered(f"[[helpers:{'|'.join(tasks)}]][[answer:both]]", number))
    over = [
        await finished(driven, await helper(driven, place, task))
        for place, task in enumerate(tasks, 1)
    ]
    return await gone_on(driven, number, sent, max(over))


async def take_claudes_background_helper(driven: Driven, number: int) -> Taken:
    """A sub-agent works on after the turn, and the agent goes on when it is over."""
    task = f"{{{{run:echo started}}}}{{{{pause:0.8}}}}{{{{answer:over {number}}}}}"
    sent = await send(driven, numbered(f"[[background_helpers:{task}]][[answer:I wait.]]", number))
    over = await finished(driven, await helper(driven, 1, task))
    return await gone_on(driven, number, sent, over)


async def take_claudes_shell(driven: Driven, number: int) -> Taken:
    """A shell works on after the turn, and the agent goes on when it is over."""
    script = "[[background:sleep 1.5; echo over {n}]][[answer:I wait for it.]]"
    sent = await send(driven, numbered(script, number))
    first = await finished(driven, sent.turn)
    return await gone_on(driven, number, sent, first)


async def take_codexs_helpers(driven: Driven, number: int, tasks: tuple[str, ...]) -> Taken:
    """Sub-agents work on after the turn; that neither hides its end nor is one."""
    own = [f"{task}{{{{answer:sub {number}}}}}" for task in tasks]
    script = f"[[background_helpers:{'|'.join(own)}]][[slow:0.5]][[lines:9]]"
    sent = await send(driven, numbered(script, number))
    end = await finished(driven, sent.turn)
    for place, task in enumerate(own, 1):
        await finished(driven, await helper(driven, place, task))
    return await settle(driven, number, rested(sent.at, end, COMPLETED), sent.failure())


async def take_codexs_asking_helper(driven: Driven, number: int) -> Taken:
    """A sub-agent asks, and still does so when the turn is over that started it."""
    asking = f"{{{{escalate:touch ../sub-{number}.txt}}}}{{{{answer:sub {number}}}}}"
    script = f"[[background_helpers:{asking}]][[pause:1]][[answer:main]]"
    sent = await send(driven, numbered(script, number))
    asker = await helper(driven, 1, asking)
    await finished(driven, sent.turn)
    asks = await answered(driven, asker, sent.at, driven.kind.manners.allow)
    taken = await settle(driven, number, rested(sent.at, asks.end, COMPLETED, asks), sent.failure())
    await finished(driven, asker)
    return taken


def add_objection(ground: Ground, objection: str) -> None:
    """Let a Stop hook of the user's own object to the first end of a turn.

    It does so once, and once more whenever the note is removed that it has.
    """
    said = objected(ground)
    command = (
        f"test -e {shlex.quote(str(said))} && exit 0; touch {shlex.quote(str(said))};"
        f" echo {shlex.quote(objection)} >&2; exit 2"
    )
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    folder = ground.folder / "home" / ".claude"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


def objected(ground: Ground) -> Path:
    """Return the note that the hook has objected."""
    return ground.folder / "objected"


async def take_objected(driven: Driven, number: int) -> Taken:
    """A hook of the user's own does not let the turn end, so the agent goes on."""
    objected(driven.ground).unlink(missing_ok=True)
    sent = await send(driven, numbered("[[answer:first {n}]]", number))
    first = await finished(driven, sent.turn)
    return await gone_on(driven, number, sent, first)


# What a person does


async def take_person(driven: Driven, number: int) -> Taken:
    """A person prompts."""
    prompt = numbered(WORK, number)
    await driven.prompts(prompt)
    turn = await got(driven, prompt)
    truth = rested(turn.started, await finished(driven, turn), COMPLETED)
    return replace(await settle(driven, number, truth), grace=PERSON_SECONDS)


async def take_message(driven: Driven, number: int, script: str = WORK) -> Taken:
    """A message is sent."""
    sent = await send(driven, numbered(script, number))
    end = await finished(driven, sent.turn, 2 * PATIENCE)
    return await settle(driven, number, rested(sent.at, end, COMPLETED), sent.failure())


async def begin_anew(driven: Driven, said: str = "before") -> None:
    """Begin another session, as a person does, after an answer."""
    await driven.prompts("/new")
    # The old ones say how to come back, the new ones clear the screen.
    await driven.sees(lambda screen: "To continue this session" in screen or said not in screen)


async def resume_second(driven: Driven, shown: str) -> None:
    """Go on with the second of the older sessions, as a person does who sees both."""
    await driven.prompts("/resume")
    await driven.shows("Resume a previous session")
    await driven.shows(shown)
    await driven.settles()  # keys are lost while the list is filled
    await driven.keys("Down", "Enter")
    await driven.hides("Resume a prev")


async def take_after_new(driven: Driven, number: int) -> Taken:
    """A person begins another session; then they prompt, or a message is sent."""
    await begin_anew(driven, f"done {number - 1}")
    await driven.settles()
    return await (take_person if number % 2 else take_message)(driven, number)


async def begin_two_sessions(driven: Driven) -> None:
    """Have a second session that can be resumed."""
    for place in (1, 2):
        sent = await send(driven, f"session-{place} [[answer:said {place}]]")
        await driven.reached(COMPLETED, after=await finished(driven, sent.turn))
        if place == 1:
            await (begin_anew(driven, "said 1") if driven.kind.agent == "codex" else clear(driven))


async def take_after_resume(driven: Driven, number: int) -> Taken:
    """A person goes on with an older session; then they prompt, or a message is sent."""
    if driven.kind.agent == "codex":
        await resume_second(driven, "session-1")
    else:
        await driven.prompts("/resume")
        await driven.shows("Resume")
        await driven.shows("session-")
        await driven.settles()
        await driven.keys("Enter")
        await driven.hides("Resume")
    await driven.settles()
    return await (take_person if number % 2 else take_message)(driven, number)


async def clear(driven: Driven) -> float:
    """Clear the conversation, as a person does; return when the key was pressed."""
    await driven.types("/clear")
    await asyncio.sleep(TYPING_PAUSE)
    pressed = time.monotonic()
    await driven.keys("Enter")
    await driven.reached(IDLE, after=pressed)
    return pressed


async def take_after_clear(driven: Driven, number: int) -> Taken:
    """A person clears the conversation: it is a new one, and the next message is followed."""
    before = await take_message(driven, number)
    pressed = await clear(driven)
    anything = frozenset(TerminalStatus)
    cleared = Truth(pressed, pressed, IDLE, pressed, before=anything)
    cleared = await watched(driven, number, cleared)
    after = await take_message(driven, number, f"after {WORK}")
    truths = (*before.truths, cleared, *after.truths)
    return Taken(truths, before.sending or after.sending)


async def take_claudes_compaction(driven: Driven, number: int) -> Taken:
    """A person shortens the conversation."""
    before = await take_message(driven, number)
    typed = time.monotonic()
    await driven.prompts(f"/compact please [[pause:{COMPACTION_SECONDS}]][[answer:A summary.]]")
    turn = await follow_up(driven, typed)
    assert turn.finished is not None
    after = await settle(driven, number, rested(turn.started, turn.finished, IDLE))
    return Taken((*before.truths, *after.truths), before.sending, PERSON_SECONDS)


async def take_codexs_compaction(driven: Driven, number: int) -> Taken:
    """A person shortens the conversation, and the model is asked for a summary aside."""
    before = await take_message(driven, number)
    driven.stub.side_seconds = COMPACTION_SECONDS
    typed = time.monotonic()
    await driven.prompts("/compact")
    truth = rested(*await aside(driven, typed), COMPLETED)
    after = await settle(driven, number, truth)
    return Taken((*before.truths, *after.truths), before.sending, PERSON_SECONDS)


async def take_stopped(driven: Driven, number: int) -> Taken:
    """A person presses Esc before there is any output; an older answer stands above."""
    before = await take_message(driven, number)
    began = time.monotonic()
    sent = await send(driven, numbered("stopped [[hold:never]]", number))
    await driven.reached(PROCESSING, after=began)
    if driven.kind.agent == "codex":
        await driven.shows("esc to interrupt")
    pressed = time.monotonic()
    await driven.keys("Escape")
    after = await settle(driven, number, rested(sent.at, pressed, IDLE))
    return Taken((*before.truths, *after.truths), before.sending)


async def take_beside_typing(driven: Driven, number: int) -> Taken:
    """A person types while ours is sent; what is not sent is taken back by her, and sent again."""
    chance = random.Random(f"{driven.kind}-{number}")
    message = numbered("beside letters [[answer:{n}]]", number)
    before, turns = len(driven.stub.prompts), len(driven.stub.turns)

    async def type_letters() -> None:
        await asyncio.sleep(chance.uniform(0, 0.3))
        for letter in chance.choices("abc xyz", k=TYPED_LETTERS):
            type_keys(letter)
            await asyncio.sleep(chance.uniform(0, 0.15))

    async def take_back() -> None:
        type_keys("\x7f" * (TYPED_LETTERS + len(message)))
        await driven.settles()

    with attached(driven.socket, driven.terminal.session_name, os.environ) as type_keys:
        await driven.settles()
        typing = asyncio.create_task(type_letters())
        await asyncio.sleep(chance.uniform(0, 0.3))
        delivery = Delivery(False, "")
        async with asyncio.timeout(PATIENCE):
            while not delivery.confirmed:
                try:
                    delivery = await driven.send(message)
                except InputRefused as refusal:
                    delivery = Delivery(False, str(refusal))
                if not delivery.confirmed:
                    await typing
                    await take_back()
        at = time.monotonic()
        await driven.started(turns + 1)
        message = driven.as_taken(message)
        sent = Sent(driven, message, at, driven.stub.turns[turns], delivery, before)
        truth = rested(at, await finished(driven, sent.turn), COMPLETED)
        await typing
        taken = await settle(driven, number, truth, sent.failure())
        await take_back()
    return replace(taken, grace=PERSON_SECONDS)


# Where the agent runs, and what it is sent


async def begin_near_limit(driven: Driven) -> None:
    """Have an account that is nearly used up."""
    driven.stub.headers.update(LIMITS)


async def begin_narrow(driven: Driven) -> None:
    """Have a small window."""
    await driven.resize(*NARROW)


async def take_failed_again(driven: Driven, number: int) -> Taken:
    """A turn fails, the server is started anew, and the message is sent again."""
    failing = "[[limit]]" if number % 2 else "[[http:401]]"
    sent = await send(driven, numbered(f"first {failing}", number))
    await driven.reached(ERROR, after=sent.at)
    end = sent.turn.last_byte or sent.at
    failed = await watched(driven, number, rested(sent.at, end, ERROR))
    await driven.service.close()
    await driven.serve(TerminalService(driven.ground.config("full"), SystemClock()))
    again = await take_message(driven, number)
    return Taken((failed, *again.truths), sent.failure() or again.sending)


def _narrow_window() -> list[Mode]:
    state = f"window of {NARROW[0]}×{NARROW[1]}"
    asks = "[[escalate:touch ../asked-{n}.txt]][[answer:made {n}]]"
    allow, choose = Course.ALLOW, Course.CHOOSE
    kinds = (
        TurnKind(state, "list", "[[slow:0.6]][[lines:30]]"),
        TurnKind(state, "permission", asks, course=allow, permissions="ask"),
        TurnKind(state, "question", "[[ask]][[answer:{n}]]", course=choose),
    )
    shell = Mode(state, "background shell", take_claudes_shell, kinds=CLAUDE)
    *modes, question = map(plain, kinds)
    every = (*modes, replace(question, kinds=QUESTIONS), shell)
    return [replace(mode, begin=begin_narrow) for mode in every]


def _silence(seconds: int, most: int | None) -> Mode:
    script = f"[[answer:Part {{n}}.\n\n]][[pause:{seconds}]][[answer:The end of {{n}}.]]"
    take = partial(take_message, script=script)
    return Mode("silence in an answer", f"{seconds} s", take, most=most)


SUB, PARALLEL, BACKGROUND = ("sub-agents", "sub-agents in parallel", "sub-agents in the background")
TWO_TASKS = ("{{pause:0.5}}", "{{run:echo two}}{{pause:1}}")
WILD_MODES = (
    Mode(SUB, "one asks, one works", take_asking_helper, permissions="ask", kinds=CLAUDE),
    Mode(PARALLEL, "two work", take_helpers, kinds=CLAUDE),
    Mode(BACKGROUND, "one works on", take_claudes_background_helper, kinds=CLAUDE),
    Mode("shell in the background", "agent goes on", take_claudes_shell, kinds=CLAUDE),
    Mode(
        SUB,
        "one asks after the end",
        take_codexs_asking_helper,
        permissions="ask",
        turns_of_an_agent=5,
        kinds={NEWEST_CODEX},
    ),
    Mode(
        PARALLEL,
        "two work on",
        partial(take_codexs_helpers, tasks=TWO_TASKS),
        turns_of_an_agent=3,
        kinds={NEWEST_CODEX},
    ),
    Mode(
        BACKGROUND,
        "one works on",
        partial(take_codexs_helpers, tasks=("{{run:echo one}}{{pause:1}}",)),
        turns_of_an_agent=5,
        kinds={NEWEST_CODEX},
    ),
    Mode(
        "shell in the background",
        "shell runs on",
        partial(take_message, script="[[background:sleep 5]][[answer:It runs, {n}.]]"),
        kinds=CODEX,
    ),
    Mode(
        "Stop hook that objects",
        "agent goes on",
        take_objected,
        prepare=partial(add_objection, objection=OBJECTION),
        kinds=CLAUDE,
    ),
    Mode("person's prompt", "before any of ours", take_person, turns_of_an_agent=1),
    Mode("person types", "while ours is sent", take_beside_typing, kinds=MEASURED),
    Mode("session", "/new", take_after_new, kinds=CODEX),
    Mode(
        "older session",
        "/resume",
        take_after_resume,
        begin=begin_two_sessions,
        kinds={*CODEX, NEWEST_CLAUDE},
    ),
    Mode("session", "/clear", take_after_clear, kinds=CLAUDE),
    Mode("compaction", "/compact", take_claudes_compaction, kinds=CLAUDE),
    Mode("compaction", "/compact", take_codexs_compaction, kinds=CODEX),
    Mode("interrupted", "Esc before any output", take_stopped),
    Mode("account nearly used up", "limit near", take_message, begin=begin_near_limit, kinds=CODEX),
    *_narrow_window(),
    Mode("failed turn", "sent again to a new server", take_failed_again),
    _silence(1, None),
    _silence(LONG_SILENCE, SILENT_TURNS),
)


def wild_modes(kind: Kind) -> list[Mode]:
    """Return the modes that an agent has in a version."""
    return [mode for mode in WILD_MODES if kind in mode.kinds]
