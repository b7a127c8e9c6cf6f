"""The real Codex CLI, driven by a scripted model, uses the server as a person's session would."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.codexlab.driver import CodexLab
from tests.support.codexlab.script import offered_namespace

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN"),
]

AGENT = """\
import sys
print("refund within 14 days" if "refund" in sys.argv[1] else "please ask a colleague")
"""


@pytest.fixture
def target(tmp_path):
    """A repository with an agent of two lines: a target that can run."""
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    who = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "An agent"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return folder


def server(**more):
    """The server's table in Codex's configuration, as the README recommends it."""
    settings = {"command": sys.executable, "args": ["-m", "atk_mcp"], "required": True, "startup_timeout_sec": 60}
    return {"atk": {**settings, "env": {"PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"}, **more}}


def step(call_id, tool, **arguments):
    return {"steps": [{"call": {"server": "atk", "tool": tool, "arguments": arguments}, "id": call_id}]}


def test_a_session_initializes_stores_asks_and_is_refused_in_whole_json(tmp_path, target):
    cases = [
        {"id": "refund", "input": "refund please", "usage": "optimization", "expected": "refund within 14 days"},
        {"id": "hours", "input": "when are you open", "usage": "protection", "expected": "please ask a colleague"},
    ]
    (target / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    configured = {
        "command": [sys.executable, "agent.py", "{input}"],
        "external_effects": [],
        "allowed_paths": ["agent.py"],
        "components": [
            {"component_id": "agent", "role": "agent_code", "change_role": "variable", "source_path": "agent.py"}
        ],
    }
    script = {
        "turns": [
            step("init", "initialize_project", **configured),
            step("store", "store_dataset", source="cases.jsonl"),
            step("status", "get_status"),
            step("refused", "create_round", round_nam="first"),
            {"steps": [{"say": "Dataset ${store:dataset_id} is stored."}]},
        ]
    }
    lab = CodexLab(CODEX, tmp_path / "lab")
    run = lab.run(script, servers=server(default_tools_approval_mode="approve"), tap=True, workdir=target)
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert [call["name"] for call in run.server_calls("atk")] == [
        "initialize_project",
        "store_dataset",
        "get_status",
        "create_round",
    ]
    shown = {name: result.json for name, result in run.tool_results.items()}
    assert all(isinstance(value, dict) for value in shown.values()), run.tool_results
    assert all("truncated" not in result.text for result in run.tool_results.values())
    assert all("message" in shown[name] and "next" in shown[name] for name in ("init", "store", "status"))
    assert shown["refused"]["code"] == "invalid_arguments"
    assert shown["refused"]["next"]
    assert run.final_message == f"Dataset {shown['store']['dataset_id']} is stored."


def test_every_tool_reaches_the_model_with_its_descriptions_whole(tmp_path, target):
    lab = CodexLab(CODEX, tmp_path / "lab")
    run = lab.run(
        {"turns": [{"steps": [{"say": "Hello."}]}]},
        servers=server(args=["-m", "atk_mcp", "--toolsets", "all"]),
        workdir=target,
    )
    assert run.ok, json.dumps(run.summary(), indent=1)
    offered = offered_namespace(run.requests[0], "mcp__atk")
    with open(os.path.join(ROOT, "atk_mcp", "tools.json"), encoding="utf-8") as file:
        listed = {tool["name"]: tool for tool in json.load(file)["tools"]}
    assert set(offered) == set(listed)
    for name, tool in listed.items():
        described = {k for k, v in tool["inputSchema"].get("properties", {}).items() if v.get("description")}
        kept = offered[name]["parameters"]["properties"]
        assert {k for k in described if not kept[k].get("description")} == set(), name


def test_a_reading_server_offers_only_what_changes_nothing(tmp_path, target):
    lab = CodexLab(CODEX, tmp_path / "lab")
    script = {"turns": [step("status", "get_status"), {"steps": [{"say": "Done."}]}]}
    run = lab.run(script, servers=server(args=["-m", "atk_mcp", "--read-only"]), tap=True, workdir=target)
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert "initialize_project" not in offered_namespace(run.requests[0], "mcp__atk")
    assert run.tool_results["status"].json["message"]
    assert not (target / ".atk").exists()


def test_without_approval_codex_runs_what_only_stores_and_stops_what_moves_files(tmp_path, target):
    """Why the recommended configuration approves the server: `codex exec` asks nobody."""
    lab = CodexLab(CODEX, tmp_path / "lab")
    turns = [
        step("init", "initialize_project", analysis_only=True),
        step("rolled", "rollback_to", revision_id="revision-1-abcd", reason="to see"),
        {"steps": [{"say": "Done."}]},
    ]
    run = lab.run({"turns": turns}, servers=server(), tap=True, workdir=target)
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert [call["name"] for call in run.server_calls("atk")] == ["initialize_project"]
    assert "requires approval" in run.tool_results["rolled"].text
