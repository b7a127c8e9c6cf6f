"""The real Codex CLI runs a whole Round through the installed plugin, whichever way it shows tools to its model."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import anyio
import pytest

from atk_mcp import inspector
from atk_mcp.demo import session as demo_session
from atk_mcp.demo.diagnosing import find_problems
from atk_mcp.demo.loop import REPEATS, Loop
from atk_mcp.demo.repository import make_target
from atk_mcp.demo.session import DemoStopped, Session
from atk_mcp.demo.story import Story
from tests.support.codexlab.driver import CodexLab
from tests.support.codexlab.script import offered_namespace, request_text

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN"),
]

SURFACES = {"direct": "stub-model", "deferred": "gpt-5.5", "code": "gpt-6.2-sol"}
"""How the tools reach a model → a model that Codex shows them so."""

SKILLS = ("init", "dataset", "eval", "diagnose", "optimize", "validate", "decide")
MOST_CALLS = 60
MOST_BYTES = 120_000
RESULT_BYTES = 8_192
PATIENCE_S = 120
"""Seconds after which what should have ended is said not to have."""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A clean home into which `atk install` has put the plugin."""
    lab = CodexLab(CODEX, tmp_path / "lab")
    for name, value in lab.environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert inspector.main(["install", "--codex", CODEX]) == 0
    lab.keep_config()
    yield lab
    for pid in left_behind(lab):  # a failed test must not leave what it found
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Shown(Session):
    """The demo's session, with Codex between it and the server: it knows only what the model was shown."""

    def __init__(self, conversation):
        self.conversation = conversation

    async def call(self, tool, **arguments):
        shown = await anyio.to_thread.run_sync(self.conversation.call, "atk", tool, arguments)
        answer = shown.json
        if not isinstance(answer, dict) or "code" in answer:
            raise DemoStopped(f"{tool} was refused: {shown.text}")
        return answer


class OneProblem(Loop):
    """The demo's Round with its first Issue only, found as the Skills say: by asking for what failed."""

    async def _problems(self, dataset_id, batch_id, assessment_id):
        failed = {"batch_id": batch_id, "verdict": {"assessment_id": assessment_id, "verdict": ["fail"]}, "limit": 50}
        answer = await self.session.call("find_records", **failed)
        records = answer["records"]
        while cursor := answer.get("next_cursor"):
            answer = await self.session.call("find_records", **failed, cursor=cursor)
            records += answer["records"]
        counts = Counter(r["case_id"] for r in records)
        failing = {r["case_id"]: r["record_id"] for r in records if counts[r["case_id"]] > REPEATS / 2}
        cases = await self.session.read(dataset_id, "cases")
        texts, queues = ({case["id"]: case[name] for case in cases} for name in ("input", "expected"))
        return find_problems(failing, texts, queues)[:1]


def whole_round(root, cases, story, surface, shown):
    """Returns the model: it misspells one argument, reads the refusal, then plays the demo."""

    def play(conversation):
        shown.append(conversation)
        if surface == "deferred":
            found = conversation.step({"tool_search": {"query": "run the agent over cases to evaluate it", "limit": 8}})
            assert "run_evaluation" in found.text
        refused = conversation.call("atk", "store_dataset", {"sorce": cases}).json
        assert refused["code"] == "invalid_arguments"
        assert "source" in json.dumps(refused)
        anyio.run(play_loop, conversation)
        return "The Round is over."

    async def play_loop(conversation):
        await OneProblem(Shown(conversation), story, root, cases).play(no_op_edit=False)

    return play


@pytest.mark.parametrize("surface", SURFACES)
def test_a_whole_round_goes_through_the_plugin_and_every_result_is_shown_whole(surface, lab, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_session, "WAIT_SECONDS", 20)
    root, cases = make_target(str(tmp_path / "target"), 7)
    lines, shown = [], []
    story = Story(lines.append)
    prompt = " ".join(f"$atk:atk-{skill}" for skill in SKILLS)
    run = lab.run(
        name=surface,
        prompt=f"Make this agent better. {prompt}",
        model=SURFACES[surface],
        workdir=root,
        play=whole_round(root, cases, story, surface, shown),
        timeout_s=900,
    )
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert run.final_message == "The Round is over."
    assert any("The Round is completed" in line for line in lines)
    for skill in SKILLS:
        assert f"atk:atk-{skill}: " in request_text(run.requests[0])
        assert f"<name>atk:atk-{skill}</name>" in json.dumps(run.requests[0]["input"])
    assert bool(offered_namespace(run.requests[0], "mcp__atk")) == (surface == "direct")
    compare_with_what_the_server_answered(run, shown[0])
    assert left_behind(lab) == {}


def compare_with_what_the_server_answered(run, conversation):
    answered = [call["result"]["structured_content"] for call in run.mcp_calls]
    assert [result.json for _, _, result in conversation.shown] == answered
    taken = [len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) for answer in answered]
    assert max(taken) <= RESULT_BYTES
    assert sum(taken) <= MOST_BYTES
    assert len(answered) <= MOST_CALLS


ENDLESS = """\
import pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text("started")
time.sleep(3600)
"""


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_no_process_outlives_a_codex_that_is_ended_during_a_run(ending, lab, tmp_path):
    target, started = tmp_path / "target", tmp_path / "started"
    target.mkdir()
    (target / "agent.py").write_text(ENDLESS, encoding="utf-8")
    (target / "cases.jsonl").write_text('{"id": "one", "input": "1"}\n{"id": "two", "input": "2"}\n', encoding="utf-8")
    who = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "An agent that never answers"]):
        subprocess.run(["git", "-C", str(target), *command], check=True)

    def play(conversation):
        project = conversation.call(
            "atk",
            "initialize_project",
            {
                "command": [sys.executable, "agent.py", str(started), "{input}"],
                "external_effects": [],
                "allowed_paths": ["agent.py"],
                "components": [
                    {
                        "component_id": "agent",
                        "role": "agent_code",
                        "change_role": "variable",
                        "source_path": "agent.py",
                    }
                ],
            },
        ).json
        conversation.call("atk", "store_dataset", {"source": "cases.jsonl"})
        run = conversation.call("atk", "run_evaluation", {"revision_commit": project["head"], "wait_seconds": 0}).json
        while True:
            conversation.call("atk", "wait_for_batch", {"batch_id": run["batch_id"], "wait_seconds": 20})

    run = lab.run(name="ended", workdir=target, play=play, signal_when=(started, ending), timeout_s=90)
    assert started.exists(), json.dumps(run.summary(), indent=1)
    assert not run.timed_out
    until = time.monotonic() + PATIENCE_S
    while (left := left_behind(lab)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == {}


def left_behind(lab):
    """Returns the processes that were started with this home: pid → command line."""
    mark = f"HOME={lab.home}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return found
