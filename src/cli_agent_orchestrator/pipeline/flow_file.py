"""A flow file: its text becomes a flow, or an error that names the place and what was expected.

    description                     text
    scenario                        text: how a task that names no scenario is tested
    [[stages]]                      name; one of `author` (and `reviewer`), `tester`, `gate = true`
    [roles.NAME]                    profile, response_file, terminal, title (all may be left out);
                                    `sees`, a list of blocks
    [roles.NAME.evidence]           of a reviewer: groups of words

The prompt of a role is a template of its own beside the file.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import Any, TypeVar

from msgspec import Struct

from ..core.codec import read_toml
from ..core.text import BREAKS, CONTROLS
from ..errors import FlowError, UnknownName, suggestion
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
STAGE_KEYS = ("name", "author", "reviewer", "tester", "gate")
KINDS = {"author": StageKind.WORK, "tester": StageKind.TEST, "gate": StageKind.GATE}
ROLE_KEYS = ("terminal", "profile", "response_file", "title", "sees", "evidence")
BLOCK_KEYS = ("title", "show", "of", "amount", "repeat")

NAME_PATTERN = r"[a-z][a-z0-9_]{0,39}"
NAME_FORM = "a name of small letters, digits and _, such as `tester`"
FILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
FILE_FORM = "the plain name of a file, such as `summary.md`"
PROFILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
PROFILE_FORM = "the name of a profile, such as `programmer`"
# "EXPLORE SUMMARY": between two marks on a line
TITLE_PATTERN = rf"(?=\S)[^={CONTROLS}{BREAKS}]{{1,100}}(?<=\S)"
TITLE_FORM = "a line of text without `=`"

MOST_ROLES = 16
"""Each has an agent, and all of them run at once."""

PLACEHOLDERS = ("round", "cycle", "context", "response_file")
NEEDED_PLACEHOLDERS = ("context", "response_file")

Path = tuple[str | int, ...]
"""The way to a value: `("roles", "tester", "sees", 2, "title")`."""
# Any: what a TOML file holds.
Values = Mapping[str, Any]
Member = TypeVar("Member", bound=StrEnum)


def read_flow(
    source: FlowSource, name: str, where: str, profiles: Sequence[str] | None = None
) -> Flow:
    """Return the flow of a file; `where` is how the user knows it.

    A profile that is not among the `profiles`, if these are known, is a fault.
    """
    try:
        top = _Table(where, read_toml(source.text))
    except ValueError as error:
        reason, _, place = str(error).rstrip(")").partition(" (at ")
        raise FlowError(where, place or "the end", reason, "a TOML file") from None
    top.check_keys(FLOW_KEYS)
    tables: Values = top.section("roles", dict, "[roles.NAME]")
    items = top.section("stages", list, "[[stages]], one for each part of a round")
    stages = _read_stages(top, items, list(tables))
    order = [role for stage in stages for role in stage.roles]
    if len(tables) > MOST_ROLES:
        fault = f"{len(tables)} roles"
        raise top.fault(fault, f"at most {MOST_ROLES}", "roles", list(tables)[MOST_ROLES])
    reviewers = [stage.reviewer for stage in stages if stage.reviewer]
    reader = _RoleReader(name, source, list(tables), reviewers, profiles)
    roles = [reader.read(role, top, value) for role, value in tables.items()]
    for key in ("terminal", "response_file"):
        seen: dict[str, str] = {}
        for role in roles:
            value = getattr(role, key)
            if value in seen:
                fault = f"`{key}` is {value!r}, as that of `{seen[value]}`"
                raise top.fault(fault, "another", "roles", role.name, key)
            seen[value] = role.name
    return Flow(
        name=name,
        description=top.text("description"),
        roles=tuple(sorted(roles, key=lambda role: order.index(role.name))),
        stages=stages,
        source=source,
        scenario=top.text("scenario").strip() or USUAL_SCENARIO,
    )


class _Table(Struct, frozen=True):
    where: str
    values: Values
    path: Path = ()

    def fault(self, fault: str, expected: str, *steps: str | int) -> FlowError:
        """Return a fault of what some steps lead to from here: `roles.tester.sees[3].title`."""
        way = (
            f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in self.path + steps
        )
        return FlowError(self.where, "".join(way).removeprefix("."), fault, expected)

    # Any: the kind that was asked for
    def section(self, key: str, kind: type[dict[str, Any]] | type[list[Any]], form: str) -> Any:
        found = self.values.get(key)
        if not isinstance(found, kind) or not found:
            fault = f"`{key}` is something else" if key in self.values else f"no `{key}`"
            raise self.fault(fault, form, key)
        return found

    def table(self, value: object, form: str, *steps: str | int) -> "_Table":
        if not isinstance(value, dict):
            raise self.fault("this is no table", form, *steps)
        return _Table(self.where, value, self.path + steps)

    def check_keys(self, known: Sequence[str]) -> None:
        for key in self.values:
            if key not in known:
                expected = f"one of {', '.join(known)}{suggestion(key, known)}"
                raise self.fault(f"unknown key `{key}`", expected, key)

    def text(self, key: str, default: str = "", pattern: str = r"(?s:.*)", form: str = "") -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.fault(f"`{key}` is not text", "text in quotation marks", key)
        if not re.fullmatch(pattern, value):
            raise self.fault(f"`{key}` is {value!r}", form, key)
        return value

    def member(self, key: str, default: Member) -> Member:
        value, kind = self.values.get(key, default), type(default)
        try:
            return kind(value)
        except ValueError:
            raise self.fault(f"`{key}` is {value!r}", "one of " + ", ".join(kind), key) from None


def _read_stages(top: _Table, items: Sequence[object], roles: Sequence[str]) -> tuple[Stage, ...]:
    tables = [top.table(item, "[[stages]]", "stages", n) for n, item in enumerate(items)]
    for table in tables:
        table.check_keys(STAGE_KEYS)
    names = [table.text("name", "", NAME_PATTERN, NAME_FORM) for table in tables]
    stages: list[Stage] = []
    used: list[str] = []
    for table, name, then in zip(tables, names, [*names[1:], DONE], strict=True):
        if name in (DONE, *names[: len(stages)]):
            raise table.fault(f"the name `{name}` is taken", "another name", "name")
        stages.append(_read_stage(table, name, then, roles))
        for role in stages[-1].roles:
            if role in used:
                raise table.fault(f"role `{role}` has a turn already", "a role of its own")
            used.append(role)
    for role in roles:
        if role not in used:
            fault = f"role `{role}` has no turn"
            raise top.fault(fault, "a stage with it, or no such role", "roles", role)
    if stages[-1].kind is StageKind.WORK:
        fault = f"stage `{name}` is the last one, and nothing checks the work"
        raise table.fault(fault, "a stage with a tester or a gate at the end")
    return tuple(stages)


def _read_stage(table: _Table, name: str, then: str, roles: Sequence[str]) -> Stage:
    kinds = [key for key in KINDS if key in table.values]
    if len(kinds) != 1:
        fault = f"stage `{name}` has {' and '.join(kinds) or 'none of author, tester, gate'}"
        raise table.fault(fault, "one of: author, tester, gate = true")
    (kind,) = kinds
    if kind == "gate" and table.values["gate"] is not True:
        raise table.fault("`gate` is not true", "gate = true", "gate")
    if "reviewer" in table.values and kind != "author":
        raise table.fault(f"a {kind} with a reviewer", "no reviewer", "reviewer")
    takes_part = {}
    for key in ("author", "tester", "reviewer"):
        role = table.text(key)
        if key in table.values and role not in roles:
            expected = f"one of {', '.join(roles)}, or a table [roles.{role or 'NAME'}]"
            raise table.fault(f"unknown role `{role}`", expected, key)
        takes_part[key] = role
    return Stage(
        name=name,
        kind=KINDS[kind],
        then=then,
        author=takes_part["author"] or takes_part["tester"],
        reviewer=takes_part["reviewer"],
    )


class _RoleReader(Struct, frozen=True):
    flow: str
    source: FlowSource
    roles: Sequence[str]
    reviewers: Sequence[str]
    profiles: Sequence[str] | None

    def read(self, name: str, top: _Table, value: object) -> Role:
        if not re.fullmatch(NAME_PATTERN, name):
            raise top.fault(f"a role cannot be named {name!r}", NAME_FORM, "roles", name)
        table = top.table(value, f"a table [roles.{name}]", "roles", name)
        table.check_keys(ROLE_KEYS)
        profile = table.text("profile", name, PROFILE_PATTERN, PROFILE_FORM)
        if self.profiles is not None and profile not in self.profiles:
            known = ", ".join(self.profiles)
            expected = f"one of {known}, or a file .cao/profiles/{profile}.md"
            raise table.fault(f"unknown profile `{profile}`", expected, "profile")
        blocks = table.values.get("sees", [])
        if not isinstance(blocks, list):
            raise table.fault("`sees` is no list", "sees = [ { … }, … ]", "sees")
        form = '{ title = "…", show = "…" }'
        title = name.replace("_", " ").upper()
        return Role(
            name=name,
            terminal=table.text("terminal", name, NAME_PATTERN, NAME_FORM),
            profile=profile,
            response_file=table.text("response_file", f"{name}.md", FILE_PATTERN, FILE_FORM),
            title=table.text("title", title, TITLE_PATTERN, TITLE_FORM),
            template=self._template(table, name),
            blocks=tuple(
                self._block(table.table(block, form, "sees", number))
                for number, block in enumerate(blocks)
            ),
            evidence=self._evidence(table, name),
        )

    def _template(self, table: _Table, role: str) -> str:
        file = f"{self.flow}/{role}.md"
        text = self.source.templates.get(role, "")
        if not text.strip():
            fault = f"there is no prompt for role `{role}`"
            raise table.fault(fault, f"a template {file} beside the flow file")
        where = f"{table.where} ({file})"
        lines = text.rstrip("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            unknown = [one for one in Template(line).get_identifiers() if one not in PLACEHOLDERS]
            if unknown or not Template(line).is_valid():
                fault = f"unknown placeholder `${unknown[0]}`" if unknown else "a single `$`"
                names = ", ".join(f"${one}" for one in PLACEHOLDERS)
                expected = f"{names}, or $$ for the sign itself"
                raise FlowError(where, f"line {number}", fault, expected)
            if "response_file" in Template(line).get_identifiers() and not re.fullmatch(
                r"\s*\$\{?response_file\}?\s*", line
            ):
                fault = "text beside `$response_file`"
                raise FlowError(where, f"line {number}", fault, "it alone: it has several lines")
        for needed in NEEDED_PLACEHOLDERS:
            if needed not in Template(text).get_identifiers():
                fault = f"no `${needed}` in it"
                raise FlowError(where, f"line {len(lines)}", fault, f"a line with ${needed}")
        return text

    def _block(self, table: _Table) -> Block:
        table.check_keys(BLOCK_KEYS)
        if "show" not in table.values:
            raise table.fault("a block without `show`", "one of " + ", ".join(BlockSource))
        source = table.member("show", BlockSource.TASK)
        made = source in (BlockSource.OPEN_NOTES, BlockSource.LAST_OPEN_NOTES)
        if made and "title" in table.values:
            expected = "none: each gets the name of its reviewer"
            raise table.fault("open notes with a title", expected, "title")
        if made and table.values.get("repeat") == Repeat.REFER:
            fault = "open notes cannot be referred to"
            raise table.fault(fault, "show, omit or only_new", "repeat")
        if "amount" in table.values and source is not BlockSource.OUTPUT:
            raise table.fault(f"an amount of {source}", 'show = "output"', "amount")
        return Block(
            title="" if made else table.text("title", "", TITLE_PATTERN, TITLE_FORM),
            source=source,
            of=self._of(table, source),
            amount=table.member("amount", Amount.WHOLE),
            repeat=table.member("repeat", Repeat.SHOW),
        )

    def _of(self, table: _Table, source: BlockSource) -> tuple[str, ...]:
        if source not in (*OF_ONE, *OF_REVIEWERS):
            if "of" in table.values:
                raise table.fault(f"`of` for {source}", "none: it belongs to no role", "of")
            return ()
        value = table.values.get("of", [])
        names = [value] if isinstance(value, str) else value
        known = self.reviewers if source in OF_REVIEWERS else self.roles
        whose = "one role" if source in OF_ONE else "roles"
        group = "reviewers" if source in OF_REVIEWERS else "the flow"
        expected = f"{whose} of {group}: {', '.join(known) or '(there is none)'}"
        if not isinstance(names, list) or not names or (source in OF_ONE and len(names) > 1):
            raise table.fault(f"{source} without `of`, or of too many", expected, "of")
        for name in names:
            if name not in known:
                raise table.fault(f"`of` names {name!r}", expected, "of")
        return tuple(names)

    def _evidence(self, table: _Table, role: str) -> Mapping[str, tuple[str, ...]]:
        if "evidence" not in table.values:
            return {}
        if role not in self.reviewers:
            raise table.fault("evidence of a role that does not review", "none", "evidence")
        groups = table.table(table.values["evidence"], "groups of words", "evidence")
        for group, words in groups.values.items():
            good = isinstance(words, list) and words
            if not good or not all(isinstance(word, str) and word.strip() for word in words):
                raise groups.fault(f"`{group}` is no list of words", '["…", "…"]', group)
        return {group: tuple(words) for group, words in groups.values.items()}


PACKAGE = files("cli_agent_orchestrator")
LOOP = "loop"
PACKAGED = (LOOP, "pair", "solo")
"""The flows that come with the package; the first is the specification's, and the default."""


@cache
def packaged_flow(name: str) -> Flow:
    if name not in PACKAGED:
        raise UnknownName("flow", name, PACKAGED)
    folder = PACKAGE / "flows"
    prompts = [file for file in (folder / name).iterdir() if file.name.endswith(".md")]
    templates = {file.name.removesuffix(".md"): _text(file) for file in prompts}
    return read_flow(FlowSource(_text(folder / f"{name}.toml"), templates), name, f"{name}.toml")


@cache
def response_file_template() -> str:
    return _text(PACKAGE / "pipeline" / "templates" / "response_file.md")


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
