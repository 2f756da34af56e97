"""An agent that looks as a test wants: an input box in any layout, with any placeholder."""

from tests.programs import python_program

PROGRAM = """\
import os, sys, time, tty

if "--version" in sys.argv:
    sys.exit(print("agent 9.0.0"))
look, placeholder, takes = {settings!r}
look, *later = look.split("@then")
box, said = "", ["Hello."]


def draw():
    shown = box or placeholder.replace("@n", str(len(said)))
    text = look.replace("@said", "\\n".join(said)).replace("@box", shown)
    sys.stdout.write("\\x1b[2J\\x1b[H" + text.replace("\\n", "\\r\\n"))
    sys.stdout.flush()


tty.setraw(0)
sys.stdout.write("\\x1b[?2004h")
draw()
while True:
    keys = os.read(0, 100_000).decode().replace("\\x1b[200~", "").replace("\\x1b[201~", "")
    for key in keys if takes else "":
        if key == "\\x7f":
            box = box[:-1]
            look = later.pop() if later else look
        elif key == "\\x15":
            box = ""
        elif key == "\\t":
            look, takes = "?\\n@said", False
        elif key == "\\r" and box:
            with open("taken.txt", "a") as taken:
                taken.write(box + "\\n")
            said, box = said + ["> " + box, "Done."], ""
        else:
            box += key.strip("\\r")
    draw()
"""

NEW_LAYOUT = """\
@said

╔═ session 4711 ═══════════════════════════════════════════╗
║ @box
╚══════════════════════════════════════════════════════════╝
  F1 help   F2 plan   F10 leave"""
"""A screen that nothing is known of."""
KNOWN_LAYOUT = "@said\n▢ ready\nscripted ❯ @box"


def box_program(look: str, placeholder: str = "", *, takes: bool = True) -> str:
    """Return a program that shows a box and, if it `takes` input, notes every message."""
    return python_program(PROGRAM.format(settings=(look, placeholder, takes)), "-IS")
