"""Reads HTML as a browser would, to say what is in it."""

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Elements(HTMLParser):
    """Notes the elements of a page, whether each is closed, and what is written."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.written = ""
        self.is_closed = True
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        self.is_closed = self.is_closed and not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.is_closed = False

    def handle_data(self, data: str) -> None:
        self.written += data

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.found}

    def of(self, name: str, class_: str = "") -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a name, and of a class if one is given."""
        return [
            attributes
            for found, attributes in self.found
            if found == name and class_ in [*(attributes.get("class") or "").split(), ""]
        ]
