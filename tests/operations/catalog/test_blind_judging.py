"""Both sides of a comparison are dealt without a sign of the side, judged once, and verified from the store."""

import json
import os
from collections import Counter

import pytest

from operations.assessing import deals
from operations.importers._assessment_csv import read_assessment_csv
from operations.verification import verify
from storage import contents
from storage.project import Project
from storage.schema.assessments import Assessment, Deal
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord
from storage.schema.validations import Validation
from tests.operations.catalog.evidence import ENDED, store_batch
from tests.support.projects import FIX

EXAMPLES = [
    {"source_ref": "a", "expected": "pass", "observed": "pass"},
    {"source_ref": "b", "expected": "fail", "observed": "fail"},
    {"source_ref": "c", "expected": "fail", "observed": "fail"},
]
CLIENT = {"method": "client", "readiness": "calibrated", "calibration_examples": EXAMPLES}
LONG = "word " * 2_000


def dealt_round(at, left=lambda *_: "other", right=lambda *_: "billing", repeats=1):
    """A frozen Round judged by the client, with a batch of each side of its sealed candidate."""
    target = at("diagnosed")
    cases = contents.cases(target.project, target.state, target.dataset_id)
    rows = [{"record_id": f"{target.batch_id}.{n}", "verdict": "fail"} for n in range(1, len(cases) + 1)]
    found = target.call("store_assessment", batch_id=target.batch_id, spec_id=target.spec_id, judger=CLIENT, rows=rows)
    target.ids["judger_id"] = found.judger_id
    plan = {"repeatability": "deterministic", "spec_id": target.spec_id, "judger_id": found.judger_id}
    target.call("freeze_round", round_id=target.round_id, plan={**plan, "incremental_repeats": repeats})
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", FIX)
    target.seal()
    for side, revision_id, answer in (("left", target.b0, left), ("right", target.revision_id, right)):
        target.ids[f"{side}_batch_id"] = store_batch(
            target, revision_id, answer, round_id=target.round_id, repeats=repeats
        )
    return target


def pages(target, **asked):
    """Every page of a deal."""
    found = [target.call("next_judgements", **asked)]
    while found[-1].next_cursor:
        found.append(target.call("next_judgements", deal_id=found[0].deal_id, cursor=found[-1].next_cursor))
    return found


def dealt(target):
    """Returns the deal's id and all its items."""
    read = pages(target, round_id=target.round_id)
    return read[0].deal_id, [item for page in read for item in page.items]


def rows(target, assessment_id):
    path = f"assessments/{assessment_id}/assessment.csv"
    return read_assessment_csv(contents.checked(target.project, target.state, path))


def judged(items, verdict=lambda item: "pass" if "billing" in item.evidence["output"] else "fail"):
    return [{"record_id": item.record_id, "verdict": verdict(item), "reason": "as it says"} for item in items]


def test_deal_is_judged_once_and_expands_to_both_sides(at):
    target = dealt_round(at, repeats=2)
    cases = len(contents.cases(target.project, target.state, target.dataset_id))
    deal_id, items = dealt(target)

    assert len(items) == 2 * cases  # the repeats of each side are one item
    assert {item.evidence["output"] for item in items} == {"other", "billing"}
    found = target.call("store_assessment", deal_id=deal_id, rows=judged(items))

    assert found.counts == {"correct": {"fail": 2 * cases, "pass": 2 * cases}}
    left, right = rows(target, found.left_assessment_id), rows(target, found.right_assessment_id)
    assert {row.verdict for row in left} == {"fail"}
    assert {row.verdict for row in right} == {"pass"}
    assert [row.record_id for row in left] == [f"{target.left_batch_id}.{n}" for n in range(1, 2 * cases + 1)]
    assert all(row.evidence_refs[0].evidence_id == row.record_id for row in (*left, *right))
    follow = found.next[0]
    assert follow.tool == "compare_and_gate"
    compared = target.call(follow.tool, **follow.arguments)
    stored = target.state.get(Validation, compared.validation_id)
    assert any("0 false passes among 2 decided failures" in line for line in stored.limitations)
    assert verify(target.project).findings == []


def test_same_output_on_both_sides_is_one_item(at):
    target = dealt_round(at, left=lambda *_: "billing", right=lambda *_: "billing")
    deal_id, items = dealt(target)

    assert len(items) == len({item.case_id for item in items})
    found = target.call("store_assessment", deal_id=deal_id, rows=judged(items))
    said = [{r.verdict for r in rows(target, a)} for a in (found.left_assessment_id, found.right_assessment_id)]
    assert said == [{"pass"}, {"pass"}]


def test_page_tells_nothing_of_the_side(at):
    target = dealt_round(at)
    read = pages(target, round_id=target.round_id)
    text = "".join(page.model_dump_json(exclude={"journal_record"}) for page in read)

    hidden = [target.left_batch_id, target.right_batch_id, target.b0, target.revision_id, target.candidate_id]
    hidden += [target.sealed_commit, target.commit, "items_sha256", "seed"]
    assert [word for word in hidden if word in text] == []
    own = target.call("read_record", record_id=read[0].deal_id)
    assert "seed" not in own.fields
    assert "items" not in own.fields


def test_order_does_not_tell_the_side():
    def record(batch, n, output):
        return EvidenceRecord(
            id=f"{batch}.{n}", n=n, case_id=f"c{n}", case_fingerprint="f", repeat=1, output=output,
            output_status="value", execution=ENDED,
        )  # fmt: skip

    both = [record("batch-1-a", n, "a") for n in range(1, 21)] + [record("batch-2-b", n, "b") for n in range(1, 21)]
    first = Counter()
    for seed in range(400):
        items = deals.dealt(both, seed, timeout_is_failure=False).items
        first["left"] += sum(item.record_ids[0].startswith("batch-1") for item in items[:20])
        assert sorted(r for item in items for r in item.record_ids) == sorted(r.id for r in both)
        assert deals.dealt(reversed(both), seed, timeout_is_failure=False).items == items
    assert 0.47 < first["left"] / 8_000 < 0.53


def test_outstanding_deal_survives_a_restart_in_its_order(at, monkeypatch):
    target = dealt_round(at)
    deal_id, items = dealt(target)
    monkeypatch.setattr("storage.project._opened", {})

    assert Project.open(target.root) is not None
    again_id, again = dealt(target)
    assert (again_id, again) == (deal_id, items)
    assert len(target.state.all(Deal)) == 1


def test_long_outputs_are_read_by_byte_range(at):
    target = dealt_round(at, right=lambda case, _: f"{case}: {LONG}é")
    read = pages(target, round_id=target.round_id)

    assert all(len(page.model_dump_json()) < 7_500 for page in read)
    long = next(item for page in read for item in page.items if item.left_out)
    assert long.left_out == {"output": len(f"{long.case_id}: {LONG}é".encode())}
    call = next(c for page in read for c in page.next if c.arguments.get("item"))
    assert call.arguments["cursor"] == "1000"
    text, cursor = "", None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = target.call("next_judgements", deal_id=read[0].deal_id, item=long.record_id, **more)
        text += page.items[0].evidence["output"]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert text == f"{long.case_id}: {LONG}é"


def test_incomplete_verdicts_name_the_items_that_lack_one(at):
    target = dealt_round(at)
    deal_id, items = dealt(target)
    error = target.refusal("store_assessment", deal_id=deal_id, rows=judged(items[1:]))

    assert error.code == "assessment_incomplete"
    assert error.facts["missing"] == [f"{items[0].record_id} in correct"]
    assert target.state.get(Deal, deal_id).assessment_ids == ()


def test_judged_deal_is_not_judged_again_but_dealt_anew_with_a_reason(at):
    target = dealt_round(at)
    deal_id, items = dealt(target)
    first = target.call("store_assessment", deal_id=deal_id, rows=judged(items))

    assert target.refusal("store_assessment", deal_id=deal_id, rows=judged(items)).code == "deal_judged"
    assert target.refusal("next_judgements", round_id=target.round_id).code == "deal_judged"
    anew = target.call("next_judgements", round_id=target.round_id, anew=True)
    assert anew.deal_id != deal_id
    other = judged(anew.items, lambda _: "unknown")
    assert target.refusal("store_assessment", deal_id=anew.deal_id, rows=other).code == "assessment_stands"
    found = target.call("store_assessment", deal_id=anew.deal_id, rows=other, supersede_reason="the rule was misread")
    assert target.state.get(Assessment, found.left_assessment_id).supersedes == first.left_assessment_id
    assert verify(target.project).findings == []


def test_deal_fixes_specification_and_judger(at):
    target = dealt_round(at)
    deal_id, items = dealt(target)
    for more in (
        {"batch_id": target.left_batch_id},
        {"judger": {"method": "exact"}},
        {"judger_id": "judger-1-none"},
    ):
        error = target.refusal("store_assessment", deal_id=deal_id, rows=judged(items), **more)
        assert error.code == "judged_together"


def test_side_that_was_not_run_is_named(at):
    target = dealt_round(at)
    target.decide("reject", validation_missing_reason="it was not compared")
    error = target.refusal("next_judgements", round_id=target.round_id)
    assert error.code == "side_not_run"
    assert error.facts["mode"] == "final"
    assert error.next[0].tool == "run_evaluation"


def test_plan_whose_judger_is_a_rule_deals_nothing(at):
    target = at("judged")
    error = target.refusal("next_judgements", round_id=target.round_id)
    assert error.code == "nothing_to_deal"
    assert error.next[0].arguments["judger_id"] == target.judger_id


def test_item_and_cursor_of_no_deal_are_refused(at):
    target = dealt_round(at)
    deal_id, _ = dealt(target)
    assert target.refusal("next_judgements", deal_id=deal_id, item=f"{deal_id}.999").code == "unknown_object"
    for more in ({}, {"item": f"{deal_id}.1"}):
        error = target.refusal("next_judgements", deal_id=deal_id, cursor="999", **more)
        # The records of the deal would tell what is to stay unseen.
        assert [(call.tool, call.arguments) for call in error.next] == [("next_judgements", {"deal_id": deal_id})]
    assert target.refusal("next_judgements", deal_id="deal-1-none").code == "unknown_object"


@pytest.mark.parametrize("what", ["items", "verdict"])
def test_verification_names_a_deal_or_verdict_that_is_another(at, what, monkeypatch):
    target = dealt_round(at, left=lambda *_: "billing", right=lambda *_: "billing")
    deal_id, items = dealt(target)
    if what == "items":
        kept = deals.dealt
        monkeypatch.setattr(deals, "dealt", lambda records, seed, **more: kept(records, seed + 1, **more))
    else:
        found = target.call("store_assessment", deal_id=deal_id, rows=judged(items))
        kept = deals.Verdicts.rows

        def other(self, records, dimensions):
            return ({**row, "verdict": "fail"} for row in kept(self, records, dimensions))

        monkeypatch.setattr(deals.Verdicts, "rows", other)
        assert found.left_assessment_id
    findings = verify(target.project).findings
    assert any(deal_id in str(finding) for finding in findings)


def test_items_file_is_private(at):
    target = dealt_round(at)
    deal_id, _ = dealt(target)
    path = target.path(f".atk/deals/{deal_id}/{deals.ITEMS}")
    assert os.stat(path).st_mode & 0o077 == 0
    with open(path, encoding="utf-8") as file:
        assert "seed" in json.loads(file.readline())
    assert {b.status for b in target.state.all(Batch)} == {"sealed"}
