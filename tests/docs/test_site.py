"""The documentation builds into a site that is whole and asks nobody else for anything."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:link|script|img|iframe|source)\b[^>]*?\b(?:href|src)=\"([^\"]*)\"")


def configuration():
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation():
    pytest.importorskip("sphinx", reason="Sphinx comes with the dev extra")
    conf = configuration()
    pages = {f"{path.relative_to(ROOT)}"[:-3] for path in ROOT.glob("docs/**/*.md")}
    listed = {conf.root_doc}
    for index in conf.INDEXES:
        text = (ROOT / f"{index}.md").read_text(encoding="utf-8")
        for part in conf.contents_of(text, str(Path(index).parent)):
            listed.update(re.findall(r"^(?:.+ <)?/([^\s>]+)>?$", part, re.MULTILINE))
    assert pages - listed == set()
    assert {page for page in listed if not (ROOT / f"{page}.md").is_file()} == set()


def test_the_asides_of_the_theme_have_names_and_nothing_else_of_a_page_changes():
    pytest.importorskip("sphinx", reason="Sphinx comes with the dev extra")
    page = '<aside class="sidebar-drawer">a</aside><aside class="toc-drawer no-toc">b</aside><aside class="note">c'
    assert configuration().named(page) == (
        '<aside class="sidebar-drawer" aria-label="Pages">a</aside>'
        '<aside class="toc-drawer no-toc" aria-label="On this page">b</aside><aside class="note">c'
    )


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    built = subprocess.run([ROOT / "scripts" / "docs", tmp_path], capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 90
    loaded = {(page, what) for page in pages for what in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert {what for _, what in loaded if ":" in what or what.startswith("//")} == set()
    local = {(page, what.partition("?")[0]) for page, what in loaded if not what.startswith("#")}
    assert [str(page) + what for page, what in local if not (page.parent / what).exists()] == []
    styles = "".join(sheet.read_text(encoding="utf-8") for sheet in tmp_path.rglob("*.css"))
    assert re.findall(r"(?:@import|url\(['\"]?(?:https?:)?//)[^)]*", styles) == []
    tutorial = (tmp_path / "docs" / "tutorial.html").read_text(encoding="utf-8")
    assert '<section id="freeze-the-rules">' in tutorial
    assert "<pre>" not in tutorial  # what scrolls is reached by keyboard
    assert re.findall(r'role="heading"(?! aria-level)', tutorial) == []
    written = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert re.findall("<aside (?![^>]*aria-label=)[^>]*>", written) == []
    assert '"docs/tutorial"' in (tmp_path / "searchindex.js").read_text(encoding="utf-8")
