"""What speaks against going on with a saved run, and by which settings it goes on.

    saved run      RESUME=0    RESUME=1    RESUME not set
    none           new run     error       new run
    finished       new run     error       new run
    unfinished     new run     resumed     resumed; if anything speaks against it, nothing is done

Against it speaks: another task than the saved one, an edited one, one that cannot be read; another
flow; another agent than the saved ones.

A run keeps the settings it began with. One that is given anew, by option or variable, wins; one in
a task or a settings file does not.
"""

from collections.abc import Mapping
from pathlib import PurePath

from msgspec.structs import replace

from ..errors import ResumeChoice, UsageError
from ..handoff.wait import Sent
from ..settings.table import BY_NAME, KEPT_NAMES
from ..settings.values import canonical, read_role_providers, read_word
from .machine import due_review, due_step
from .state import Dispatch, FinalStatus, RunState, note_act

BEGIN = "leave out --resume to start a new one"
CHOICES = (
    "Nothing was started or sent. `cao run --resume` goes on with the saved run and its own task; "
    "your command with --no-resume added starts a new run and leaves the saved one"
)


def should_auto_resume(
    saved: RunState | None, resume: bool | None, against: tuple[str, ...] = ()
) -> bool:
    if resume is False:
        return False
    if saved is not None and saved.final_status is FinalStatus.RUNNING:
        if resume is None and against:
            raise ResumeChoice(f"there is an unfinished run, but {'; '.join(against)}. {CHOICES}")
        return True
    if resume is None:
        return False
    if saved is None:
        raise UsageError(f"there is no saved run to resume; {BEGIN}")
    failed = saved.final_status is FinalStatus.FAIL
    more = "; with a higher --max-rounds it goes on" if failed else ""
    raise UsageError(f"the saved run has ended with {saved.final_status}{more}; {BEGIN}")


def find_objections(
    saved: RunState, given: Mapping[str, str], task_name: str = "", task: str | None = None
) -> tuple[str, ...]:
    """Return what speaks against going on with a saved run, in words; nothing if all is well.

    `given` are settings by variable name; `task` is None if no other task is given.
    """
    found: list[str] = []
    if task is not None and saved.prompt.strip() and task != saved.prompt:
        found.append(f"{task_name} is not the task it works on, or was edited since")
    agent = read_word(given, "PROVIDER")
    if agent and saved.provider and agent != saved.provider:
        found.append(f"its agents are {saved.provider}, not {agent}")
    takes_part = {role.name for role in saved.flow.roles}
    for role, provider in read_role_providers(given).items():
        before = saved.provider_of(role)
        if role in takes_part and before and provider != before:
            found.append(f"its {role} is {before}, not {provider}")
    flow = PurePath(given.get("FLOW", "")).stem
    if flow and flow != saved.flow.name:
        found.append(f"its flow is {saved.flow.name}, not {flow}")
    return tuple(found)


def choose_settings(
    saved: Mapping[str, str], insisted: Mapping[str, str], given: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the settings by which a saved run goes on, and remarks for the user about them.

    Those given anew by option or variable (`insisted`) win. `given` has these too, and those of the
    task and the settings file.
    """
    settings, remarks = {}, []
    for name in KEPT_NAMES:
        before = canonical(name, saved[name]) if name in saved else None
        now = canonical(name, given[name]) if name in given else None
        if before is None or now is None or before == now:
            settings[name] = now if before is None else before
        elif name in insisted:
            settings[name] = now
            remarks.append(f"{name} is {_shown(now)} now; the run began with {_shown(before)}")
        else:
            settings[name] = before
            remarks.append(
                f"{BY_NAME[name].key} is {_shown(now)} in the task or the settings file; ignored: "
                f"a resumed run keeps its settings, here {_shown(before)}. "
                f"{BY_NAME[name].ways} changes it"
            )
    known = {name: text for name, text in settings.items() if text is not None}
    return known, tuple(remarks)


def _shown(text: str) -> str:
    return text if text.replace(".", "").isalnum() else repr(text)


TAKEN = "the last answer of {role} was taken in place of its file, in round {round}"


def missing_turn(state: RunState) -> Dispatch | None:
    dispatch = state.progress.in_flight
    if dispatch is None or dispatch.turn != due_step(state) or dispatch.sent is Sent.NO:
        return None
    return dispatch


def find_fault(state: RunState, remedy: str) -> str:
    dispatch = missing_turn(state)
    if dispatch is None:
        return "no reply is missing in the saved run; resume it without --missing"
    if remedy == "skip" and due_review(state) is None:
        role = dispatch.turn.role
        return f"{role} is no review, and only a review can be skipped; use --missing ask or take"
    return ""


def ask_again(state: RunState) -> RunState:
    dispatch = missing_turn(state)
    assert dispatch is not None, "something is missing"
    again = replace(dispatch, sent=Sent.FAILED)
    return state.progressed(in_flight=again)


def note_taken(state: RunState, dispatch: Dispatch, at: float) -> RunState:
    turn = dispatch.turn
    return note_act(state, at, TAKEN.format(role=turn.role, round=turn.round))
