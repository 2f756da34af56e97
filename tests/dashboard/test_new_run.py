"""The page that starts a run."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator._internal.dashboard.views.new_run import (
    MOST_FOLDERS,
    FlowOffered,
    new_run,
)
from cli_agent_orchestrator._internal.settings.table import AGENTS, BY_NAME
from tests.dashboard.view_data import HOSTILE, check_page, part_of

FLOWS = [FlowOffered("loop", "all five"), FlowOffered("solo", "")]


def test_the_fields_are_those_of_a_new_run() -> None:
    page = new_run(["/home/ada/shop", "/home/ada/other"], FLOWS)

    check_page(page)
    form = part_of(page, "new")
    assert form.of("form")[0]["data-post"] == "/runs"
    assert form.of("form")[0]["data-body"] == '{"resume": false}'
    assert form.of("form")[0]["data-then"] == "/dashboard/runs/{id}"
    names = [str(one["name"]) for kind in ("input", "textarea", "select") for one in form.of(kind)]
    settings = [name.removeprefix("settings.") for name in names if "." in name]
    assert {name for name in names if "." not in name} == {"wd", "task"}
    assert {"FLOW", "PROVIDER", "GATES", "TESTER_PROVIDER"} <= {*settings}
    assert {*settings} <= BY_NAME.keys()


def test_folders_flows_and_agents_are_offered() -> None:
    form = part_of(new_run(["/home/ada/shop", "/home/ada/other"], FLOWS), "new")

    offered = [one.get("value") for one in form.of("option")]
    assert offered[:2] == ["/home/ada/shop", "/home/ada/other"]
    assert {"loop", "solo", *AGENTS} <= {*offered}
    assert form.of("input")[0]["value"] == "/home/ada/shop"
    assert "loop: all five" in form.written
    assert form.written.startswith("New runTask# Task")


def test_without_earlier_runs_the_folder_is_empty() -> None:
    form = part_of(new_run([], FLOWS), "new")

    assert form.of("input")[0].get("value") is None


def test_only_the_last_folders_are_offered() -> None:
    form = part_of(new_run([f"/f{n}" for n in range(50)], FLOWS), "new")

    assert sum(str(one["value"]).startswith("/f") for one in form.of("option")) == MOST_FOLDERS


@given(st.lists(HOSTILE), HOSTILE, HOSTILE)
def test_no_name_breaks_the_page(folders: list[str], flow: str, described: str) -> None:
    check_page(new_run(folders, [FlowOffered(flow, described)]))
