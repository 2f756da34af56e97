"""Flows as people see them."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.flow import as_text, script_for
from cli_agent_orchestrator.cli.flow import flow as command
from cli_agent_orchestrator.errors import FlowError
from cli_agent_orchestrator.pipeline.flow import (
    Amount,
    BlockSource,
    Flow,
    FlowSource,
    Repeat,
    StageKind,
)
from cli_agent_orchestrator.pipeline.flow_file import (
    BLOCK_KEYS,
    PACKAGED,
    PLACEHOLDERS,
    ROLE_KEYS,
    STAGE_KEYS,
    packaged_flow,
    read_flow,
)
from cli_agent_orchestrator.scripted_agent.script import parse_script
from tests.pipeline.test_flow_file import PROMPT, TEMPLATES, TEXT

DOCUMENTATION = Path(__file__).parent.parent.parent / "docs" / "flows.md"

MINE = read_flow(FlowSource(TEXT, TEMPLATES), "mine", "mine.toml")
FLOWS = [*map(packaged_flow, PACKAGED), MINE]
flows = pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)


def cao(tmp_path: Path, *words: str) -> str:
    """Run `cao flow` in an empty project, with a config folder of its own."""
    environ = {"CAO_CONFIG_DIR": str(tmp_path / "config")}
    done = CliRunner(env=environ).invoke(command, [*words, "--wd", str(tmp_path)])
    if done.exception is not None:
        raise done.exception
    return done.output


@flows
def test_the_text_names_every_stage_role_and_block(flow: Flow) -> None:
    text = as_text(flow)
    names = [stage.name for stage in flow.stages] + [role.name for role in flow.roles]
    titles = [block.title for role in flow.roles for block in role.blocks]
    assert all(name in text for name in names + titles)
    assert f"A FAIL starts the next round at {flow.first.name}." in text


def test_the_way_back_is_drawn() -> None:
    assert as_text(MINE).split("\n")[2:6] == [
        "  ┌▶ writing   writer ⇄ critic",
        "  ├─ trying    user says PASS or FAIL",
        "  └─ checking  a command of yours says PASS or FAIL (--gate)",
        "     done      PASS",
    ]


def test_flows_are_listed_with_what_is_wrong_with_them(tmp_path: Path) -> None:
    folder = tmp_path / ".cao" / "flows"
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text("x = 1\n", encoding="utf-8")
    lines = cao(tmp_path, "ls").splitlines()
    assert [line.split()[0] for line in lines] == ["loop", "pair", "solo", "broken"]
    assert "x: unknown key `x`" in lines[-1]


def test_a_fault_is_told_before_anything_is_started(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.replace('"user"', '"nobody"'), encoding="utf-8")
    with pytest.raises(FlowError, match=r"bad\.toml, stages\[2\]\.tester: unknown role `nobody`"):
        cao(tmp_path, "check", str(path))


def write_flow(folder: Path, text: str) -> Path:
    (folder / "mine").mkdir()
    for role, template in TEMPLATES.items():
        (folder / "mine" / f"{role}.md").write_text(template, encoding="utf-8")
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return folder / "mine.toml"


def write_own(folder: Path, profile: str) -> Path:
    """Write the flow MINE with profiles for the roles that have none of their name."""
    text = TEXT.replace("[roles.writer]", f'[roles.writer]\nprofile = "{profile}"')
    text = text.replace("[roles.user]", '[roles.user]\nprofile = "tester"')
    return write_flow(folder, text)


@pytest.mark.parametrize("word", ["check", "show"])
def test_an_unknown_profile_is_a_fault_with_its_place(tmp_path: Path, word: str) -> None:
    path = write_own(tmp_path, "nosuch")
    expected = r"roles\.writer\.profile: unknown profile `nosuch`; expected .*programmer"
    with pytest.raises(FlowError, match=expected):
        cao(tmp_path, word, str(path))


@pytest.mark.parametrize("where", ["config/profiles", ".cao/profiles"])
def test_a_profile_of_the_users_or_the_projects_own_is_known(tmp_path: Path, where: str) -> None:
    path = write_own(tmp_path, "mine")
    (tmp_path / where).mkdir(parents=True)
    (tmp_path / where / "mine.md").write_text("---\nname: mine\n---\nYou.\n", encoding="utf-8")
    assert "(profile mine)" in cao(tmp_path, "show", str(path))


@flows
def test_the_script_for_a_flow_has_a_rule_for_each_role(flow: Flow) -> None:
    script = parse_script(script_for(flow), "script.toml")
    assert [rule.contains for rule in script.rule] == [
        f"/{role.response_file}" for role in flow.roles
    ]


def test_the_flow_in_the_documentation_is_a_good_one() -> None:
    page = DOCUMENTATION.read_text(encoding="utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    flow = read_flow(FlowSource(text, dict.fromkeys(("designer", "critic"), PROMPT)), "x", "x")
    assert [stage.kind for stage in flow.stages] == [StageKind.WORK, StageKind.GATE]
    for word in (
        *STAGE_KEYS,
        *ROLE_KEYS,
        *BLOCK_KEYS,
        *BlockSource,
        *Amount,
        *Repeat,
        *PLACEHOLDERS,
    ):
        assert re.search(rf"\b{word}\b", page), word
