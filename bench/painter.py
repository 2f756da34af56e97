"""A program of its own that repaints many terminals steadily, until it is ended.

It reads the terminal devices from its input, a line each, and paints each ten times a second, one
after the other: agents do not paint in step. It imports nothing of the project, to be light.
"""

import os
import sys
import time

HERTZ = 10.0
SPINNER = "▖▘▝▗"
TITLE_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def backdrop() -> bytes:
    """Return a screen full of text, as those of agents are after a while."""
    rows = (
        f"│ row {row} of what the agent has said so far, about this and that" for row in range(37)
    )
    return ("\x1b[H\x1b[J" + "\r\n".join(rows)).encode()


def picture(number: int) -> bytes:
    """Return a frame of the scripted agent at work: its title, a busy row and the input box."""
    title = f"\x1b]2;{TITLE_SPINNER[number % 10]} scripted\x07"
    busy = f"{SPINNER[number % 4]} working · {number // int(HERTZ)}s · esc stops"
    return f"{title}\x1b[38;1H\x1b[J{busy}\r\nscripted ❯ ".encode()


def main() -> None:
    devices = [line.strip() for line in sys.stdin if line.strip()]
    files = [os.open(device, os.O_WRONLY | os.O_NOCTTY) for device in devices]
    for file in files:
        os.write(file, backdrop())
    sys.stdout.write("painting\n")
    sys.stdout.flush()
    pause = 1 / HERTZ / len(files)
    due = time.monotonic()
    number = 0
    while True:
        data = picture(number)
        for file in files:
            os.write(file, data)
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
        number += 1


if __name__ == "__main__":
    main()
