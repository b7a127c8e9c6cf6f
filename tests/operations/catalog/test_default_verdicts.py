"""A rest that nobody judged is marked in each row and in the Assessment, and decides no comparison."""

import pytest

from operations.importers._assessment_csv import read_assessment_csv
from operations.verification import verify
from storage import contents
from storage.schema.assessments import DEFAULTED, Assessment
from tests.operations.catalog.stages import EXACT, SPEC
from tests.operations.catalog.test_blind_judging import dealt_round
from tests.support.projects import call_of

CLIENT = {"method": "client"}
REST = {"verdict": "pass", "reason": "a look at a sample showed nothing else"}


def rows(target, assessment_id):
    path = f"assessments/{assessment_id}/assessment.csv"
    return read_assessment_csv(contents.checked(target.project, target.state, path))


def test_some_verdicts_and_a_rest_are_an_assessment_that_says_which_is_which(at):
    target = at("evaluated")
    one = {"record_id": f"{target.batch_id}.2", "verdict": "fail", "reason": "wrong queue"}
    made = target.call(
        "store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=CLIENT, rows=[one], rest=REST
    )
    stored = target.state.get(Assessment, made.assessment_id)
    found = rows(target, made.assessment_id)
    assert made.counts == {"correct": {"fail": 1, "pass": len(found) - 1}}
    assert made.defaulted == stored.defaulted == {"correct": len(found) - 1}
    assert stored.rest.model_dump() == REST
    assert [r.judger_kind for r in found].count(DEFAULTED) == len(found) - 1
    assert [r.reason for r in found if r.judger_kind != DEFAULTED] == ["wrong queue"]
    assert any("pass by default" in warning for warning in made.warnings)
    assert verify(target.project).findings == []


def test_without_a_rest_what_is_missing_is_refused_and_a_rest_of_nothing_is_not_kept(at):
    target = at("assessed")
    judged = {"batch_id": target.batch_id, "spec_id": target.spec_id}
    assert target.refusal("store_assessment", **judged, judger=CLIENT).code == "assessment_incomplete"
    again = {**judged, "judger_id": target.judger_id, "supersede_reason": "once more"}
    made = target.call("store_assessment", **again, rest=REST)
    assert (made.defaulted, target.state.get(Assessment, made.assessment_id).rest) == ({}, None)


@pytest.mark.parametrize("verdict", ["pass", "fail"])
def test_a_comparison_takes_what_nobody_judged_for_unknown(at, verdict):
    target = at("judged")
    calibrated = [
        {"source_ref": "a", "expected": "pass", "observed": "pass"},
        {"source_ref": "b", "expected": "fail", "observed": "fail"},
    ]
    judger = {"method": "client", "readiness": "calibrated", "calibration_examples": calibrated}
    value = target.round
    one = {"record_id": f"{target.batch_id}.1", "verdict": "fail"}
    first = target.call(
        "store_assessment",
        batch_id=target.batch_id,
        spec_id=target.spec_id,
        judger=judger,
        rows=[one],
        rest={**REST, "verdict": verdict},
    )
    judger_id = first.judger_id
    judgers = {"judger_id": judger_id, "judger_digest": target.state.get(Assessment, first.assessment_id).judger_digest}
    with target.project.transaction(call_of()) as tx:
        tx.put(value.model_copy(update={"plan": value.plan.model_copy(update=judgers)}))
        tx.commit(target.call("get_status"))
    target.ids["judger_id"] = judger_id
    for side in ("left", "right"):
        batch_id = target.ids[f"{side}_batch_id"]
        own = [{"record_id": f"{batch_id}.1", "verdict": "pass" if side == "right" else "fail"}]
        more = {"rest": {**REST, "verdict": verdict}, "rows": own}
        target.ids[f"{side}_assessment_id"] = target.judge(batch_id, **more)
    assert target.compare().result == "insufficient"


def test_a_deal_takes_no_rest(at):
    target = dealt_round(at)
    deal_id = target.call("next_judgements", round_id=target.round_id).deal_id
    error = target.refusal("store_assessment", deal_id=deal_id, rest=REST)
    assert (error.code, "for unknown" in str(error)) == ("judged_together", True)


def test_cases_without_an_expected_answer_are_named_before_and_when_they_are_judged(at):
    target = at("initialized")
    target.write("some.csv", "id,input,expected\na,refund me,billing\nb,crash,\n")
    stored = target.call("store_dataset", source="some.csv")
    assert any("Cases without an expected answer: 1 of 2" in warning for warning in stored.warnings)
    ran = target.call("run_evaluation", dataset_id=stored.dataset_id, revision_commit=target.head, wait_seconds=200)
    made = target.call("store_assessment", batch_id=ran.batch_id, evaluation_spec=SPEC, judger=EXACT)
    assert "such as b. The rule exact compares with one" in made.warnings[0]
