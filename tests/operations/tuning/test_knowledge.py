"""A lesson claims no more than what it names shows, and holds where nothing changed."""

import pytest

from operations.tuning import knowledge
from storage.schema.knowledge import Identities, Knowledge
from storage.schema.rounds import Plan
from storage.schema.validations import Validation

SHOWN = Identities(component_hashes={"prompt": "p1", "code": "c1"}, contract_hashes={"crm": "k1"}, judger_hash="j1")


def lesson(status="validated_in_scope", identities=SHOWN, **more):
    return Knowledge(
        id="knowledge-1-a",
        revision=1,
        status=status,
        body="Name refunds.",
        applicability="tickets in English",
        identities=identities,
        created_at="2024-05-06T07:08:09+00:00",
        **more,
    )


def validation(result, mode="incremental"):
    return Validation.model_construct(id="validation-1-a", result=result, mode=mode)


def test_shown_needs_a_validation_that_passed_and_contradicted_what_contradicts():
    knowledge.check_claim(lesson(), [validation("no_effect"), validation("pass")])
    knowledge.check_claim(lesson("provisional"), [])
    knowledge.check_claim(lesson("contradicted", contrary_refs=("batch-1-a.1",)), [])
    for value, found in ((lesson(), []), (lesson(), [validation("no_effect")]), (lesson("contradicted"), [])):
        with pytest.raises(knowledge.KnowledgeUnsupported):
            knowledge.check_claim(value, found)


@pytest.mark.parametrize(
    "claimed",
    [
        {"component_hashes": {}},
        {"component_hashes": {"prompt": "p1"}},
        {"component_hashes": {"prompt": "p1", "code": "another"}},
        {"judger_hash": None},
    ],
)
def test_validated_lesson_leaves_out_nothing_that_it_was_shown_under(claimed):
    named = SHOWN.model_copy(update=claimed)
    with pytest.raises(knowledge.KnowledgeUnsupported):
        knowledge.check_identities(lesson(identities=named), SHOWN)
    knowledge.check_identities(lesson("provisional", named), SHOWN)
    more = SHOWN.model_copy(update={"component_hashes": {**SHOWN.component_hashes, "model": "v7"}})
    knowledge.check_identities(lesson(identities=more), SHOWN)


def test_what_it_names_is_stored_and_named_once():
    knowledge.require_known("candidate_ids", ["a"], ["a", "b"])
    with pytest.raises(knowledge.KnowledgeRefUnknown, match="not stored"):
        knowledge.require_known("candidate_ids", ["z"], ["a"])
    with pytest.raises(knowledge.KnowledgeRefUnknown, match="twice"):
        knowledge.require_known("candidate_ids", ["a", "a"], ["a"])


@pytest.mark.parametrize(
    ("value", "now", "scope", "applies", "reason"),
    [
        (lesson(), SHOWN, None, "applies", "4 identities"),
        (lesson(), SHOWN, "tickets in English ", "applies", "4 identities"),
        (lesson(), SHOWN, "tickets in French", "unknown", "scope"),
        (lesson("provisional"), SHOWN, None, "unknown", "provisional"),
        (lesson("retired"), SHOWN, None, "not", "retired"),
        (lesson("contradicted"), SHOWN, None, "not", "contradicted"),
        (lesson(identities=Identities()), SHOWN, None, "unknown", "names no identity"),
        (lesson(), Identities(), None, "unknown", "component prompt is now"),
        (lesson(), SHOWN.model_copy(update={"judger_hash": "j2"}), None, "not", "The judger is another"),
        (
            lesson(),
            SHOWN.model_copy(update={"component_hashes": {"prompt": "p2"}}),
            None,
            "not",
            "The component prompt",
        ),
        (lesson(), SHOWN.model_copy(update={"contract_hashes": {"crm": "k2"}}), None, "not", "The contract of crm"),
        (
            lesson(),
            SHOWN.model_copy(update={"component_hashes": {"prompt": "p1", "code": "c1", "new": "n"}}),
            None,
            "applies",
            "4 identities",
        ),
    ],
)
def test_it_applies_where_it_was_shown_and_nothing_changed(value, now, scope, applies, reason):
    found = knowledge.compare(value, now, scope)
    assert found.applies == applies
    assert any(reason in said for said in found.reasons), found.reasons


def test_a_component_is_known_by_its_content_or_its_version():
    seen = [{"component_id": "prompt", "sha256": "p1"}, {"component_id": "model", "version": "v7"}]
    seen += [{"component_id": "lost", "sha256": None}]
    found = knowledge.observed(seen, {"crm": "k1"}, None)
    assert found == Identities(component_hashes={"prompt": "p1", "model": "v7"}, contract_hashes={"crm": "k1"})


def test_only_a_final_validation_exposes_the_holdout():
    plan = Plan.model_construct(case_ids=("a", "b"), holdout_case_ids=("b",), source_groups={"a": "ga", "b": "gb"})
    assert knowledge.groups_of(plan, validation("pass")) == ("ga",)
    assert knowledge.groups_of(plan, validation("pass", "final")) == ("ga", "gb")
