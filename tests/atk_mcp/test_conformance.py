"""The MCP conformance suite finds the product's server conformant in both eras of the protocol."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import pytest

PREFIX = os.environ.get("CONFORMANCE_PREFIX", "")
"""A folder into which npm installed node@22 and @modelcontextprotocol/conformance@0.2.0-alpha.12 or newer."""

NODE = os.path.join(PREFIX, "node_modules", ".bin", "node")
SUITE = os.path.join(PREFIX, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PREFIX and os.path.exists(SUITE) and shutil.which(NODE)),
        reason="no conformance suite: npm install --prefix DIR node@22 "
        "@modelcontextprotocol/conformance@0.2.0-alpha.12, and name DIR in CONFORMANCE_PREFIX",
    ),
]

SCORED = {"2025-11-25": 30, "2026-07-28": 37}
"""Scenarios of each era that count."""


@pytest.fixture
def url():
    """The server behind a bridge, which gives it the HTTP face that the suite speaks to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = shlex.join([sys.executable, "-m", "tests.support.conformance.fixture"])
    bridge = subprocess.Popen(
        [sys.executable, "-m", "tests.support.conformance.bridge", "--port", str(port), "--command", server], cwd=ROOT
    )
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert bridge.poll() is None, "the bridge ended"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        bridge.terminate()
        bridge.wait(20)


@pytest.mark.parametrize("era", SCORED)
def test_every_scored_scenario_passes(url, era):
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", url, "--requirements", era],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PATH": f"{os.path.dirname(NODE)}:{os.environ['PATH']}"},
    )
    told = done.stdout[done.stdout.index("=== SUMMARY") :]
    summary, _, unscored = told.partition("Not scored for")
    ignored = set(re.findall(r"^  . ([a-z0-9-]+) \(", unscored, re.MULTILINE))
    results = {name: mark for mark, name in re.findall(r"^(\S) ([a-z0-9-]+): \d+ passed", summary, re.MULTILINE)}
    scored = {name: mark for name, mark in results.items() if name not in ignored}
    assert len(scored) >= SCORED[era], told
    assert {name for name, mark in scored.items() if mark != "✓"} == set(), told
