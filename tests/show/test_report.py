"""A report on every kind of page: Markdown, the text of a pull request, one HTML file."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.core.secrets import masked
from cli_agent_orchestrator.events import CheckEnded, FilesChanged, HintTaken, PauseAsked
from cli_agent_orchestrator.pipeline.review import Findings
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.record import Fate, RunStatus, SavedSetting, SavedTree
from cli_agent_orchestrator.runs.report import Report, TurnDetail
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.show import report_text as limits
from cli_agent_orchestrator.show.report_html import ONLY_HERE, report_page, reproduction, shortened
from cli_agent_orchestrator.show.report_text import (
    anonymized,
    facts_of,
    in_each_text,
    last_notes,
    local_time,
    markdown,
    request_page,
    shown_folder,
    title_of,
    without_places,
)
from cli_agent_orchestrator.show.turn import LONGEST_LINE, long_text
from cli_agent_orchestrator.work.changes import Change
from tests.cli.test_markdown import NASTY, NASTY_LINES, markup_of
from tests.runs.views import RUN, a_run, a_turn
from tests.show.reading import Elements
from tests.show.test_diff import CHANGED, MORE
from tests.show.test_turn import DETAIL, tracked

WD, HOME, STATE = "/home/ada/shop", Path("/home/ada"), Path("/home/ada/state")
TREE = SavedTree("/gone", branch="cao/k3f9", base="a", tip="b")
PROOF = CheckEnded(
    9.0, "proof", 2, 4, "passed", "PASS", 1.0, "/x", why=f"not proven: {WD}/j.py", proven=False
)
CHANGE = FilesChanged(70.0, "programmer", 1, 1, ("i.py",), 1, 3, 1)
FILE = Change("src/a.py", "src/a.py", "M", "100644", "100644", 3, 1)
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEow==\n" * 300 + "-----END PRIVATE KEY-----\n"


# Any: fields of a turn
def turn(sequence: int, role: str, **more: Any) -> Any:
    """Return a turn of a minute that began when the one before it ended."""
    began = 60.0 * sequence
    told = {"outcome": "passed", "detail": "PASS", "reviewed": False, **more}
    return a_turn(sequence, role=role, began=began, ended=began + 60, seconds=2.0, **told)


TURNS = (
    turn(1, "programmer", outcome="delivered"),
    turn(2, "programmer_review", outcome="sent_back", detail=f"a | {WD}/b.py", reviewed=True),
    turn(3, "tests", provider="command", verdict="PASS"),
)
RAN = a_run(
    machine="calc7",
    wd=WD,
    state_file=f"{WD}/.cao/state.json",
    task=f"Mend {WD}/a.py\n\nIt is wrong for ten pieces.",
    task_line=f"Mend {WD}/a.py",
    status=RunStatus.FAIL,
    providers={"programmer": "codex", "tester": "claude_code"},
    tree=TREE,
    turns=TURNS,
    changes=(CHANGE,),
    acts=(HintTaken(60.0, "tester", f"{WD}/f.py"), PauseAsked(120.0)),
    stalls=(f"{WD}/l.py twice",),
    repository=(f"{WD}/.git/config",),
    gate_logs=f"{STATE}/runs/k3f9/gates",
    proof_check=PROOF,
    ended=300.0,
)
REPORT = Report(
    run=RAN,
    archive=f"{STATE}/runs/k3f9/archive",
    evidence=f"{WD}/c.py fails",
    gate="tests",
    notes={"programmer_review": f"- {WD}/d.py", "analyst_review": "- said as open"},
    open_notes={"analyst_review, round 1": "- said as open, and more", "x": f"- {WD}/e.py"},
    setbacks={"Round 1, tester, FAIL": f"{WD}/g.py", "Round 1, lint, FAIL": "a fault"},
    suspicions=(f"{WD}/k.py: fewer cases",),
    before=(f"{WD}/m.py: new",),
    proof_patch=f"+{WD}/n.py",
    patch=f"+{WD}/o.py",
    files=[FILE],
    usage={1: Tokens(1200, 1000, 30, None)},
)
FULL = replace(
    REPORT,
    patch=CHANGED + MORE,
    details=(DETAIL, TurnDetail(TURNS[2], None, "5 passed", None)),
    findings={"programmer_review": Findings((tracked(True),)), "analyst_review": Findings()},
)


# Any: fields of a run
def with_run(found: Report, **fields: Any) -> Report:
    return replace(found, run=replace(found.run, **fields))


def clean(text: str) -> str:
    return without_places(masked(text), [WD], HOME, STATE)


SHOWN = anonymized(REPORT, clean, HOME)
PAGE = f"""\
# FAIL after 2 rounds, not proven

- Task: Mend a.py
- Folder: ~/shop
- Branch: cao/k3f9
- Agents: programmer: codex, tester: claude_code
- Time: 3 min 00 s, {local_time(60)} to {local_time(240)}; \
2 turns, agents worked 4.0 s; 1 check, 2.0 s
- Tokens: 1,200 in (1,000 cached), 30 out (of 1 of 2 turns)
- Prompts and replies: (state folder)/runs/k3f9/archive
- What gates wrote: (state folder)/runs/k3f9/gates
- State: .cao/state.json
- Next: `cao apply {RUN}`, `cao pr {RUN}` or `cao discard {RUN}`

## Why it took more than one try

- Round 1, tester, FAIL: g.py
- Round 1, lint, FAIL: a fault

## Look first

- .git/config

## Not converging

- l.py twice

## What was changed

- Round 1, programmer (turn 1) changed 1 file (+3 −1): i.py

## Proof

not proven: j.py

- k.py: fewer cases

```diff
+n.py
```

Before the run, and not committed:

- m.py: new

## What people did

- {local_time(60)}: hint for tester: f.py
- {local_time(120)}: pause after the present turn

## What the gate tests said

```text
c.py fails
```

## Last notes of programmer_review

```text
- d.py
```

## Still open after the last cycle (analyst_review, round 1)

```text
- said as open, and more
```

## Still open after the last cycle (x)

```text
- e.py
```

<details>
<summary>What the run changed, line by line</summary>

```diff
+o.py
```

</details>

<details>
<summary>2 turns and 1 check</summary>

| number | round | cycle | role | agent | time | outcome | tokens | reply |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 1 | 1 |  | programmer | codex | 2.0 s | PASS | 1,200 in (1,000 cached), 30 out | \
001-programmer.md |
| 2 | 1 | 1 | programmer_review | codex | 2.0 s | a \\| b.py |  | 002-programmer_review.md |
| 3 | 1 |  | tests | command | 2.0 s | PASS |  | 003-tests.md |

</details>"""


class LaterView(RunView, frozen=True, kw_only=True):
    token: str = ""


def test_a_field_of_a_run_is_hidden_from_others_until_it_is_listed() -> None:
    later = LaterView(**structs.asdict(RAN), token="s3cret")
    run = anonymized(replace(REPORT, run=later), str, HOME).run
    assert "s3cret" not in map(str, structs.asdict(run).values())
    assert later.machine
    assert run.machine == ""


class TestMarkdown:
    def test_every_part_is_on_the_page_and_no_path_of_the_machine(self) -> None:
        assert markdown(SHOWN) == PAGE

    def test_what_there_is_nothing_to_say_of_has_no_part(self) -> None:
        page = markdown(Report(a_run(status=RunStatus.PASS, round=1)))
        assert page.startswith("# PASS after 1 round\n")
        assert page.count("\n#") == page.count("<details>") == 0

    def test_a_run_that_passed_says_below_that_it_did_not_converge_for_a_while(self) -> None:
        passed = with_run(FULL, status=RunStatus.PASS)
        for page in (markdown(passed), report_page(passed, "", {})):
            assert "Not converging" not in page
            assert "twice" in page.partition("Where it did not converge for a while")[2]


@pytest.mark.parametrize(
    ("fields", "due", "title"),
    [
        ({"round": 1, "proof_check": None}, "", "FAIL after 1 round"),
        ({"proof_check": structs.replace(PROOF, proven=True)}, "", "FAIL after 2 rounds, proven"),
        ({"providers": {"a": "scripted"}, "proof_check": None}, "", "DRY RUN: FAIL after 2 rounds"),
        ({"status": RunStatus.FAILED}, "a", "Not finished (error): a is due"),
        ({"status": RunStatus.STOPPED}, "", "Not begun (stopped): nothing of it is saved"),
        (
            {"status": RunStatus.STOPPED, "tree": replace(TREE, delivered=Fate.DISCARDED)},
            "a",
            "Discarded without a verdict (stopped)",
        ),
    ],
)
# Any: fields of a run
def test_the_title_says_what_a_run_came_to(fields: dict[str, Any], due: str, title: str) -> None:
    assert title_of(with_run(replace(REPORT, due=due), **fields)) == title


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"project": "/srv/own"}, ("Folder", "/srv/own")),
        ({"status": RunStatus.FAILED, "reason": "a\nb\nc", "tree": None}, ("Stopped", "a\nb\nc")),
        ({"tree": replace(TREE, tip="a")}, ("Branch", "cao/k3f9 (nothing is committed)")),
        ({"tree": replace(TREE, delivered=Fate.APPLIED)}, ("Branch", "cao/k3f9 (applied)")),
        (
            {"tree": replace(TREE, delivered=Fate.DISCARDED, earlier=Fate.APPLIED)},
            ("Branch", "cao/k3f9 (applied, and then removed)"),
        ),
    ],
)
# Any: fields of a run
def test_a_fact_that_is_known_is_told(fields: dict[str, Any], fact: tuple[str, str]) -> None:
    assert fact in list(facts_of(with_run(REPORT, **fields)))


def test_a_fact_that_is_not_known_is_left_out() -> None:
    names = [name for name, _ in facts_of(Report(a_run(state_file="")))]
    assert names == ["Task", "Folder", "Agents"]


@pytest.mark.parametrize(
    ("opened", "is_told"), [("- a and b", False), ("-", False), ("- b", True), ("", True)]
)
def test_notes_that_stayed_open_are_not_told_twice(opened: str, is_told: bool) -> None:
    found = replace(REPORT, notes={"r": "- a"}, open_notes={"r, round 1": opened})
    assert last_notes(found) == ({"r": "- a"} if is_told else {})


class TestRequest:
    def test_it_says_what_was_asked_how_it_was_checked_and_what_changed(self) -> None:
        page = request_page(SHOWN)
        assert page.startswith("Mend a.py\n\n**FAIL after 2 rounds, not proven**\n\n")
        assert "### How it was checked\n\n- tests: PASS\n- not proven: j.py\n- k.py: fewer" in page
        assert "### What changed: 1 file, +3 −1\n\n- src/a.py +3 −1" in page
        assert "<summary>What the gate tests said</summary>" in page
        assert "- Round 1, tester, FAIL: g.py\n- Round 1, lint, FAIL: a fault" in page
        assert "### Still open: analyst_review, round 1\n" in page

    def test_what_is_not_there_is_not_said(self) -> None:
        bare = Report(a_run(status=RunStatus.PASS))
        assert request_page(bare) == "Fix the discount\n\n**PASS after 2 rounds**"

    @pytest.mark.parametrize(
        ("change", "line"),
        [
            (replace(FILE, status="A"), "- src/a.py (new) +3 −1"),
            (replace(FILE, status="D"), "- src/a.py (removed) +3 −1"),
            (replace(FILE, status="T"), "- src/a.py (became something else) +3 −1"),
            (replace(FILE, status="R", old_path="b.py"), "- src/a.py (was b.py) +3 −1"),
            (replace(FILE, added=-1, removed=-1), "- src/a.py binary"),
            (replace(FILE, path="a\nb.py"), "- `'a\\nb.py'` +3 −1"),
            (replace(FILE, path="<b>.py"), "- `<b>.py` +3 −1"),
        ],
    )
    def test_a_file_says_what_became_of_it(self, change: Change, line: str) -> None:
        page = request_page(replace(REPORT, files=[change, FILE]))
        assert {line, "- src/a.py +3 −1"} <= {*page.split("\n")}

    def test_what_is_long_is_cut_but_not_within_a_mask(self) -> None:
        most, width = limits.MOST_LINES, limits.LONGEST_LINE
        found = replace(
            REPORT,
            files=[replace(FILE, path=f"f{n}") for n in range(limits.MOST_FILES + 2)],
            evidence="\n".join(f"line {n}" for n in range(most + 1)),
            open_notes={"x": "y" * 1000, "z": "y" * (width - 3) + "(masked) z"},
            setbacks={f"Round {n}": "fault" for n in range(most + 1)},
            suspicions=tuple(f"suspicion {n}" for n in range(most + 1)),
        )
        lines = request_page(found).split("\n")
        assert "- … and 2 more" in lines
        for name in ("suspicion {}", "Round {}: fault"):
            assert f"- {name.format(most - 1)}" in lines
            assert f"- {name.format(most)}" not in lines
        assert lines[lines.index(f"line {most - 1}") + 1] == "… 1 line is not shown …"
        assert "y" * width + "… 700 more characters" in lines
        assert "y" * (width - 3) + "… 10 more characters" in lines


@pytest.mark.parametrize("nasty", [NASTY, NASTY_LINES])
def test_nothing_that_agents_wrote_becomes_markup(nasty: str) -> None:
    def page(said: str) -> set[str]:
        gate = turn(1, "tests", detail=said, provider="command")
        proof = structs.replace(PROOF, why=said)
        found = replace(
            with_run(REPORT, task_line=said, proof_check=proof, turns=(gate,), stalls=(said,)),
            evidence=said,
            suspicions=(said,),
            open_notes={said: said},
            setbacks={said: said},
            files=[replace(FILE, path=said, old_path=said, status="R")],
        )
        return {*markup_of(request_page(found)), *markup_of(markdown(found))}

    assert page(nasty) <= page("x") | {"code_inline", "text_special", "softbreak"}


class TestHtml:
    PAGE = report_page(FULL, "Made by cao 1.0.", {"tester": ["\x1b[38;5;208mno\x1b[0m", "yes"]})

    def test_it_has_everything(self) -> None:
        page = Elements(self.PAGE)
        assert page.is_closed
        for words in (
            *(title_of(FULL), RUN, PROOF.why, FULL.evidence, f"Not converging: {RAN.stalls[0]}"),
            *(*FULL.suspicions, *FULL.before, *RAN.repository),
            *("3 turns in 1 round: 1 delivered, 1 sent back, 1 passed", "F1 ✗ open", "5 passed"),
            *("Round 1, lint, FAIL: a fault", "What the gate tests said", "Of programmer_review"),
            "Last notes of programmer_review",
            "Still open after the last cycle: analyst_review, round 1",
            *("7 files +6 −5", "old name → new name", "It is wrong for ten pieces."),
            *("pause after the present turn", "cao run task.md", "Made by cao 1.0.", "Step 1 of 2"),
        ):
            assert words in page.written or words in self.PAGE, words
        for words in ("Of analyst_review", "Last notes of analyst_review", "To resume"):
            assert words not in page.written
        assert [one["id"] for one in page.of("details", "turn-item")] == ["turn-1", "turn-3"]
        assert page.of("span", "f208")
        assert "f208" in self.PAGE.partition("</style>")[0]
        facts = self.PAGE.partition('<dl class="facts">')[2].partition("</dl>")[0]
        assert re.findall("<dt>([^<]*)</dt>", facts) == ["Folder", "Branch", "Agents", "Time"]

    def test_every_link_leads_to_a_part_of_the_page(self) -> None:
        page = Elements(self.PAGE)
        ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
        assert len(ids) == len(set(ids))
        sections = [one["id"] for one in page.of("section") if "id" in one]
        assert [one["href"] for one in page.of("a")] == [f"#{one}" for one in sections]
        assert sections == [
            *("look-first", "course", "proof", "findings", "changes", "turns", "screens"),
            *("effort", "people", "task", "reproduce"),
        ]
        bare = Elements(report_page(Report(a_run(task="", status=RunStatus.PASS)), "", {}))
        assert [one["id"] for one in bare.of("section")] == ["reproduce"]

    def test_it_allows_nothing_but_its_own_stylesheet(self) -> None:
        page = Elements(self.PAGE)
        forbidden = {"script", "link", "img", "iframe", "form", "button", "object"}
        assert page.names.isdisjoint(forbidden)
        assert not any("style" in attributes for _, attributes in page.found)
        assert "url(" not in self.PAGE
        assert "@import" not in self.PAGE
        (css,) = re.findall("(?s)<style>(.*?)</style>", self.PAGE)
        digest = b64encode(sha256(css.encode()).digest()).decode()
        (rules,) = [one["content"] for one in page.of("meta") if "http-equiv" in one]
        assert rules == (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        )

    def test_time_and_tokens_are_summed_by_role(self) -> None:
        def rows(*details: TurnDetail) -> list[str]:
            page = report_page(replace(FULL, details=details), "", {})
            (table,) = re.findall("(?s)<tbody>(.*?)</tbody>", page)
            return [re.sub("<[^>]+>", "|", row).strip("|") for row in table.split("</tr>") if row]

        twice = replace(DETAIL, usage=Tokens(800, 0, 20, None))
        unknown = replace(DETAIL, usage=None)
        assert rows(DETAIL, twice, FULL.details[1]) == [
            "analyst||codex||2||18.0 s||2,000 in (1,000 cached), 50 out",
            "tests||command||1||2.0 s",
            "all||||3||20.0 s||2,000 in (1,000 cached), 50 out",
        ]
        assert rows(DETAIL, unknown)[0].endswith("30 out (10 reasoning) (of 1 of 2 turns)")
        assert rows(unknown)[0].endswith("not known")

    def test_nothing_that_was_said_becomes_markup(self) -> None:
        said = "<script>alert(1)</script></title></p>"
        details = (replace(DETAIL, reply=said, prompt=said, screen=said, patch=said),)
        run = with_run(FULL, task=said, task_line=said, status=RunStatus.FAILED, reason=said)
        page = Elements(report_page(replace(run, notes={said: said}, details=details), said, {}))
        assert page.is_closed
        assert page.written.count("<script>") >= 8

    def test_long_texts_are_cut_and_a_key_goes_as_a_whole(self) -> None:
        text = "a\n" * 100 + KEY + "b\n" * 1000
        long = replace(DETAIL, reply=text, prompt=text, screen=f"{KEY}{'a' * 9}\n" * 100)
        none = replace(DETAIL, reply=None, prompt=None, screen=None)
        found = with_run(replace(FULL, details=(long, none)), task="a\n" * 1000 + KEY)
        shown = shortened(found, str)
        told, untold = shown.details
        lines = [len((one or "").split("\n")) for one in (told.reply, told.prompt, told.screen)]
        assert lines == [201, 81, 61]
        for one in (told.reply, told.prompt, told.screen, shown.run.task):
            assert "MIIE" not in (one or "")
        assert untold == none
        cut = shortened(with_run(FULL, task="x" * 9000), str).run.task
        assert cut in long_text(cut), "it is not cut again"

    @pytest.mark.parametrize(
        "said",
        [
            " git push https://ada:S81Correct-Horse-9Correct-Horse-9@git.example/x.git",
            " eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
            " AIza" + "S81c" * 8 + "xyz",
        ],
    )
    def test_where_a_line_is_cut_no_part_of_a_secret_is_shown(self, said: str) -> None:
        for at in (10, 20, 35, 50):
            line = "x" * (LONGEST_LINE - at) + said + " y" * 1000
            details = (replace(DETAIL, reply=line, prompt=line),)
            found = with_run(replace(FULL, details=details), task=line)
            page = report_page(anonymized(shortened(found, clean), clean, HOME), "", {})
            assert page.count("more characters") == 3
            assert not re.findall("S81|Horse|zdWIi|JIUzI1", page)


def test_what_was_given_can_be_given_again() -> None:
    settings = {
        "MAX_ROUNDS": SavedSetting("3", "option"),
        "FLOW": SavedSetting("loop", "default"),
        "GATES": SavedSetting("tests=make test", "file"),
        **{name: SavedSetting("/home/ada", "option") for name in ONLY_HERE},
        "PROVIDER": SavedSetting("", "option"),
    }
    assert reproduction(a_run(settings=settings, base="1b4f0e9851971998")) == (
        "git checkout 1b4f0e985197\n# task.md holds the whole task\n"
        "CAO_GATES='tests=make test' \\\nCAO_MAX_ROUNDS=3 \\\ncao run task.md"
    )


class TestOthers:
    """What others are shown of the paths of a machine."""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("/home/ada/shop/a.py", "a.py"),
            ("in /home/ada/shop, and", "in ., and"),
            ("/home/ada/shop.old", "~/shop.old"),
            ("/home/ada/shop2/a", "~/shop2/a"),
            ("/home/ada/other, /home/ada", "~/other, ~"),
            ("/mnt/home/ada/shop/a", "/mnt/home/ada/shop/a"),
            ("file:///home/ada/x, file:///home/ada/shop/a", "file://~/x, file://a"),
            ("-I/home/ada/shop/inc -L/home/ada/lib", "-Iinc -L~/lib"),
            ("//home/ada/shop/q ///home/ada", "q ~"),
            ("http://home/ada/shop", "http://home/ada/shop"),
            ("/home/adam", "…"),
            ("/home/adam/x/y. /Users/Bob.B/z, '/root/.ssh/id'", "…/x/y. …/z, '…/.ssh/id'"),
            ("/tmp/a/b in /tmp; /private/tmp/c", "…/a/b in /tmp; …/c"),
            ("/var/folders/zz/zyx_1+x/T/a, /private/var/folders/zz/a/T", "…/T/a, …/T"),
            ("-I/root/x file:///tmp/y //home/bob/z", "-I…/x file://…/y …/z"),
            ("/usr/bin/python a/tmp/x ./root/x https://x/home/y", None),
            ("/home/<you>/x", None),
            ("/var/cao/runs/a, in /var/cao", "(state folder)/runs/a, in (state folder)"),
        ],
    )
    def test_a_path_begins_in_the_project_or_at_home(self, text: str, shown: str | None) -> None:
        found = without_places(text, ["/home/ada/shop", ""], HOME, Path("/var/cao"))
        assert found == (text if shown is None else shown)

    def test_a_project_may_have_a_short_path_and_the_root_is_none(self) -> None:
        assert without_places("/w/a.py in /w", ["/w"], HOME) == "a.py in ."
        assert without_places("/w/a.py in /", ["/"], Path("/")) == "/w/a.py in /"

    @pytest.mark.parametrize(
        ("wd", "shown"), [("/home/ada/shop", "~/shop"), ("/srv/shop", "shop"), ("/", "/")]
    )
    def test_a_project_is_named_by_its_place_at_home_or_its_name(self, wd: str, shown: str) -> None:
        assert shown_folder(wd, HOME) == shown


def test_every_text_is_changed_and_nothing_else() -> None:
    values = [FILE, None, "d", {"key": [FinalStatus.PASS]}, 3]
    changed = replace(FILE, path="SRC/A.PY", old_path="SRC/A.PY")
    expected = [changed, None, "D", {"KEY": [FinalStatus.PASS]}, 3]
    assert in_each_text(values, str.upper) == expected
