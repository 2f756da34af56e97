"""What a run made in its work tree comes to the user, or goes away: when the user asks for it.

The run's record names the commit that is delivered. A branch with others on top, which agents may
have made after the verdict, is left to people.
"""

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .. import errors
from ..core.files import Folder
from ..core.text import first_names
from ..pipeline.state import FinalStatus
from ..settings.layout import (
    DRAFT_PREFIX,
    RECORD_FILE,
    REQUEST_FILE,
    STATE_NAME,
    run_folder,
    runs_folder,
    worktree_folder,
)
from ..work import delivery
from ..work.changes import LeftOut
from ..work.delivery import CommittedWork, MergeResult, PullRequest, pull_request, request_text
from ..work.git import RepositoryWatch, find_repository, user_identity
from ..work.snapshots import has_snapshots
from ..work.worktree import Worktree
from .agents import AgentServer, is_gone
from .record import (
    Fate,
    RunRecord,
    SavedTree,
    is_run_id,
    read_record,
    session_name_of,
    write_record,
)
from .recorder import load_state, read_state_of
from .restore import DISCARDED_LABEL
from .tree import (
    changed_since_setup,
    commit_tree,
    reopen_tree,
    repair_tree,
    saved_tree,
    store_of,
    work_of,
)
from .view import RunView, is_saved_as, read_run

UNDELIVERED = "its work is neither applied nor discarded"


class Ended(Struct, frozen=True):
    state_folder: Path
    record: RunRecord
    tree: Worktree

    @property
    def saved(self) -> SavedTree:
        assert self.record.tree is not None, "it has a work tree"
        return self.record.tree

    @property
    def store(self) -> Path:
        return store_of(self.state_folder, self.record.id)


@contextmanager
def ended_run(state_folder: Path, run: str, environ: Mapping[str, str]) -> Iterator[Ended]:
    folder = run_folder(state_folder, run)
    try:
        with folder.locked():
            record = read_record(folder)
            if record is None:
                raise errors.StateError(f"{folder.path / RECORD_FILE} cannot be read")
            saved = record.tree
            if saved is None and not record.round:
                raise errors.NotSteerable(
                    f"the run {run} ended before its first turn: it did nothing"
                )
            if saved is None:
                raise errors.NotSteerable(
                    f"the run {run} worked in {record.wd} itself: its work is there already; "
                    f"`cao undo {run}` takes it back"
                )
            if saved.delivered is Fate.DISCARDED:
                applied = "applied, and its work tree is removed"
                became = applied if saved.is_applied else "discarded"
                raise errors.NotSteerable(f"the work of the run {run} was {became}")
            yield Ended(state_folder, record, reopen_tree(record, saved, environ))
    except BlockingIOError:
        raise errors.NotSteerable(
            f"the run {run} is at work; wait for its end, or stop it"
        ) from None


def apply_run(ended: Ended) -> MergeResult:
    ended, remarks = _with_commit(ended)
    done = delivery.apply(ended.tree, user_identity(ended.tree.repository, ended.tree.environ))
    _note(ended, Fate.APPLIED)
    return replace(done, remarks=(*remarks, *done.remarks))


def refuse_committed(record: RunRecord, environ: Mapping[str, str]) -> None:
    """Raise if the work of a run is committed, with the command that takes it back.

    Git is asked, whatever the record says: people merge and revert by themselves.
    """
    saved = record.tree
    if saved is None or not saved.has_work:
        return
    with suppress(errors.GitError, OSError):
        repository = find_repository(Path(record.project), environ)
        git = None if repository is None else repository.git(environ)
        onto = f"refs/heads/{saved.onto}" if saved.onto else "HEAD"
        if git is not None and not git.ask("merge-base", "--is-ancestor", saved.tip, onto).code:
            tip, base = saved.tip[:12], saved.base[:12]
            is_one = git.ask("rev-parse", f"{saved.tip}^").text == saved.base
            words = ["git", "-C", str(git.work_tree), "revert", tip if is_one else f"{base}..{tip}"]
            branch = saved.onto or "what is checked out"
            raise errors.NotSteerable(
                f"nothing was changed: the work of the run {record.id} is in {branch} as commit "
                f"{tip}. To take it back there:\n  {shlex.join(words)}"
            )
    if saved.delivered is not Fate.DISCARDED:
        raise errors.NotSteerable(
            f"nothing was changed: the work of the run {record.id} is on its own branch, "
            f"{saved.branch}, and not in your files. `cao discard {record.id}` removes it; to go "
            f"back in its work tree: cao undo {record.id} --to start"
        )


def request_run(ended: Ended, title: str, *, draft: bool, page: str = "") -> PullRequest:
    """Push the branch of a run, and open a pull request; its text is `page`, or else the task."""
    ended, _ = _with_commit(ended)
    if not ended.saved.onto:
        raise errors.NotSteerable(
            "no branch was checked out when the run began, so it is not known which one the "
            f"request is for; push it yourself: git push origin {ended.saved.branch}"
        )
    tree, record = ended.tree, ended.record
    folder = run_folder(ended.state_folder, record.id)
    watch = RepositoryWatch(tree.own_repository, folder, tree.environ)
    if changed := watch.settings_since_start():
        raise errors.GitError(
            f"nothing was pushed: {', '.join(changed)} in the settings of the repository changed "
            "since the run began, so the push may go elsewhere or start a program. Look at it (git "
            f"config --list --show-origin), and push yourself: git push REMOTE {ended.saved.branch}"
        )
    judged = CommittedWork(record.id, record.round, record.flow, is_known=False)
    if (state := read_state_of(folder)) is not None:
        judged = work_of(record.id, state)
    body = request_text(page or record.task_line, judged)
    folder.replace(REQUEST_FILE, body.encode(errors="replace"))
    done = pull_request(
        tree.repository,
        tree.branch,
        tree.environ,
        onto=ended.saved.onto,
        title=title or record.task_line,
        body_file=folder.path / REQUEST_FILE,
        draft=draft,
    )
    pushed = replace(ended.saved, pushed=done.remote)
    _note(ended, pushed.delivered or Fate.REQUESTED, pushed)
    return done


def discard_run(ended: Ended) -> bool:
    """Remove the work tree and the branch of a run; does only a snapshot have its work now?"""
    tree, snapshots = ended.tree, ended.tree.snapshots(ended.store)
    is_work = not tree.exists or bool(why_kept(ended.state_folder, ended.record, tree.environ))
    is_new = is_untouched(ended.state_folder, ended.record) and tree.is_unfinished
    left_out: Sequence[LeftOut] = ()
    if tree.exists and not is_new:
        taken = snapshots.all()
        number = max((one.sequence for one in taken), default=-1) + 1
        left_out = snapshots.take(number, DISCARDED_LABEL).left_out
        # The branch goes, and what only it has may go from the repository with it.
        snapshots.keep_for_good()
    if reason := delivery.discard(tree, tree.tip if is_new else ended.saved.tip, left_out):
        raise errors.GitError(f"nothing was removed: {reason}")
    _note(ended, Fate.DISCARDED)
    return is_work and any(one.label == DISCARDED_LABEL for one in snapshots.all())


def has_tree(state_folder: Path, record: RunRecord) -> bool:
    saved = record.tree
    if saved is None or saved.delivered:
        return False
    return os.path.lexists(saved.folder) and not is_untouched(state_folder, record)


def is_untouched(state_folder: Path, record: RunRecord) -> bool:
    """Was a run killed before an agent was started in its work tree?"""
    saved = record.tree
    if saved is None or saved.delivered is not Fate.NOT_YET or saved.has_work:
        return False
    ours = os.path.realpath(worktree_folder(state_folder, record.id))
    is_begun = has_snapshots(store_of(state_folder, record.id))
    is_saved = os.path.lexists(run_folder(state_folder, record.id).path / STATE_NAME)
    return saved.folder == ours and not is_saved and not is_begun


def why_kept(state_folder: Path, record: RunRecord, environ: Mapping[str, str]) -> str:
    saved = record.tree
    if saved is None or saved.delivered is Fate.DISCARDED or is_untouched(state_folder, record):
        return ""
    if not os.path.lexists(saved.folder):
        return ""
    with suppress(errors.OrchestratorError, OSError):
        tree = reopen_tree(record, saved, environ)
        is_whole = tree.exists and not tree.is_unfinished
        store = store_of(state_folder, record.id)
        is_later = is_whole and changed_since_setup(tree, store)
        if saved.delivered is Fate.APPLIED:
            return f"{record.wd} was changed since its work was applied" if is_later else ""
        is_new = saved.delivered is Fate.NOT_YET and not saved.has_work and not is_later
        if is_new and is_whole and tree.branch_tip() == saved.base:
            return ""
    return "" if saved.delivered is Fate.APPLIED else UNDELIVERED


def _with_commit(ended: Ended) -> tuple[Ended, tuple[str, ...]]:
    """Return a run whose work is committed, with remarks; raise why there is none to deliver."""
    record, tree, saved = ended.record, ended.tree, ended.saved
    remarks: tuple[str, ...] = ()
    if not saved.has_work:
        if is_untouched(ended.state_folder, record):
            raise errors.NotSteerable(
                f"nothing was done in the run {record.id}: it was ended before its first turn; "
                "start a new one with `cao run`. "
                f"`cao discard {record.id}` removes what is left of this one"
            )
        state = load_state(run_folder(ended.state_folder, record.id))
        if state is None or state.final_status is not FinalStatus.PASS:
            raise errors.NotSteerable(
                f"the run {record.id} has not passed, so nothing was committed; {_where(ended)}"
            )
        # It has passed, and was killed just then.
        try:
            repair_tree(tree, ended.store)
            tree, done = commit_tree(tree, ended.store, record.id, state, record.task_line)
        except (errors.RunError, errors.GitError, OSError) as error:
            raise errors.RunError(
                f"nothing was delivered: {error}; {_where(ended)}. When that is mended: "
                f"cao apply {record.id}"
            ) from error
        saved, remarks = saved_tree(tree), done.remarks
        if not saved.has_work:
            raise errors.NotSteerable(
                f"the run {record.id} changed no file; there is nothing to deliver"
            )
        ended = _note(replace(ended, tree=tree), Fate.NOT_YET, saved)
    if tree.branch_tip() != saved.tip:
        raise errors.GitError(
            f"the branch {saved.branch} is not where the run left it ({saved.tip[:12]}): look at "
            f"it with git log {saved.branch}, and merge it yourself if you want it"
        )
    if leaked := tree.leaked(saved.base):
        raise errors.GitError(
            f"nothing was delivered: an agent committed files that are yours alone, "
            f"{first_names(leaked)}. Take them out of {saved.branch} yourself (git rebase), and "
            "merge it, or discard it"
        )
    return ended, remarks


def _where(ended: Ended) -> str:
    if ended.tree.exists:
        return f"what it did is in {ended.record.wd}"
    run = ended.record.id
    return f"its work tree is gone, and its snapshots have what it did: cao diff {run}"


def _note(ended: Ended, delivered: Fate, saved: SavedTree | None = None) -> Ended:
    saved = replace(saved or ended.saved, delivered=delivered)
    if delivered is Fate.DISCARDED:
        saved = replace(saved, earlier=ended.saved.delivered)
    record = replace(ended.record, tree=saved)
    write_record(run_folder(ended.state_folder, record.id), record)
    return replace(ended, record=record)


TREE_LEFT = "its work tree is still there"
DAY_SECONDS = 86400.0


class KnownRun(Struct, frozen=True):
    record: RunView
    in_use: bool
    """Is it at work, or can it be resumed?"""
    waits: str = ""
    """Why it stays though it is old: what is in its work tree; empty if it may go."""


class Cleanup(Struct, frozen=True):
    agents: tuple[KnownRun, ...]
    folders: tuple[KnownRun, ...]
    waiting: tuple[KnownRun, ...] = ()
    """Old runs that stay, for what is in their work trees."""

    def __bool__(self) -> bool:
        return bool(self.agents or self.folders)


def plan_cleanup(runs: Iterable[KnownRun], before: float, api: str = "") -> Cleanup:
    """Return what can be removed: the folders of runs that ended before a time.

    Agents are those of the server `api`, if it is named, and of the state folder's server.
    """
    runs = tuple(runs)
    used = {one for run in runs if run.in_use for one in run.record.terminals.values()}
    sessions = {one for run in runs if run.in_use for one in sessions_of(run.record)}
    agents: list[KnownRun] = []
    folders: list[KnownRun] = []
    waiting: list[KnownRun] = []
    for run in (run for run in runs if not run.in_use):
        record = run.record
        left = bool(record.terminals)
        safe = sessions.isdisjoint(sessions_of(record)) and used.isdisjoint(
            record.terminals.values()
        )
        if left and safe and server_named(record) in ("", api):
            agents.append(run)
            left = False
        if not left and (record.ended or record.started) < before:
            (waiting if run.waits else folders).append(run)
    return Cleanup(tuple(agents), tuple(folders), tuple(waiting))


def server_named(record: RunRecord) -> str:
    setting = record.settings.get("API")
    return setting.value if setting else ""


def known_runs(state_folder: Path, environ: Mapping[str, str]) -> list[KnownRun]:
    found = []
    for name in sorted(runs_folder(state_folder).names()):
        if not (is_run_id(name) or is_draft(name)):
            continue
        folder = run_folder(state_folder, name)
        with suppress(OSError):
            run, in_use = read_run(folder), folder.is_locked()
            if run.is_readable:
                in_use = in_use or run.is_live or _may_go_on(folder, run)
                found.append(KnownRun(run, in_use, why_kept(state_folder, run, environ)))
            else:
                began = folder.path.stat().st_mtime
                is_left = os.path.lexists(worktree_folder(state_folder, name))
                waits = TREE_LEFT if is_left else ""
                found.append(KnownRun(replace(run, started=began), in_use, waits))
    return found


def listed_names(state_folder: Path) -> set[str]:
    listed = set()
    for name in runs_folder(state_folder).names():
        folder, is_known = run_folder(state_folder, name), True
        with suppress(OSError):
            is_known = read_record(folder) is not None or folder.is_locked()
        if is_known or is_draft(name):
            listed.add(name.removeprefix(DRAFT_PREFIX))
    return listed


def is_draft(name: str) -> bool:
    return name.startswith(DRAFT_PREFIX) and is_run_id(name.removeprefix(DRAFT_PREFIX))


def end_agents(terminals: AgentServer, state_folder: Path, run_id: str) -> int:
    """End the agents of a run that are still there, unless it is at work again; how many?"""
    folder = run_folder(state_folder, run_id)
    with suppress(BlockingIOError), folder.locked():
        record = read_record(folder)
        if record is not None and not _may_go_on(folder, record):
            return end_all(terminals, folder, record)
    return 0


def end_all(terminals: AgentServer, folder: Folder, record: RunRecord) -> int:
    sessions = sessions_of(record)
    ended = sum(_end(terminals, one, sessions) for one in record.terminals.values())
    write_record(folder, replace(record, terminals={}, session_name=""))
    return ended


def end_unlisted(terminals: AgentServer, run_id: str, ids: Iterable[str]) -> int:
    """End the agents of a run that nothing is known of; how many were still there?"""
    return sum(_end(terminals, one, (session_name_of(run_id),)) for one in ids)


def sessions_of(record: RunRecord) -> tuple[str, ...]:
    return (record.session_name,) if record.session_name else (record.id, f"cao-{record.id}")


def _end(terminals: AgentServer, terminal_id: str, sessions: Collection[str]) -> bool:
    try:
        terminal = terminals.get_terminal(terminal_id)
        if terminal.get("session_name") in sessions:
            # One that is dead is still listed.
            terminals.exit_terminal(terminal_id)
            return terminal.get("alive") is not False
    except errors.ApiRefused as error:
        if not is_gone(error):
            raise
    return False


def remove_folder(state_folder: Path, name: str, environ: Mapping[str, str]) -> str:
    """Remove a run folder or a draft of one; return why it stays.

    A work tree whose work was applied goes with it; one with other work keeps it.
    """
    if not is_run_id(name) and not is_draft(name):
        return "it is no run"
    folder = run_folder(state_folder, name)
    record = read_record(folder)
    if record is None and os.path.lexists(worktree_folder(state_folder, name)):
        return TREE_LEFT
    if record is not None and (saved := record.tree) is not None:
        if why := why_kept(state_folder, record, environ):
            return why
        try:
            if os.path.lexists(saved.folder) or is_untouched(state_folder, record):
                with ended_run(state_folder, record.id, environ) as ended:
                    discard_run(ended)
        except (errors.OrchestratorError, OSError) as error:
            return errors.in_words(error)
    try:
        with folder.locked():
            record = read_record(folder)
            if record is not None and _may_go_on(folder, record):
                return "it can be resumed"
            folder.remove_all()
    except FileNotFoundError:
        return ""
    except BlockingIOError:
        return "another command is at work on it"
    except OSError as error:
        return errors.in_words(error)
    return ""


def _may_go_on(folder: Folder, record: RunRecord) -> bool:
    is_over = record.status.is_verdict or record.discarded
    return not is_over and is_saved_as(folder)
