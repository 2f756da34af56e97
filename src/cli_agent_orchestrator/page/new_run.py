"""The page that starts a run: a form whose fields are those of `POST /runs`."""

import json
from collections.abc import Collection, Iterator, Sequence

from ..core.models import BUILT_IN
from ..pipeline.flow import Flow
from ..pipeline.task import TEST_HEADING
from ..settings.table import AGENTS, BY_NAME, PROVIDER_SUFFIX
from ..show.markup import Child, Markup, joined, tag
from .words import HOME, Page, Part, name

MOST_FOLDERS = 20
FOLDER_NOTE = (
    "The whole path, on the server's machine. A run that is unfinished there is set aside, and can "
    "be resumed."
)
TASK_NOTE = (
    f"What is to be done. Below a line {TEST_HEADING} you can say what the tester does; it may be "
    "left out."
)
GATE_NOTE = (
    "A command that cao runs itself and believes instead of an agent's word: NAME=COMMAND. The "
    "flows pair and solo need one."
)
TREE_NOTE = "Your folder stays as it is until you bring the work into it with "
SETTING = "settings.{}"
"""Names a field that becomes a setting of the run; one that is left empty is not sent."""
LONGEST_PATH = 4096
FIELD_WORDS = {"working directory": "Project folder:"}
"""What the server calls something, and how it is called here."""
LONGEST_DESCRIPTION = 120
ROLES = tuple(
    setting.removesuffix(PROVIDER_SUFFIX).lower()
    for setting in BY_NAME
    if setting.endswith(PROVIDER_SUFFIX)
)
"""The roles that have a setting of their own for their agent."""


def new_run(folders: Sequence[str], flows: Sequence[Flow], installed: Collection[str]) -> Page:
    """Return the page; `folders` are those of earlier runs, the newest first.

    `installed` are the agents that can be started.
    """
    way = tag("nav", tag("a", "All runs", href=HOME), id="way", class_="way", aria_label="Way back")
    start = tag(
        "button",
        "Start the run",
        class_="button button-main",
        type="submit",
        data_busy="Starting …",
    )
    form = tag(
        "form",
        *_work(folders, flows),
        *_agents(installed),
        *_limits(),
        tag("p", class_="problem", role="alert", data_problem=True),
        start,
        class_="form new-run",
        data_post="/runs",
        # Never the one that was left unfinished in the folder.
        data_body=json.dumps({"resume": False}),
        data_then=f"{HOME}/runs/{{id}}",
        data_words=json.dumps(FIELD_WORDS),
    )
    new = tag("div", tag("h1", "New run"), form, id="new")
    return Page("New run", (Part("way", way), Part("new", new)))


def _field(label: str, field: Markup, number: str, note: Child = None) -> Markup:
    told = tag("p", note, class_="muted") if note else None
    return tag("div", tag("label", label, for_=number), field, told, class_="field")


def _work(folders: Sequence[str], flows: Sequence[Flow]) -> Iterator[Markup]:
    """Yield the fields that say what is done, where, and by which flow."""
    task = tag("textarea", id="task-text", name="task", rows=10, required=True, spellcheck="true")
    first, heading, rest = TASK_NOTE.partition(TEST_HEADING)
    yield _field("Task", task, "task-text", joined((first, tag("code", heading), rest)))
    known = (tag("option", value=folder) for folder in folders[:MOST_FOLDERS])
    folder = tag(
        "input",
        id="folder",
        name="wd",
        required=True,
        maxlength=LONGEST_PATH,
        list="folders",
        value=folders[0] if folders else None,
        autocomplete="off",
        spellcheck="false",
    )
    both = joined((folder, tag("datalist", *known, id="folders")))
    yield _field("Project folder", both, "folder", FOLDER_NOTE)
    options = []
    for flow in flows:
        described = flow.description[:LONGEST_DESCRIPTION]
        words = f"{name(flow.name)}: {described}" if described else name(flow.name)
        options.append(tag("option", words, value=flow.name, selected=flow is flows[0]))
    chosen = tag("select", *options, id="flow", name=SETTING.format("FLOW"))
    yield _field("Flow", chosen, "flow", "Who works, and in which order.")


def _agents(installed: Collection[str]) -> Iterator[Markup]:
    """Yield the fields that say which agent works, for all roles or for one."""
    known = [agent for agent in AGENTS if agent in installed]
    usual = _choose("provider", "PROVIDER", installed, known[0] if known else BUILT_IN)
    yield _field("Agent", usual, "provider")
    roles = (
        _field(
            f"Agent of {role.replace('_', ' ')}",
            _choose(f"provider-{role}", f"{role.upper()}{PROVIDER_SUFFIX}", installed),
            f"provider-{role}",
        )
        for role in ROLES
    )
    yield tag("details", tag("summary", "Another agent for a role"), *roles)


def _choose(number: str, setting: str, installed: Collection[str], chosen: str = "") -> Markup:
    options = []
    if not chosen:
        options.append(tag("option", "the same as above", value="", selected=True))
    for agent in AGENTS:
        words = agent if agent in installed or agent == BUILT_IN else f"{agent} (not installed)"
        options.append(tag("option", words, value=agent, selected=agent == chosen))
    return tag("select", *options, id=number, name=SETTING.format(setting))


def _limits() -> Iterator[Markup]:
    """Yield the fields for a gate, the rounds, and a work tree."""
    gate = tag(
        "input",
        id="gate",
        name=SETTING.format("GATES"),
        maxlength=LONGEST_PATH,
        placeholder="tests=make test",
        autocomplete="off",
        spellcheck="false",
    )
    yield _field("Gate (optional)", gate, "gate", GATE_NOTE)
    rounds = tag(
        "input",
        id="max-rounds",
        name=SETTING.format("MAX_ROUNDS"),
        type="number",
        min=1,
        placeholder=BY_NAME["MAX_ROUNDS"].default,
    )
    yield _field("Rounds at most (optional)", rounds, "max-rounds")
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
    yield tag("div", label, told, class_="field check")
