"""An agent that says that nobody is signed in is refused before a run begins; any other is not."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.sockets import LASTING, listening
from cli_agent_orchestrator.errors import StartError, UsageError
from cli_agent_orchestrator.hosting.environment import check_agents

CODEX = ("codex", "echo 0.166.0", "echo Not logged in >&2; exit 1")
CLAUDE = ("claude", "echo 2.1.325", "echo '{ \"loggedIn\": false }'; exit 1")


class Desk:
    """A machine with the agents that the test puts there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.wd = folder / "project"
        self.state = folder / "state"
        own = {"HOME": str(folder), "CAO_STATE_DIR": str(self.state)}
        self.environ = {"PATH": str(self.programs), **own}
        for one in (self.programs, self.wd, self.state, folder / ".codex"):
            one.mkdir(mode=0o700)

        self.install("tmux", "echo tmux 3.4", "exit 1")

    def install(self, name: str, version: str, login: str) -> None:
        """Put a program there, with what it does when it is asked for its version, or more."""
        path = self.programs / name
        lines = (
            "#!/bin/sh",
            f"if [ $1 = --version ] || [ $1 = -V ]; then {version}; else {login}; fi",
            "",
        )
        path.write_text("\n".join(lines), encoding="utf-8")
        path.chmod(0o755)

    def refusal(self, *names: str, seconds: float = 60) -> str:
        """Return why a run with these agents is refused; empty if it is not."""
        try:
            check_agents(names, self.wd, self.environ, seconds)
        except (StartError, UsageError) as error:
            return str(error)
        return ""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_is_not_installed_is_refused_unless_a_server_may_have_it(desk: Desk) -> None:
    why = desk.refusal("opencode", "scripted")
    assert "CAO_OPENCODE_COMMAND" in why
    assert desk.refusal("openc") == why, "it can be shortened"
    assert "there are: " in desk.refusal("nobody")
    with listening(desk.state, LASTING, desk.environ):
        assert desk.refusal("opencode") == ""


@pytest.mark.parametrize("said", ["no", "tmux 3.1"])
def test_so_is_tmux_before_any_agent(desk: Desk, said: str) -> None:
    desk.install("tmux", f"echo {said}", "exit 1")
    if said == "no":
        (desk.programs / "tmux").unlink()
    assert "apt install tmux" in desk.refusal("opencode")
    with listening(desk.state, LASTING, desk.environ):
        assert desk.refusal("scripted") == ""


def test_every_agent_that_says_so_is_named_with_the_command_that_helps(desk: Desk) -> None:
    desk.install(*CODEX)
    desk.install(*CLAUDE)
    desk.install("gemini", "exit 1", "exit 1")  # it has no such command
    others = ("gemini_cli", "scripted")
    assert f"`{desk.programs}/codex login`" in desk.refusal("codex", "codex", *others)
    both = desk.refusal("claude_code", "codex")
    assert "codex login`" in both
    assert f"`{desk.programs}/claude auth login`" in both
    assert "\n" not in both


@pytest.mark.parametrize(
    ("version", "login"),
    [
        ("echo 0.166.0", "echo Logged in using ChatGPT"),
        ("echo 0.166.0", "echo no such command; exit 2"),
        ("echo 0.100.0", "echo Not logged in; exit 1"),
        ("exit 1", "echo Not logged in; exit 1"),
    ],
    ids=["signed in", "fails", "too old", "without a version"],
)
def test_one_that_does_not_say_so_is_used(desk: Desk, version: str, login: str) -> None:
    desk.install("codex", version, login)
    assert desk.refusal("codex") == ""


WAITS = "echo $$ > $HOME/pid; exec /bin/sleep 600"


@pytest.mark.parametrize(("version", "login"), [(WAITS, CODEX[2]), (CODEX[1], WAITS)])
def test_one_that_hangs_is_used_and_ended(desk: Desk, version: str, login: str) -> None:
    desk.install("codex", version, login)
    assert desk.refusal("codex", seconds=1) == ""
    pid = int((desk.wd.parent / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_model_server_of_its_own_needs_no_sign_in(desk: Desk) -> None:
    desk.install(*CODEX)
    assert desk.refusal("codex")
    for args in ("-c model_provider=stub", "--oss", "-p work", "--profile=work"):
        desk.environ["CAO_CODEX_ARGS"] = args
        assert desk.refusal("codex") == "", args
    desk.environ["CAO_CODEX_ARGS"] = "-m gpt-5"
    assert desk.refusal("codex")


@pytest.mark.parametrize(
    ("name", "program", "file", "text"),
    [
        ("codex", CODEX, ".codex/config.toml", 'model_provider = "azure"'),
        ("codex", CODEX, "project/.codex/config.toml", 'model_provider = "azure"'),
        ("claude_code", CLAUDE, "project/.claude/settings.json", '{"apiKeyHelper": "pass key"}'),
    ],
)
def test_nor_does_one_that_a_file_names(
    desk: Desk, name: str, program: tuple[str, str, str], file: str, text: str
) -> None:
    desk.install(*program)
    path = desk.wd.parent / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("# nothing", encoding="utf-8")
    assert desk.refusal(name)
    path.write_text(text, encoding="utf-8")
    assert desk.refusal(name) == ""


def test_a_key_in_the_environment_of_the_agent_counts(desk: Desk, tmp_path: Path) -> None:
    desk.install("claude", "echo 2.1.325", f"[ $ANTHROPIC_API_KEY ] || {{ {CLAUDE[2]}; }}")
    assert desk.refusal("claude_code")
    desk.environ["CAO_CONFIG_DIR"] = str(tmp_path)
    table = '[providers.claude_code.env]\nANTHROPIC_API_KEY = "sk"\n'
    (tmp_path / "config.toml").write_text(table, encoding="utf-8")
    assert desk.refusal("claude_code") == ""
    (tmp_path / "config.toml").unlink()
    desk.environ["ANTHROPIC_API_KEY"] = "sk"
    assert desk.refusal("claude_code") == ""
