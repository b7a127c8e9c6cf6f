"""Holdout Cases and lessons are refused where they have to be."""

import json

import pytest

from tests.operations.catalog.guards import Guard, holds, names


def blind(target):
    """A dataset that has nothing but holdout, with a key of the target's own."""
    rows = [{"id": "blind", "input": "unseen", "usage": "holdout"}]
    target.write("blind.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    made = target.call("store_dataset", source="blind.jsonl")
    target.ids["blind_id"] = made.dataset_id


def both(target):
    """A dataset with a usual and a holdout Case."""
    rows = [{"id": "blind", "input": "unseen", "usage": "holdout"}, {"id": "usual", "input": "seen"}]
    target.write("blind.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    target.ids["blind_id"] = target.call("store_dataset", source="blind.jsonl").dataset_id


LESSON = {"body": "Name refunds in the prompt.", "applicability": "tickets in English"}


def lesson(**more):
    return {"knowledge": {**LESSON, **more}}


GUARDS = [
    Guard("run_evaluation", "initialized", "no_case_but_holdout", {"revision_commit": "HEAD"}, blind),
    Guard(
        "run_evaluation",
        "stored",
        "holdout_only_final",
        {"dataset_id": "{blind_id}", "revision_commit": "HEAD", "case_ids": ["blind", "usual"]},
        both,
    ),
    Guard("store_knowledge", "compared", "knowledge_unsupported", lesson(status="validated_in_scope")),
    Guard("store_knowledge", "compared", "knowledge_unsupported", lesson(status="contradicted")),
    Guard("store_knowledge", "compared", "knowledge_ref_unknown", lesson(validation_ids=["validation-1-none"])),
    Guard("store_knowledge", "compared", "knowledge_ref_unknown", lesson(evidence_refs=["batch-1-none.1"])),
    Guard("store_knowledge", "compared", "unknown_object", {**lesson(), "knowledge_id": "knowledge-1-none"}),
    Guard("knowledge_applicability", "compared", "unknown_object", {"knowledge_id": "knowledge-1-none"}),
]


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_guard_refuses_in_words_that_lead_on_and_changes_nothing(guard, stages, tmp_path):
    holds(guard, stages, str(tmp_path / "target"))
