"""Faults of evidence that is not what it claims: forged sides, shopping for a judge, wins from other files (A3-A5)."""

import pytest

from operations.tuning.comparing import SidesNotComparable
from operations.tuning.deciding import NotNewestValidation, ResultForbids
from operations.tuning.judging import AssessmentStands
from operations.tuning.lifecycle import SurroundingsChanged
from operations.tuning.running import RevisionMismatch
from operations.tuning.scope import OutOfScope
from operations.tuning.sides import SideStands
from storage.errors import AtkError
from tests.faults.story import AGENT, PROMPT, REFUNDS, Story

BROKEN = "refund -> billing\n"
"""Repairs the target and breaks what was right."""


def test_a3_a_batch_is_a_side_only_of_the_round_and_revision_that_it_ran(tmp_path):
    """ATK 1.0.0 believed labels: a baseline run outside the Round, at no cost, made a breaking candidate pass."""
    story = Story(tmp_path).open()
    foreign = story.evaluate_head()
    before = story.account.used
    left = story.run()
    candidate_id = story.draft()
    story.target.write("prompt.txt", BROKEN)
    sealed = story.seal(candidate_id)
    right = story.assess(story.run(sealed.revision_id).batch_id)
    for forged, problem in (
        (story.assess(foreign.batch_id), "belongs to no Round"),
        (right, f"ran {sealed.revision_id}; this side is {story.baseline}"),
    ):
        with pytest.raises(SidesNotComparable) as refused:
            story.compare(forged, right)
        assert problem in str(refused.value)
    assert story.validations() == []
    verdict = story.compare(story.assess(left.batch_id), right)
    assert verdict.result == "regression"
    with pytest.raises(ResultForbids):
        story.decide(candidate_id, "keep")
    assert story.account.used == before + 4 + 4  # a side runs the targets of every Issue


def test_a3_a_run_names_a_revision_that_the_server_issued_to_this_round_and_no_commit_beside(tmp_path):
    """ATK 1.0.0 took any label with any commit, so that one content could be passed off as another's."""
    story = Story(tmp_path).open()
    outside = story.evaluate_head().revision_id
    for stranger in (outside, "revision-999-none", "pre"):
        with pytest.raises(RevisionMismatch) as refused:
            story.run(stranger)
        assert refused.value.possible == [story.baseline]
    parent = story.target.head
    story.target.write("prompt.txt", REFUNDS)
    story.target.git("commit", "-q", "-am", "Another content")
    with pytest.raises(RevisionMismatch):
        story.call("run_evaluation", dataset_id=story.dataset_id, revision_commit=parent)


def test_a3_a_side_is_not_run_again_until_one_is_good(tmp_path):
    """In ATK 1.0.0 runs outside the Round cost nothing and could stand in for its sides, so they had no end."""
    story = Story(tmp_path).open(budget={"candidates": 1, "executions": 20})
    seen = story.run().batch_id
    with pytest.raises(SideStands) as refused:
        story.run()
    assert (refused.value.batch_id, refused.value.status) == (seen, "sealed")
    assert story.call("get_status").round["budget"]["used"] == 4


def test_a4_one_judgement_of_a_batch_stands_and_a_second_needs_a_reason_and_is_the_only_one_compared(tmp_path):
    """ATK 1.0.0 kept many Assessments of a batch side by side: no_effect, then pass from the same batch, then keep."""
    story = Story(tmp_path).open()
    left = story.side()
    candidate_id = story.draft()
    story.target.write("prompt.txt", PROMPT + "zebra -> animals\n")
    right_batch = story.run(story.seal(candidate_id).revision_id).batch_id
    first = story.assess(right_batch)
    with pytest.raises(AssessmentStands) as refused:
        story.assess(right_batch)
    assert refused.value.assessment_id == first
    second = story.assess(right_batch, supersede_reason="the first was looked at twice")
    with pytest.raises(SidesNotComparable, match="superseded"):
        story.compare(left, first)
    verdict = story.compare(left, second)
    assert verdict.result == "no_effect"
    assert story.call("read_record", record_id=second, field="supersede_reason").value
    lenient = {"method": "contains", "settings": {"ignore_case": True}}
    spec = {"spec_id": story.judged_by["spec_id"]}
    other = story.call("store_assessment", batch_id=right_batch, judger=lenient, **spec).assessment_id
    with pytest.raises(SidesNotComparable, match="the plan froze"):
        story.compare(left, other)
    with pytest.raises(ResultForbids):
        story.decide(candidate_id, "keep")


def test_a4_a_decision_rests_on_the_newest_validation_whatever_an_older_one_said(tmp_path):
    """ATK 1.0.0 let the caller choose among the Validations of a candidate."""
    story = Story(tmp_path).open()
    left = story.side()
    candidate_id = story.draft()
    story.target.write("prompt.txt", REFUNDS)
    right_batch = story.run(story.seal(candidate_id).revision_id).batch_id
    good = story.compare(left, story.assess(right_batch))
    assert good.result == "pass"
    again = story.compare(left, story.validations()[-1].right_assessment_id)
    assert again.validation_id == good.validation_id
    anew = story.assess(right_batch, supersede_reason="judged a second time")
    newest = story.compare(left, anew)
    with pytest.raises(NotNewestValidation) as refused:
        story.decide(candidate_id, "keep", validation_id=good.validation_id)
    assert refused.value.newest == newest.validation_id
    assert story.target.head == story.round.baseline_commit


READS_BESIDE = AGENT.replace(
    "where = next",
    """\
for line in open(sys.argv[2]):
    if "boost" in line:
        sys.exit(print("billing"))
where = next""",
)
"""Answers right whenever a file beside the prompt says so."""


def beside(tmp_path, name, ignored):
    """A target whose agent also reads a file that no commit has."""
    files = [(".gitignore", f"cases.csv\n{name if ignored else 'unrelated'}\n")]
    command = ["python3", "-S", "-E", "agent.py", "{input_file}", name]
    component = {"component_id": "beside", "role": "config", "change_role": "fixed", "source_path": name}
    story = Story(tmp_path, agent=READS_BESIDE, files=files, command=command, components=[component])
    story.target.write(name, "nothing\n")
    return story.open()


@pytest.mark.parametrize(("name", "ignored"), [("local.conf", True), ("settings.txt", False)])
def test_a5_an_edit_of_an_uncommitted_input_cannot_carry_a_win(tmp_path, name, ignored):
    """ATK 1.0.0 looked at neither ignored files nor those untracked at the baseline: pass and keep by them alone."""
    story = beside(tmp_path, name, ignored)
    candidate_id = story.draft()
    story.target.write("prompt.txt", PROMPT + "zebra -> animals\n")
    story.target.write(name, "boost\n")
    used = story.account.used
    with pytest.raises((OutOfScope, SurroundingsChanged)) as refused:  # an untracked one when sealing, or when running
        story.run(story.seal(candidate_id).revision_id)
    assert name in str(refused.value)
    assert story.account.used == used
    story.target.write(name, "nothing\n")
    assert story.round.accepted_candidate_ids == ()


@pytest.mark.parametrize(("name", "ignored"), [("local.conf", True), ("settings.txt", False)])
def test_a5_an_input_that_changed_between_the_sides_is_named_before_the_next_candidate(tmp_path, name, ignored):
    """ATK 1.0.0 began the next candidate on whatever lay beside the commit."""
    story = beside(tmp_path, name, ignored)
    story.target.write(name, "boost\n")
    with pytest.raises(AtkError) as refused:
        story.draft()
    assert refused.value.code in ("surroundings_changed", "files_in_the_way")
    assert name in refused.value.facts["paths"]
