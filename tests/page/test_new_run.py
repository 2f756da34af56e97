"""The page that starts a run."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.page.new_run import MOST_FOLDERS, new_run
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.settings.table import AGENTS, BY_NAME
from tests.page.view_data import HOSTILE, check_page, part_of

FLOW = packaged_flow("loop")
FLOWS = [replace(FLOW, description="all five"), replace(FLOW, name="solo", description="")]
INSTALLED = ["claude_code", "scripted"]


def test_the_fields_are_those_of_a_new_run() -> None:
    folders = ["/home/ada/shop", "/home/ada/other"]
    page = new_run(folders, FLOWS, INSTALLED)
    check_page(page)
    read = part_of(page, "new")
    (form,) = read.of("form")
    assert (form["data-post"], form["data-body"]) == ("/runs", '{"resume": false}')
    assert form["data-then"] == "/dashboard/runs/{id}"
    names = {str(one["name"]) for kind in ("input", "textarea", "select") for one in read.of(kind)}
    settings = {name.removeprefix("settings.") for name in names if "." in name}
    assert {name for name in names if "." not in name} == {"wd", "task"}
    assert settings >= {"FLOW", "PROVIDER", "GATES", "TESTER_PROVIDER", "WORKSPACE", "MAX_ROUNDS"}
    assert settings <= BY_NAME.keys()
    offered = [one.get("value") for one in read.of("option")]
    assert offered[:2] == folders
    assert {"loop", "solo", *AGENTS} <= {*offered}
    assert read.of("input")[0]["value"] == folders[0]
    assert "loop: all five" in read.written


def chosen(installed: list[str]) -> list[str | None]:
    form = part_of(new_run([], FLOWS, installed), "new")
    return [one["value"] for one in form.of("option") if "selected" in one and one["value"]]


def test_an_agent_that_is_installed_is_chosen_and_the_others_are_marked() -> None:
    form = part_of(new_run([f"/f{n}" for n in range(50)], FLOWS, INSTALLED), "new")
    assert sum(str(one["value"]).startswith("/f") for one in form.of("option")) == MOST_FOLDERS
    assert chosen(["scripted", "opencode", "claude_code"]) == ["loop", "claude_code"]
    assert chosen(["scripted"]) == chosen([]) == ["loop", "scripted"]
    assert "codex (not installed)" in form.written
    assert "claude_code (" not in form.written
    assert "scripted (" not in form.written


@given(st.lists(HOSTILE), HOSTILE, HOSTILE)
def test_no_name_breaks_the_page(folders: list[str], flow: str, described: str) -> None:
    check_page(new_run(folders, [replace(FLOW, name=flow, description=described)], INSTALLED))
