"""A Codex of a version that does not exist yet: it tells it, and paints what it is given."""

from pathlib import Path

from tests.programs import python_program

VERSION = "9.0.0"

KNOWN_LOOKS = Path(__file__).parent / "providers" / "screens" / "codex" / "idle"
IDLE_LOOK = (KNOWN_LOOKS / "0.166.0-idle_fresh_trusted.txt").read_text(encoding="utf-8")
"""A screen of today's Codex, at rest."""
ASKING_LOOKS = KNOWN_LOOKS.parent / "waiting_user_answer"
SIGN_IN_LOOK = (ASKING_LOOKS / "0.166.0-login_dialog.txt").read_text(encoding="utf-8")
NEW_LOOK = """\
  ╔═ session 4711 ═══════════════════════════════════════════╗
  ║ What shall we build today?                               ║
  ║                                                          ║
  ║ ⌨  Describe it here                                      ║
  ╚══════════════════════════════════════════════════════════╝
    F1 help   F2 plan   F10 leave
"""
"""A screen that nothing is known of."""

PROGRAM = """\
import sys

if "--version" in sys.argv:
    print("codex-cli {version}")
else:
    for screen in {screens!r}:
        sys.stdout.buffer.write(b"\\x1b[2J\\x1b[H" + screen)
        sys.stdout.buffer.flush()
        sys.stdin.readline()
"""


def write_future_codex(path: Path, *screens: str) -> None:
    """Write a program that shows these screens one after the other, at each Enter the next."""
    painted = [screen.rstrip().encode() for screen in screens]
    program = PROGRAM.format(version=VERSION, screens=painted)
    path.write_text(python_program(program, "-IS"), encoding="utf-8")
    path.chmod(0o755)
