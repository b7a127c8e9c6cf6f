"""Faults of governance in ATK 1.0.0, and the test that holds each of them down; those without one elsewhere are here.

| fault | what it did | held down by |
|---|---|---|
| A1 | a rename in history spoiled the replay of B0 | faults/test_history.py::test_a1_rename_in_history_replays_b0_ |
| A2 | a rename candidate could be neither kept nor rejected | faults/test_history.py::test_a2_a_rename_candidate_is_ |
| A3 | forged sides, and reruns until one is good | faults/test_sides.py::test_a3_a_batch_is_a_side_only_of_the_round_ |
| A4 | shopping for a judgement | faults/test_sides.py::test_a4_a_decision_rests_on_the_newest_validation_ |
| A5 | ignored and untracked files carried a win | faults/test_sides.py::test_a5_an_edit_of_an_uncommitted_input_ |
| A7 | one stray file cost the final side | faults/test_runs.py::test_a7_a_contaminated_final_side_is_run_again_ |
| A11 | one lost answer of a version probe cost it too | execution/test_versions.py::test_one_lost_answer_is_asked_ |
| A12 | a foreign commit stranded the Round | faults/test_history.py::test_a12_a_foreign_commit_leaves_the_round_a_ |
| A12 | so it did a paused one | catalog/test_pausing.py::test_another_round_goes_through_while_one_is_paused_ |
| A12 | hooks that strip trailers stranded a keep | faults/test_history.py::test_a12_hooks_that_strip_trailers_or_ |
| A13 | the reserve was not rebuilt after a rollback | faults/test_history.py::test_a13_the_final_reserve_is_set_ |
| A16 | Decisions and Rounds were sealed by nothing | operations/test_verification.py::test_forged_journal_with_ |
| A17 | frozen hashes were not looked at | faults/test_store.py::test_a17_identities_are_checked_when_a_plan_is_ |
| A18 | what does not apply blocked the gate | tuning/test_gate.py::test_only_what_does_not_apply_is_zero_cases |
| A18 | a hang was never a failure, so its cure no success | faults/test_governance.py::test_a18_a_candidate_that_ |
| A19 | the gate passed noise and failed repairs | tuning/test_gate_errors.py::test_an_unchanged_agent_seldom_passes_ |
| B4 | nothing else went on during a run | faults/test_runs.py::test_b3_b4_the_rest_goes_on_during_a_run_ |
| B11 | a scope was a prefix | faults/test_targets.py::test_b11_a_scope_is_a_path_or_a_glob_ |
| B12 | executables were refused late | faults/test_targets.py::test_b12_executable_binary_linked_and_deleted_files_ |
| B20 | a configuration could not be changed | catalog/test_revising.py::test_revision_keeps_the_project_ |
| B20 | nor noticed to have changed during a pause | catalog/test_pausing.py::test_configuration_that_changed_ |
| B26 | Issues of one call were stored one by one | faults/test_governance.py::test_b26_issues_of_one_call_are_stored_ |
| holdout_flow | an early look at the holdout locked the Round | catalog/test_blind_holdout.py::test_holdout_is_ |
| preround_b0_not_reusable | a run from before was refused without saying why | \
catalog/test_comparing_sides.py::test_run_from_before_the_freeze_is_never_a_side |
| external fix | one Case could be picked to show a repair | catalog/test_external_fixes.py::test_caller_can_pick_ |
| override | nobody was asked | catalog/test_a_persons_word.py::test_what_the_person_does_not_allow_stays_open_ |
| override | it kept what waits for others | catalog/test_workarounds.py::test_workaround_that_does_not_pass_is_not_ |
| resolved | it was believed | faults/test_governance.py::test_a_handed_over_issue_is_not_resolved_by_saying_so |
| terminal Round | a paused Round could not be ended | faults/test_governance.py::test_every_open_state_of_a_round_ |
"""

import glob
import os
import re

import pytest

from storage.errors import AtkError
from storage.schema.candidates import Issue
from storage.schema.rounds import Round
from tests.faults.story import PROMPT, REFUNDS, ROOT, Story

HANGS = """\
import sys, time

text = open(sys.argv[1], encoding="utf-8").read().lower()
for line in open("prompt.txt", encoding="utf-8"):
    word, _, queue = line.strip().partition(" -> ")
    if word and word in text:
        print(queue)
        break
else:
    time.sleep(600)
"""
"""Waits for ever where the prompt names nothing."""
CASES = (("invoice-1", "My invoice is wrong", "billing"), ("refund-1", "I want a refund", "billing"))
REFUND_ISSUE = (("refunds", ["refund-1"]),)
HANDED = {
    "symptom": "s",
    "hypothesis": "h",
    "case_ids": ["refund-1"],
    "disposition": "external_handoff",
    "handoff": {"trigger_input": "i", "expected": "e", "actual": "a"},
}


def test_every_fault_of_the_table_is_held_down_by_a_test_that_is_there():
    cited = re.findall(r"([a-z_]+/test_[a-z_]+\.py)::(test_[a-z0-9_]+)", __doc__)
    assert len(cited) == sum(line.startswith("| ") for line in __doc__.splitlines()) - 1, "the head cites none"
    for place, name in cited:
        (path,) = glob.glob(os.path.join(ROOT, "tests", "**", place), recursive=True) or [None]
        assert path is not None, place
        with open(path, encoding="utf-8") as file:
            assert re.search(rf"^def {name}", file.read(), re.MULTILINE), f"{place} has no {name}"


def test_a18_a_candidate_that_cures_a_hang_passes_where_the_plan_says_that_a_hang_is_the_agents(tmp_path):
    """ATK 1.0.0 took a timeout for nobody's, so that both sides were unknown, and the cure could not be kept."""
    story = Story(tmp_path, agent=HANGS, cases=CASES, timeout_seconds=2)
    story.open(issues=REFUND_ISSUE, timeout_is_failure=True, timeout_seconds=2)
    story.keep(lambda: story.target.write("prompt.txt", REFUNDS))
    assert story.round.accepted_candidate_ids
    assert story.target.read("prompt.txt") == REFUNDS != PROMPT


def test_b26_issues_of_one_call_are_stored_all_or_none(tmp_path):
    """ATK 1.0.0 wrote one after the other, and an error in the last one left the first behind."""
    story = Story(tmp_path).open()
    before = story.target.state.all(Issue)
    sound = {"id": "new", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"]}
    with pytest.raises(AtkError) as refused:
        story.call(
            "store_diagnosis", round_id=story.round_id, issues=[sound, {**sound, "id": "bad", "next_action": ""}]
        )
    assert refused.value.code == "diagnosis_refused"
    assert story.target.state.all(Issue) == before


def test_a_handed_over_issue_is_not_resolved_by_saying_so(tmp_path):
    story = Story(tmp_path).open()
    given = {**HANDED, "id": "index", "resolution": "resolved"}
    with pytest.raises(AtkError) as refused:
        story.call("store_diagnosis", round_id=story.round_id, issues=[given])
    assert (refused.value.code, refused.value.facts["field"]) == ("diagnosis_refused", "resolution")
    assert "complete_external_fix" in str(refused.value)


@pytest.mark.parametrize("status", ["analysis_only", "ready", "optimizing", "paused"])
def test_every_open_state_of_a_round_has_a_way_out(status, tmp_path):
    """In ATK 1.0.0 a Round whose branch moved could be neither ended nor resumed, and a paused one not ended at all."""
    story = Story(tmp_path).open()
    if status in ("optimizing", "paused"):
        story.draft()
        story.target.write("prompt.txt", REFUNDS)
    if status == "paused":
        story.call("transition_round", round_id=story.round_id, action="pause", reason="because")
    if status == "analysis_only":
        story.call("finish_round", round_id=story.round_id, action="abandon", reason="for the next")
        story.round_id = story.call("create_round").round_id
    assert story.round.status == status
    kept = story.target.read("prompt.txt")
    story.target.git("commit", "-q", "--allow-empty", "-m", "Somebody else's")

    story.call("finish_round", round_id=story.round_id, action="abandon", reason="the branch moved")

    assert story.target.state.get(Round, story.round_id).status == "abandoned"
    assert story.target.read("prompt.txt") == kept
    story.target.git("checkout", "-q", "prompt.txt")
    assert story.call("create_round").status == "analysis_only"
