"""How long it takes until a message is confirmed, and whether it arrives byte by byte."""

import random
import time
from hashlib import sha256

from bench.figures import AtLeast, AtMost, Figure, percentile
from bench.machine import private_machine
from bench.wire import Wire
from cli_agent_orchestrator.core.models import TerminalStatus

SMALL, LARGE = 1000, 500_000
ALPHABET = "abc xyz ÄÖß 漢字 'quotes' \"double\" $HOME `tick` \\ ; # \t| é 🙂 "
PATIENCE = 60.0


def measure() -> list[Figure]:
    with private_machine() as machine, machine.server() as server, Wire(server) as wire:
        [terminal] = machine.open_terminals(server, 1)
        small = [_send(wire, terminal, SMALL, number) for number in range(40)]
        large = [_send(wire, terminal, LARGE, number) for number in range(12)]
    exact = [arrived for _, arrived in small + large]
    return [
        *_figures("1 KB", [seconds for seconds, _ in small], 80),
        *_figures("500 KB", [seconds for seconds, _ in large], 150),
        Figure(
            "messages that arrived byte by byte",
            100 * sum(exact) / len(exact),
            "%",
            AtLeast(100),
            note="by the digest in the agent's answer",
        ),
    ]


def _figures(size: str, seconds: list[float], limit: float) -> list[Figure]:
    return [
        Figure(
            f"POST input confirmed, {size}, p50",
            1000 * percentile(seconds, 50),
            "ms",
            AtMost(limit),
            note=f"{len(seconds)} messages, {1000 * min(seconds):.0f} to "
            f"{1000 * max(seconds):.0f} ms",
        )
    ]


def _send(wire: Wire, terminal: str, size: int, seed: int) -> tuple[float, bool]:
    """Send a message, wait for the answer, and return the seconds and whether it arrived."""
    message = _text(size, seed)
    began = time.monotonic()
    delivery = wire.ask("POST", f"/terminals/{terminal}/input", {"message": message})
    seconds = time.monotonic() - began
    if delivery["confirmed"] is not True:
        raise RuntimeError(f"not confirmed: {delivery}")
    return seconds, _answer_holds(wire, terminal, sha256(message.encode()).hexdigest())


def _answer_holds(wire: Wire, terminal: str, digest: str) -> bool:
    """Wait until the agent is at rest again; does its answer hold the digest?"""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if wire.ask("GET", f"/terminals/{terminal}")["status"] == TerminalStatus.COMPLETED:
            answer = wire.ask("GET", f"/terminals/{terminal}/output?mode=last")["output"]
            if digest in answer:
                return True
        time.sleep(0.02)
    return False


def _text(size: int, seed: int) -> str:
    """Return lines of text that take so many bytes, different for every seed."""
    source = random.Random(seed)
    lines = [f"Message {seed}"]
    left = size - len(lines[0])
    while left > 200:
        line = "".join(source.choices(ALPHABET, k=60)).strip() or "x"
        lines.append(line)
        left -= len(line.encode()) + 1
    return "\n".join([*lines, "x" * max(1, left - 1)])
