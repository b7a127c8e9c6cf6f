"""Every link leads to something that is there: a file, and in it the heading that it names."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("*.md", "docs/**/*.md", "skills/**/*.md", "benchmarks/**/*.md", "tests/**/*.md")
PAGES = sorted(page for place in PLACES for page in ROOT.glob(place))
FENCE = re.compile(r"^ *(```+).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@cache
def prose(page):
    """Returns a page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page):
    """Returns the names by which a page's headings are linked to, as GitHub and the site make them."""
    found = []
    for heading in HEADING.findall(prose(page)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = sum(1 for one in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", one))
        found.append(f"{name}-{number}" if number else name)
    return frozenset(found)


def wrong(page):
    """Yields what is wrong with the links of a page."""
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.is_file():
            yield f"{link} leads to no file"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: {target.name} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert list(wrong(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c\n\n## A b c\n\n[1](#a-b-c) [2](#a-b-c-1) [3](#a-b-c-2) [4](page.md#a) [5](no.md) [6](.)\n\n"
        "```sh\n# No heading\n[7](no.md)\n```\n[8](#no-heading) [9](https://example.org/no)\n",
        encoding="utf-8",
    )
    assert list(wrong(page)) == [
        "#a-b-c-2: page.md has no such heading",
        "page.md#a: page.md has no such heading",
        "no.md leads to no file",
        ". leads to no file",
        "#no-heading: page.md has no such heading",
    ]
