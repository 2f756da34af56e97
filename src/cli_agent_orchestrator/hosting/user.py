"""What belongs to the user of this machine: settings, the server's token, agents."""

import os
import re
import secrets
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.files import Folder
from ..core.programs import Programs, ShortAnswer
from ..errors import UsageError
from ..notices.decide import TABLE, NoticeSettings, read_notice_settings
from ..providers import every_provider, scripted
from ..providers.base import Provider, find_version
from ..settings.config import ServerConfig
from ..settings.layout import check_state_folder, config_folder
from ..settings.values import read_own_file

MAX_TOKEN = 1000
TOKEN_PATTERN = rb"[!-~]{16,%d}" % MAX_TOKEN
"""What can stand in a header and cannot be guessed."""


def read_server_config(environ: Mapping[str, str]) -> ServerConfig:
    return ServerConfig.from_env(environ, read_user_file(environ))


# Any: what a TOML file holds
def read_user_file(environ: Mapping[str, str]) -> dict[str, Any]:
    file = config_folder(environ) / "config.toml"
    return read_own_file(file) if file.exists() else {}


def read_notices(environ: Mapping[str, str]) -> NoticeSettings:
    return read_notice_settings(read_user_file(environ).get(TABLE, {}))


def make_token(state_dir: Path) -> str:
    """Return the token of a state folder; the first start makes it, readable by its owner only."""
    file = state_dir / "token"
    check_state_folder(state_dir)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        Folder(state_dir).status(file.name)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(file, flags, 0o600), "rb+") as opened:
            token = opened.read(MAX_TOKEN + 1).strip()
            loose = os.fstat(opened.fileno()).st_mode & 0o077
            if not token:
                # New, or left empty by a crash: an empty token would admit everyone.
                token = secrets.token_urlsafe(32).encode()
                os.fchmod(opened.fileno(), 0o600)
                opened.write(token)
                loose = 0
    except OSError as error:
        reason = f"the token file {file} cannot be used: {error.strerror}"
        raise UsageError(f"{reason}; set CAO_STATE_DIR to another folder") from error
    if not re.fullmatch(TOKEN_PATTERN, token):
        raise UsageError(f"{file} holds no token; remove it, and a new one is made")
    if loose:
        raise UsageError(
            f"others may use the token file {file} and know the token by now; make a new one "
            f"with: rm {shlex.quote(str(file))}"
        )
    return token.decode()


LOGIN_QUESTIONS = {
    # agent: (first version with the command, the command, the text of a negative answer);
    # older versions might take the command as work
    "codex": ((0, 101), ("login", "status"), "Not logged in"),
    "claude_code": ((2, 1, 105), ("auth", "status"), '"loggedIn": false'),
}
LOGIN_COMMANDS = {"codex": ("login",), "claude_code": ("auth", "login")}

OWN_MODELS = {
    # agent: (pattern of a model server or key of the user's own, in these files or the arguments)
    "codex": (
        r"model_provider|oss_provider|--oss\b|--profile\b|^-p",
        ("{CODEX_HOME}/config.toml", "/etc/codex/config.toml", ".codex/config.toml"),
    ),
    "claude_code": (
        r"apiKeyHelper|ANTHROPIC_|CLAUDE_CODE_USE_|--settings\b",
        (".claude/settings.json", ".claude/settings.local.json"),
    ),
}


class Program(Struct, frozen=True):
    path: str
    version: tuple[int, ...]
    logged_in: bool | None


def find_program(
    provider: Provider, config: ServerConfig, environ: Mapping[str, str]
) -> tuple[str, str | None]:
    wanted = config.provider(provider.name).command or provider.program
    return wanted, shutil.which(str(Path(wanted).expanduser()), path=environ.get("PATH"))


def startable_agents(config: ServerConfig) -> list[str]:
    return [
        name
        for name, provider in every_provider(config.config_dir)
        if name == scripted.PROVIDER.name
        or (isinstance(provider, Provider) and find_program(provider, config, config.environ)[1])
    ]


def ask_agent(
    name: str, program: str, config: ServerConfig, wd: Path, programs: Programs
) -> Program | ShortAnswer:
    """Ask an agent for its version and login; return its answer if that is no version."""
    env = config.provider(name).env
    answer = programs.ask([program, "--version"], is_agent=True, env=env)
    if answer.code == 0 and not answer.text:
        answer = programs.ask([program, "--version"], is_agent=True, with_errors=True, env=env)
    if answer.code is None:
        return answer
    version = find_version(answer.text)
    since, question, no = LOGIN_QUESTIONS.get(name, ((), (), ""))
    if not question or version < since or has_own_model(name, config, wd):
        return Program(program, version, None)
    told = programs.ask([program, *question], is_agent=True, with_errors=True, env=env)
    if told.code == 0:
        return Program(program, version, True)
    return Program(program, version, False if no in told.text else None)


def login_command(name: str, path: str) -> str:
    return shlex.join([path, *LOGIN_COMMANDS.get(name, ())])


def has_own_model(name: str, config: ServerConfig, wd: Path) -> bool:
    pattern, files = OWN_MODELS[name]
    env = {**config.environ, **config.provider(name).env}
    home = env.get("CODEX_HOME") or f"{env.get('HOME') or Path.home()}/.codex"
    texts = list(config.provider(name).args)
    for file in (wd / name.format(CODEX_HOME=home) for name in files):
        with suppress(OSError):
            texts += [file.read_text("utf-8", "replace")] if file.is_file() else []
    return any(re.search(pattern, text) for text in texts)
