"""What a real agent needs to run with no account: a stub for a model and a home of its own.

The arguments and variables are those a user would give for a model server of their own, so the
product starts the agents exactly as it does for people.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.agents.installs import install

KEY = "stub-key-0123456789-abcdefghij-0123456789"
# Claude Code remembers the keys it may use by their ends.
KEY_END = KEY[-20:]


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """How to start one agent."""

    agent: str
    program: Path
    args: tuple[str, ...]
    """The user's own arguments, as in CAO_CODEX_ARGS."""
    env: Mapping[str, str]
    """Set on top of PATH and the language."""

    def server_environ(self) -> dict[str, str]:
        """Return the variables that make a server start its agents so."""
        prefix = f"CAO_{self.agent.upper()}"
        return {
            **self.env,
            f"{prefix}_COMMAND": str(self.program),
            f"{prefix}_ARGS": shlex.join(self.args),
        }


def agent_environment(
    agent: str, version: str, stub_url: str, home: Path, trusted: Path | None
) -> AgentSetup:
    """Install an agent, fill its home and return how it is started against a stub.

    `trusted` is the folder that a person has said yes to before, where the agent keeps such a note.
    """
    match agent:
        case "codex":
            args, env = _codex(stub_url, home)
        case "claude_code":
            args, env = (), _claude_code(stub_url, home, trusted)
        case "gemini_cli":
            args, env = ("-m", "gemini-2.5-flash"), _gemini_cli(stub_url, home)
        case "copilot_cli":
            args, env = (), _copilot_cli(stub_url, home)
        case "opencode":
            args, env = (), _opencode(stub_url, home, "opencode")
        case "kilo":
            args, env = (), _opencode(stub_url, home, "kilo")
        case "qwen_code":
            args, env = ("--auth-type", "openai", "-m", "stub"), _qwen_code(stub_url, home)
        case "cline":
            args, env = _cline(stub_url, home)
        case "pi":
            args, env = ("--model", "stub/m1"), _pi(stub_url, home)
        case _:
            raise ValueError(f"there is no setup for {agent!r}")
    return AgentSetup(agent, install(agent, version), args, env)


def _codex(stub_url: str, home: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    folder = home / ".codex"
    folder.mkdir(parents=True, exist_ok=True)
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
    env = {"HOME": str(home), "CODEX_HOME": str(folder), "STUB_KEY": KEY}
    return tuple(args), env


def _claude_code(stub_url: str, home: Path, trusted: Path | None) -> dict[str, str]:
    folder = home / ".claude"
    folder.mkdir(parents=True, exist_ok=True)
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
    return {
        "HOME": str(home),
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


def _gemini_cli(stub_url: str, home: Path) -> dict[str, str]:
    folder = home / ".gemini"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return {"HOME": str(home), "GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": stub_url}


def _copilot_cli(stub_url: str, home: Path) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    return {
        "HOME": str(home),
        "COPILOT_PROVIDER_BASE_URL": f"{stub_url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


def _opencode(stub_url: str, home: Path, name: str) -> dict[str, str]:
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{stub_url}/v1", "apiKey": KEY},
        "models": {"m1": {"name": "M1"}},
    }
    settings = {"provider": {"stub": stub}, "model": "stub/m1", "share": "disabled"}
    _write(home / ".config" / name / f"{name}.json", settings)
    return {"HOME": str(home), f"{name.upper()}_DISABLE_MODELS_FETCH": "1"}


def _qwen_code(stub_url: str, home: Path) -> dict[str, str]:
    # It would ask the model for more than the person does.
    memory = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
    ui = {"enableFollowupSuggestions": False, "enableUserFeedback": False}
    _write(home / ".qwen" / "settings.json", {"memory": memory, "ui": ui})
    return {"HOME": str(home), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{stub_url}/v1"}


def _cline(stub_url: str, home: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    name, folder = "openai-compatible", home / ".cline" / "data"
    model = {"provider": name, "apiKey": KEY, "model": "m1", "baseUrl": f"{stub_url}/v1"}
    known = {"settings": model, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    settings = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: known}}
    _write(folder / "settings" / "providers.json", settings)
    # With a folder of its own it starts no server that would outlive it.
    return ("--data-dir", str(folder)), {"HOME": str(home)}


def _pi(stub_url: str, home: Path) -> dict[str, str]:
    stub = {"baseUrl": f"{stub_url}/v1", "api": "openai-completions", "apiKey": KEY}
    models = {"providers": {"stub": stub | {"models": [{"id": "m1"}]}}}
    _write(home / ".pi" / "agent" / "models.json", models)
    return {"HOME": str(home), "PI_OFFLINE": "1"}


def _write(file: Path, settings: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings), encoding="utf-8")
