"""What is known of a holdout before it is run makes it no fresh one: its input, and lessons drawn from its group."""

import json

from storage.schema.exposures import Exposure
from storage.schema.knowledge import Knowledge

GROUPED = [
    {"id": "seen", "input": "My invoice is wrong", "expected": "billing", "source_group_id": "acme"},
    {"id": "other", "input": "A crash", "expected": "technical", "source_group_id": "zeta"},
]


def rows(*given):
    return "".join(json.dumps(row) + "\n" for row in given)


def test_a_holdout_whose_input_a_usual_case_has_is_stored_as_exposed(at):
    target = at("stored")
    blind = [
        {"id": "known", "input": "I want a refund", "usage": "holdout", "source_group_id": "g1"},
        {"id": "twin", "input": "the very same", "usage": "holdout"},
        {"id": "usual", "input": "the very same"},
        {"id": "fresh", "input": "nobody knows", "usage": "holdout", "source_group_id": "g3"},
    ]
    target.write("blind.jsonl", rows(*blind))
    made = target.call("store_dataset", source="blind.jsonl")
    (exposure,) = target.state.all(Exposure)
    assert (exposure.how, exposure.dataset_id) == ("known_input", made.dataset_id)
    assert set(exposure.seen_in) == {f"{target.dataset_id}/refund-1", "usual"}
    assert "g1" in exposure.source_groups
    assert "g3" not in exposure.source_groups
    assert len(exposure.source_groups) == 2
    assert "blind.jsonl stays readable" in made.warnings[0]
    assert "2 source groups cannot be a fresh holdout" in made.warnings[1]


def test_a_holdout_whose_input_imported_evidence_has_is_stored_as_exposed(at):
    target = at("initialized")
    secret = "sk-ant-api03-" + "x" * 40
    target.write("traces.jsonl", rows({"id": "t1", "input": f"log in with {secret}", "output": "done"}))
    imported = target.call(
        "import_evidence",
        source="traces.jsonl",
        source_kind="batch_results",
        mapping={"input": "input", "output": "output"},
    )
    target.write("blind.jsonl", rows({"id": "known", "input": f"log in with {secret}", "usage": "holdout"}))
    target.call("store_dataset", source="blind.jsonl")
    (exposure,) = target.state.all(Exposure)
    assert exposure.seen_in == (f"{imported.batch_id}.1",)


def test_a_preview_seals_nothing_and_makes_no_key(at, tmp_path, monkeypatch):
    monkeypatch.setenv("ATK_KEY_HOME", str(tmp_path / "keys"))
    target = at("initialized")
    target.write("blind.jsonl", rows({"id": "blind", "input": "unseen", "usage": "holdout"}))
    shown = target.call("store_dataset", source="blind.jsonl", preview=True)
    assert shown.usage_counts["holdout"] == 1
    assert not (tmp_path / "keys").exists()


def test_a_lesson_exposes_the_groups_of_what_it_was_drawn_from(at):
    target = at("initialized")
    target.write("grouped.jsonl", rows(*GROUPED))
    dataset_id = target.call("store_dataset", source="grouped.jsonl").dataset_id
    batch = target.call("run_evaluation", dataset_id=dataset_id, revision_commit=target.head, wait_seconds=100)
    lesson = {"body": "Invoices go to billing.", "applicability": "tickets", "evidence_refs": [f"{batch.batch_id}.1"]}
    made = target.call("store_knowledge", knowledge=lesson)
    assert made.source_groups == ["acme"]
    again = target.call("store_knowledge", knowledge={**lesson, "status": "retired"}, knowledge_id=made.knowledge_id)
    assert (again.knowledge_id, again.revision) == (made.knowledge_id, 2)
    exposures = [(e.how, e.source_groups, e.seen_in) for e in target.state.all(Exposure)]
    assert exposures == [("knowledge", ("acme",), (made.knowledge_id,))]
    assert target.call("knowledge_applicability", knowledge_id=made.knowledge_id).applies == "not"


def test_a_lesson_that_a_validation_shows_applies_until_something_differs(at):
    target = at("compared")
    lesson = {
        "status": "validated_in_scope",
        "body": "The prompt has to name refunds.",
        "applicability": "tickets in English",
        "validation_ids": [target.validation_id],
        "candidate_ids": [target.candidate_id],
    }
    made = target.call("store_knowledge", knowledge=lesson)
    stored = target.state.get(Knowledge, made.knowledge_id)
    assert set(stored.identities.component_hashes) == {"prompt"}
    assert stored.identities.judger_hash
    shown = target.call("knowledge_applicability", knowledge_id=made.knowledge_id)
    assert (shown.applies, shown.compared_with_batch_id) == ("applies", target.right_batch_id)
    now = {"component_hashes": {"prompt": "another"}}
    told = target.call("knowledge_applicability", knowledge_id=made.knowledge_id, current_identity=now)
    assert told.applies == "not"
    assert told.reasons[0].startswith("The component prompt")
    assert "prompt has to name" in target.call("read_record", record_id=made.knowledge_id).value["body"]
