"""Reads a report's HTML as a reader finds it: text, attributes and tables, by Python's own parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "circle", "line", "rect"})


@dataclass
class Element:
    """A tag with what is in it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it, with runs of white space as one space."""
        return " ".join(self._raw().split())

    def _raw(self) -> str:
        return "".join(child if isinstance(child, str) else child._raw() for child in self.children)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Returns every element below it with this tag and these attributes, in order; `data_case` is `data-case`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        found: list[Element] = []
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag and all(child.attributes.get(k) == v for k, v in wanted.items()):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def one(self, tag: str, **attributes: str) -> Element:
        """Returns the only one."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} of {tag} {attributes}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.top = Element("", {})
        self._open = [self.top]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {k: v or "" for k, v in attrs})
        self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def read(html: str) -> Element:
    """Returns the document; each tag that is opened has to be closed where it belongs."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader._open) == 1, f"<{reader._open[-1].tag}> is not closed"
    return reader.top
