"""A report in a real browser: nothing is asked for, nothing is wrong, an accessibility engine finds nothing serious."""

import json
import os
import shutil
import subprocess

import pytest

from operations.reports.gathering import round_report
from operations.reports.pages import round_pages
from tests.operations.catalog.evidence import store_batch

PREFIX = os.environ.get("BROWSER_PREFIX", "")
"""A folder into which npm installed node@22, puppeteer-core and axe-core."""
SCREENSHOTS = os.environ.get("BROWSER_SCREENSHOTS", "")
"""Where screenshots are kept, if they are to be."""

NODE = os.path.join(PREFIX, "node_modules", ".bin", "node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = os.path.join(HERE, "..", "..", "support", "browser", "look.mjs")
WIDTHS = ("360", "768", "1280")
HOSTILE = "</pre><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)><style>*{display:none}</style>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PREFIX and CHROMIUM and shutil.which(NODE)),
        reason="no browser: install chromium, npm install --prefix DIR node@22 puppeteer-core axe-core, "
        "and name DIR in BROWSER_PREFIX",
    ),
]


def looked_at(folder, name, html):
    path = os.path.join(folder, f"{name}.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(html)
    screenshots = os.path.join(SCREENSHOTS or folder, name)
    os.makedirs(screenshots, exist_ok=True)
    command = [NODE, LOOK, PREFIX, CHROMIUM, path, screenshots, *WIDTHS]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for scheme in ("light", "dark"):
        assert all(os.path.getsize(os.path.join(screenshots, f"{scheme}-{width}.png")) > 500 for width in WIDTHS)
    return path, found


def test_a_report_is_whole_quiet_and_accessible(at, tmp_path):
    target = at("completed")
    html = dict(round_pages(round_report(target.project, target.state, target.round)))["report.html"]
    path, found = looked_at(str(tmp_path), "round", html)
    assert found["requests"] == [f"file://{path}"]
    assert (found["errors"], found["dialogs"]) == ([], 0)
    assert found["violations"] == []
    assert found["headings"] == [
        "Verdict", "Differences by question", "Cases \u00d7 runs", "Difference of each Case", "Case pages", "Ledger",
        "Candidates",
    ]  # fmt: skip
    assert found["landmarks"] == ["header", "nav", "main", "footer"]
    assert found["overflow"] == dict.fromkeys(WIDTHS, 0)
    assert found["first"] == "Skip to the content"
    assert found["pdf"] > 10_000
    assert (found["paper"], found["unprinted"]) == ("rgb(255, 255, 255)", 0)


def test_what_an_agent_says_is_text_in_a_browser_too(at, tmp_path):
    target = at("sealed")
    for side, revision_id in (("left", target.b0), ("right", target.revision_id)):
        batch_id = store_batch(target, revision_id, lambda *_: HOSTILE, round_id=target.round_id)
        target.ids[f"{side}_assessment_id"] = target.judge(batch_id)
    target.compare()
    html = dict(round_pages(round_report(target.project, target.state, target.round)))["report.html"]
    path, found = looked_at(str(tmp_path), "hostile", html)
    assert found["requests"] == [f"file://{path}"]
    assert (found["errors"], found["dialogs"], found["violations"]) == ([], 0, [])


def test_the_engine_finds_what_is_wrong(tmp_path):
    body = "<main><h1>x</h1><img src='data:,'></main>"
    _, found = looked_at(str(tmp_path), "wrong", f"<!doctype html><html><title>x</title><body>{body}</body></html>")
    assert {v["id"] for v in found["violations"]} >= {"image-alt", "html-has-lang"}
