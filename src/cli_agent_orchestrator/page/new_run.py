"""The page that starts a run: a form whose fields are those of `POST /runs`."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..core.models import BUILT_IN
from ..pipeline.task import TEST_HEADING
from ..settings.table import AGENTS, BY_NAME, PROVIDER_SUFFIX
from ..show.markup import Child, Markup, joined, tag
from .context import Page, Part
from .words import HOME, name

MOST_FOLDERS = 20
FOLDER_NOTE = (
    "The whole path, on the server's machine. A run that is unfinished there is set aside, and can "
    "be resumed."
)
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


@dataclass(frozen=True, slots=True)
class FlowOffered:
    """A flow that a run can be started with."""

    name: str
    description: str


def new_run(
    folders: Sequence[str], flows: Sequence[FlowOffered], installed: Collection[str]
) -> Page:
    """Return the page; `folders` are those of earlier runs, the newest first.

    `installed` are the agents that can be started.
    """
    form = _form(folders, flows, installed)
    return Page("New run", (Part("way", _way()), Part("new", form)))


def _way() -> Markup:
    link = tag("a", "All runs", href=HOME)
    return tag("nav", link, id="way", class_="way", aria_label="Way back")


def _form(
    folders: Sequence[str], flows: Sequence[FlowOffered], installed: Collection[str]
) -> Markup:
    return tag(
        "div",
        tag("h1", "New run"),
        tag(
            "form",
            _task(),
            _folder(folders),
            _flow(flows),
            _agents(installed),
            _gate(),
            _rounds(),
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
        ),
        id="new",
    )


def _field(label: str, field: Markup, number: str, note: Child = None) -> Markup:
    told = tag("p", note, class_="muted") if note else None
    return tag("div", tag("label", label, for_=number), field, told, class_="field")


def _task() -> Markup:
    field = tag("textarea", id="task-text", name="task", rows=10, required=True, spellcheck="true")
    note = joined(
        (
            "What is to be done. Below a line ",
            tag("code", TEST_HEADING),
            " you can say what the tester does; it may be left out.",
        )
    )
    return _field("Task", field, "task-text", note)


def _folder(folders: Sequence[str]) -> Markup:
    known = (tag("option", value=folder) for folder in folders[:MOST_FOLDERS])
    field = tag(
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
    both = joined((field, tag("datalist", joined(known), id="folders")))
    return _field("Project folder", both, "folder", FOLDER_NOTE)


def _flow(flows: Sequence[FlowOffered]) -> Markup:
    options = joined(
        tag("option", _words(flow), value=flow.name, selected=not number)
        for number, flow in enumerate(flows)
    )
    field = tag("select", options, id="flow", name=SETTING.format("FLOW"))
    return _field("Flow", field, "flow", "Who works, and in which order.")


def _words(flow: FlowOffered) -> str:
    described = flow.description[:LONGEST_DESCRIPTION]
    return f"{name(flow.name)}: {described}" if described else name(flow.name)


def _agents(installed: Collection[str]) -> Markup:
    known = [agent for agent in AGENTS if agent in installed]
    field = _choose("provider", "PROVIDER", installed, known[0] if known else BUILT_IN)
    roles = (
        _field(
            f"Agent of {role.replace('_', ' ')}",
            _choose(f"provider-{role}", f"{role.upper()}{PROVIDER_SUFFIX}", installed),
            f"provider-{role}",
        )
        for role in ROLES
    )
    by_role = tag("details", tag("summary", "Another agent for a role"), joined(roles))
    return joined((_field("Agent", field, "provider"), by_role))


def _choose(number: str, setting: str, installed: Collection[str], chosen: str = "") -> Markup:
    options = joined(_options(installed, chosen))
    return tag("select", options, id=number, name=SETTING.format(setting))


def _options(installed: Collection[str], chosen: str) -> Iterator[Markup]:
    if not chosen:
        yield tag("option", "the same as above", value="", selected=True)
    for agent in AGENTS:
        words = agent if agent in installed or agent == BUILT_IN else f"{agent} (not installed)"
        yield tag("option", words, value=agent, selected=agent == chosen)


def _gate() -> Markup:
    field = tag(
        "input",
        id="gate",
        name=SETTING.format("GATES"),
        maxlength=LONGEST_PATH,
        placeholder="tests=make test",
        autocomplete="off",
        spellcheck="false",
    )
    note = (
        "A command that cao runs itself and believes instead of an agent's word: NAME=COMMAND. "
        "The flows pair and solo need one."
    )
    return _field("Gate (optional)", field, "gate", note)


def _rounds() -> Markup:
    field = tag(
        "input",
        id="max-rounds",
        name=SETTING.format("MAX_ROUNDS"),
        type="number",
        min=1,
        placeholder=BY_NAME["MAX_ROUNDS"].default,
    )
    return _field("Rounds at most (optional)", field, "max-rounds")


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
    note = "Your folder stays as it is until you bring the work into it with "
    told = tag("p", note, tag("code", "cao apply"), ".", id="work-tree-note", class_="muted")
    return tag("div", label, told, class_="field check")
