"""Flag words that tell of hard English in the messages of the source and in the documentation.

    python scripts/plain_english.py

The list is short and only has what is nowhere any more; it grows as texts become plain.
"""

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TELL_TALE = {
    # a pattern: what to write instead
    r"whomever": "the caller, the user, the agent",
    r"surely not meant": "a likely mistake",
    r"is a fault of cao": "internal error",
    r"come to know": "find, learn",
    r"goes on as it began": "keeps the settings it started with",
    r"waits to be given": "not delivered",
    r"therein|thereof|whereof|wherein|whereby": "in it, of it, by which",
}


def findings(name: str, text: str) -> list[str]:
    """Return a line for each tell-tale word in a text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in TELL_TALE.items():
            if word := re.search(rf"\b(?:{pattern})\b", line, re.IGNORECASE):
                found.append(f"{name}:{number}: {word[0]!r}: write {instead}")
    return found


def main() -> int:
    """Print what was found; return the exit code."""
    texts = {"messages": runpy.run_path(str(ROOT / "scripts" / "messages.py"))["collect"]()}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        texts[str(page.relative_to(ROOT))] = page.read_text(encoding="utf-8")
    found = [line for name, text in texts.items() for line in findings(name, text)]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
