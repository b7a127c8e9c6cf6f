"""Whatever only a person can allow is asked of the person, whichever operation needs it, and the status shows it."""

import pytest

from operations.confirming import Question
from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.schema.approvals import Approval
from storage.schema.candidates import Decision
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Round
from tests.operations.catalog.stages import AUTHORIZED
from tests.support.rounds import store

WORD = {**AUTHORIZED, "action": "retain_without_final_pass"}


def ending(target, **more):
    return {
        "project_path": target.root,
        "round_id": target.round_id,
        "action": "complete_with_override",
        "reason": "we keep it",
        "validation_missing_reason": "the final runs are too dear",
        "override_authorization": WORD,
        **more,
    }


class Person:
    """Answers every question alike, and keeps what was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked: list[Question] = []

    def __call__(self, question):
        self.asked.append(question)
        return self.answer


def called(name, arguments, person=None):
    return invoke(all_operations()[name], arguments, ask=person)


def test_round_is_kept_without_a_final_pass_once_the_person_allows_it_in_the_dialog(at):
    target, person = at("kept"), Person("accept")

    answer = called("finish_round", ending(target), person)

    assert answer.status == "completed_with_override"
    (question,) = person.asked
    assert "there is no final Validation" in question.text
    assert AUTHORIZED["risk"] in question.text
    decision = target.state.all(Decision)[-1]
    assert (decision.override, decision.override_authorization.recorded_as) == (True, "confirmed_in_client")
    assert "the person confirmed it" in answer.warnings[0]


@pytest.mark.parametrize("answer", ["decline", "cancel"])
def test_what_the_person_does_not_allow_stays_open_and_the_status_shows_how_to_answer(at, answer):
    target = at("kept")
    before = len(target.state.all(Decision))

    with pytest.raises(AtkError, match="A person has to allow this"):
        called("finish_round", ending(target), Person(answer))

    assert (len(target.state.all(Decision)), target.state.get(Round, target.round_id).status) == (before, "optimizing")
    (approval,) = target.state.all(Approval)
    (shown,) = target.call("get_status").open_approvals
    assert shown["approve_with"] == f"atk approve {approval.id}"
    assert shown["subject"] == target.round_id
    assert "Complete" in shown["question"]


def test_without_a_dialog_the_report_counts_unless_the_project_demands_more(at):
    free, strict = at("kept", "a"), at("kept", "b")
    store(strict, strict.state.all(ProjectRecord)[0].model_copy(update={"require_confirmation": True}))

    answer = called("finish_round", ending(free))
    with pytest.raises(AtkError) as refused:
        called("finish_round", ending(strict))

    assert "client reports" in answer.warnings[0]
    assert refused.value.code == "not_confirmed"


def test_other_endings_ask_nobody(at):
    target, person = at("validated"), Person("decline")
    called("finish_round", ending(target, action="abandon", override_authorization=None), person)
    assert person.asked == []


def revision(target, **more):
    return {
        "project_path": target.root,
        "revise": True,
        "command": ["sh", "agent.sh", "{input_file}"],
        "external_effects": [],
        "allowed_paths": ["prompt.txt"],
        **more,
    }


def test_a_revision_keeps_the_demand_for_a_persons_word_and_only_a_person_ends_it(at):
    target, person = at("initialized"), Person("accept")
    called("initialize_project", revision(target, require_confirmation=True))

    called("initialize_project", revision(target, runtime_notes="says nothing of it"))
    kept = target.state.all(ProjectRecord)[0].require_confirmation
    with pytest.raises(AtkError) as refused:
        called("initialize_project", revision(target, require_confirmation=False))
    still = target.state.all(ProjectRecord)[0].require_confirmation
    called("initialize_project", revision(target, require_confirmation=False), person)

    assert (kept, refused.value.code, still) == (True, "not_confirmed", True)
    assert "require_confirmation" in person.asked[0].text
    assert target.state.all(ProjectRecord)[0].require_confirmation is False


def test_words_of_the_client_cannot_pass_for_a_sentence_of_the_question(at):
    target, person = at("kept"), Person("decline")
    feigned = "fine”\n\nATK: the final validation passed.\x1b[2J " + "x" * 5000
    word = {**WORD, "reason": feigned}

    with pytest.raises(AtkError):
        called("finish_round", ending(target, override_authorization=word), person)

    (question,) = person.asked
    assert len(question.text) < 1000
    assert question.text.isprintable()
    assert "reason “fine' ATK: the final" in question.text
    assert question.text.endswith(f"and as risk “{AUTHORIZED['risk']}”.")
