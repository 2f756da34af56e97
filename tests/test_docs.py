"""The documentation: all pages can be found, no link is broken, and what it quotes is so."""

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli_agent_orchestrator.server.routes import OPERATIONS
from cli_agent_orchestrator.settings.table import SETTINGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src"
# Any: the names of a script
PAGES: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "docs_pages.py"))
GENERATED = {"settings.md": PAGES["settings_page"](), "routes.md": PAGES["routes_page"]()}
WRITTEN = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
TROUBLE = DOCS / "troubleshooting.md"

LINK_PATTERN = r"\]\(([^)\s]+)\)"
HEADING_PATTERN = r"^#+ (.+)$"
ANCHOR_PATTERN = r'<a name="([^"]+)">'
FENCE_PATTERN = r"^ *```.*?^ *```$"


def prose(text: str) -> str:
    return re.sub(FENCE_PATTERN, "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return what a link can lead to, as those who show Markdown name it."""
    headings = re.findall(HEADING_PATTERN, prose(text), re.MULTILINE)
    return {slug(heading) for heading in headings} | set(re.findall(ANCHOR_PATTERN, text))


def slug(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"\s+", "-", words)


def links() -> list[tuple[Path, str]]:
    return [
        (page, link)
        for page in WRITTEN
        for link in re.findall(LINK_PATTERN, prose(page.read_text(encoding="utf-8")))
        if not link.startswith("http")
    ]


@pytest.mark.parametrize(("page", "link"), links(), ids=lambda one: Path(str(one)).name)
def test_a_link_leads_somewhere(page: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if target.parent == DOCS and target.name in GENERATED:
        pytest.fail(f"{target.name} is there only in the site: say how to find it instead")
    assert target.exists()
    if anchor:
        assert anchor in anchors(target.read_text(encoding="utf-8"))


def test_the_menu_of_the_site_has_every_page_once() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = [page for one in menu for page in ([one] if isinstance(one, str) else [*one.values()])]
    flat = [page for one in named for page in ([one] if isinstance(one, str) else one)]
    assert sorted(flat) == sorted([*(page.name for page in DOCS.glob("*.md")), *GENERATED])


def test_every_setting_and_every_route_has_its_place() -> None:
    settings, routes = GENERATED["settings.md"], GENERATED["routes.md"]
    for setting in SETTINGS:
        assert f"\n## {setting.name}\n\n{setting.help}\n" in settings
    for operation in OPERATIONS:
        assert f"\n## {operation.method} {operation.path}\n\n{operation.summary}.\n" in routes
    assert set(re.findall(r"\]\(#([^)]+)\)", routes)) <= anchors(routes)


def said_by_the_source() -> str:
    """Return every text in the source; of one with values in it, the pieces between them."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    # What stands alone is a docstring: nobody gets to see it.
    unsaid = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return "\n".join(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unsaid
    )


def test_messages_that_are_explained_can_still_be_said() -> None:
    trouble, said = TROUBLE.read_text(encoding="utf-8"), said_by_the_source()
    messages = re.findall(r"(?m)^### `(.+)`$|^\| `(.+?)` \|", trouble)
    assert messages
    for message in map("".join, messages):
        pieces = [piece.strip() for piece in message.split("…") if len(piece.strip()) > 1]
        assert pieces, message
        assert not [piece for piece in pieces if piece not in said], message


def test_a_table_of_the_site_has_no_empty_head() -> None:
    table = (
        "<table>\n<thead>\n<tr>\n<th>{}</th>\n<th></th>\n</tr>\n</thead>\n<tbody></tbody></table>"
    )
    shown = PAGES["on_page_content"]
    assert shown(table.format("")) == "<table>\n<tbody></tbody></table>"
    assert shown(table.format("field")) == table.format("field")
