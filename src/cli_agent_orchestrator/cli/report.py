"""`cao report`: a run on one page, from its state file and its archive."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from ..core.clock import SystemClock
from ..core.files import Folder
from ..core.secrets import masked, masked_screen
from ..core.text import one_line, plural, printable
from ..errors import UsageError
from ..runs.record import is_run_id, read_record
from ..runs.recorder import ExportedState
from ..runs.report import Report, report_json, report_of_run
from ..runs.request import read_all_settings
from ..runs.screens import read_cast, roles_with_cast, screen_at, steps_of
from ..runs.view import choose_run, find_run, list_runs
from ..settings.config import RunConfig
from ..settings.layout import run_folder, state_folder
from ..settings.values import merge_settings, read_environment
from ..show.report_html import report_page, shortened
from ..show.report_text import anonymized, local_time, markdown, request_page, without_places
from ..version import __version__
from .complete import complete_files, complete_runs
from .imports import current_folder
from .runs import say_if_elsewhere

MOST_STEPS = 12


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
    folder = _meant(run, options)
    found = report_of_run(folder, os.environ, full=chosen[:1] == ["html"])
    match chosen[:1]:
        case ["json"]:
            page = f"{json.dumps(report_json(found), indent=2)}\n"
        case ["html"]:
            page = _html(found, folder)
        case _:
            shown = _for_others(found)
            page = f"{printable(request_page(shown) if for_request else markdown(shown))}\n"
    if output is None:
        click.echo(page, nl=False)
    else:
        _write(Path(output), page)


def _write(path: Path, page: str) -> None:
    named = one_line(str(path))
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{named}: name a file in a folder that is there")
    try:
        folder = Folder(path.absolute().parent, named=True)
        folder.replace(path.name, page.encode("utf-8", "replace"))
    except OSError as error:
        reason = f"{named} was not written: {error.strerror}; name another file"
        raise UsageError(reason) from error
    click.echo(f"Written to {named}")


def _meant(run: str | None, options: Mapping[str, str | None]) -> Folder:
    """Return the folder of the run; one that is not named is the last one of the folder."""
    state = state_folder(os.environ)
    if run is not None:
        if any(options.values()):
            raise UsageError("RUN says which run is meant; leave out --wd and --state-file")
        return run_folder(state, find_run(state, run, current_folder()).id)
    variables = read_environment(os.environ, bare=False)
    given = merge_settings(options, variables)
    config = RunConfig.from_env(read_all_settings(options, variables, None))
    if "STATE_FILE" not in given:
        return run_folder(state, last_run(config.wd, anywhere="WD" not in given))
    named = ExportedState(config.state_file, config.wd).named_run()
    record = read_record(run_folder(state, named)) if is_run_id(named) else None
    if record is None or record.wd != str(config.wd):
        raise UsageError(f"{config.state_file} names no known run; `cao runs` lists all")
    return run_folder(state, named)


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


def last_run(folder: Path, *, anywhere: bool) -> str:
    """Return the id of the run that is meant if none is named, and say what may surprise.

    If `anywhere`, the only run that exists may be of another folder.
    """
    runs = list_runs(state_folder(os.environ))
    own = [run for run in runs if str(folder) in (run.wd, run.project)]
    # Else those above or below the folder.
    own = own or [run for run in runs if run.works_in(folder)]
    if begun := [run for run in own if not run.unsaved] or own[:1]:
        newer = own.index(begun[0])
        if newer:
            some = plural(newer, "newer run")
            click.echo(f"This is {begun[0].id}; {some} of this folder did not begin.", err=True)
        return begun[0].id
    if not anywhere:
        raise UsageError(f"there is no run of {folder}; `cao runs` lists all")
    found = choose_run(runs, None, folder, "look")
    say_if_elsewhere(found, folder)
    return found.id
