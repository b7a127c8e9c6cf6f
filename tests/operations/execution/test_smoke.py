"""One Case is tried and shown with everything that matters, and nothing of it stays."""

import os
import sys
import tempfile

import pytest

from operations.execution.adapters.options import BadAdapterOption
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing
from operations.execution.configuring import BadConfiguration
from operations.execution.smoke import outcome_of
from operations.tuning.running import UnprotectedEffects
from tests.support.projects import Target


@pytest.fixture
def target(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made = Target(tmp_path / "target", initialize=False)
    made.temporary = str(folder)
    return made


def python(script):
    return [sys.executable, "-c", script, "{output_dir}", "{input}"]


def test_a_smoke_run_shows_the_attempt_and_leaves_nothing(target):
    script = (
        "import json, sys; json.dump([{'component_id': 'prompt', 'password': 'hunter22horse'}], "
        "open(sys.argv[1] + '/loading.json', 'w')); print('api_key=abc123def456 for', sys.argv[2])"
    )
    target.write("leaky.py", script)
    target.initialize(command=[sys.executable, "leaky.py", "{output_dir}", "{input}"])
    smoke = target.call("try_case", input={"q": 1}).smoke
    assert (smoke.outcome, smoke.end, smoke.exit_code, smoke.notes) == ("completed", "exited", 0, [])
    assert 'for {"q":1}' in smoke.output
    assert "abc123def456" not in smoke.output
    assert smoke.loading_evidence[0]["component_id"] == "prompt"
    assert "hunter22horse" not in str(smoke)
    assert smoke.command[-2:] == ["<attempt>/output", '{"q":1}']
    assert os.listdir(target.temporary) == []
    assert not os.path.exists(target.path(".atk/work")) or os.listdir(target.path(".atk/work")) == []


def test_an_agent_that_fails_is_shown_and_its_words_too(target):
    target.initialize(command=python("raise SystemExit('no key')"))
    answer = target.call("try_case", input="x")
    assert (answer.smoke.outcome, answer.smoke.exit_code) == ("agent_error", 1)
    assert "no key" in answer.smoke.output
    assert answer.smoke.notes == ["The agent wrote no loading.json, so nothing proves which components it loads."]


def test_nothing_stays_of_folders_within_folders_without_end(target):
    script = "import os, sys; os.chdir(sys.argv[1])\nfor _ in range(1_500): os.mkdir('d'); os.chdir('d')"
    target.initialize(command=python(script))
    assert target.call("try_case", input="x").smoke.outcome == "completed"
    assert os.listdir(target.temporary) == []


def test_an_agent_that_cannot_be_started_is_shown(target):
    target.initialize(command=["no-such-agent", "{input}"])
    smoke = target.call("try_case", input="x").smoke
    assert (smoke.end, smoke.outcome) == ("not_started", "infra_error")


def test_initializing_starts_nothing(target):
    target.initialize(command=python("open('started', 'w')"))
    assert not os.path.exists(target.path("started"))


def test_a_preparation_that_fails_is_shown_and_the_agent_is_not_started(target):
    target.initialize(
        command=python("open('started', 'w')"), replay_preparation={"argv": ["sh", "-c", "echo no image; exit 2"]}
    )
    smoke = target.call("try_case", input="x").smoke
    assert (smoke.outcome, smoke.exit_code, smoke.output) == ("infra_error", 2, "no image\n")
    assert not os.path.exists(target.path("started"))


def test_nothing_is_started_that_could_act_on_the_world(target):
    target.initialize(command=python("open('started', 'w')"), external_effects=[{"name": "mail"}])
    with pytest.raises(UnprotectedEffects):
        target.call("try_case", input="x")
    assert not os.path.exists(target.path("started"))


def test_a_python_callable_is_pinned_and_tried(target):
    target.write("desk.py", "def answer(value):\n    return value.upper()\n")
    target.initialize(command=[], adapter="python", adapter_options={"call": "desk:answer"})
    assert target.call("try_case", input="loud").smoke.output == "LOUD"
    assert os.path.isfile(target.path(".atk/adapters/runner.py"))
    assert target.git("status", "--porcelain") == "?? desk.py"


def test_declared_variables_that_nobody_set_are_named_and_the_smoke_run_is_refused(target, monkeypatch):
    monkeypatch.delenv("NOBODY_SET_THIS", raising=False)
    target.write("agent.env", "KEY=s3cretvalue\n")
    fields = {"environment": ["NOBODY_SET_THIS"], "env_file": "agent.env"}
    answer = target.initialize(**fields)
    with pytest.raises(VariablesMissing, match="NOBODY_SET_THIS"):
        target.call("try_case", input="x")
    assert answer.warnings == ["environment: NOBODY_SET_THIS not set now; a run is refused until they are."]
    for folder, _, names in os.walk(target.path(".atk")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"s3cretvalue" not in file.read()


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"adapter": "http", "command": []}, BadAdapterOption, "endpoint is required"),
        ({"adapter": "python", "adapter_options": {"call": "a:b"}}, BadConfiguration, "command belongs to"),
        ({"adapter_options": {"x": 1}}, BadAdapterOption, "does not exist"),
        ({"env_file": "absent.env"}, EnvFileUnusable, "No such file"),
        ({"case_environment": {"A B": "x"}}, BadConfiguration, "names of variables"),
        ({"case_environment": {"A": "{case}"}}, BadConfiguration, "case_environment.A cannot be filled in"),
        ({"case_working_directory": "{nope}"}, BadConfiguration, "case_working_directory cannot be filled in"),
        ({"replay_preparation": {"restart": ["x"]}}, BadConfiguration, "fields of replay_preparation are mode, argv"),
        ({"replay_preparation": {"probe": ["x"]}}, BadConfiguration, "needs an argv or a service"),
    ],
)
def test_a_configuration_that_could_not_run_is_refused_by_its_field(target, fields, error, said):
    with pytest.raises(error, match=said):
        target.initialize(**fields)
    assert not os.path.exists(target.path(".atk"))


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ({"change_role": "variable", "version_command": ["x"]}, "fixed components only"),
        ({"change_role": "fixed", "expected_version": "1"}, "needs a version_command"),
        ({"change_role": "fixed", "expected_version": "1 2", "version_command": ["x"]}, "without spaces"),
    ],
)
def test_a_version_that_could_not_be_compared_is_refused(target, component, said):
    with pytest.raises(BadConfiguration, match=said):
        target.initialize(components=[{"component_id": "m", "role": "model", **component}])


def test_a_preparation_without_a_probe_is_warned_of(target):
    (warning,) = target.initialize(replay_preparation={"argv": ["make"]}).warnings
    assert "no probe" in warning


@pytest.mark.parametrize(
    ("end", "code", "outcome"),
    [
        ("exited", 0, "completed"),
        ("exited", 1, "agent_error"),
        ("exited", 75, "infra_error"),
        ("exited", -9, "agent_error"),
        ("timeout", None, "timeout"),
        ("stopped", None, "cancelled"),
        ("not_started", None, "infra_error"),
    ],
)
def test_an_ending_is_called_as_a_run_would_call_it(end, code, outcome):
    assert outcome_of(end, code, (75,)) == outcome
