"""Rules on imported evidence, Assessments of selections, dimensions that do not apply, and calibrated judgers."""

import json
import sys

import pytest

from operations.importers._assessment_csv import read_assessment_csv
from operations.verification import verify
from storage import contents
from storage.project import Project
from storage.schema.assessments import Assessment, Confusion, Judger
from storage.schema.selections import Selection
from tests.operations.catalog.stages import EXACT, SPEC
from tests.support.imports import Imports
from tests.support.probes import Probed, clean

EXAMPLES = [
    {"source_ref": "a", "expected": "pass", "observed": "pass"},
    {"source_ref": "b", "expected": "fail", "observed": "fail"},
]


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def results(imports, tmp_path):
    """An import of a file of results with expected answers. Returns its id."""
    rows = [
        {"q": "1 + 1", "a": "2", "right": 2},
        {"q": "1 + 2", "a": "4", "right": 3},
        {"q": "1 + 3", "right": 4},
        {"q": "1 + 4", "a": "5"},
        {"q": "1 + 5", "a": {"sum": 6}, "right": {"sum": 6}},
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    mapping = {"input": "q", "output": "a", "expected": "right"}
    found = imports.call("import_evidence", source=str(path), source_kind="batch_results", mapping=mapping)
    return found.batch_id


def verdicts(holder, found):
    project = holder.project
    path = f"assessments/{found.assessment_id}/assessment.csv"
    return [row.verdict for row in read_assessment_csv(contents.checked(project, project.state(), path))]


@pytest.mark.parametrize(
    ("judger", "wanted"),
    [
        (EXACT, ["pass", "fail", "unknown", "unknown", "pass"]),
        (
            {"method": "numeric", "settings": {"absolute_tolerance": 1}},
            ["pass", "pass", "unknown", "unknown", "unknown"],
        ),
        (
            {"method": "regex", "settings": {"pattern": "^[0-9]$"}},
            ["pass", "pass", "unknown", "pass", "fail"],
        ),
        (
            {"method": "json_schema", "settings": {"schema": {"type": "object", "required": ["sum"]}}},
            ["fail", "fail", "unknown", "fail", "pass"],
        ),
        ({"method": "json_subset"}, ["pass", "fail", "unknown", "unknown", "pass"]),
    ],
)
def test_rule_judges_imported_results(imports, results, judger, wanted):
    found = imports.call("store_assessment", batch_id=results, evaluation_spec=SPEC, judger=judger)
    assert verdicts(imports, found) == wanted
    assert verify(imports.project).findings == []


def test_selection_of_an_import_is_judged_with_its_rule_and_seed(imports, results):
    kept = imports.call("find_records", batch_id=results, text="1 +", sample=2, seed=7, store_selection=True)
    found = imports.call(
        "store_assessment", selection_id=kept.selection_id, evaluation_spec=SPEC, judger={"method": "exact"}
    )
    stored = imports.project.state().get(Assessment, found.assessment_id)
    selection = imports.project.state().get(Selection, kept.selection_id)
    assert (stored.row_count, stored.selection.seed, stored.selection.sample) == (2, 7, 2)
    assert (stored.selection.rule, stored.selection.ids_sha256) == (selection.rule, selection.ids_sha256)
    assert (found.selection_id, found.batch_id) == (selection.id, results)
    whole = imports.call("store_assessment", batch_id=results, spec_id=found.spec_id, judger_id=found.judger_id)
    assert imports.project.state().get(Assessment, whole.assessment_id).supersedes is None
    assert verify(imports.project).findings == []


def test_selection_of_a_run_has_to_be_covered_and_is_never_compared(at):
    target = at("judged")
    kept = target.call("find_records", batch_id=target.left_batch_id, sample=2, store_selection=True)
    some = {"selection_id": kept.selection_id, "spec_id": target.spec_id, "judger_id": target.judger_id}
    found = target.call("store_assessment", **some)
    assert found.row_count == 2
    assert target.refusal("store_assessment", **some).code == "assessment_stands"

    target.ids["left_assessment_id"] = found.assessment_id
    sides = {f"{side}_assessment_id": target.ids[f"{side}_assessment_id"] for side in ("left", "right")}
    error = target.refusal("compare_and_gate", round_id=target.round_id, **sides)
    assert error.code == "sides_not_comparable"
    assert "selection" in str(error)


def test_neither_batch_nor_selection_is_refused(at):
    target = at("assessed")
    error = target.refusal("store_assessment", spec_id=target.spec_id, judger_id=target.judger_id)
    assert error.code == "batch_or_selection"


def test_dimension_does_not_apply_only_by_a_rule_of_the_specification(at):
    target = at("evaluated")
    cases = len(contents.cases(target.project, target.state, target.dataset_id))
    rows = [{"record_id": f"{target.batch_id}.{n}", "verdict": "not_applicable"} for n in range(1, cases + 1)]
    given = {"batch_id": target.batch_id, "judger": {}, "rows": rows}
    error = target.refusal("store_assessment", evaluation_spec=SPEC, **given)
    assert (error.code, error.facts["dimension"]) == ("not_applicable_without_rule", "correct")

    ruled = {**SPEC, "not_applicable_rules": {"correct": "the ticket is empty"}}
    found = target.call("store_assessment", evaluation_spec=ruled, **given)
    assert found.counts == {"correct": {"not_applicable": cases}}
    wrong = {**SPEC, "not_applicable_rules": {"tone": "never"}}
    assert target.refusal("store_assessment", evaluation_spec=wrong, **given).code == "judgement_invalid"


def test_specification_given_as_before_is_the_one_that_was_stored(at):
    target = at("assessed")
    found = target.call(
        "store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=EXACT, supersede_reason="again"
    )
    assert (found.spec_id, found.judger_id) == (target.spec_id, target.judger_id)


def test_judger_keeps_how_it_did_on_its_examples(at):
    target = at("evaluated")
    cases = len(contents.cases(target.project, target.state, target.dataset_id))
    rows = [{"record_id": f"{target.batch_id}.{n}", "verdict": "pass"} for n in range(1, cases + 1)]
    more = [
        {"source_ref": "c", "expected": "fail", "observed": "pass"},
        {"source_ref": "d", "expected": "pass", "observed": "fail"},
        {"source_ref": "e", "expected": "pass", "observed": "unknown"},
    ]
    given = {"batch_id": target.batch_id, "evaluation_spec": SPEC, "rows": rows}
    found = target.call("store_assessment", judger={"calibration_examples": [*EXAMPLES, *more]}, **given)
    counts = dict.fromkeys(("true_passes", "true_failures", "false_passes", "false_failures", "undecided"), 1)

    assert target.state.get(Judger, found.judger_id).confusion == Confusion(**counts)
    shown = target.call("read_record", record_id=found.judger_id).value
    assert (shown["confusion"], shown["readiness"]) == (counts, "uncalibrated")
    calibrated = {"readiness": "calibrated", "calibration_examples": [*EXAMPLES, *more]}
    assert target.refusal("store_assessment", judger=calibrated, **given).code == "judgement_invalid"


def test_settings_with_a_credential_are_refused(at):
    target = at("evaluated")
    judger = {"method": "regex", "settings": {"pattern": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"}}
    error = target.refusal("store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=judger)
    assert error.code == "judgement_invalid"
    assert "credential" in str(error)


def test_missing_engine_of_patterns_is_named(at, monkeypatch):
    target = at("evaluated")
    monkeypatch.setitem(sys.modules, "re2", None)
    judger = {"method": "regex", "settings": {"pattern": "a never seen pattern"}}
    error = target.refusal("store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=judger)
    assert error.code == "judge_engine_missing"
    assert "atk-mcp[patterns]" in str(error)


def test_validation_of_a_superseded_assessment_is_refused(at):
    target = at("judged")
    target.judge(target.left_batch_id, supersede_reason="the rule was misread")
    sides = {f"{side}_assessment_id": target.ids[f"{side}_assessment_id"] for side in ("left", "right")}
    error = target.refusal("compare_and_gate", round_id=target.round_id, **sides)
    assert error.code == "sides_not_comparable"
    assert "superseded" in str(error)


def test_batch_is_read_once_however_many_references_there_are(at, monkeypatch):
    target = at("evaluated")
    cases = len(contents.cases(target.project, target.state, target.dataset_id))
    ids = [f"{target.batch_id}.{n}" for n in range(1, cases + 1)]
    refs = [{"batch_id": target.batch_id, "evidence_id": one} for one in ids]
    rows = [{"record_id": one, "verdict": "pass", "evidence_refs": refs * 20} for one in ids]
    reads = []
    kept = contents.checked

    def counting(project: Project, state, path):
        reads.append(path)
        return kept(project, state, path)

    monkeypatch.setattr(contents, "checked", counting)
    target.call("store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger={}, rows=rows)
    assert reads == [f"evidence/{target.batch_id}/records.jsonl"]


COMMAND = {"method": "command", "settings": {"probe_authorization_id": "look"}}
SAY = """\
import json, sys
given = json.load(open(sys.argv[1]))
ok = given["output"].strip() == given["expected"]
print("looked at", given["input"][:3], flush=True)
said = json.dumps({"verdict": "pass" if ok else "fail", "reason": "compared\\u2028by words"}, ensure_ascii=False)
sys.stdout.buffer.write(said.encode() + b"\\n")
"""


def commanded(at, script, **more):
    made = Probed(at("evaluated"), script, **{"max_calls": 50, **more})
    given = {"batch_id": made.target.batch_id, "evaluation_spec": SPEC, "judger": COMMAND}
    return made.target, given


def test_permitted_command_judges_like_the_rule_that_it_repeats(at):
    target, given = commanded(at, SAY)
    found = target.call("store_assessment", **given)
    same = target.call("store_assessment", **{**given, "judger": EXACT})

    assert verdicts(target, found) == verdicts(target, same)
    assert {"pass", "fail"} <= set(verdicts(target, found))
    assert len(target.state.get(Judger, found.judger_id).settings["permission_sha256"]) == 64
    assert clean(target)
    assert verify(target.project).findings == []
    assert target.refusal("store_assessment", **given).code == "assessment_stands"
    target.write(".atk/probes/look.py", SAY + "# changed")
    again = {**given, "supersede_reason": "again"}
    assert target.refusal("store_assessment", **again).code == "probe_script_changed"


@pytest.mark.parametrize(
    ("script", "words", "more"),
    [
        ("raise SystemExit(3)", "exit code 3", {}),
        ("print('pass')", "no JSON object", {}),
        ('print(\'{"verdict": "great"}\')', "no verdict of", {}),
        ("print('[' * 9999)", "no JSON object", {}),
        ("import time; time.sleep(60)", "timeout", {"timeout_seconds": 0.3}),
    ],
)
def test_whatever_goes_wrong_in_a_command_is_unknown(at, script, words, more):
    target, given = commanded(at, script, **more)
    found = target.call("store_assessment", **given)
    assert set(verdicts(target, found)) == {"unknown"}
    read = target.call("read_record", record_id=found.assessment_id, field="rows")
    assert words in read.value[0]["reason"]


@pytest.mark.parametrize(
    ("settings", "code", "more"),
    [
        ({}, "judgement_invalid", {}),
        ({"probe_authorization_id": "look", "argv": ["rm"]}, "judgement_invalid", {}),
        ({"probe_authorization_id": "other"}, "probe_not_permitted", {}),
        ({"probe_authorization_id": "look"}, "judgement_invalid", {"max_calls": 1}),
        ({"probe_authorization_id": "look"}, "judgement_invalid", {"case_ids": ["refund-1"]}),
    ],
)
def test_command_that_is_not_permitted_is_not_started(at, settings, code, more):
    target, given = commanded(at, SAY, **more)
    error = target.refusal("store_assessment", **{**given, "judger": {"method": "command", "settings": settings}})
    assert error.code == code
    assert target.state.all(Assessment) == []
