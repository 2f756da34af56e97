"""What a server has of the user's own machine: its settings and its token."""

import os
import re
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.files import Folder
from ..errors import UsageError
from ..notices.decide import TABLE, NoticeSettings, read_notice_settings
from ..settings.config import ServerConfig, check_state_folder, config_folder
from ..settings.values import read_own_file

MAX_TOKEN = 1000
TOKEN_PATTERN = rb"[!-~]{16,%d}" % MAX_TOKEN
"""What can stand in a header and cannot be guessed."""


def read_server_config(environ: Mapping[str, str]) -> ServerConfig:
    """Return the server's settings: the environment, and the user's own configuration file."""
    return ServerConfig.from_env(environ, read_user_file(environ))


# Any: what a TOML file holds
def read_user_file(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what the user's own configuration file holds; nothing if there is none."""
    file = config_folder(environ) / "config.toml"
    return read_own_file(file) if file.exists() else {}


def read_notices(environ: Mapping[str, str]) -> NoticeSettings:
    """Return who is told what of runs: the user's own configuration file alone says it."""
    return read_notice_settings(read_user_file(environ).get(TABLE, {}))


def make_token(state_dir: Path) -> str:
    """Return the token of a state folder; it is made at the first start, for its owner alone."""
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
                # New, or left empty by a crash: an empty token would let everybody in.
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
