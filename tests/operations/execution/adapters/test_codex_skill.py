"""A business Skill run by the real Codex CLI in a home of its own, with a scripted model."""

import hashlib
import json
import os
import shutil

import pytest

from operations.execution.adapters import codex_skill
from operations.execution.adapters.codex_skill import configuration, metrics, outcome, prompt_of, toml
from operations.execution.adapters.process import agent_process
from storage.schema.projects import Project
from tests.support.codexlab.stub import ResponsesStub

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")
SKILL = """\
---
name: triage
description: Names the desk that a ticket belongs to. Use for every ticket.
---

# Triage

An invoice goes to billing. Say the desk's name and nothing else.
"""
no_codex = pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN")


@pytest.fixture
def skill(bench):
    folder = os.path.join(bench.target, "skills", "triage")
    os.makedirs(folder)
    with open(os.path.join(folder, "SKILL.md"), "w") as file:
        file.write(SKILL)
    with open(os.path.join(folder, "reference.md"), "w") as file:
        file.write("Never read by this script.\n")
    return folder


def run(bench, stub, inputs, timeout=120, **options):
    """Evaluates the Skill against a scripted model, with nothing that could leave the machine."""
    provider = {
        "name": "scripted",
        "base_url": stub.base_url,
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    given = {
        "skill_path": "skills/triage",
        "component_id": "skill",
        "codex": CODEX,
        "model": "stub-model",
        "config": {"model_provider": "stub", "model_providers": {"stub": provider}},
        "arguments": ["--disable", "plugins"],
    }
    project = Project(
        id="project-1-abcd",
        workspace_path=bench.target,
        created_at="2024-05-06T07:08:09+00:00",
        analysis_only=True,
        adapter="codex-skill",
        adapter_options={**given, **options},
        run_config_digest="0" * 64,
    )
    process = agent_process(project, bench.target, timeout_seconds=timeout)
    proxy = f"http://127.0.0.1:{stub.port}"
    guard = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "http_proxy"), proxy)
    return bench.run(
        process.command,
        inputs,
        environment={**process.environment, **guard, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        infrastructure_exit_codes=process.infrastructure_exit_codes,
        timeout_seconds=timeout,
    )


def left_of(bench):
    """Returns the processes whose environment speaks of the bench's work folder, as Codex's does of its home."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                found += [name] if bench.work.encode() in file.read() else []
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@pytest.mark.slow
@no_codex
def test_the_final_message_is_the_output_and_the_session_proves_what_was_loaded(bench, skill):
    script = {"turns": [{"steps": [{"say": "billing"}]}, {"steps": [{"say": "other"}]}]}
    with ResponsesStub(script) as stub:
        records = run(bench, stub, ["Where is my invoice?", {"ticket": "hello"}])
        requests = stub.log.requests
        assert (stub.log.errors, stub.log.egress) == ([], [])
    assert [(r.execution.status, r.output) for r in records] == [("completed", "billing"), ("completed", "other")]
    assert "Where is my invoice?" in json.dumps(requests[0])
    for request in requests:
        assert any(SKILL.strip() in text for text in codex_skill.strings(request))
    for record in records:
        loaded = {event["path"]: event for event in record.loading_evidence}
        states = {path: event["state"] for path, event in loaded.items()}
        assert states == {"SKILL.md": "loaded", "reference.md": "staged"}
        assert loaded["SKILL.md"]["component_id"] == "skill"
        assert loaded["SKILL.md"]["staged_from_path"] == os.path.join(skill, "SKILL.md")
        assert loaded["SKILL.md"]["fingerprint"] == hashlib.sha256(SKILL.encode()).hexdigest()
        assert record.metrics["tool_calls"] == 0
    assert os.listdir(bench.target) == ["skills"]


@pytest.mark.slow
@no_codex
@pytest.mark.usefixtures("skill")
def test_a_model_that_cannot_answer_says_nothing_about_the_skill(bench):
    with ResponsesStub({"turns": [{"http_status": 500}]}) as stub:
        (record,) = run(bench, stub, ["hi"])
    assert record.execution.status == "infra_error"
    assert "could not finish the turn" in record.stderr_tail


@pytest.mark.slow
@no_codex
@pytest.mark.usefixtures("skill")
def test_a_session_that_takes_too_long_is_a_timeout_and_leaves_no_codex(bench):
    with ResponsesStub({"turns": [{"delay_s": 30, "steps": [{"say": "late"}]}]}) as stub:
        (record,) = run(bench, stub, ["hi"], timeout=5)
    assert record.execution.status == "timeout"
    assert left_of(bench) == []


class Nobody:
    """A model that no attempt gets as far as asking."""

    base_url, port = "http://127.0.0.1:9/v1", 9


def test_a_skill_that_is_missing_is_the_agents_error(bench):
    (record,) = run(bench, Nobody, ["hi"], codex="codex")
    assert record.execution.status == "agent_error"
    assert "no SKILL.md" in record.stderr_tail


@pytest.mark.usefixtures("skill")
def test_a_codex_that_is_missing_is_infrastructure(bench):
    (record,) = run(bench, Nobody, ["hi"], codex="no-such-codex")
    assert record.execution.status == "infra_error"


def test_settings_become_a_configuration_that_parses_as_it_was_given():
    import tomllib

    config = {"model_providers": {"a b": {"list": [1, True, "ü\n\"'"], "deep": {"x": 0.5}}}, "n": -3}
    found = tomllib.loads(configuration({"config": config, "model": "m"}))
    assert found == {"check_for_update_on_startup": False, "analytics": {"enabled": False}, "model": "m", **config}
    with pytest.raises(codex_skill.Ended):
        toml(None)


def test_the_last_message_is_the_output_and_a_failed_turn_is_not_the_agents():
    said = [{"type": "item.completed", "item": {"type": "agent_message", "text": t}} for t in ("first", "last")]
    assert outcome(said, 0) == "last"
    for events, code, expected in (
        ([*said, {"type": "turn.failed", "error": {"message": "overloaded"}}], 1, codex_skill.INFRA_ERROR),
        (said, 2, codex_skill.INFRA_ERROR),
        ([], 0, codex_skill.AGENT_ERROR),
    ):
        with pytest.raises(codex_skill.Ended) as ended:
            outcome(events, code)
        assert ended.value.code == expected


def test_tool_calls_and_tokens_are_counted_over_all_turns():
    events = [
        {"type": "item.completed", "item": {"type": "command_execution"}},
        {"type": "item.completed", "item": {"type": "agent_message"}},
        {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 1}},
        {"type": "turn.completed", "usage": {"input_tokens": 4}},
    ]
    assert metrics(events) == {"tool_calls": 1, "input_tokens": 7, "output_tokens": 1}


@pytest.mark.parametrize(
    ("template", "value", "paths", "asked"),
    [
        ("${skill}\n\n{input}", "hi", [], "$triage\n\nhi"),
        ("${skill}\n\n{input}", {"a": 1}, ["/x/a.pdf", "/x/b"], '$triage\n\n{"a": 1}\n\nAttachments:\n/x/a.pdf\n/x/b'),
        ("read {attachments}: {input}", "{attachments} {skill}", ["/x/a"], "read /x/a: {attachments} {skill}"),
        ("{input}{attachments}", "hi", [], "hi"),
    ],
)
def test_a_prompt_is_filled_in_once_and_names_the_attachments(template, value, paths, asked):
    assert prompt_of({"prompt": template, "skill_name": "triage"}, value, paths) == asked
