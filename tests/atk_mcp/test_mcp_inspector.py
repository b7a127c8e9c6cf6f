"""The MCP Inspector's command line finds every schema portable, and calls tools of the server as they stand."""

import json
import os
import subprocess
import sys

import pytest

PREFIX = os.environ.get("CONFORMANCE_PREFIX", "")
"""A folder into which npm installed node@22 and @modelcontextprotocol/inspector@2.12.0 or newer."""

BIN = os.path.join(PREFIX, "node_modules", ".bin")
INSPECTOR = os.path.join(
    PREFIX, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"
)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PREFIX and os.path.exists(INSPECTOR) and os.path.exists(os.path.join(BIN, "node"))),
        reason="no MCP Inspector: npm install --prefix DIR node@22 @modelcontextprotocol/inspector@2.12.0, "
        "and name DIR in CONFORMANCE_PREFIX",
    ),
]


@pytest.fixture
def inspect(tmp_path):
    """Runs the Inspector against the server in a folder of its own. Returns its exit code and what it printed."""

    def run(*arguments):
        done = subprocess.run(
            [
                os.path.join(BIN, "node"),
                INSPECTOR,
                "--cli",
                "-e",
                f"PYTHONPATH={ROOT}",
                *arguments,
                "--format",
                "json",
                "--",
                sys.executable,
                "-m",
                "atk_mcp",
            ],
            check=False,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr

    return run


def test_the_strict_list_has_nothing_to_say_against_any_schema(inspect):
    status, listed = inspect("--method", "tools/list", "--strict")
    assert status == 0, listed
    assert {"get_status", "run_evaluation", "compare_and_gate"} <= {tool["name"] for tool in listed["result"]["tools"]}


def test_tools_are_called_that_read_that_store_and_that_refuse(inspect, tmp_path):
    call = ("--method", "tools/call", "--tool-name")
    status, made = inspect(*call, "initialize_project", "--tool-args-json", json.dumps({"analysis_only": True}))
    assert status == 0, made
    assert made["result"]["structuredContent"]["analysis_only"] is True
    assert (tmp_path / ".atk").is_dir()

    status, found = inspect(*call, "get_status", "--tool-args-json", "{}")
    assert status == 0, found
    assert found["result"]["structuredContent"]["project_id"] == made["result"]["structuredContent"]["project_id"]

    status, refused = inspect(*call, "read_record", "--tool-args-json", json.dumps({"record_id": "batch-1-aaaa"}))
    assert status == 5, refused
    assert "unknown_object" in json.dumps(refused)
