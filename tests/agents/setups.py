"""What a real agent needs to run with no account: a stub for a model and a home of its own.

The arguments and variables are those a user would give for a model server of their own, so the
product starts the agents exactly as it does for people.
"""

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.agents.installs import install, path_of

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
    program = install(agent, version)
    prefix = f"CAO_{agent.upper()}"
    return {
        "HOME": str(home),
        "PATH": path_of(program),
        **env,
        f"{prefix}_COMMAND": str(program),
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
    # It makes no helper for its sandbox if its own folder is a temporary one.
    env = {"CODEX_HOME": str(folder), "STUB_KEY": KEY, "TMPDIR": _temporary(home)}
    return tuple(args), env


def _temporary(home: Path) -> str:
    folder = home / "tmp"
    folder.mkdir(exist_ok=True)
    return str(folder)


def _claude_code(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".claude"
    folder.mkdir(exist_ok=True)
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
        # It leaves folders behind where it finds a place for them.
        "TMPDIR": _temporary(home),
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


def _opencode(stub_url: str, home: Path, trusted: Path | None, *, name: str) -> Start:
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{stub_url}/v1", "apiKey": KEY},
        "models": {"m1": {"name": "M1"}},
    }
    settings = {"provider": {"stub": stub}, "model": "stub/m1", "share": "disabled"}
    _write(home / ".config" / name / f"{name}.json", settings)
    return (), {f"{name.upper()}_DISABLE_MODELS_FETCH": "1"}


def _qwen_code(stub_url: str, home: Path, trusted: Path | None) -> Start:
    # It would ask the model for more than the person does.
    memory = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
    ui = {"enableFollowupSuggestions": False, "enableUserFeedback": False}
    _write(home / ".qwen" / "settings.json", {"memory": memory, "ui": ui})
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{stub_url}/v1"}
    return ("--auth-type", "openai", "-m", "stub"), env


def _cline(stub_url: str, home: Path, trusted: Path | None) -> Start:
    name, folder = "openai-compatible", home / ".cline" / "data"
    model = {"provider": name, "apiKey": KEY, "model": "m1", "baseUrl": f"{stub_url}/v1"}
    known = {"settings": model, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    settings = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: known}}
    _write(folder / "settings" / "providers.json", settings)
    # With a folder of its own it starts no server that would outlive it.
    return ("--data-dir", str(folder)), {}


def _pi(stub_url: str, home: Path, trusted: Path | None) -> Start:
    stub = {"baseUrl": f"{stub_url}/v1", "api": "openai-completions", "apiKey": KEY}
    models = {"providers": {"stub": stub | {"models": [{"id": "m1"}]}}}
    _write(home / ".pi" / "agent" / "models.json", models)
    return ("--model", "stub/m1"), {"PI_OFFLINE": "1"}


def _write(file: Path, settings: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings), encoding="utf-8")


def _aider(stub_url: str, home: Path, trusted: Path | None) -> Start:
    # It would ask for what models cost.
    prices = home / ".aider" / "caches" / "model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True, exist_ok=True)
    prices.write_text('{"gpt-4o": {"max_input_tokens": 128000}}', encoding="utf-8")
    return ("--model=openai/gpt-4o", "--no-show-model-warnings", "--no-analytics"), {
        "OPENAI_API_BASE": f"{stub_url}/v1",
        "OPENAI_API_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _goose(stub_url: str, home: Path, trusted: Path | None) -> Start:
    return (), {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "gpt-4o",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_HOST": stub_url,
        "OPENAI_API_KEY": KEY,
    }


KIMI_SETTINGS = """default_model = "stub"
telemetry = false
[providers.stub]
type = "openai"
base_url = "{url}/v1"
api_key = "{key}"
[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 200000
"""


def _kimi_cli(stub_url: str, home: Path, trusted: Path | None) -> Start:
    folder = home / ".kimi-code"
    folder.mkdir(exist_ok=True)
    settings = KIMI_SETTINGS.format(url=stub_url, key=KEY)
    (folder / "config.toml").write_text(settings, encoding="utf-8")
    return (), {}


SETUPS: dict[str, Callable[[str, Path, Path | None], Start]] = {
    "codex": _codex,
    "claude_code": _claude_code,
    "gemini_cli": _gemini_cli,
    "copilot_cli": _copilot_cli,
    "opencode": partial(_opencode, name="opencode"),
    "kilo": partial(_opencode, name="kilo"),
    "qwen_code": _qwen_code,
    "cline": _cline,
    "pi": _pi,
    "aider": _aider,
    "goose": _goose,
    "kimi_cli": _kimi_cli,
}
"""By agent: fills its home for a stub's address; some keep a note of a trusted folder there."""
