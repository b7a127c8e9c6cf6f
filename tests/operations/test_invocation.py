"""Arguments that do not fit are refused by name, a repeat is answered from the record, and nothing ever crashes."""

import pytest

from operations.definition import Effect
from operations.invocation import FolderMissing, InvalidArguments, invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.schema.candidates import Candidate
from tests.support.projects import FIX

OPERATIONS = all_operations()
HOSTILE = ["", "\0", "a\0b", "../../x", "²", "x" * 9000, "💥\u2028", "-1", "1" * 5000, 10**30, -1, True, None, [], {}]
IDS = ("round_id", "candidate_id", "batch_id", "issue_id", "dataset_id", "revision_id")


@pytest.fixture(scope="module")
def target(stages, tmp_path_factory):
    return stages.copy("sealed", str(tmp_path_factory.mktemp("invocation") / "target"))


def required(operation, target):
    """Returns arguments that the schema takes, if not the operation."""
    known = {
        **{name: target.ids[name] for name in IDS},
        "primary_issue_id": target.issue_id,
        "left_assessment_id": target.assessment_id,
        "right_assessment_id": target.assessment_id,
        "reason": "because",
        "action": {"finish_round": "complete", "transition_round": "pause"}.get(operation.name, "reject"),
        "target_commit": "f" * 40,
        "source": "missing.csv",
        "record_id": target.round_id,
        "input": "x",
        "source_kind": "langfuse",
        "source_namespace": "exports",
        "mapping_version": "1",
        "probe_authorization_id": "look",
        "question": "Why?",
        "assessment_id": target.assessment_id,
        "knowledge": {"body": "It has to name refunds.", "applicability": "tickets in English"},
        "knowledge_id": "knowledge-1-none",
        "issues": [{"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["nobody"]}],
    }
    return {name: known[name] for name, field in operation.request.model_fields.items() if field.is_required()}


@pytest.mark.parametrize("name", OPERATIONS)
def test_malformed_arguments_are_refused_by_name_and_change_nothing(name, target):
    operation = OPERATIONS[name]
    good, before = required(operation, target), target.facts()
    wrong = {"no_such_field": 1, "project_path": 3}
    takes_anything = {"input"}
    wrong |= {field: [[["no field takes this"]]] for field in set(operation.request.model_fields) - takes_anything}

    for field, value in wrong.items():
        error = target_refusal(target, name, {**good, field: value})
        assert error.code == "invalid_arguments"
        assert error.facts["operation"] == name
        assert field in str(error)
        (again,) = error.next
        assert again.tool == name
        assert again.arguments == {k: v for k, v in {"project_path": target.root, **good}.items() if k != field}
        assert set(again.supply) == {"arguments"}
    for field in good:
        error = target_refusal(target, name, {k: v for k, v in good.items() if k != field})
        (problem,) = error.facts["problems"]
        assert problem.partition(":")[0] == f"{field} is required"
    assert not target.changed_since(before)


def target_refusal(target, name, arguments):
    with pytest.raises(InvalidArguments) as refused:
        invoke(OPERATIONS[name], {"project_path": target.root, **arguments})
    return refused.value


def test_unknown_field_is_answered_with_the_closest_known_one(target):
    error = target.refusal("run_evaluation", revison_commit="f" * 40)

    assert "did you mean revision_commit?" in str(error)


@pytest.mark.parametrize(
    ("operation", "arguments", "told"),
    [
        ("import_evidence", {"source": "x", "source_kind": "langfuse", "mapping": {"inputt": "a"}}, "mean input?"),
        ("freeze_round", {"round_id": "round-1-aaaa", "plan": {"dataset": "x"}}, "mean dataset_id?"),
    ],
)
def test_unknown_field_of_a_part_is_answered_with_the_parts_closest_one(target, operation, arguments, told):
    assert told in str(target.refusal(operation, **arguments))


def test_what_leads_on_from_a_refusal_repeats_what_is_short_and_masks_it(target):
    key = "sk-ant-" + "a1B2c3D4" * 12
    error = target.refusal("store_dataset", source=f"{key}.csv", record_ids=["x" * 2_000], group_by="colour")
    assert error.code == "invalid_arguments"
    (again,) = error.next
    assert again.arguments.keys() == {"project_path", "source"}
    assert key not in str(error.next)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**5000], ids=["nan", "infinity", "digits"])
def test_numbers_that_json_has_not_are_refused(target, number):
    assert target.refusal("wait_for_batch", batch_id=target.batch_id, wait_seconds=number).code == "invalid_arguments"


def test_arguments_nested_without_end_are_refused(target):
    deep = []
    for _ in range(5000):
        deep = [deep]

    error = target.refusal("store_diagnosis", round_id=target.round_id, issues=deep)

    assert error.code == "invalid_arguments"


def test_a_working_folder_that_is_gone_is_told_as_a_folder_that_is_missing(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FolderMissing, match="the folder in which ATK was started"):
        invoke(OPERATIONS["get_status"], {})
    assert invoke(OPERATIONS["get_status"], {"project_path": str(tmp_path)}).project_root == str(tmp_path)


@pytest.mark.parametrize("path", ["/nowhere/at/all", "\0", "cases.csv", "x" * 9000])
def test_project_path_that_is_no_folder_is_refused(target, path):
    assert target.refusal("get_status", project_path=path).code == "folder_missing"


@pytest.mark.parametrize("name", [n for n in OPERATIONS if n not in ("run_evaluation", "cancel_draft")])
def test_hostile_values_meet_an_answer_or_a_refusal_and_never_a_stack(name, stages, tmp_path):
    target = stages.copy("sealed", str(tmp_path / "target"))
    operation = OPERATIONS[name]
    good = required(operation, target)
    for field in operation.request.model_fields:
        if field != "project_path":
            for value in HOSTILE:
                answer_or_refusal(target, name, {**good, field: value})


def answer_or_refusal(target, name, arguments):
    try:
        said = target.call(name, **arguments).message
    except AtkError as error:
        said = f"{error} {error.facts} {error.next}"
    assert said


def test_repeated_request_returns_the_recorded_response_and_acts_once(at):
    target = at("frozen")
    asked = {"round_id": target.round_id, "primary_issue_id": target.issue_id, "request_id": "mine-1"}

    first = target.call("prepare_candidate", **asked)
    position = target.state.position
    again = target.call("prepare_candidate", **asked)

    assert again == first
    assert target.state.position == position
    assert len(target.state.all(Candidate)) == 1


def test_repeat_of_an_effect_on_the_worktree_acts_once(at):
    target = at("compared")
    asked = {"request_id": "keep-1"}

    first = target.decide("keep", **asked)
    again = target.decide("keep", **asked)

    assert again == first
    assert target.git("rev-list", "--count", "HEAD") == "2"


def test_request_id_with_other_arguments_or_for_another_operation_is_refused(at):
    target = at("drafted")
    asked = {"round_id": target.round_id, "candidate_id": target.candidate_id}
    target.call("cancel_draft", **asked, reason="first", request_id="one")
    before = target.facts()

    for error in (
        target.refusal("cancel_draft", **asked, reason="second", request_id="one"),
        target.refusal("create_round", request_id="one"),
    ):
        assert (error.code, error.facts["given"]) == ("request_id_reused", "one")
    assert not target.changed_since(before)
    assert target.read("prompt.txt") != FIX


def test_how_long_a_repeated_call_waits_is_not_what_it_does(at):
    target = at("stored")
    asked = {"revision_commit": target.head, "request_id": "run-1"}

    begun = target.call("run_evaluation", **asked, wait_seconds=0)
    ended = target.call("run_evaluation", **asked, wait_seconds=100)

    assert (ended.batch_id, ended.status) == (begun.batch_id, "sealed")


def test_repeated_run_answers_with_its_present_status(at):
    target = at("stored")
    asked = {"revision_commit": target.head, "request_id": "run-1"}

    begun = target.call("run_evaluation", **asked, wait_seconds=0)
    target.call("wait_for_batch", batch_id=begun.batch_id, wait_seconds=100)
    again = target.call("run_evaluation", **asked, wait_seconds=0)

    assert begun.status == "running"
    assert (again.batch_id, again.status, again.counts["completed"]) == (begun.batch_id, "sealed", 6)
    assert len(target.state.objects["batch"]) == 1


def test_refused_call_does_not_spend_its_request_id(at):
    target = at("frozen")
    asked = {"round_id": target.round_id, "request_id": "again"}
    target.refusal("prepare_candidate", **asked, primary_issue_id="issue-1-none")

    assert target.call("prepare_candidate", **asked, primary_issue_id=target.issue_id).candidate_id


def test_every_writing_operation_takes_a_request_id_or_is_idempotent():
    writing = {name: made for name, made in OPERATIONS.items() if made.effect is not Effect.READ}
    without = {name for name, made in writing.items() if "request_id" not in made.request.model_fields}

    assert without == {"wait_for_batch", "stop_batch", "try_case", "render_assessment_html", "render_round_report"}
