"""Builds the documentation site with Sphinx: scripts/docs."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

project = "ATK MCP"
root_doc = "docs/README"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md", "skills/**.md"]
exclude_patterns = [".*", "atk_mcp", "benchmarks", "build", "dist", "operations", "storage", "tests"]
source_suffix = {".md": "markdown"}
nitpicky = True

myst_heading_anchors = 4
myst_linkify_fuzzy_links = False

html_theme = "furo"
html_title = "ATK MCP"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False

INDEXES = {root_doc, "docs/operations/README", "docs/decisions/README"}
"""Pages whose lists of links are the navigation."""

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")

ASIDES = {"sidebar-drawer": "Pages", "toc-drawer": "On this page"}
"""The class of an aside of the theme's, and what readers that speak call it."""

_ASIDE = re.compile(rf'(<aside class="({"|".join(ASIDES)})(?: [^"]*)?")>')


def add_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds a table of contents for the links of each section of a page that is an index."""
    if docname in INDEXES:
        source[0] += "".join(contents_of(source[0], os.path.dirname(docname)))


def contents_of(text: str, folder: str) -> Iterator[str]:
    """Yields a table of contents for what comes before the first section, and one for each section with links.

    The pages that the beginning links to are called as it calls them, since two of them have one title.
    """
    first, *rest = _SECTION.split(text)
    for caption, part in [("", first), *zip(rest[::2], rest[1::2], strict=True)]:
        pages = [(name, os.path.normpath(os.path.join(folder, link))[:-3]) for name, link in _LINK.findall(part)]
        entries = "\n".join(f"/{page}" if caption else f"{name} </{page}>" for name, page in pages)
        said = f":caption: {caption}\n" if caption else ""
        yield f"\n```{{toctree}}\n:hidden:\n{said}\n{entries}\n```\n" if pages else ""


def name_for_all(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Lets blocks that scroll sideways be reached by keyboard, and says the level of the navigation's headings."""
    if "body" in context:
        context["body"] = context["body"].replace("<pre>", '<pre tabindex="0">')
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading">', 'role="heading" aria-level="2">')


def named(page: str) -> str:
    """Returns a page with names on the theme's two asides, for which its template has no place."""
    return _ASIDE.sub(lambda found: f'{found[1]} aria-label="{ASIDES[found[2]]}">', page)


def name_asides(app: Sphinx, problem: Exception | None) -> None:
    """Names the asides of every page that was written."""
    if problem is None:
        for path in glob.glob(os.path.join(glob.escape(str(app.outdir)), "**", "*.html"), recursive=True):
            with open(path, encoding="utf-8") as file:
                page = named(file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)


def lead_to_first_page(app: Sphinx, problem: Exception | None) -> None:
    """Writes the site's `index.html`, which leads to the first page."""
    if problem is None:
        page = f"{root_doc}.html"
        with open(os.path.join(app.outdir, "index.html"), "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{project}</title>'
                f'<meta http-equiv="refresh" content="0; url={page}"><a href="{page}">{project}</a></html>\n'
            )


def setup(app: Sphinx) -> dict[str, Any]:
    """Has Sphinx call the functions of this file."""
    app.connect("source-read", add_navigation)
    app.connect("html-page-context", name_for_all, priority=900)  # the theme adds its navigation before
    app.connect("build-finished", name_asides)
    app.connect("build-finished", lead_to_first_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
