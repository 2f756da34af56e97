"""An agent that nobody knows is added by a file, and tried: a program with an input box."""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.providers import get_provider
from tests.programs import CAO, in_a_terminal, python_program

pytestmark = pytest.mark.tmux
SURE, BY_SILENCE = "surely", "less surely"

PROGRAM = """\
import os, re, sys, tty

if "--version" in sys.argv:
    sys.exit(print("mine 1.4.0"))
if "--dies" in sys.argv:
    sys.exit("no key in mine.conf")
if "--waits" in sys.argv:
    with open(sys.argv[2], "w") as started:
        started.write(str(os.getpid()))
    os.read(0, 1)
tty.setraw(0)
box, said = "", "Welcome."
while True:
    sys.stdout.write(f"\\x1b[?2004h\\x1b[2J\\x1b[H{said}\\r\\n> {box}")
    sys.stdout.flush()
    keys = os.read(0, 100_000).decode()
    if keys.startswith("\\x1b[200~"):
        box, message = "[pasted 1 text]", keys
    elif keys == "\\r" and box:
        file = re.findall(r"(?m)^cat > (\\S+)", message.replace("\\r", "\\n"))[-1]
        if "--forgets" not in sys.argv:
            with open(file, "w") as answer:
                answer.write("ready")
        box, said = "", "= Done."
    elif "\\x03" in keys:
        sys.exit()
    else:
        box = (box + keys).replace("\\x7f", "") if keys != "\\x7f" else box[:-1]
"""
DESCRIBED = """\
program = {program!r}
tested = ["1.4.0"]
start = {{ args = {args} }}
box = [{{ pattern = '^>(?: |$)', sample = "> text" }}]
marks = [{{ is = "finished", pattern = '^= ', sample = "= Done." }}]
"""


class Desk:
    """A user with a program, and what tests do there."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "mine"
        self.program.write_text(python_program(PROGRAM, "-IS"), encoding="utf-8")
        self.program.chmod(0o755)
        self.file = Path(os.environ["CAO_CONFIG_DIR"], "agents", "mine.toml")
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.environ = os.environ | {"TMPDIR": str(self.temporary)}

    def describe(self, *args: str) -> None:
        self.file.parent.mkdir(parents=True)
        text = DESCRIBED.format(program=str(self.program), args=[*args])
        self.file.write_text(text, encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        argv = [*CAO, *words]
        return subprocess.Popen(argv, env=self.environ, stdout=pipe, stderr=both, text=True)

    def cao(self, *words: str, code: int = 0) -> tuple[dict[str, str], str]:
        """Return how each step is known, and all that was printed."""
        output, _ = (process := self.start(*words)).communicate(timeout=120)
        assert process.returncode == code, output
        return known(output), output


def known(output: str) -> dict[str, str]:
    return dict(re.findall(r"\b(\w+) +(surely|less surely|no)  ", output))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    assert [*desk.temporary.iterdir()] == []


def test_a_new_agent_is_tried_by_its_command_alone_and_gets_a_file(desk: Desk) -> None:
    words = ("agent", "new", "mine")
    said, code = in_a_terminal([*words], f"{desk.program} --fast\ny\n")
    steps = {"start": SURE, "ready": BY_SILENCE, "box": SURE, "exit": SURE}
    assert (code, known(said)) == (0, steps), said
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o600
    assert "#   Welcome." in desk.file.read_text(encoding="utf-8").splitlines()
    assert get_provider("mine", desk.file.parents[1]).program == str(desk.program)
    assert "cao agent check mine" in said
    assert str(desk.file) in desk.cao(*words, "--command", "sh", code=2)[1]


def test_an_agent_is_driven_and_each_step_says_how_it_is_known(desk: Desk) -> None:
    desk.describe()
    steps, said = desk.cao("agent", "check", "mine")
    sure = ("start", "ready", "message", "end", "reply", "exit")
    # Its work is over before it could be seen.
    assert steps == {**dict.fromkeys(sure, SURE), "working": BY_SILENCE}, said


def test_an_agent_is_started_once_and_its_version_and_box_are_reported(desk: Desk) -> None:
    desk.describe()
    steps, said = desk.cao("doctor", "--try", "mine")
    assert steps == dict.fromkeys(("start", "ready", "box", "exit"), SURE), said
    assert "1.4.0" in said


@pytest.mark.parametrize(
    ("option", "step", "shown"),
    [("--dies", "start", "no key in mine.conf"), ("--forgets", "reply", "= Done.")],
)
def test_what_fails_is_shown_with_the_last_screen(
    desk: Desk, option: str, step: str, shown: str
) -> None:
    desk.describe(option)
    steps, said = desk.cao("agent", "check", "mine", code=1)
    assert steps[step] == "no"
    assert shown in said.splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_agent_too(desk: Desk, tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "started")
    desk.describe("--waits", str(tmp_path / "started"))
    with desk.start("agent", "check", "mine") as process:
        pid = int((tmp_path / "started").read_text())
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("codex", "sh"),
        ("cod", "sh"),
        ("Mine", "sh"),
        ("mine", "'sh"),
        ("mine", ""),
        ("mine", "no-such"),
    ],
)
def test_a_name_or_command_that_cannot_be_is_bad_usage(desk: Desk, name: str, command: str) -> None:
    desk.cao("agent", "new", name, "--command", command, "--yes", code=2)
    assert not desk.file.parent.exists()


def test_a_file_with_a_fault_is_bad_usage_and_names_the_key(desk: Desk) -> None:
    desk.describe()
    desk.file.write_text("program = 'x'\n[keys]\nexits = []\n", encoding="utf-8")
    _, said = desk.cao("agent", "check", "mine", code=2)
    assert f"{desk.file}, keys: " in said
