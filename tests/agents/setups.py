"""What a real agent needs to run with no account: a stub for a model and a home of its own.

The arguments and variables are those a user would give for a model server of their own, so the
product starts the agents exactly as it does for people.
"""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.agents.installs import install

KEY = "stub-key-0123456789-abcdefghij-0123456789"
# Claude Code remembers the keys it may use by their ends.
KEY_END = KEY[-20:]
Start = tuple[tuple[str, ...], dict[str, str]]
"""The user's own arguments and variables."""


def agent_environment(
    agent: str,
    version: str,
    stub_url: str,
    home: Path,
    trusted: Path | None,
    more_args: tuple[str, ...] = (),
    *,
    signed_in: bool = True,
) -> dict[str, str]:
    """Install an agent, fill its home and return what makes a server start it against a stub.

    `trusted` is the folder that a person has said yes to before, where the agent keeps such a note.
    An agent that is not signed in has no key, and the stub answers when it calls its vendor.
    """
    home.mkdir(parents=True, exist_ok=True)
    args, env = SETUPS[agent](stub_url, home, trusted)
    if not signed_in:
        args = ()
        of_the_stub = ("API_KEY", "PROVIDER", "OFFLINE")
        env = {name: env[name] for name in env if not any(word in name for word in of_the_stub)}
        env["HTTPS_PROXY"] = stub_url
    prefix = f"CAO_{agent.upper()}"
    return {
        "HOME": str(home),
        **env,
        f"{prefix}_COMMAND": str(install(agent, version)),
        f"{prefix}_ARGS": shlex.join((*args, *more_args)),
    }


def _codex(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    # Few tries, so that a failing model fails a turn in seconds.
    server = (
        f'{{name="stub",base_url="{stub_url}/v1",wire_api="responses",env_key="STUB_KEY",'
        "request_max_retries=1,stream_max_retries=2}"
    )
    settings = (
        "model_provider=stub",
        f"model_providers.stub={server}",
        "analytics.enabled=false",
        # The question tool is for planning alone otherwise.
        "features.default_mode_request_user_input=true",
    )
    # A model that is not known is not offered a migration to a newer one.
    args = ["-m", "stub-model"]
    for setting in settings:
        args += ["-c", setting]
    return tuple(args), {"CODEX_HOME": str(folder), "STUB_KEY": KEY}


def _claude_code(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".claude"
    folder.mkdir(exist_ok=True)
    # It leaves folders behind where it finds a place for them.
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    projects = {str(trusted): {"hasTrustDialogAccepted": True, "allowedTools": []}}
    past_the_dialogs = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [KEY_END], "rejected": []},
        "projects": projects if trusted else {},
    }
    (folder / ".claude.json").write_text(json.dumps(past_the_dialogs), encoding="utf-8")
    return (), {
        "TMPDIR": str(temporary),
        "CLAUDE_CONFIG_DIR": str(folder),
        "ANTHROPIC_BASE_URL": stub_url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }


def _gemini_cli(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    model = ("-m", "gemini-2.5-flash")
    return model, {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": stub_url}


def _copilot_cli(stub_url: str, home: Path, trusted: Path | None) -> Start:
    return (), {
        "COPILOT_PROVIDER_BASE_URL": f"{stub_url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


def _opencode(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{stub_url}/v1", "apiKey": KEY},
        "models": {"m1": {"name": "M1"}},
    }
    settings = {"provider": {"stub": stub}, "model": "stub/m1", "share": "disabled"}
    (folder / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    return (), {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


SETUPS: dict[str, Callable[[str, Path, Path | None], Start]] = {
    "codex": _codex,
    "claude_code": _claude_code,
    "gemini_cli": _gemini_cli,
    "copilot_cli": _copilot_cli,
    "opencode": _opencode,
}
"""By agent: fills its home for a stub's address; some keep a note of a trusted folder there."""
