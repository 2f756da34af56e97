"""Request and response bodies of the routes of runs, as `schemas.py` has those of terminals."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from cli_agent_orchestrator._internal.api.schemas import (
    Body,
    Key,
    Path,
    QuestionMeant,
    RequestBody,
    Time,
)

ASK_LIMIT = 64 * 1024
"""Bytes of what is asked of a run."""


class RunBody(Body):
    id: Annotated[str, Meta(examples=["20261115-084037-k3f9"])]
    wd: Annotated[str, Meta(description="Where its agents work.", examples=["/home/ada/shop"])]
    task: Annotated[str, Meta(description="What is to be done, on one line.")]
    flow: Annotated[str, Meta(examples=["loop"])]
    status: Literal["running", "paused", "interrupted", "PASS", "FAIL", "stopped", "failed"]
    round: int
    role: Annotated[str, Meta(description="Who works now.", examples=["programmer"])]
    started: Time
    ended: float | None
    rested: Annotated[
        float,
        Meta(description="Seconds from each end to when it was resumed, all together."),
    ]
    providers: Annotated[dict[str, str], Meta(description="The agent of each role.")]
    terminals: Annotated[
        dict[str, str], Meta(description="Ids by role, as long as the agents are there.")
    ]
    project: Annotated[
        str, Meta(description="The user's own folder, if the agents work in a work tree.")
    ]
    waiting: Annotated[
        str, Meta(description="The branch of that work tree, if its work waits to be applied.")
    ]
    discarded: Annotated[
        bool, Meta(description="Was that work tree removed, and its work with it?")
    ]
    applied: Annotated[
        bool,
        Meta(
            description="Was its work brought into the user's branch? The work tree may be gone "
            "since."
        ),
    ]
    asking: Annotated[
        str, Meta(description="The role whose agent asks a person something; empty if none does.")
    ]
    circling: Annotated[
        str,
        Meta(
            description="Why it does not converge, until an author has changed files; empty if it "
            "may, or passed."
        ),
    ]
    unsaved: Annotated[
        bool, Meta(description="Was it ended before its first turn, with nothing to resume?")
    ]
    lost: Annotated[bool, Meta(description="Is what was saved of it not there any more?")]
    reason: Annotated[str, Meta(description="Why it ended without a verdict.")]
    proof: Annotated[
        str,
        Meta(
            description="Of a PASS `proven: …` or `not proven: …`; empty if that was not looked "
            "into."
        ),
    ]


class RunTurnBody(Body):
    sequence: Annotated[int, Meta(description="Its number in the run.")]
    role: Annotated[
        str, Meta(description="Of the command of a gate its name.", examples=["analyst"])
    ]
    round: int
    cycle: int
    provider: Annotated[
        str, Meta(description="Of the command of a gate `command`.", examples=["codex"])
    ]
    terminal_id: str
    began: Time
    ended: Annotated[
        float | None,
        Meta(
            description="Null as long as it is under way. One that has ended without an outcome "
            "was broken off."
        ),
    ]
    seconds: Annotated[float, Meta(description="How long the agent worked.")]
    outcome: Annotated[
        str, Meta(description="Empty as long as there is no reply.", examples=["approved"])
    ]
    detail: Annotated[str, Meta(description="The same for people, with its reason.")]
    verdict: Annotated[str, Meta(description="`detail` without what follows from it.")]
    why: Annotated[str, Meta(description="What stands behind the verdict, without its own word.")]
    reason: Annotated[
        str, Meta(description="The first point against the work, in the agent's own words.")
    ]
    reviewed: Annotated[bool, Meta(description="Does a review follow, or is it one?")]


class ChangedFileBody(Body):
    path: str
    status: Annotated[
        str,
        Meta(
            description="`A` added, `M` modified, `D` deleted, `R` moved, `T` of another kind now.",
            examples=["M"],
        ),
    ]
    added: Annotated[int, Meta(description="Lines; -1 if it is binary.")]
    removed: int


class UsageBody(Body):
    """Tokens, in one meaning for all agents."""

    input: Annotated[int, Meta(description="All that the model was given.", examples=[48200])]
    cached_input: Annotated[
        int, Meta(description="The part of it that was read from a cache.", examples=[39000])
    ]
    output: Annotated[int, Meta(description="All that the model made.", examples=[2100])]
    reasoning: Annotated[
        int | None,
        Meta(
            description="The part of it that was reasoning; null if the agent does not tell it.",
            examples=[640],
        ),
    ]


class RunTurnTextBody(RunTurnBody):
    prompt: str | None
    reply: str | None
    screen: Annotated[
        str | None,
        Meta(
            description="What the agent showed when the turn had ended, up to 64 KB; null if that "
            "is not known. A gate has none."
        ),
    ]
    diff: Annotated[
        str | None, Meta(description="What it changed, up to 1 MB; null if that is not known.")
    ]
    files: Annotated[
        list[ChangedFileBody] | None, Meta(description="The same by file, up to 1,000 of them.")
    ]
    usage: Annotated[
        UsageBody | None,
        Meta(
            description="What it took up to the agent's next prompt, by the agent's own records, "
            "sub-agents included; null if that is not known."
        ),
    ]


class SavedSettingBody(Body):
    value: str
    source: Annotated[str, Meta(examples=["option"])]


class RunDetailBody(RunBody):
    base: Annotated[
        str, Meta(description="The commit that was checked out when it began; empty if none was.")
    ]
    branch: str
    exit_code: int | None
    session_name: str
    settings: dict[str, SavedSettingBody]
    turns: list[RunTurnBody]


class RunEventBody(Struct):
    """The `data` of one event of a run; more fields depend on its type."""

    seq: int
    at: Time
    type: Annotated[str, Meta(examples=["turn_began"])]


class NewRunBody(RequestBody):
    """A run to be started; fields that are not known are ignored."""

    wd: Annotated[Path, Meta(examples=["/home/ada/shop"])]
    task: Annotated[
        str | None,
        Meta(description="The text of the task; the heading `# Task` may be left out."),
    ] = None
    task_file: Path | None = None
    settings: Annotated[
        dict[str, str], Meta(description="By variable name.", examples=[{"MAX_ROUNDS": "3"}])
    ] = field(default_factory=dict)
    resume: Annotated[bool | None, Meta(description="As `--resume` and `--no-resume`.")] = None
    replace_terminals: bool = False


class AskBody(RequestBody):
    """What is asked of a run: little."""

    most_bytes: ClassVar[int] = ASK_LIMIT
    most_text: ClassVar[int] = ASK_LIMIT


class HintBody(AskBody):
    """What an agent is to be told with its next prompt."""

    text: Annotated[str, Meta(examples=["The parser is in src/reader.py."])]
    role: Annotated[
        str | None,
        Meta(description="Whose next prompt; else the next one.", examples=["programmer"]),
    ] = None


class SkipBody(AskBody):
    """The review that is meant, by all of these; without them whichever is under way or due."""

    role: Annotated[str | None, Meta(description="The reviewer.", examples=["analyst_review"])] = (
        None
    )
    round: int | None = None
    cycle: int | None = None


class AnswerBody(AskBody):
    """What answers the question of an agent of a run."""

    text: Key
    question: QuestionMeant = None
    role: Annotated[
        str | None, Meta(description="Who asks, if several do.", examples=["programmer"])
    ] = None


class ChangeBody(AskBody):
    """A setting of a run that is to change."""

    name: Annotated[str, Meta(examples=["max_rounds"])]
    value: Annotated[str, Meta(examples=["12"])]


class AskedBody(Body):
    heard: Annotated[bool, Meta(description="False if the run has not heard of it yet.")]
    text: Annotated[str, Meta(examples=["The run pauses when the present turn has ended."])]
