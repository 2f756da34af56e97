"""The page that starts a run: a form whose fields are those of `POST /runs`."""

import json
from collections.abc import Collection, Sequence

from ..core.models import BUILT_IN
from ..pipeline.flow import Flow
from ..pipeline.task import TEST_HEADING
from ..settings.table import AGENTS, BY_NAME, PROVIDER_SUFFIX
from ..show.markup import Attribute, Child, Markup, joined, tag
from .words import ALL_RUNS, HOME, Page, Part, name, way_back

MOST_FOLDERS = 20
FOLDER_NOTE = (
    "The whole path, on the server's machine. A run that is unfinished there is set aside, and can "
    "be resumed."
)
TASK_NOTE = joined(
    (
        "What is to be done. Below a line ",
        tag("code", TEST_HEADING),
        " you can say what the tester does; it may be left out.",
    )
)
GATE_NOTE = (
    "A command that cao runs itself and believes instead of an agent's word: NAME=COMMAND. The "
    "flows pair and solo need one."
)
TREE_NOTE = "Your folder stays as it is until you bring the work into it with "
SETTING = "settings.{}"
"""The name of a field that becomes a setting of the run; an empty one is not sent."""
LONGEST_PATH = 4096
FIELD_WORDS = {"working directory": "Project folder:"}
"""The server's words, and those of the form."""
LONGEST_DESCRIPTION = 120
ROLES = tuple(
    setting.removesuffix(PROVIDER_SUFFIX).lower()
    for setting in BY_NAME
    if setting.endswith(PROVIDER_SUFFIX)
)
Choice = tuple[str, str]


def new_run(folders: Sequence[str], flows: Sequence[Flow], installed: Collection[str]) -> Page:
    task = tag("textarea", id="task-text", name="task", rows=10, required=True, spellcheck="true")
    known = (tag("option", value=folder) for folder in folders[:MOST_FOLDERS])
    folder = _line("folder", "wd", required=True, list="folders", value=next(iter(folders), None))
    described = [(flow.name, flow.description[:LONGEST_DESCRIPTION]) for flow in flows]
    flow_words = [(one, ": ".join(filter(None, (name(one), words)))) for one, words in described]
    agents = [
        (agent, agent if agent in installed or agent == BUILT_IN else f"{agent} (not installed)")
        for agent in dict.fromkeys((*AGENTS, *installed))
    ]
    usual = next((agent for agent in AGENTS if agent in installed), BUILT_IN)
    roles = [
        _field(
            f"Agent of {role.replace('_', ' ')}",
            _choose(
                f"provider-{role}",
                f"{role.upper()}{PROVIDER_SUFFIX}",
                [("", "the same as above"), *agents],
                "",
            ),
            f"provider-{role}",
        )
        for role in ROLES
    ]
    gate = _line("gate", SETTING.format("GATES"), placeholder="tests=make test")
    rounds = tag(
        "input",
        id="max-rounds",
        name=SETTING.format("MAX_ROUNDS"),
        type="number",
        min=1,
        placeholder=BY_NAME["MAX_ROUNDS"].default,
    )
    form = tag(
        "form",
        _field("Task", task, "task-text", TASK_NOTE),
        _field(
            "Project folder",
            joined((folder, tag("datalist", *known, id="folders"))),
            "folder",
            FOLDER_NOTE,
        ),
        _field(
            "Flow",
            _choose("flow", "FLOW", flow_words, flows[0].name if flows else ""),
            "flow",
            "Who works, and in which order.",
        ),
        _field("Agent", _choose("provider", "PROVIDER", agents, usual), "provider"),
        tag("details", tag("summary", "Another agent for a role"), *roles),
        _field("Gate (optional)", gate, "gate", GATE_NOTE),
        _field("Rounds at most (optional)", rounds, "max-rounds"),
        _work_tree(),
        tag("p", class_="problem", role="alert", data_problem=True),
        tag(
            "button",
            "Start the run",
            class_="button button-main",
            type="submit",
            data_busy="Starting …",
        ),
        class_="form new-run",
        data_post="/runs",
        # Never the one that was left unfinished in the folder.
        data_body=json.dumps({"resume": False}),
        data_then=f"{HOME}/runs/{{id}}",
        data_words=json.dumps(FIELD_WORDS),
    )
    new = tag("div", tag("h1", "New run"), form, id="new")
    return Page("New run", (way_back(ALL_RUNS), Part("new", new)))


def _field(label: str, field: Markup, number: str, note: Child = None) -> Markup:
    told = tag("p", note, class_="muted") if note else None
    return tag("div", tag("label", label, for_=number), field, told, class_="field")


def _line(number: str, called: str, **more: Attribute) -> Markup:
    return tag(
        "input",
        id=number,
        name=called,
        maxlength=LONGEST_PATH,
        autocomplete="off",
        spellcheck="false",
        **more,
    )


def _choose(number: str, setting: str, choices: Sequence[Choice], chosen: str) -> Markup:
    options = (
        tag("option", words, value=value, selected=value == chosen) for value, words in choices
    )
    return tag("select", *options, id=number, name=SETTING.format(setting))


def _work_tree() -> Markup:
    box = tag(
        "input",
        id="work-tree",
        name=SETTING.format("WORKSPACE"),
        type="checkbox",
        value="worktree",
        aria_describedby="work-tree-note",
    )
    label = tag("label", box, " In a work tree of its own", for_="work-tree")
    told = tag("p", TREE_NOTE, tag("code", "cao apply"), ".", id="work-tree-note", class_="muted")
    return tag("div", label, told, class_="field check")
