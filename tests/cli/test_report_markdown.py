"""A report as a page of Markdown: every part of it, in its order."""

from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator.runs.report import Deeds
from cli_agent_orchestrator.show.report_markdown import markdown
from cli_agent_orchestrator.show.report_words import for_others, local_time
from tests.cli.reports import HOME, REPORT, STATE

PAGE = f"""\
# FAIL after 2 rounds, not proven

- Task: Mend a.py
- Folder: ~/shop
- Branch: cao/k3f9
- Agents: programmer: codex, tester: claude_code
- Time: 3 min 00 s, {local_time(60)} to {local_time(240)}; \
2 turns, agents worked 4.0 s; 1 check, 2.0 s
- Stopped: h.py is gone
  - mend it
- Prompts and replies: runs/k3f9/archive in your state folder
- What gates wrote: runs/k3f9/gates in your state folder
- State: .cao/state.json
- Next: `cao apply k3f9`

## Why it took more than one try

- Round 1, tester, FAIL: g.py
- Round 1, lint, FAIL: a fault
- Round 2, tester, FAIL: g.py

## Look first

- .git/config

## Not converging

- l.py twice

## What was changed

- programmer changed i.py
- tester changed nothing

## Proof

not proven: j.py

- k.py: fewer cases

```diff
+n.py
```

Before the run, and not committed:

- m.py: new

## What people did

- {local_time(60)}: a hint: f.py
- {local_time(120)}: a pause

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

| number | round | cycle | role | agent | time | outcome | reply |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 1 | 1 |  | programmer | codex | 2.0 s | PASS | 001-programmer.md |
| 2 | 1 | 2 | programmer_review | codex | 2.0 s | REVISE \\| b.py | 002-programmer_review.md |
| 3 | 1 |  | tests | command | 2.0 s | PASS | 003-tests.md |

</details>"""


def test_every_part_is_on_the_page_and_no_path_of_the_machine() -> None:
    assert markdown(for_others(REPORT, Path(HOME), Path(STATE)), Path(HOME)) == PAGE


def test_what_there_is_nothing_to_say_of_has_no_part() -> None:
    empty = replace(
        REPORT,
        setbacks={},
        deeds=Deeds(proof="proven: x"),
        acts=[],
        evidence="",
        notes={},
        open_notes={},
        diff="",
        turns=[],
    )
    page = markdown(empty, Path(HOME))
    assert page.endswith("- Next: `cao apply k3f9`\n\n## Proof\n\nproven: x")
    assert page.count("\n#") == 1


def test_what_a_proof_is_said_to_have_come_to_is_no_markup_in_the_title() -> None:
    page = markdown(replace(REPORT, deeds=Deeds(proof="<b>: x")), Path(HOME))
    assert page.startswith("# FAIL after 2 rounds\n")
