"""What commands know of the user's machine: the server's settings and its token."""

import os
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.config import ServerConfig, config_folder
from cli_agent_orchestrator.errors import ConfigError


def read_server_config(environ: Mapping[str, str]) -> ServerConfig:
    """Return the server's settings: the environment, and the user's own configuration file."""
    file = config_folder(environ) / "config.toml"
    user_file: dict[str, Any] = {}
    if file.exists():
        try:
            user_file = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(str(file), "not readable", f"a TOML file ({error})") from None
    return ServerConfig.from_env(environ, user_file)


def make_token(state_dir: Path) -> str:
    """Return the token of a state folder; it is made at the first start, for its owner alone."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = state_dir / "token"
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_urlsafe(32))
    except FileExistsError:
        file.chmod(0o600)
    return file.read_text(encoding="utf-8").strip()
