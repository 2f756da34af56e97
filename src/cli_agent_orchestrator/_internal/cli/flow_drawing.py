"""A flow as people see it: as text, and as a picture (SVG)."""

from collections.abc import Iterator
from html import escape
from textwrap import wrap

from cli_agent_orchestrator._internal.pipeline.flow import (
    DONE,
    Amount,
    Block,
    BlockSource,
    Flow,
    Repeat,
    Role,
    Stage,
    StageKind,
)

SOURCES = {
    BlockSource.TASK: "the task",
    BlockSource.SCENARIO: "the scenario",
    BlockSource.OUTPUT: "the reply of",
    BlockSource.NOTES: "the last notes of",
    BlockSource.EVIDENCE: "why the last round failed",
    BlockSource.OPEN_NOTES: "open notes of",
    BlockSource.LAST_OPEN_NOTES: "open notes of the last round, of",
    BlockSource.TEST_COMMAND: "the project's test command",
}
AMOUNTS = {
    Amount.WHOLE: "",
    Amount.HANDOFF: ": the parts for a programmer",
    Amount.CHANGES: ": files changed and behavior",
}
REPEATS = {
    Repeat.SHOW: "",
    Repeat.REFER: "; once, then a reference",
    Repeat.OMIT: "; once",
    Repeat.ONLY_NEW: "; only to an agent that replaces another",
}
OPEN_NOTES_TITLE = "OPEN NOTES …"

BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN, TOP = 300, 64, 44, 30, 80
BACK_WIDTH, STEP = 90, 14
LINE_CHARACTERS = 52
STYLE = (
    "text{font-family:sans-serif;font-size:14px;fill:#1f2328}"
    ".name{font-weight:bold}.quiet{font-size:12px;fill:#57606a}"
    ".box{fill:#f6f8fa;stroke:#57606a}.gate{fill:#fff8c5}.test{fill:#ddf4ff}"
    ".line{fill:none;stroke:#57606a;stroke-width:1.5;marker-end:url(#tip)}"
)


def as_text(flow: Flow) -> str:
    """Return a flow as lines: its stages, and what each role sees."""
    lines = [f"{flow.name}: {flow.description}", ""]
    width = max(len(stage.name) for stage in flow.stages)
    for stage, rail in zip(flow.stages, _rails(flow), strict=True):
        lines.append(f"  {rail} {stage.name.ljust(width)}  {who(stage)}")
    lines += [f"     {DONE.ljust(width)}  PASS", ""]
    lines.append(f"A FAIL starts the next round at {flow.first.name}.")
    for role in flow.roles:
        lines += ["", *_role_lines(role)]
    return "\n".join(lines)


def _rails(flow: Flow) -> list[str]:
    """Return what is drawn before each stage: the way back from every check to the first one."""
    rails = ["│ " if stage.kind is StageKind.WORK else "├─" for stage in flow.stages]
    return ["┌▶", *rails[1:-1], "└─"] if len(rails) > 1 else ["↺ "]


def who(stage: Stage) -> str:
    """Say who works in a stage."""
    match stage.kind:
        case StageKind.GATE:
            return "a command of yours says PASS or FAIL (--gate)"
        case StageKind.TEST:
            return f"{stage.author} says PASS or FAIL"
    return f"{stage.author} ⇄ {stage.reviewer}" if stage.reviewer else stage.author


def _role_lines(role: Role) -> Iterator[str]:
    yield f"{role.name} (profile {role.profile}) writes {role.response_file} and sees"
    titles = [block.title or OPEN_NOTES_TITLE for block in role.blocks]
    width = max(map(len, titles), default=0)
    for title, block in zip(titles, role.blocks, strict=True):
        yield f"  {title.ljust(width)}  {shown(block)}"
    if not role.blocks:
        yield "  nothing but its prompt"


def shown(block: Block) -> str:
    """Say what a block shows."""
    whose = f" {' and '.join(block.of)}" if block.of else ""
    return f"{SOURCES[block.source]}{whose}{AMOUNTS[block.amount]}{REPEATS[block.repeat]}"


def as_svg(flow: Flow) -> str:
    """Return a flow as a picture: its stages from top to bottom, and the ways back."""
    boxes = [*(_box(stage, number) for number, stage in enumerate(flow.stages))]
    downs = [_down(number, stage) for number, stage in enumerate(flow.stages)]
    checks = [n for n, stage in enumerate(flow.stages) if stage.kind is not StageKind.WORK]
    backs = [_back(number, MARGIN + BOX_WIDTH, order) for order, number in enumerate(checks)]
    width = MARGIN + BOX_WIDTH + BACK_WIDTH + STEP * len(checks)
    height = _top(len(flow.stages)) + 30
    words = wrap(flow.description, LINE_CHARACTERS)[:2]
    head = [_text(MARGIN, 30, flow.name, "name")]
    head += [_text(MARGIN, 50 + 16 * n, line, "quiet") for n, line in enumerate(words)]
    done = _text(MARGIN + BOX_WIDTH // 2, _top(len(flow.stages)) + 14, "PASS", "name", "middle")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(flow.name)}: {escape(flow.description)}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        *head,
        *boxes,
        *downs,
        *backs,
        done,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _top(number: int) -> int:
    return TOP + number * (BOX_HEIGHT + GAP)


def _box(stage: Stage, number: int) -> str:
    top, middle = _top(number), MARGIN + BOX_WIDTH // 2
    words = "your command (--gate)" if stage.kind is StageKind.GATE else who(stage)
    return (
        f'<rect class="box {stage.kind}" x="{MARGIN}" y="{top}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="8"/>'
        f"{_text(middle, top + 27, stage.name, 'name', 'middle')}"
        f"{_text(middle, top + 48, words, 'quiet', 'middle')}"
    )


def _down(number: int, stage: Stage) -> str:
    middle, start = MARGIN + BOX_WIDTH // 2, _top(number) + BOX_HEIGHT
    label = "" if stage.kind is StageKind.WORK else _text(middle + 8, start + 25, "PASS", "quiet")
    if stage.reviewer:
        label = _text(middle + 8, start + 25, "approved", "quiet")
    return f'<path class="line" d="M{middle} {start}V{_top(number + 1) - 3}"/>{label}'


def _back(number: int, right: int, order: int) -> str:
    start, end = _top(number) + BOX_HEIGHT // 2, _top(0) + BOX_HEIGHT // 2
    out = right + 46 + STEP * order
    return (
        f'<path class="line" d="M{right} {start}H{out}V{end + STEP * min(order, 2)}H{right + 3}"/>'
        f"{_text(right + 6, start - 6, 'FAIL', 'quiet')}"
    )


def _text(x: int, y: int, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
