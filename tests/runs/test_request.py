"""What a run is asked to do, from all the places where it can be said."""

from pathlib import Path

import pytest

from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.request import RunRequest, build_request
from cli_agent_orchestrator.errors import ConfigError, PromptError


def project(folder: Path, settings: str = "", task: str = "# Task\nMend it.\n") -> dict[str, str]:
    """Make a project and return the options that name it and its task."""
    (folder / "cao.toml").write_text(settings, encoding="utf-8")
    (folder / "task.md").write_text(task, encoding="utf-8")
    return {"WD": str(folder), "PROMPT_FILE": str(folder / "task.md")}


def test_options_come_before_the_environment_the_task_and_the_file(tmp_path: Path) -> None:
    options = project(
        tmp_path,
        "max_rounds = 5\nmax_review_cycles = 5\npoll_seconds = 5\nidle_grace_seconds = 5\n",
        "---\nmax_rounds: 4\nmax_review_cycles: 4\npoll_seconds: 4\n---\n# Task\nMend it.\n",
    )
    request = build_request(
        {**options, "MAX_ROUNDS": "2"}, {"MAX_ROUNDS": "3", "MAX_REVIEW_CYCLES": "3"}
    )
    limits = request.config.rules.limits
    assert (limits.max_rounds, limits.max_review_cycles) == (2, 3)
    assert (request.config.handoff.poll_seconds, request.config.handoff.idle_grace) == (4, 5)
    named = ("MAX_ROUNDS", "MAX_REVIEW_CYCLES", "POLL_SECONDS", "IDLE_GRACE_SECONDS")
    words = ["option", "environment", "task", "file"]
    assert [request.sources[name] for name in named] == words
    assert request.insisted == {**options, "MAX_ROUNDS": "2", "MAX_REVIEW_CYCLES": "3"}


@pytest.mark.parametrize("text", ["", "no settings", "*** SCENARIO TEST ***"])
def test_a_task_that_cannot_be_read_or_has_no_settings_sets_none(tmp_path: Path, text: str) -> None:
    request = build_request(project(tmp_path, task=text), {})
    assert "task" not in request.sources.values()


def test_a_task_given_as_text_has_settings_too(tmp_path: Path) -> None:
    text = "---\n{}\n---\n# Task\nMend it.\n"
    options = {"WD": str(tmp_path)}
    request = build_request({**options, "PROMPT": text.format("max_rounds: 4")}, {})
    assert request.sources["MAX_ROUNDS"] == "task"
    with pytest.raises(PromptError, match="PROMPT, line 2: a task cannot set gates"):
        build_request({**options, "PROMPT": text.format("gates: true")}, {})


@pytest.mark.parametrize(
    ("options", "environ", "source"),
    [
        ({"API": "http://localhost:1"}, {"CAO_API": "http://localhost:2"}, "option"),
        ({}, {"CAO_API": "http://localhost:1", "API": "http://localhost:2"}, "environment"),
        ({}, {}, "file"),
    ],
)
def test_the_server_is_the_one_that_was_named_first(
    tmp_path: Path, options: dict[str, str], environ: dict[str, str], source: str
) -> None:
    given = project(tmp_path, 'api = "http://localhost:1"\n')
    request = build_request({**given, **options}, environ)
    assert request.config.api == "http://localhost:1"
    assert request.sources["API"] == source


def test_a_cloned_project_cannot_name_a_server_elsewhere(tmp_path: Path) -> None:
    options = project(tmp_path, 'api = "http://evil.example:9889"\n')
    with pytest.raises(ConfigError, match=r"api in cao\.toml"):
        build_request(options, {})
    named = build_request(options, {}, str(tmp_path / "cao.toml"))
    assert named.config.api == "http://evil.example:9889"


def test_agents_are_chosen_for_all_roles_or_for_some(tmp_path: Path) -> None:
    def chosen(role: str, **settings: str) -> str:
        config = RunConfig.from_env({"WD": str(tmp_path), **settings})
        return RunRequest(config, settings).chosen_provider(role)

    assert chosen("tester") == ""
    assert chosen("tester", TESTER_PROVIDER="codex") == "codex"
    assert chosen("analyst", TESTER_PROVIDER="codex") == ""
    both = {"PROVIDER": "scripted", "ANALYST_PROVIDER": "codex"}
    assert (chosen("analyst", **both), chosen("designer", **both)) == ("codex", "scripted")
