"""A report of which every part has something to say."""

from cli_agent_orchestrator.pipeline.state import FinalStatus, PersonalAct
from cli_agent_orchestrator.runs.report import Deeds, Report
from cli_agent_orchestrator.runs.turns import COMMAND, TurnRecord

WD, HOME, STATE = "/home/ada/shop", "/home/ada", "/home/ada/state"


def turn(sequence: int, role: str, outcome: str = "PASS", provider: str = "codex") -> TurnRecord:
    """Return a turn of a minute that began when the one before it ended."""
    began = 60.0 * sequence
    reply = f"{sequence:03}-{role}.md"
    return TurnRecord(
        sequence=sequence,
        role=role,
        round=1,
        cycle=2,
        provider=provider,
        began=began,
        ended=began + 60,
        worked=2.0,
        outcome=outcome,
        reply=reply,
        source="file",
        reviewed=role.endswith("_review"),
    )


REPORT = Report(
    status=FinalStatus.FAIL,
    wd=WD,
    state_file=f"{WD}/.cao/state.json",
    archive=f"{STATE}/runs/k3f9/archive",
    task=f"Mend {WD}/a.py",
    session_name="cao-k3f9",
    agents={"programmer": "codex", "tester": "claude_code"},
    terminals={},
    round=2,
    due="",
    turns=[
        turn(1, "programmer"),
        turn(2, "programmer_review", f"REVISE | {WD}/b.py"),
        turn(3, "tests", provider=COMMAND),
    ],
    evidence=f"{WD}/c.py fails",
    notes={"programmer_review": f"- {WD}/d.py", "analyst_review": "- said as open"},
    open_notes={"analyst_review, round 1": "- said as open, and more", "x": f"- {WD}/e.py"},
    acts=[PersonalAct(60.0, f"a hint: {WD}/f.py"), PersonalAct(120.0, "a pause")],
    gate="tests",
    setbacks={
        "Round 1, tester, FAIL": f"{WD}/g.py",
        "Round 1, lint, FAIL": "a fault",
        "Round 2, tester, FAIL": f"{WD}/g.py",
    },
    reason=f"{WD}/h.py is gone\nmend it",
    deeds=Deeds(
        changes=(f"programmer changed {WD}/i.py", "tester changed nothing"),
        proof=f"not proven: {WD}/j.py",
        suspicions=(f"{WD}/k.py: fewer cases",),
        circles=(f"{WD}/l.py twice",),
        logs=f"{STATE}/runs/k3f9/gates",
        repository=(f"{WD}/.git/config",),
        before=(f"{WD}/m.py: new",),
        patch=f"+{WD}/n.py",
    ),
    branch="cao/k3f9",
    delivery="`cao apply k3f9`",
    diff=f"+{WD}/o.py",
)
