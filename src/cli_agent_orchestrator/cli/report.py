"""`cao report`: a run on one page, from its state file and its archive."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import click

from ..core.clock import SystemClock
from ..core.files import Folder, NotPlain
from ..core.secrets import masked, masked_screen
from ..core.text import one_line, plural, printable
from ..errors import OrchestratorError, UsageError, in_words
from ..runs.record import is_run_id, read_record
from ..runs.recorder import ExportedState
from ..runs.report import Report, report_json, report_of_run, report_of_state
from ..runs.request import read_all_settings
from ..runs.screens import read_cast, roles_with_cast, screen_at, steps_of
from ..runs.view import RunView, choose_run, find_run, list_runs
from ..settings.config import RunConfig
from ..settings.layout import TASK_FILE, run_folder, state_folder
from ..settings.values import merge_settings, read_environment
from ..show.report_html import report_page, shortened
from ..show.report_text import anonymized, local_time, markdown, request_page, without_places
from ..version import __version__
from .complete import complete_files, complete_runs
from .imports import current_folder
from .run import find_project, is_placed
from .runs import say_if_elsewhere

MOST_STEPS = 12
"""Screens of each role in an HTML report."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--wd", "WD", metavar="PATH", help="The project's folder.  [default: here; CAO_WD]")
@click.option("--state-file", "STATE_FILE", metavar="PATH", help="The saved run.  [CAO_STATE_FILE]")
@click.option(
    "--format",
    "form",
    type=click.Choice(("md", "html", "json")),
    help="md: a page of Markdown (default). html: one file with everything, to be sent around. "
    "json: for programs.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--pr", "for_request", is_flag=True, help="Print the text of a pull request.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=complete_files,
    help="Write it to FILE, in place of what is there, and say where.",
)
def report(
    run: str | None,
    form: str | None,
    as_json: bool,
    for_request: bool,
    output: str | None,
    **options: str | None,
) -> None:
    """Print a run on one page: outcome, reasons, evidence, notes, all turns.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the last run of this folder that has begun, or the only one there is.

    A page for people has no path of this machine, and what looks like a secret is masked; look
    through it before you send it around all the same. JSON is not masked.

    \b
    cao report k3f9 --format html -o run.html
    cao report k3f9 --pr | gh pr create --title "Keep digits" --body-file -
    """
    chosen = [word for word in (form, "json" if as_json else None) if word]
    if len({*chosen}) > 1 or (for_request and chosen):
        raise UsageError("choose one of --format, --json and --pr")
    folder, state_file, wd = _meant(run, options)
    is_html = chosen[:1] == ["html"]
    if folder is not None:
        found = report_of_run(folder, os.environ, full=is_html)
    elif is_html:
        raise UsageError(
            "this run was saved without a folder of its own, from which an HTML report is made; "
            "leave out --format html"
        )
    else:
        found = report_of_state(state_file, wd)
    match chosen[:1]:
        case ["json"]:
            page = f"{json.dumps(report_json(found), indent=2)}\n"
        case ["html"]:
            assert folder is not None, "or there is no HTML"
            page = _html(found, folder)
        case _:
            shown = _for_others(found)
            page = f"{printable(request_page(shown) if for_request else markdown(shown))}\n"
    if output is None:
        click.echo(page, nl=False)
    else:
        _refuse_precious(Path(output), found)
        _write(Path(output), page)


def _refuse_precious(path: Path, found: Report) -> None:
    """Refuse a file that is surely not to be replaced: the task of the run, or one of git's."""
    named = one_line(str(path))
    place = os.path.realpath(path)
    if ".git" in Path(place.lower()).parts:
        raise UsageError(f"{named} is in a folder of git's; name another file")
    saved = found.run.settings.get("PROMPT_FILE")
    task = saved.value if saved else TASK_FILE
    # The folder that the task was named from is not known any more.
    tasks = {os.path.realpath(Path(base, task)) for base in (found.run.wd, found.run.project, ".")}
    if place in tasks and os.path.lexists(path):
        raise UsageError(f"{named} is the task of the run; name another file")


def _write(path: Path, page: str) -> None:
    named = one_line(str(path))
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{named}: name a file in a folder that is there")
    try:
        folder = Folder(path.absolute().parent, named=True)
        folder.replace(path.name, page.encode("utf-8", "replace"))
    except NotPlain as error:
        reason = f"{named} was not written: {error.strerror}; name another file"
        raise UsageError(reason) from error
    except OSError as error:
        raise UsageError(f"{named} was not written: {in_words(error)}") from error
    click.echo(f"Written to {named}")


def _meant(run: str | None, options: Mapping[str, str | None]) -> tuple[Folder | None, Path, Path]:
    """Return the folder of the run; None if it has none. Return its state file and work folder too.

    A run that is not named is the last one of the folder.
    """
    state = state_folder(os.environ)
    here = current_folder()
    if run is not None:
        if any(options.values()):
            raise UsageError("RUN says which run is meant; leave out --wd and --state-file")
        return run_folder(state, find_run(state, run, here).id), here, here
    variables = read_environment(os.environ, bare=False)
    given = merge_settings(options, variables)
    placed = is_placed(given)
    if not placed:
        above = find_project(Path(), Path.home())
        variables |= {"WD": str(above)} if above else {}
    config = RunConfig.from_env(read_all_settings(options, variables, None))
    meant = "" if "STATE_FILE" in given else last_run(config, anywhere=not placed)
    if not meant:
        # The state may be that of a run with a folder of its own.
        with suppress(OrchestratorError):
            run = ExportedState(config.state_file, config.wd).named_run()
            record = read_record(run_folder(state, run)) if is_run_id(run) else None
            meant = run if record is not None and record.wd == str(config.wd) else ""
    return run_folder(state, meant) if meant else None, config.state_file, config.wd


def request_body(state: Path, run: str) -> str:
    found = report_of_run(run_folder(state, run), os.environ)
    return printable(request_page(_for_others(found)))


def _cleaner(found: Report) -> Callable[[str], str]:
    home, state = Path.home(), state_folder(os.environ)
    folders = (found.run.wd, found.run.project)
    return lambda text: without_places(masked(text), folders, home, state)


def _for_others(found: Report) -> Report:
    return anonymized(found, _cleaner(found), Path.home())


def _html(found: Report, folder: Folder) -> str:
    clean = _cleaner(found)
    made = f"Made by cao {__version__}, {local_time(SystemClock().now())}."
    steps: dict[str, list[str]] = {}
    for role in roles_with_cast(folder):
        cast = read_cast(folder, role)
        if cast is not None and cast.frames:
            # A few screens, from the beginning to the end.
            shown = (screen_at(cast, number) for number in steps_of(cast, MOST_STEPS))
            steps[clean(role)] = [clean(masked_screen(screen)) for screen in shown]
    return report_page(_for_others(shortened(found, clean)), made, steps)


def last_run(config: RunConfig, *, anywhere: bool) -> str:
    """Return the id of the run that is meant if none is named, and say what may surprise.

    Empty if it is the one that is saved in the folder, which may be in no list. If `anywhere`, the
    only run that exists may be of another folder.
    """
    runs: list[RunView] = []
    with suppress(UsageError, OSError):
        runs = list_runs(state_folder(os.environ))
    is_saved = os.path.lexists(config.state_file)
    own = [run for run in runs if str(config.wd) in (run.wd, run.project)]
    if not own and not is_saved:
        # Those above or below the folder.
        own = [run for run in runs if run.works_in(config.wd)]
    begun = [run for run in own if not run.unsaved] or ([] if is_saved else own[:1])
    if begun:
        newer = own.index(begun[0])
        if newer:
            some = plural(newer, "newer run")
            click.echo(f"This is {begun[0].id}; {some} of this folder did not begin.", err=True)
        return begun[0].id
    if is_saved or not (runs and anywhere):
        return ""
    found = choose_run(runs, None, config.wd, "look")
    say_if_elsewhere(found, config.wd)
    return found.id
