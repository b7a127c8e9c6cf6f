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

FIXTURE = "tests.support.conformance.fixture"
SHOWING = os.path.join(ROOT, "tests", "support", "conformance", "token.mjs")
"""What makes the suite show the token, for which it has no option."""

SCORED = {"2025-11-25": 30, "2026-07-28": 37}
"""Scenarios of each era that count."""


@pytest.fixture
def bridged():
    """The address of a bridge, which gives the server over stdio the HTTP face that the suite speaks to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = shlex.join([sys.executable, "-m", FIXTURE])
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


def not_passed(url, era, **more):
    """Runs the suite, and returns the scored scenarios that did not pass."""
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", url, "--requirements", era],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PATH": f"{os.path.dirname(NODE)}:{os.environ['PATH']}", **more},
    )
    told = done.stdout[done.stdout.index("=== SUMMARY") :]
    summary, _, unscored = told.partition("Not scored for")
    ignored = set(re.findall(r"^  . ([a-z0-9-]+) \(", unscored, re.MULTILINE))
    results = {name: mark for mark, name in re.findall(r"^(\S) ([a-z0-9-]+): \d+ passed", summary, re.MULTILINE)}
    scored = {name: mark for name, mark in results.items() if name not in ignored}
    assert len(scored) >= SCORED[era], told
    return {name for name, mark in scored.items() if mark != "✓"}


@pytest.mark.parametrize("era", SCORED)
def test_every_scored_scenario_passes(bridged, era):
    assert not_passed(bridged, era) == set()


@pytest.mark.parametrize("era", SCORED)
def test_every_scored_scenario_passes_over_the_servers_own_http_with_its_token(era, tmp_path):
    place = tmp_path / "token"
    command = [sys.executable, "-m", FIXTURE, "--http", str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        url = server.stdout.readline().strip()
        shown = {"SUITE": SUITE, "TOKEN": place.read_text("utf-8").strip(), "NODE_OPTIONS": f"--import={SHOWING}"}
        failed = not_passed(url, era, **shown)
        server.terminate()
        assert server.wait(20) == 0
    assert failed == set()
