"""A flow file: its text becomes a flow, or an error that names the place and what was expected.

    description                     text
    scenario                        text: how a task that names no scenario is tested
    [[stages]]                      name; one of `author` (and `reviewer`), `tester`, `gate = true`;
                                    `then`, if not the stage below it comes next
    [roles.NAME]                    profile, response_file, terminal, title (all may be left out);
                                    `sees`, a list of blocks
    [roles.NAME.evidence]           of a reviewer: groups of words

The prompt of a role is a template of its own beside the file.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import Any, TypeVar

from ..core.codec import read_toml
from ..core.text import BREAKS, CONTROLS
from ..errors import FlowError, UnknownName
from .flow import (
    DONE,
    OF_ONE,
    OF_REVIEWERS,
    USUAL_SCENARIO,
    Amount,
    Block,
    BlockSource,
    Flow,
    FlowSource,
    Repeat,
    Role,
    Stage,
    StageKind,
)

FLOW_KEYS = ("description", "scenario", "stages", "roles")
STAGE_KEYS = ("name", "author", "reviewer", "tester", "gate", "then")
KIND_KEYS = ("author", "tester", "gate")
ROLE_KEYS = ("terminal", "profile", "response_file", "title", "sees", "evidence")
BLOCK_KEYS = ("title", "show", "of", "amount", "repeat")

NAME_PATTERN = r"[a-z][a-z0-9_]{0,39}"
NAME_FORM = "a name of small letters, digits and _, such as `tester`"
FILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
FILE_FORM = "the plain name of a file, such as `summary.md`"
PROFILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
PROFILE_FORM = "the name of a profile, such as `programmer`"
# "EXPLORE SUMMARY": it stands between two marks on a line
TITLE_PATTERN = rf"(?=\S)[^={CONTROLS}{BREAKS}]{{1,100}}(?<=\S)"
TITLE_FORM = "a line of text without `=`"

MOST_ROLES = 16
"""Each has an agent, and all of them run at once."""

PLACEHOLDERS = ("round", "cycle", "context", "response_file")
NEEDED_PLACEHOLDERS = ("context", "response_file")

Path = tuple[str | int, ...]
"""The way to a value: `("roles", "tester", "sees", 2, "title")`."""
# Any: what a TOML file holds.
Table = Mapping[str, Any]
Member = TypeVar("Member", bound=StrEnum)


def read_flow(
    source: FlowSource, name: str, where: str, profiles: Sequence[str] | None = None
) -> Flow:
    """Return the flow of a file; `where` is how the user knows it.

    A profile that is not among the `profiles`, if these are known, is a fault.
    """
    return _Reader(source, name, where, profiles).flow()


def template_name(flow: str, role: str) -> str:
    """Name the template of a role as it lies beside the flow file."""
    return f"{flow}/{role}.md"


def place_name(path: Path) -> str:
    """Name the place of a value, with lists counted from 1.

    >>> place_name(("roles", "tester", "sees", 2, "title"))
    'roles.tester.sees[3].title'
    """
    steps = (f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


@dataclass(frozen=True, slots=True)
class _Place:
    """A table in the file, and the way to it."""

    table: Table
    path: Path

    def at(self, key: str) -> Path:
        return (*self.path, key)


class _Reader:
    """Reads one flow file and stops at its first fault."""

    def __init__(
        self, source: FlowSource, name: str, where: str, profiles: Sequence[str] | None
    ) -> None:
        self._source = source
        self._name = name
        self._where = where
        self._profiles = profiles
        self._top = _Place(self._parsed(), ())

    def flow(self) -> Flow:
        self._know_keys(self._top, FLOW_KEYS)
        roles = self._tables("roles", dict)
        stages = self._stages(self._tables("stages", list), roles)
        reviewers = [stage.reviewer for stage in stages if stage.reviewer]
        return Flow(
            name=self._name,
            description=self._text(self._top, "description", ""),
            roles=self._in_order(self._roles(roles, reviewers), stages),
            stages=stages,
            source=self._source,
            scenario=self._text(self._top, "scenario", "").strip() or USUAL_SCENARIO,
        )

    def _fault(self, path: Path, fault: str, expected: str) -> FlowError:
        return FlowError(self._where, place_name(path), fault, expected)

    def _parsed(self) -> Table:
        try:
            return read_toml(self._source.text)
        except ValueError as error:
            reason, _, place = str(error).rstrip(")").partition(" (at ")
            raise FlowError(self._where, place or "the end", reason, "a TOML file") from None

    def _tables(self, key: str, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
        found = self._top.table.get(key)
        if not isinstance(found, kind) or not found:
            form = "[[stages]], one for each part of a round" if key == "stages" else "[roles.NAME]"
            fault = f"`{key}` is something else" if key in self._top.table else f"no `{key}`"
            raise self._fault((key,), fault, form)
        return found

    def _know_keys(self, place: _Place, known: Collection[str]) -> None:
        for key in place.table:
            if key not in known:
                close = get_close_matches(key, known, 1)
                expected = f"`{close[0]}`" if close else "one of " + ", ".join(known)
                raise self._fault(place.at(key), f"unknown key `{key}`", expected)

    def _text(self, place: _Place, key: str, default: str) -> str:
        value = place.table.get(key, default)
        if not isinstance(value, str):
            raise self._fault(place.at(key), f"`{key}` is not text", "text in quotation marks")
        return value

    def _word(self, place: _Place, key: str, default: str, pattern: str, form: str) -> str:
        value = self._text(place, key, default)
        if not re.fullmatch(pattern, value):
            raise self._fault(place.at(key), f"`{key}` is {value!r}", form)
        return value

    def _member(self, place: _Place, key: str, kind: type[Member], default: Member) -> Member:
        value = place.table.get(key, default)
        found = next((member for member in kind if member == value), None)
        if found is None:
            raise self._fault(place.at(key), f"`{key}` is {value!r}", "one of " + ", ".join(kind))
        return found

    def _table(self, value: object, path: Path, form: str) -> _Place:
        if not isinstance(value, dict):
            raise self._fault(path, "this is no table", form)
        return _Place(value, path)

    def _stages(self, items: list[Any], roles: Table) -> tuple[Stage, ...]:
        """Return the stages in the order of their chain."""
        places = [self._table(one, ("stages", n), "[[stages]]") for n, one in enumerate(items)]
        names = [self._stage_name(place) for place in places]
        found: dict[str, Stage] = {}
        for number, (name, place) in enumerate(zip(names, places, strict=True)):
            if name in found:
                raise self._fault(place.at("name"), f"a second stage `{name}`", "another name")
            below = names[number + 1] if number + 1 < len(names) else DONE
            found[name] = self._stage(place, name, below, roles)
        self._use_roles_once(list(found.values()), roles)
        return self._chain(found)

    def _stage_name(self, place: _Place) -> str:
        self._know_keys(place, STAGE_KEYS)
        name = self._word(place, "name", "", NAME_PATTERN, NAME_FORM)
        if name == DONE:
            raise self._fault(place.at("name"), f"a stage cannot be named `{DONE}`", "another name")
        return name

    def _stage(self, place: _Place, name: str, below: str, roles: Table) -> Stage:
        kinds = [key for key in KIND_KEYS if key in place.table]
        if len(kinds) != 1:
            fault = f"stage `{name}` has {' and '.join(kinds) or 'none of author, tester, gate'}"
            raise self._fault(place.path, fault, "one of: author, tester, gate = true")
        (kind,) = kinds
        if kind == "gate" and place.table["gate"] is not True:
            raise self._fault(place.at("gate"), "`gate` is not true", "gate = true")
        if "reviewer" in place.table and kind != "author":
            raise self._fault(place.at("reviewer"), f"a {kind} with a reviewer", "no reviewer")
        return Stage(
            name=name,
            kind={"author": StageKind.WORK, "tester": StageKind.TEST, "gate": StageKind.GATE}[kind],
            then=self._text(place, "then", below),
            author="" if kind == "gate" else self._role_in(place, kind, roles),
            reviewer=self._role_in(place, "reviewer", roles) if "reviewer" in place.table else "",
        )

    def _role_in(self, place: _Place, key: str, roles: Table) -> str:
        name = self._text(place, key, "")
        if name not in roles:
            expected = f"one of {', '.join(roles)}, or a table [roles.{name or 'NAME'}]"
            raise self._fault(place.at(key), f"unknown role `{name}`", expected)
        return name

    def _use_roles_once(self, stages: list[Stage], roles: Table) -> None:
        used: list[str] = []
        for number, stage in enumerate(stages):
            for role in stage.roles:
                if role in used:
                    fault = f"role `{role}` has a turn already"
                    raise self._fault(("stages", number), fault, "a role of its own")
                used.append(role)
        for role in roles:
            if role not in used:
                fault = f"role `{role}` has no turn"
                raise self._fault(("roles", role), fault, "a stage with it, or no such role")

    def _chain(self, stages: Mapping[str, Stage]) -> tuple[Stage, ...]:
        """Follow the stages from the first one; all of them must be on the way, each once."""
        names = list(stages)
        chain: list[Stage] = []
        name = names[0]
        while name != DONE:
            chain.append(stages[name])
            then = chain[-1].then
            path: Path = ("stages", names.index(name), "then")
            if then != DONE and then not in stages:
                expected = f"one of {', '.join(stages)} or {DONE}"
                raise self._fault(path, f"unknown stage `{then}`", expected)
            if then != DONE and stages[then] in chain:
                fault = f"after `{name}` comes `{then}` again, so the flow never ends"
                raise self._fault(path, fault, f"a later stage or {DONE}")
            name = then
        for number, stage in enumerate(stages.values()):
            if stage not in chain:
                fault = f"no way leads to stage `{stage.name}`"
                raise self._fault(("stages", number), fault, "a stage whose `then` names it")
        if chain[-1].kind is StageKind.WORK:
            fault = f"stage `{chain[-1].name}` is the last one, and nothing checks the work"
            path = ("stages", names.index(chain[-1].name))
            raise self._fault(path, fault, "a stage with a tester or a gate at the end")
        return tuple(chain)

    def _roles(self, tables: Table, reviewers: list[str]) -> tuple[Role, ...]:
        found = []
        if len(tables) > MOST_ROLES:
            path: Path = ("roles", list(tables)[MOST_ROLES])
            raise self._fault(path, f"{len(tables)} roles", f"at most {MOST_ROLES}")
        for name, value in tables.items():
            if not re.fullmatch(NAME_PATTERN, name):
                raise self._fault(("roles", name), f"a role cannot be named {name!r}", NAME_FORM)
            place = self._table(value, ("roles", name), f"a table [roles.{name}]")
            found.append(self._role(name, place, list(tables), reviewers))
        for key in ("terminal", "response_file"):
            seen: dict[str, str] = {}
            for role in found:
                value = getattr(role, key)
                if value in seen:
                    fault = f"`{key}` is {value!r}, as that of `{seen[value]}`"
                    raise self._fault(("roles", role.name, key), fault, "another")
                seen[value] = role.name
        return tuple(found)

    def _in_order(self, roles: tuple[Role, ...], stages: tuple[Stage, ...]) -> tuple[Role, ...]:
        """Return the roles in the order of their first turns."""
        order = [name for stage in stages for name in stage.roles]
        return tuple(sorted(roles, key=lambda role: order.index(role.name)))

    def _role(self, name: str, place: _Place, roles: list[str], reviewers: list[str]) -> Role:
        self._know_keys(place, ROLE_KEYS)
        return Role(
            name=name,
            terminal=self._word(place, "terminal", name, NAME_PATTERN, NAME_FORM),
            profile=self._profile(place, name),
            response_file=self._word(place, "response_file", f"{name}.md", FILE_PATTERN, FILE_FORM),
            title=self._word(
                place, "title", name.replace("_", " ").upper(), TITLE_PATTERN, TITLE_FORM
            ),
            template=self._template(name),
            blocks=self._blocks(place, roles, reviewers),
            evidence=self._evidence(place, name in reviewers),
        )

    def _profile(self, place: _Place, role: str) -> str:
        name = self._word(place, "profile", role, PROFILE_PATTERN, PROFILE_FORM)
        if self._profiles is not None and name not in self._profiles:
            expected = f"one of {', '.join(self._profiles)}, or a file .cao/profiles/{name}.md"
            raise self._fault(place.at("profile"), f"unknown profile `{name}`", expected)
        return name

    def _template(self, role: str) -> str:
        """Return the prompt template of a role after a look at its placeholders."""
        file = template_name(self._name, role)
        text = self._source.templates.get(role)
        if text is None or not text.strip():
            fault = f"there is no prompt for role `{role}`"
            raise self._fault(("roles", role), fault, f"a template {file} beside the flow file")
        found = Template(text).get_identifiers()
        if not Template(text).is_valid() or not set(found) <= set(PLACEHOLDERS):
            raise _bad_placeholder(f"{self._where} ({file})", text)
        for needed in NEEDED_PLACEHOLDERS:
            if needed not in found:
                last = text.rstrip("\n").count("\n") + 1
                where = f"{self._where} ({file})"
                fault = f"no `${needed}` in it"
                raise FlowError(where, f"line {last}", fault, f"a line with ${needed}")
        return text

    def _blocks(self, place: _Place, roles: list[str], reviewers: list[str]) -> tuple[Block, ...]:
        items = place.table.get("sees", [])
        if not isinstance(items, list):
            raise self._fault(place.at("sees"), "`sees` is no list", "sees = [ { … }, … ]")
        return tuple(
            self._block(
                self._table(item, (*place.at("sees"), number), '{ title = "…", show = "…" }'),
                roles,
                reviewers,
            )
            for number, item in enumerate(items)
        )

    def _block(self, place: _Place, roles: list[str], reviewers: list[str]) -> Block:
        self._know_keys(place, BLOCK_KEYS)
        if "show" not in place.table:
            raise self._fault(
                place.path, "a block without `show`", "one of " + ", ".join(BlockSource)
            )
        source = self._member(place, "show", BlockSource, BlockSource.TASK)
        made = source in (BlockSource.OPEN_NOTES, BlockSource.LAST_OPEN_NOTES)
        if made and "title" in place.table:
            fault = "open notes with a title"
            raise self._fault(place.at("title"), fault, "none: each gets the name of its reviewer")
        if made and place.table.get("repeat") == Repeat.REFER:
            fault = "open notes cannot be referred to"
            raise self._fault(place.at("repeat"), fault, "show, omit or only_new")
        if "amount" in place.table and source is not BlockSource.OUTPUT:
            raise self._fault(place.at("amount"), f"an amount of {source}", 'show = "output"')
        return Block(
            title="" if made else self._word(place, "title", "", TITLE_PATTERN, TITLE_FORM),
            source=source,
            of=self._of(place, source, reviewers if source in OF_REVIEWERS else roles),
            amount=self._member(place, "amount", Amount, Amount.WHOLE),
            repeat=self._member(place, "repeat", Repeat, Repeat.SHOW),
        )

    def _of(self, place: _Place, source: BlockSource, known: list[str]) -> tuple[str, ...]:
        """Return whose text a block shows."""
        value = place.table.get("of", [])
        names = [value] if isinstance(value, str) else value
        if source not in (*OF_ONE, *OF_REVIEWERS):
            if "of" in place.table:
                raise self._fault(place.at("of"), f"`of` for {source}", "none: it is nobody's")
            return ()
        whose = "one role" if source in OF_ONE else "roles"
        of = "reviewers" if source in OF_REVIEWERS else "the flow"
        expected = f"{whose} of {of}: {', '.join(known) or '(there is none)'}"
        if not isinstance(names, list) or not names or (source in OF_ONE and len(names) > 1):
            raise self._fault(place.at("of"), f"{source} without `of`, or of too many", expected)
        for name in names:
            if name not in known:
                raise self._fault(place.at("of"), f"`of` names {name!r}", expected)
        return tuple(names)

    def _evidence(self, place: _Place, reviews: bool) -> Mapping[str, tuple[str, ...]]:
        if "evidence" not in place.table:
            return {}
        path = place.at("evidence")
        if not reviews:
            raise self._fault(path, "evidence of a role that does not review", "none")
        groups = self._table(place.table["evidence"], path, "groups of words").table
        for group, words in groups.items():
            good = isinstance(words, list) and words
            if not good or not all(isinstance(word, str) and word.strip() for word in words):
                raise self._fault((*path, group), f"`{group}` is no list of words", '["…", "…"]')
        return {group: tuple(words) for group, words in groups.items()}


def _bad_placeholder(where: str, text: str) -> FlowError:
    """Return the fault of the first line whose placeholders are not right."""
    names = ", ".join(f"${one}" for one in PLACEHOLDERS)
    for number, line in enumerate(text.split("\n"), start=1):
        unknown = [one for one in Template(line).get_identifiers() if one not in PLACEHOLDERS]
        if unknown or not Template(line).is_valid():
            fault = f"unknown placeholder `${unknown[0]}`" if unknown else "a single `$`"
            expected = f"{names}, or $$ for the sign itself"
            return FlowError(where, f"line {number}", fault, expected)
    raise AssertionError("a template is as good as its lines")


LOOP = "loop"
PACKAGED = (LOOP, "pair", "solo")
"""The flows that come with the package; the first is the specification's, and the default."""


@cache
def packaged_flow(name: str) -> Flow:
    """Return a flow that comes with the package."""
    if name not in PACKAGED:
        raise UnknownName("flow", name, PACKAGED)
    folder = _package() / "flows"
    prompts = [file for file in (folder / name).iterdir() if file.name.endswith(".md")]
    templates = {file.name.removesuffix(".md"): _text(file) for file in prompts}
    return read_flow(FlowSource(_text(folder / f"{name}.toml"), templates), name, f"{name}.toml")


@cache
def response_file_template() -> str:
    """Return the words that tell an agent to write its reply to a file."""
    return _text(_package() / "pipeline" / "templates" / "response_file.md")


def _package() -> Traversable:
    return files("cli_agent_orchestrator")


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
