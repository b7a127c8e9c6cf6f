"""The pure rules beside the gate: what a candidate may touch, what a decision rests on, what comes next."""

import pytest

from operations.tuning import advice, comparing, deciding, diagnosis, freezing, judging, running, scope
from storage.schema.assessments import Assessment, EvaluationSpec, Judger, VerdictRow
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, EvidenceRef, Issue
from storage.schema.datasets import Dataset
from storage.schema.evidence import EvidenceRecord, Execution
from storage.schema.projects import Component, ExternalEffect, Project
from storage.schema.rounds import Budget, Plan, Revision, Round
from storage.schema.validations import CaseLists, GateStatistics, Validation

IN_SCOPE = lambda path, patterns: any(path == p or path.startswith(f"{p}/") for p in patterns)  # noqa: E731
B0, R1 = "revision-b0", "revision-1"


def a_scope(*declared, frozen=()):
    return scope.Scope(
        round_id="round-1-r", candidate_id="candidate-1-c", declared=declared, allowed=("docs", "a.txt"),
        protected=("docs/fixed.md",), frozen=frozenset(frozen),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "declared", "frozen", "problem", "paths"),
    [
        (["a.txt", "b.txt"], (), (), "Changed outside allowed_paths", ["b.txt"]),
        (["docs/fixed.md"], (), (), "Changed but protected", ["docs/fixed.md"]),
        (["docs/x", "a.txt"], ("a.txt",), (), "Changed but not declared", ["docs/x"]),
        (["a.txt"], ("a.txt", "docs/y"), (), "Declared but not changed", ["docs/y"]),
        (["a.txt"], (), ("a.txt",), "Changed though uncommitted before the Round", ["a.txt"]),
    ],
)
def test_change_outside_its_frame_is_refused_by_name(changed, declared, frozen, problem, paths):
    with pytest.raises(scope.OutOfScope) as refused:
        scope.check_changes(a_scope(*declared, frozen=frozen), changed, IN_SCOPE)

    assert (refused.value.problem, refused.value.paths) == (problem, paths)
    brought_back_by_git = "Put those files back (git restore" in str(refused.value)
    assert brought_back_by_git != ("action abandon" in str(refused.value)) == bool(frozen)


def test_change_within_its_frame_is_let_through():
    scope.check_changes(a_scope(), ["a.txt", "docs/x"], IN_SCOPE)
    scope.check_changes(a_scope("a.txt"), ["a.txt"], IN_SCOPE)
    scope.check_declared(a_scope("docs/new"), IN_SCOPE)


def validation(name, **more):
    usual = {"mode": "incremental", "candidate_id": "candidate-1-c", "round_id": "round-1-r", "result": "pass"}
    usual |= {"left_revision_id": B0, "right_revision_id": R1, "rule": "statistical", "target_case_ids": ("a",)}
    return Validation.model_construct(id=name, **{**usual, **more})


def test_only_the_newest_validation_may_be_named():
    both = [validation("validation-1"), validation("validation-2", result="regression")]

    assert deciding.newest(both, None, "it").id == "validation-2"
    assert deciding.newest(both, "validation-2", "it").id == "validation-2"
    assert deciding.newest([], None, "it") is None
    for given, known in (("validation-1", both), ("validation-9", both), ("validation-1", [])):
        with pytest.raises(deciding.NotNewestValidation):
            deciding.newest(known, given, "it")


def test_validation_of_another_candidate_revision_or_mode_does_not_count():
    candidate = Candidate.model_construct(id="candidate-1-c", revision_id=R1)
    others = [
        validation("validation-2", candidate_id="candidate-2-c"),
        validation("validation-3", right_revision_id="revision-2"),
        validation("validation-4", mode="final"),
    ]
    value = Round.model_construct(id="round-1-r", baseline_revision_id=B0, current_revision_id=R1)

    assert [v.id for v in deciding.of_candidate(candidate, [validation("validation-1"), *others])] == ["validation-1"]
    assert [v.id for v in deciding.of_round(value, [validation("validation-1"), *others])] == ["validation-4"]


def test_looks_are_counted_by_content_over_all_rounds_and_only_where_they_are_charged():
    plans = {
        "round-1-r": Plan.model_construct(case_fingerprints={"a": "f1", "b": "f2"}),
        "round-2-r": Plan.model_construct(case_fingerprints={"renamed": "f1"}),
    }
    made = [
        validation("validation-1", target_case_ids=("a", "b")),
        validation("validation-2", round_id="round-2-r", target_case_ids=("renamed",)),
        validation("validation-3", mode="final"),
        validation("validation-4", rule="counts"),
    ]

    assert {x.case_id: x.count for x in comparing.looks(made, plans)} == {"f1": 2, "f2": 1}


def record(n, case_id, repeat, status="completed"):
    execution = Execution.model_construct(status=status)
    return EvidenceRecord.model_construct(id=f"b.{n}", n=n, case_id=case_id, repeat=repeat, execution=execution)


def row(n, verdict, validity="valid"):
    return VerdictRow.model_construct(
        record_id=f"b.{n}", dimension="correct", verdict=verdict, validity=validity, judger_kind="rule"
    )


def test_what_is_not_known_stays_unknown_in_a_table():
    records = [
        record(1, "a", 1), record(2, "a", 2, "infra_error"), record(3, "b", 1, "timeout"), record(4, "b", 2),
        record(5, "c", 1, "agent_error"),
    ]  # fmt: skip
    rows = [row(1, "pass"), row(2, "pass"), row(3, "pass"), row(4, "pass", "invalid"), row(5, "fail")]

    for late, timed_out in ((False, "unknown"), (True, "fail")):
        found = comparing.table(rows, records, ["correct"], ["a", "b", "c"], 2, timeout_is_failure=late)
        assert found == {"correct": {"a": ("pass", "unknown"), "b": (timed_out, "unknown"), "c": ("fail", "unknown")}}


def test_comparison_is_written_so_that_a_spreadsheet_runs_nothing():
    left = {"correct": {"=1+1": ("pass", "unknown"), 'a,"b"': ("fail", "not_applicable")}}

    lines = comparing.comparison_csv(left, left).decode().split("\n")

    assert lines == ["dimension,case_id,left,right", "correct,'=1+1,pu,pu", 'correct,"a,""b""",fn,fn', ""]


def test_cases_that_an_accepted_candidate_fixed_are_compared_from_then_on():
    plan = Plan.model_construct(
        case_ids=("a", "b", "c", "d"), protection_case_ids=("d",),
        target_case_ids_by_issue={"issue-1": ("a",), "issue-2": ("b",)},
    )  # fmt: skip
    value = Round.model_construct(id="round-1-r", accepted_candidate_ids=("candidate-1-c",))
    statistics = GateStatistics.model_construct(
        primary_dimension="correct",
        cases=(CaseLists(dimension="correct", fixed=("c",)), CaseLists(dimension="other", fixed=("b",))),
    )
    kept, made = Candidate.model_construct(id="candidate-1-c"), validation("validation-1", statistics=statistics)

    assert running.incremental_cases(plan, value, [], [], "issue-1") == ("a", "d")
    assert running.incremental_cases(plan, value, [], [], None) == ("a", "b", "d")
    assert running.incremental_cases(plan, value, [kept], [made], "issue-1") == ("a", "c", "d")


def a_batch(**more):
    usual = {"id": "batch-1-b", "status": "sealed", "phase": "final", "revision_id": B0, "round_id": "round-1-r"}
    usual |= {"counts": {"completed": 6}, "slots": 6, "case_ids": ("a",), "missing_record_ids": (), "started_record": 9}
    usual |= {"dataset_id": "dataset-1-d", "repeats": 1}
    return Batch.model_construct(**{**usual, **more})


@pytest.mark.parametrize(("status", "stands"), [("sealed", True), ("running", True), ("contaminated", False)])
def test_final_side_is_run_once_unless_it_was_lost(status, stands):
    value = Round.model_construct(id="round-1-r", baseline_revision_id=B0, current_revision_id=R1)
    revision = Revision.model_construct(id=B0)

    if stands:
        with pytest.raises(running.FinalSideStands):
            running.require_final_open(value, revision, [a_batch(status=status)])
    else:
        running.require_final_open(value, revision, [a_batch(status=status)])
    with pytest.raises(running.RevisionMismatch):
        running.require_final_open(value, Revision.model_construct(id="revision-9"), [])


def test_effects_need_protection_before_any_run():
    open_effect = Project.model_construct(id="project-1-p", external_effects=(ExternalEffect(name="mail"),))
    running.require_protected(Project.model_construct(external_effects=()))

    with pytest.raises(running.UnprotectedEffects) as refused:
        running.require_protected(open_effect)

    assert refused.value.names == ["mail"]


def test_current_assessment_is_the_newest_of_its_batch_judger_and_specification():
    def made(name, batch="b", judger="j", spec="s"):
        return Assessment.model_construct(id=name, batch_id=batch, judger_digest=judger, spec_digest=spec)

    known = [made("1"), made("2"), made("3", batch="c"), made("4", judger="k"), made("5", spec="t")]

    assert judging.current(known, "b", "j", "s").id == "2"
    assert judging.current(known, "b", "k", "t") is None


def test_specification_of_the_same_content_is_the_stored_one():
    given = {
        "version": "1", "boundary": "all", "dimensions": ["d"], "dimension_rules": {"d": "r"}, "denominator_rule": "x"
    }  # fmt: skip
    first = judging.spec_from(given, "spec-1-a", "batch-1-b", [])

    assert judging.spec_from(given, "spec-2-b", "batch-1-b", [first]) is first
    assert judging.spec_from({**given, "version": "2"}, "spec-2-b", "batch-1-b", [first]).id == "spec-2-b"
    assert isinstance(first, EvaluationSpec)


@pytest.mark.parametrize("number", ["0", "7", "01", "٣", "²", "-1", ""])
def test_evidence_that_no_batch_holds_carries_no_claim(number):
    issue = Issue(
        id="issue-1-i", name="one", round_id="round-1-r", revision=1, created_at="now", symptom="s", hypothesis="h",
        root_cause_status="hypothesis", case_ids=("a",), disposition="local_candidate", next_action="try",
        evidence_refs=(EvidenceRef(batch_id="batch-1-b", evidence_id=f"batch-1-b.{number}"),),
    )  # fmt: skip
    good = issue.model_copy(update={"evidence_refs": (EvidenceRef(batch_id="batch-1-b", evidence_id="batch-1-b.6"),)})
    diagnosis.check(good, {"batch-1-b": a_batch()}, {})

    with pytest.raises(diagnosis.DiagnosisRefused) as refused:
        diagnosis.check(issue, {"batch-1-b": a_batch()}, {})

    assert refused.value.field == "evidence_refs"


def advised(value=None, **stored):
    kinds = ("datasets", "batches", "assessments", "issues", "candidates", "validations")
    known = {kind: stored.get(kind, []) for kind in kinds}
    return [call.tool for call in advice.next_calls(value=value, **known)]


def test_advice_follows_the_loop_and_never_offers_what_would_be_refused():
    data = [Dataset.model_construct(id="dataset-1-d")]
    plan = Plan.model_construct(
        budget=Budget(executions=99, candidates=1), frozen_after_record=1, dataset_id="d", case_ids=("a",),
        protection_case_ids=(), target_case_ids_by_issue={"issue-1-i": ("a",)}, issue_ids=("issue-1-i",),
        incremental_repeats=1, final_repeats=1, spec_id="spec-1-s", judger_id="judger-1-j",
    )  # fmt: skip
    value = Round.model_construct(
        id="round-1-r", status="optimizing", plan=plan, accepted_candidate_ids=(), pending_candidate_id=None,
        baseline_revision_id=B0, current_revision_id=B0,
    )  # fmt: skip
    spent = [Candidate.model_construct(id="candidate-1-c", round_id="round-1-r", status="rejected")]
    empty = a_batch(status="interrupted", counts={}, round_id=None)

    assert advised() == ["store_dataset"]
    assert advised(datasets=data) == ["run_evaluation"]
    assert advised(datasets=data, batches=[empty]) == ["create_round"]
    assert advised(datasets=data, batches=[a_batch(round_id=None)]) == ["store_assessment"]
    assert advised(value, datasets=data) == ["run_evaluation"]
    assert advised(value, datasets=data, batches=[a_batch(round_id=None)]) == ["run_evaluation"]
    assert advised(value, datasets=data, candidates=spent) == ["finish_round"]
    kept = value.model_copy(update={"accepted_candidate_ids": ("candidate-1-c",), "current_revision_id": R1})
    assert advised(kept, datasets=data, candidates=spent) == ["run_evaluation"]
    rolled_back = value.model_copy(update={"status": "finalizing"})
    assert advised(rolled_back, datasets=data, candidates=spent) == ["finish_round"]


def test_a_protected_path_is_said_to_be_for_no_candidate():
    with pytest.raises(scope.OutOfScope) as refused:
        scope.check_changes(a_scope(), ["docs/fixed.md"], IN_SCOPE)

    assert "no candidate may change" in str(refused.value)
    assert "names them" not in str(refused.value)


def test_comparison_says_whether_the_judge_could_know_the_side():
    client, rule = Judger.model_construct(method="client"), Judger.model_construct(method="exact")
    one, two, seen = (Assessment.model_construct(id=n, deal_id=d) for n, d in (("1", "x"), ("2", "y"), ("3", None)))
    assert judging.blindness([one, one], client) == ()
    assert "different deals" in judging.blindness([one, two], client)[0]
    assert judging.blindness([one, seen], client)[0].endswith(": 3.")
    assert judging.blindness([seen, seen], rule) == ()


def test_plan_that_opens_what_the_project_protects_or_calls_fixed_says_so():
    part = Component(component_id="code", role="agent_code", change_role="fixed", source_path="docs/agent.py")
    project = Project.model_construct(protected_paths=("a.txt",), components=(part,))
    opened = Plan.model_construct(allowed_paths=("docs", "a.txt"), protected_paths=())
    (said,) = freezing.widened(opened, project, IN_SCOPE)
    assert "a.txt, docs/agent.py" in said
    kept = opened.model_copy(update={"protected_paths": ("a.txt", "docs/agent.py")})
    assert freezing.widened(kept, project, IN_SCOPE) == []


class _Counted(str):
    """A Case id that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_named_case_is_looked_for_once_however_many_there_are():
    wanted, possible = [_Counted(f"case-{n}") for n in range(500)], [f"case-{n}" for n in range(500)]
    running.require_cases(wanted, possible)
    assert _Counted.compared < 4 * len(wanted)
