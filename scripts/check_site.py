"""Checks a built site: every link leads to a page and a place on it, nothing comes from elsewhere.

Usage: check_site.py FOLDER
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
"""Elements for which a browser fetches something, and where they say what."""
SKIPPED = ("404.html",)
"""It is shown at any address, so its links begin at the top of the site."""


@dataclass
class PageLinks(HTMLParser):
    """What a page refers to, and what can be referred to on it."""

    places: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.places |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag in LOADS and LOADS[tag] in has:
            self.loaded.append(has[LOADS[tag]])


def faults_of(site: Path) -> list[str]:
    """Return what is wrong with the pages of a site."""
    pages = {path: read(path) for path in site.rglob("*.html") if path.name not in SKIPPED}
    faults = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(site)
        faults += [f"{name} loads {one}" for one in page.loaded if urlsplit(one).netloc]
        for link in [*page.links, *page.loaded]:
            if not urlsplit(link).scheme and not leads_somewhere(path, link, pages):
                faults.append(f"{name} leads to {link}, which is not there")
    return faults


def read(path: Path) -> PageLinks:
    page = PageLinks()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def leads_somewhere(path: Path, link: str, pages: dict[Path, PageLinks]) -> bool:
    """Is there what a link on a page leads to?"""
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    page = {one.resolve(): page for one, page in pages.items()}.get(target)
    if page is None or not parts.fragment:
        return target.is_file()
    return unquote(parts.fragment) in page.places


def main() -> int:
    site = Path(sys.argv[1])
    faults = faults_of(site)
    for fault in faults:
        print(fault)
    if not faults:
        print(f"The site is in {site}: open {site / 'index.html'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
