"""Notices what others change in a repository that can start a program: settings and hooks.

watch = RepositoryWatch(repository, run_folder, environ)
watch.begin()   # what is different since an earlier process of the run looked for the last time
...
watch.look()    # ('.git/config (core.fsmonitor)', '.git/hooks/post-checkout (new)')
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.files import Folder
from ..settings.layout import WATCH_FILE
from .repository import Repository

CONFIGS = ("config", "config.worktree")
HOOKS = "hooks"
NOT_RUN = ".sample"
LARGEST_FILE = 16 * 1024 * 1024
# remote.origin.pushurl, core.sshcommand
PUSH_PATTERN = r"(remote|url|http|credential|include|includeif|core|push|protocol|ssh)\."
"""Settings that decide where a push goes, and what it starts."""

Settings = Mapping[str, list[str]]


class RepositoryWatch:
    """One repository, as it was when it was last looked at."""

    def __init__(
        self, repository: Repository, kept_in: Folder | None, environ: Mapping[str, str]
    ) -> None:
        """Take the folder in which each look is kept, if it is to outlive this process."""
        self._repository = repository
        self._kept_in = kept_in
        self._environ = environ
        # Any: JSON
        self._last: dict[str, Any] = {}
        self.has_compared = False
        """Was there an earlier look with which the first one was compared?"""

    def begin(self) -> tuple[str, ...]:
        """Look for the first time; return what is different from the last look that was kept."""
        self._last = self._kept()
        self.has_compared = bool(self._last)
        return self.look()

    def look(self) -> tuple[str, ...]:
        """Return what is different from the last look; from none, that is nothing."""
        before, files = self._last, self._files()
        if before and files == before["files"]:
            return ()
        settings = self._settings()
        start = before.get("start", settings)
        self._last = {"files": files, "settings": settings, "start": start}
        if self._kept_in is not None:
            # Without it a crash is the only thing that hides a change.
            with suppress(OSError):
                text = json.dumps(self._last)
                self._kept_in.replace(WATCH_FILE, text.encode(), lasting=False)
        if not before:
            return ()
        old = before["files"]
        changed = [path for path in {**files, **old} if files.get(path) != old.get(path)]
        keys = ", ".join(_changed(before["settings"], settings))
        words = []
        for path in changed:
            is_config = path.rpartition("/")[2] in CONFIGS
            kind = "gone" if path not in files else "new" if path not in old else ""
            about = keys if is_config and path in files else kind
            words.append(f"{path} ({about})" if about else path)
        return tuple(words)

    def settings_since_start(self) -> tuple[str, ...] | None:
        """Return the settings of a push that changed since the run began; None if unknown."""
        kept = self._kept()
        if not kept:
            return None
        changed = _changed(kept["start"], self._settings())
        return tuple(key for key in changed if re.match(PUSH_PATTERN, key))

    # Any: JSON
    def _kept(self) -> dict[str, Any]:
        if self._kept_in is not None:
            with suppress(OSError, ValueError):
                kept: dict[str, Any] = json.loads(self._kept_in.read(WATCH_FILE))
                return kept
        return {}

    def _settings(self) -> Settings:
        config = self._repository.common_dir / "config"
        words = ("config", "-z", "--list", "--includes", "--file", str(config))
        found: dict[str, list[str]] = {}
        for entry in self._repository.git(self._environ).ask(*words).names:
            key, _, value = entry.partition("\n")
            found.setdefault(key, []).append(value)
        return found

    def _files(self) -> dict[str, str]:
        """Return what is watched, by path, each with a number that stands for its content."""
        repository = self._repository
        places = [
            folder / name
            for folder in dict.fromkeys((repository.common_dir, repository.git_dir))
            for name in CONFIGS
        ]
        hooks = repository.common_dir / HOOKS
        with suppress(OSError):
            names = sorted(Folder(repository.common_dir, (HOOKS,)).names())
            places += [hooks / name for name in names if not name.endswith(NOT_RUN)]
        places.append(repository.common_dir / "info" / "attributes")
        found = {}
        for place in places:
            with suppress(FileNotFoundError):
                found[self._shown(place)] = _digest(place)
        return found

    def _shown(self, path: Path) -> str:
        top = self._repository.top
        return str(path.relative_to(top) if path.is_relative_to(top) else path)


def _digest(path: Path) -> str:
    status = path.lstat()
    try:
        content = Folder(path.parent).read(path.name, LARGEST_FILE)
    except OSError:
        # A link, a folder or too large: what it is changes with its times.
        content = str(status.st_ctime_ns).encode()
    return f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"


def _changed(old: Settings, new: Settings) -> tuple[str, ...]:
    return tuple(sorted(key for key in {**old, **new} if old.get(key) != new.get(key)))
