"""A probe runs what was permitted and nothing else, is paid for by its own permission, and keeps what it saw."""

import json
import os
import sys
import threading

import pytest

from operations.execution.permitting import ProbePermissionInvalid, ProbeScriptChanged
from operations.importers import _attachments
from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning.diagnosis import DiagnosisRefused
from operations.tuning.lifecycle import WrongRoundStatus
from operations.tuning.probing import ProbeInputRefused, ProbeNotPermitted, ProbesUsedUp, ProbeTooLong
from operations.tuning.running import UnprotectedEffects
from storage.project import Project
from storage.projection import UnknownObject
from storage.schema.batches import Batch
from storage.schema.probes import Probe
from storage.schema.rounds import Round
from storage.transaction import RequestIdReused
from tests.support.probes import ASK, LOOK, Probed, clean, permission


@pytest.fixture
def probed(at):
    return lambda script=LOOK, **more: Probed(at("evaluated"), script, **more)


def test_each_case_is_one_execution_whose_output_is_kept_and_citable(probed):
    made = probed()
    answer = made.ask(case_ids=["refund-1", "crash-1"])

    assert (answer.status, answer.end_reason, answer.executions_left) == ("completed", "all_done", 3)
    assert [each["output"] for each in answer.executions] == ["saw I want a refund\n", "saw It did crash again\n"]
    assert [each["case_id"] for each in answer.executions] == ["refund-1", "crash-1"]
    first = made.target.call("read_record", record_id=f"{answer.probe_id}.1").value
    assert first["output"] == "saw I want a refund\n"
    assert first["execution"]["exit_code"] == 0
    cited = [{"batch_id": answer.probe_id, "evidence_id": f"{answer.probe_id}.1"}]
    issue = {"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"]}
    check = {"description": "ask", "status": "completed", "expected": "x", "actual": "y", "evidence_refs": cited}
    made.target.call("store_diagnosis", round_id=made.round_id, issues=[{**issue, "checks": [check]}])
    assert clean(made.target)


def test_an_execution_that_the_probe_does_not_have_is_no_evidence(probed):
    made = probed()
    answer = made.ask(case_ids=["refund-1"])
    cited = [{"batch_id": answer.probe_id, "evidence_id": f"{answer.probe_id}.2"}]
    issue = {"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"], "evidence_refs": cited}
    with pytest.raises(DiagnosisRefused, match=r"has no such Record"):
        made.target.call("store_diagnosis", round_id=made.round_id, issues=[issue])


def test_a_record_is_given_whole(probed):
    made = probed("import json, sys\nr = json.load(open(sys.argv[1]))\nprint(r['id'], r['case_id'], r['output'])\n")
    record_id = f"{made.target.batch_id}.1"
    answer = made.ask(record_ids=[record_id])

    stored = made.target.call("read_record", record_id=record_id).value
    assert answer.executions[0]["output"] == f"{record_id} {stored['case_id']} {stored['output']}\n"
    assert made.probes[-1].case_ids == (stored["case_id"],)


def test_a_question_without_input_is_one_execution(probed):
    made = probed()
    answer = made.ask()
    assert [each["output"] for each in answer.executions] == ["saw None\n"]
    assert answer.executions_left == 4


def test_a_declared_command_needs_no_script(at):
    target = at("evaluated")
    command = {"id": "look", "command": ["sh", "-c", "cat prompt.txt; exit 3"]}
    made = target.call("create_round", probe_permissions=[{**command, "isolation_ref": "reads", "max_calls": 1}])
    answer = target.call("diagnostic_probe", **ASK, round_id=made.round_id)
    assert answer.executions[0]["output"].startswith("invoice -> billing")
    assert (answer.executions[0]["status"], answer.executions[0]["exit_code"]) == ("agent_error", 3)


def test_a_program_that_is_not_there_is_said_and_charged(at):
    target = at("evaluated")
    command = {"id": "look", "command": ["no-such-program"], "isolation_ref": "none", "max_calls": 2}
    made = target.call("create_round", probe_permissions=[command])
    answer = target.call("diagnostic_probe", **ASK, round_id=made.round_id)
    assert answer.executions[0]["status"] == "infra_error"
    assert "no-such-program" in answer.executions[0]["error"]
    assert answer.executions_left == 1


def test_a_probe_leaves_the_rounds_executions_alone(at):
    target = at("diagnosed")
    target.call("finish_round", round_id=target.round_id, action="abandon", reason="another one with a probe")
    made = Probed(target)
    issue = {"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1", "refund-2"]}
    target.call("store_diagnosis", round_id=made.round_id, issues=[issue])
    plan = {"repeatability": "deterministic", "spec_id": target.spec_id, "judger_id": target.judger_id}
    target.call("freeze_round", round_id=made.round_id, plan=plan)
    before = target.call("get_status", round_id=made.round_id).round["budget"]

    answer = made.ask(case_ids=["refund-1"])

    assert answer.status == "completed"
    assert target.call("get_status", round_id=made.round_id).round["budget"] == before
    assert len(target.state.all(Batch)) == 1


def test_secrets_are_masked_before_they_are_stored_or_shown(probed):
    made = probed("print('api_key=abc123def456')\n")
    answer = made.ask(question="Is password=hunter22horse read?")
    assert "abc123def456" not in answer.model_dump_json()
    for folder, _, names in os.walk(made.target.path(".atk")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            assert b"hunter22horse" not in data
            assert name == "look.py" or b"abc123def456" not in data


@pytest.mark.parametrize("kept", [True, False])
def test_attachments_are_the_datasets_bytes_or_refused_by_name(at, kept, monkeypatch):
    if not kept:
        monkeypatch.setattr(_attachments.KeptAttachments, "keep", lambda *_: None)
    target = at("initialized")
    target.write("data/letter.txt", "a letter\n")
    target.write("data/cases.jsonl", json.dumps({"id": "a", "input": "x", "attachments": ["letter.txt"]}) + "\n")
    target.write(".git/info/exclude", "data\n")
    target.call("store_dataset", source="data/cases.jsonl")
    script = "import json, sys\nprint(open(json.load(open(sys.argv[1]))[0]['path']).read())\n"
    made = Probed(target, script, command=[sys.executable, ".atk/probes/look.py", "{attachments_file}"])
    assert made.ask(case_ids=["a"]).executions[0]["output"] == "a letter\n\n"

    target.write("data/letter.txt", "another letter\n")

    if kept:
        assert made.ask(case_ids=["a"]).executions[0]["output"] == "a letter\n\n"
    else:
        with pytest.raises(ProbeInputRefused, match=r"letter\.txt"):
            made.ask(case_ids=["a"])


# ---- permission ----------------------------------------------------------------------------------------------------


def test_a_changed_script_is_not_started(probed):
    made = probed()
    made.target.write(".atk/probes/look.py", "print('something else')\n")
    with pytest.raises(ProbeScriptChanged, match="has the digest"):
        made.ask()
    os.remove(made.target.path(".atk/probes/look.py"))
    os.symlink(made.target.path("agent.sh"), made.target.path(".atk/probes/look.py"))
    with pytest.raises(ProbeScriptChanged, match="no usable file"):
        made.ask()
    os.remove(made.target.path(".atk/probes/look.py"))
    with pytest.raises(ProbeScriptChanged, match="does not exist"):
        made.ask()
    assert made.probes == []


def test_the_script_that_runs_is_the_one_that_was_read(probed):
    """A script that is exchanged between two Executions of one probe changes nothing."""
    made = probed(
        "import os, sys\nprint(len(open(sys.argv[0]).read()), flush=True)\n"
        "open('.atk/probes/look.py', 'w').write('print(0)')\n"
    )
    answer = made.ask(case_ids=["refund-1", "refund-2"])
    outputs = [each["output"] for each in answer.executions]
    assert outputs[0] == outputs[1] != "0\n"


def test_what_is_not_permitted_is_refused_by_name(probed):
    made = probed()
    with pytest.raises(ProbeNotPermitted) as refused:
        made.ask(probe_authorization_id="other")
    assert refused.value.facts["known"] == ["look"]
    with pytest.raises(ProbeNotPermitted):
        made.target.call("diagnostic_probe", **ASK)  # the project itself permits nothing
    assert made.probes == []


def test_cases_that_are_not_permitted_or_not_there_are_refused(probed):
    made = probed(case_ids=["refund-1"])
    with pytest.raises(ProbeInputRefused, match="does not name"):
        made.ask(case_ids=["refund-2"])
    with pytest.raises(ProbeInputRefused, match="no Case of the dataset"):
        made.ask(case_ids=["nobody"])
    with pytest.raises(ProbeInputRefused, match="no stored Record"):
        made.ask(record_ids=["batch-1-none.1"])
    records = made.target.call("read_record", record_id=made.target.batch_id, field="records").value
    other = next(record["id"] for record in records if record["case_id"] != "refund-1")
    with pytest.raises(ProbeInputRefused, match="does not name"):
        made.ask(record_ids=[other])
    with pytest.raises(ProbeInputRefused, match="twice"):
        made.ask(case_ids=["refund-1", "refund-1"])
    assert made.ask(case_ids=["refund-1"]).status == "completed"


def test_an_exhausted_permission_pays_nothing_more(probed):
    made = probed(max_calls=3)
    made.ask(case_ids=["refund-1", "refund-2"])
    with pytest.raises(ProbesUsedUp) as refused:
        made.ask(case_ids=["refund-1", "refund-2"])
    assert (refused.value.left, refused.value.needed, refused.value.limit) == (1, 2, 3)
    assert made.ask(case_ids=["crash-1"]).executions_left == 0
    with pytest.raises(ProbesUsedUp):
        made.ask()
    assert len(made.probes) == 2


def test_more_than_one_call_has_time_for_is_refused(probed):
    made = probed(timeout_seconds=100)
    with pytest.raises(ProbeTooLong) as refused:
        made.ask(case_ids=["refund-1", "refund-2", "crash-1"])
    assert refused.value.fits == 2


def test_a_closed_round_permits_nothing(probed):
    made = probed()
    made.target.call("finish_round", round_id=made.round_id, action="abandon", reason="enough")
    with pytest.raises(WrongRoundStatus):
        made.ask()


def test_an_issue_or_a_round_that_is_not_there_is_refused(probed):
    made = probed()
    for field in ("issue_id", "round_id", "dataset_id"):
        with pytest.raises(UnknownObject):
            made.ask(**{field: "nothing-1-none", "case_ids": ["refund-1"]})


def test_an_issue_of_another_round_is_refused(at):
    target = at("diagnosed")
    made = Probed(target)
    with pytest.raises(ProbeInputRefused, match="is an Issue of"):
        made.ask(issue_id=target.issue_id)
    issues = [{"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"]}]
    own = target.call("store_diagnosis", round_id=made.round_id, issues=issues).issue_id
    assert made.ask(issue_id=own, case_ids=["refund-1"]).status == "completed"
    assert made.probes[-1].issue_id == own


def test_nothing_starts_while_an_effect_is_unprotected(at):
    target = at("blank")
    ready = {"command": ["sh", "agent.sh"], "components": [], "protected_paths": []}
    target.initialize(**ready, external_effects=[{"name": "mail"}])
    made = Probed(target)
    with pytest.raises(UnprotectedEffects):
        made.ask()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"script_path": "look.py"}, "script_path"),
        ({"script_path": ".atk/probes/../../agent.sh"}, "script_path"),
        ({"script_path": ".atk/probes/missing.py"}, "script_path"),
        ({"script_path": None}, "command"),
        ({"command": ["python3", "other.py"]}, "command"),
        ({"command": ["python3", ".atk/probes/look.py", ".atk/probes/more.py"]}, "command"),
        ({"command": ["python3", ".atk/probes/look.py", "{inptu}"]}, "command"),
        ({"command": ["python3", ".atk/probes/look.py", "--api-key=abc123def456"]}, "command"),
        ({"working_directory": "../elsewhere"}, "working_directory"),
        ({"working_directory": ".atk"}, "working_directory"),
        ({"working_directory": "nowhere"}, "working_directory"),
    ],
)
def test_a_permission_that_could_not_hold_is_refused_before_anything_is_stored(at, wrong, field):
    target = at("evaluated")
    target.write(".atk/probes/look.py", LOOK)
    with pytest.raises(ProbePermissionInvalid) as refused:
        target.call("create_round", probe_permissions=[permission(**wrong)])
    assert refused.value.field == field
    assert "abc123def456" not in str(refused.value)
    assert target.state.all(Round) == []


def test_a_name_is_permitted_once(at):
    target = at("evaluated")
    target.write(".atk/probes/look.py", LOOK)
    with pytest.raises(ProbePermissionInvalid, match="given twice"):
        target.call("create_round", probe_permissions=[permission(), permission()])


# ---- without Git ---------------------------------------------------------------------------------------------------


@pytest.fixture
def analysed(tmp_path):
    """A project for analysis only: no Git, no agent, one permission."""
    from tests.support.projects import Target

    root = tmp_path / "analysis"
    root.mkdir()
    target = Target.__new__(Target)
    target.root = os.path.realpath(root)
    target.call("initialize_project", analysis_only=True)
    target.write(".atk/probes/look.py", LOOK)
    target.call("initialize_project", analysis_only=True, revise=True, probe_permissions=[permission()])
    target.write_cases([("a", "one", "x"), ("b", "two", "y")])
    target.store_cases()
    return target


def test_an_analysis_only_project_probes_without_git(analysed):
    answer = analysed.call("diagnostic_probe", **ASK, case_ids=["b"])
    assert (answer.status, answer.executions[0]["output"]) == ("completed", "saw two\n")
    assert answer.executions_left == 4
    assert answer.notes == ["There is no Git here, so nothing says whether the probe changed files."]
    probe = analysed.state.get(Probe, answer.probe_id)
    assert (probe.commit, probe.leases_worktree, probe.scope_id) == (None, False, analysed.state.project_id)


def test_a_round_without_a_baseline_probes_and_cites_what_it_saw(analysed):
    batch_id = imported(analysed)
    made = analysed.call("create_round", batch_ids=[batch_id], probe_permissions=[permission(max_calls=2)])
    ask = {**ASK, "round_id": made.round_id}
    answer = analysed.call("diagnostic_probe", **ask, case_ids=["a"], record_ids=[f"{batch_id}.1"])

    assert (answer.status, answer.executions_left) == ("completed", 0)
    assert answer.executions[0]["output"] == "saw one\n"
    assert f"'id': '{batch_id}.1'" in answer.executions[1]["output"]
    cited = [{"batch_id": answer.probe_id, "evidence_id": f"{answer.probe_id}.1"}]
    issue = {"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["a"], "evidence_refs": cited}
    stored = analysed.call("store_diagnosis", round_id=made.round_id, issues=[issue])
    assert stored.issue_id


def imported(target):
    """Imports one result. Returns the batch's id."""
    target.write("results.jsonl", json.dumps({"case": "a", "question": "one", "answer": "1"}) + "\n")
    mapping = {"input": "question", "output": "answer", "case_id": "case"}
    about = {"source_kind": "batch_results", "source_namespace": "exports", "mapping_version": "1"}
    return target.call("import_evidence", source="results.jsonl", mapping=mapping, **about).batch_id


def test_a_project_that_permits_anew_keeps_what_was_used(analysed):
    analysed.call("diagnostic_probe", **ASK, case_ids=["a", "b"])
    more = {"analysis_only": True, "revise": True}
    analysed.call("initialize_project", **more, probe_permissions=[permission(max_calls=3)])
    assert analysed.call("diagnostic_probe", **ASK).executions_left == 0
    with pytest.raises(ProbesUsedUp):
        analysed.call("diagnostic_probe", **ASK)


def test_a_project_refuses_a_permission_with_a_field_that_is_none(analysed):
    wrong = {**permission(), "max_call": 3}
    with pytest.raises(ProbePermissionInvalid, match="max_call") as refused:
        analysed.call("initialize_project", analysis_only=True, revise=True, probe_permissions=[wrong])
    assert refused.value.step == "initialize_project"


# ---- stopping and repeating ----------------------------------------------------------------------------------------


def test_a_cancelled_probe_stops_and_only_what_began_is_charged(probed):
    made = probed("import time\nopen('begun', 'w')\ntime.sleep(600)\n")
    target = made.target
    target.write(".git/info/exclude", "begun\n")
    given = {"project_path": target.root, **ASK, "round_id": made.round_id, "case_ids": ["refund-1", "refund-2"]}
    answer = invoke(all_operations()["diagnostic_probe"], given, cancelled=lambda: os.path.exists(target.path("begun")))
    assert (answer.status, answer.end_reason, answer.executions_left) == ("interrupted", "stopped", 4)
    assert [each["status"] for each in answer.executions] == ["cancelled"]
    assert made.probes[-1].missing_record_ids == (f"{answer.probe_id}.2",)
    assert clean(target)


def test_the_same_request_twice_is_one_probe(probed):
    made = probed()
    first = made.ask(case_ids=["refund-1"], request_id="once")
    again = made.ask(case_ids=["refund-1"], request_id="once")
    assert again == first
    assert len(made.probes) == 1
    with pytest.raises(RequestIdReused):
        made.ask(case_ids=["refund-2"], request_id="once")


def test_the_last_execution_is_given_to_one_of_two_that_ask_at_once(analysed):
    analysed.call("initialize_project", analysis_only=True, revise=True, probe_permissions=[permission(max_calls=1)])
    met = []

    def ask():
        try:
            met.append(analysed.call("diagnostic_probe", **ASK).status)
        except ProbesUsedUp as refused:
            met.append(refused.code)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert sorted(met) == ["completed", "probes_used_up", "probes_used_up"]


def test_a_refused_probe_spends_nothing(probed):
    made = probed()
    position = made.target.state.position
    with pytest.raises(ProbeInputRefused):
        made.ask(case_ids=["nobody"], request_id="once")
    assert made.target.state.position == position
    assert made.ask(case_ids=["refund-1"], request_id="once").executions_left == 4
    assert clean(made.target)


def test_the_environment_is_the_agents_and_no_more(at, monkeypatch):
    monkeypatch.setenv("GIVEN_ON", "yes")
    monkeypatch.setenv("KEPT_BACK", "no")
    target = at("blank")
    target.initialize(command=["sh", "agent.sh"], components=[], protected_paths=[], environment=["GIVEN_ON"])
    made = Probed(target, "import os, json\nprint(json.dumps(dict(os.environ)))\n")
    shown = json.loads(made.whole(made.ask())[0]["output"])
    assert shown["GIVEN_ON"] == "yes"
    assert "KEPT_BACK" not in shown


def test_the_command_of_a_script_is_the_servers_python_unless_said(probed):
    made = probed()
    record = made.whole(made.ask())[0]
    assert record["command"][0] == sys.executable
    assert Project.open(made.target.root).state().get(Round, made.round_id).probe_permissions[0].script_sha256
