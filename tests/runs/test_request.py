"""What a run is asked to do, from all the places where it can be said."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.runs.request import (
    RunRequest,
    build_request,
    check_project_file,
    read_all_settings,
)
from cli_agent_orchestrator.settings.config import RunConfig


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
    rules = request.config.rules
    assert (rules.max_rounds, rules.max_review_cycles) == (2, 3)
    assert (request.config.handoff.poll_seconds, request.config.handoff.idle_grace) == (4, 5)
    named = ("MAX_ROUNDS", "MAX_REVIEW_CYCLES", "POLL_SECONDS", "IDLE_GRACE_SECONDS")
    words = ["option", "environment", "task", "file"]
    assert [request.sources[name] for name in named] == words
    assert request.insisted == {**options, "MAX_ROUNDS": "2", "MAX_REVIEW_CYCLES": "3"}


@pytest.mark.parametrize("text", ["", "no settings", "*** SCENARIO TEST ***"])
def test_a_task_that_cannot_be_read_or_has_no_settings_sets_none(tmp_path: Path, text: str) -> None:
    request = build_request(project(tmp_path, task=text), {})
    assert "task" not in request.sources.values()


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
        return RunRequest(config, insisted=settings).chosen_provider(role)

    assert chosen("tester") == ""
    assert chosen("tester", TESTER_PROVIDER="codex") == "codex"
    assert chosen("analyst", TESTER_PROVIDER="codex") == ""
    both = {"PROVIDER": "scripted", "ANALYST_PROVIDER": "codex"}
    assert (chosen("analyst", **both), chosen("designer", **both)) == ("codex", "scripted")


GATE = '[gates]\ntests = "make test"\n'


class TestCommandsOfTheProject:
    """A file in the project may be anybody's, however it was named."""

    def commands(self, options: dict[str, str], file: Path) -> dict[str, str]:
        request = build_request(options, {}, str(file))
        assert "make test" in request.settings["GATES"]
        return dict(request.project_commands)

    def test_a_file_in_the_work_folder_counts_however_it_is_named(self, tmp_path: Path) -> None:
        work = tmp_path / "work"
        (work / "ci").mkdir(parents=True)
        options = project(work, GATE)
        other = work / "ci" / "cao.toml"
        other.write_text(GATE, encoding="utf-8")
        link = tmp_path / "mine.toml"
        link.symlink_to(other)
        (tmp_path / "outside.toml").write_text(GATE, encoding="utf-8")
        outwards = work / "ci" / "outwards.toml"
        outwards.symlink_to(tmp_path / "outside.toml")
        for file in (work / "cao.toml", work / "ci" / ".." / "cao.toml", other, link, outwards):
            assert self.commands(options, file) == {"GATES": "tests=make test"}, file
        named = build_request(options, {}, str(other)).project_file
        assert (named, build_request(options, {}).project_file) == (str(other), "")
        assert build_request(options, {}, str(work / "cao.toml")).project_file == ""

    @pytest.mark.parametrize("is_repository", [True, False])
    def test_so_does_one_in_the_repository_around_it(
        self, tmp_path: Path, is_repository: bool
    ) -> None:
        work = tmp_path / "shop" / "web"
        work.mkdir(parents=True)
        if is_repository:
            (tmp_path / "shop" / ".git").mkdir()
        file = tmp_path / "shop" / "cao.toml"
        file.write_text(GATE, encoding="utf-8")
        commands = {"GATES": "tests=make test"} if is_repository else {}
        assert self.commands(project(work), file) == commands

    def test_so_does_one_that_leads_the_run_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
        work.mkdir()
        elsewhere.mkdir()
        task = project(work, f'wd = "../elsewhere"\n{GATE}')["PROMPT_FILE"]
        monkeypatch.chdir(work)
        file = Path("cao.toml")
        assert self.commands({"PROMPT_FILE": task}, file) == {"GATES": "tests=make test"}


def test_a_named_file_is_read_instead_of_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").write_text("max_rounds = 5\n", encoding="utf-8")
    (tmp_path / "other.toml").write_text("poll_seconds = 1\n", encoding="utf-8")
    settings = read_all_settings({"WD": str(tmp_path)}, {}, str(tmp_path / "other.toml"))
    assert settings == {"WD": str(tmp_path), "POLL_SECONDS": "1"}
    with pytest.raises(UsageError, match="cannot be read"):
        read_all_settings({}, {}, str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"STATE_FILE": "/etc/passwd"}, "state_file"),
        ({"STATE_FILE": "../other/state.json"}, "state_file"),
        ({"WD": "/"}, "wd"),
        ({"RESUME": "0"}, "resume"),
        ({"MISSING": "skip"}, "missing"),
        ({"PROMPT_FILE": "/etc/shadow"}, "prompt_file"),
        ({"AGENT_PERMISSIONS": "full"}, "agent_permissions"),
        ({"AGENT_PERMISSIONS": " FULL "}, "agent_permissions"),
        ({"AGENT_PERMISSIONS": "workspace"}, "agent_permissions"),
    ],
)
def test_a_cloned_project_cannot_reach_out_of_its_folder(
    tmp_path: Path, settings: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=f"{named} in cao.toml"):
        check_project_file(settings, tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        *(".", ".git/config", "task.md", "cao.toml", "package.json", "state/run.json", ".tmp"),
        *(".tmp/run", ".tmp/.json", ".tmp/../package.json", "link/run.json", ".tmp/away/run.json"),
    ],
)
def test_a_cloned_project_cannot_name_another_file_of_its_own_as_the_state(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".tmp").mkdir()
    (tmp_path / "link").symlink_to(".git")
    (tmp_path / ".tmp" / "away").symlink_to("../.git")
    with pytest.raises(ConfigError, match=r"state_file in cao\.toml.*a \.json file below \.tmp"):
        check_project_file({"STATE_FILE": value}, tmp_path)


def test_a_project_may_set_what_stays_inside(tmp_path: Path) -> None:
    check_project_file(
        {
            "STATE_FILE": ".tmp/state/run.json",
            "PROMPT_FILE": str(tmp_path / "task.md"),
            "MAX_ROUNDS": "2",
            "AGENT_PERMISSIONS": "ask",
        },
        tmp_path,
    )


@pytest.mark.parametrize("flow", ["/tmp/mine.toml", "../mine.toml", "mine.toml", "~/x/y"])
def test_a_project_names_a_flow_only_by_its_name(tmp_path: Path, flow: str) -> None:
    (tmp_path / "cao.toml").write_text(f'flow = "{flow}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"flow in cao\.toml .*the name of a flow"):
        read_all_settings({"WD": str(tmp_path)}, {}, None)
