"""Which files of a project a command names, as far as its words tell. Nothing is run.

sh run_tests.sh                     run_tests.sh
python -m unittest checks.price     checks/price.py
cd web && node checks.js            web/checks.js
pytest suite/prices.py::test_ten    suite/prices.py
make --file=checks.mk               checks.mk
unittest discover -p 'check_*.py'   all that are called so
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

MOST_WORDS = 500
# "-v", "--failfast": what follows is no value of these
FLAG_PATTERN = r"-[vqfbcmBS]+|--(?:verbose|quiet|failfast|catch|buffer|locals)"
MODULE_PATTERN = r"[A-Za-z_]\w*(?:\.\w+)*"
# "check_*.py", but not "*.py"
GLOB_PATTERN = r"(?:.*/)?(?=[^/]*[*?\[])(?!\*+(?:\.\w+)?\Z)[^/]+"


def named_files(command: str, files: Collection[str], folder: str = "") -> frozenset[str]:
    """Return those of a project's files that a command names which is run in a folder of it."""
    known = frozenset(files)
    folders = {above for path in known for above in _above(path)}
    words = _words(command)[:MOST_WORDS]
    values = [value for word in words for value in _values(word)]
    places = [folder, *(_joined(folder, value) for value in values)]
    below = [place for place in dict.fromkeys(places) if not place or place in folders]
    found = {_joined(place, name) for place in below for name in values} & known
    names = {posixpath.basename(path) for path in found}
    modules = list(_module_files(words, names))
    found |= {_joined(place, name) for place in below for name in modules} & known
    globs = [value for value in values if re.fullmatch(GLOB_PATTERN, value)]
    return frozenset(found | {path for path in known for glob in globs if _fits(path, glob)})


def _words(command: str) -> list[str]:
    """Split a command as a shell does, operators too, and what is quoted in it for another one."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        reader.commenters = ""
        words = list(reader)
    except ValueError:
        words = command.split()
    return [part for word in words for part in (word.split() if " " in word else [word])]


def _values(word: str) -> Iterator[str]:
    """Yield what in a word may be a path: `--file=a`, `a::test`, `$PWD/a`."""
    for part in dict.fromkeys((word, word.partition("=")[2])):
        path = part.partition("::")[0].removeprefix("$PWD").removeprefix("${PWD}").strip("/")
        if path:
            yield path


def _module_files(words: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Yield the files of the modules that a command may name: `checks.price`, but no file's."""
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("-") and not re.fullmatch(FLAG_PATTERN, before)
        if is_value or word in names or not re.fullmatch(MODULE_PATTERN, word):
            continue
        parts = word.split(".")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _fits(path: str, glob: str) -> bool:
    return fnmatchcase(path, glob) or fnmatchcase(posixpath.basename(path), glob)
