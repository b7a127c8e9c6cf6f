"""A change that exists already becomes a candidate, and the files around it are frozen and left alone."""

from storage.schema.candidates import Candidate
from tests.operations.catalog.stages import issue
from tests.support.projects import FIX, PROMPT

PLAN = {"repeatability": "deterministic", "budget": {"candidates": 3}}


def opened(target, *issues, **more):
    """Opens, diagnoses and freezes a Round over what the worktree holds."""
    made = target.call("create_round", batch_ids=[target.batch_id], assessment_ids=[target.assessment_id], **more)
    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    found = target.call("store_diagnosis", round_id=made.round_id, issues=list(issues) or [REFUNDS])
    target.ids["issue_id"] = found.issue_id
    target.call("freeze_round", round_id=made.round_id, plan=PLAN)
    return made


REFUNDS = issue("refunds", "refund-1", "refund-2")


def prepare(target, **more):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id, **more)
    target.ids["candidate_id"] = made.candidate_id
    return made


def test_adopted_worktree_is_kept_under_a_ref_and_written_back_as_the_draft(at):
    target = at("assessed")
    target.write("prompt.txt", FIX)
    target.write("notes/new.txt", "new\n")
    target.write("README", "mine, outside\n")

    made = opened(target, adopt="worktree")

    assert sorted(made.adopted_paths) == ["notes/new.txt", "prompt.txt"]
    assert made.left_alone == ["README"]
    assert target.read("prompt.txt") == PROMPT
    assert target.read("README") == "mine, outside\n"
    assert target.git("show", f"refs/atk/adopt/{made.round_id}:prompt.txt") == FIX.rstrip("\n")
    prepare(target, adopt="worktree")
    assert target.read("prompt.txt") == FIX
    assert target.read("notes/new.txt") == "new\n"
    target.seal()
    assert target.state.get(Candidate, target.candidate_id).adopted


def test_a_change_that_was_put_aside_is_named_until_a_draft_takes_it_up(at):
    target = at("assessed")
    target.write("prompt.txt", FIX)
    made = opened(target, adopt="worktree")
    assert any("adopt: worktree writes it back" in warning for warning in made.warnings)
    target.run(target.b0)

    (begin,) = target.call("get_status").next
    assert begin.arguments == {
        "round_id": target.round_id,
        "adopt": "worktree",
        "primary_issue_id": target.issue_id,
    }
    without = prepare(target)
    assert f"git restore --source refs/atk/adopt/{made.round_id} PATH" in without.warnings[-1]
    target.git("restore", "--source", f"refs/atk/adopt/{made.round_id}", "prompt.txt")
    assert target.read("prompt.txt") == FIX
    target.seal()
    target.decide("reject", validation_missing_reason="only the slot is wanted")
    assert not prepare(target, adopt="worktree").warnings


def test_adopted_staged_change_is_restored_with_its_index_entry(at):
    target = at("assessed")
    target.write("prompt.txt", FIX)
    target.git("add", "prompt.txt")

    opened(target, adopt="worktree")

    assert target.read("prompt.txt") == PROMPT
    prepare(target, adopt="worktree")
    assert target.read("prompt.txt") == FIX
    target.seal()
    assert [target.run(revision)[0] for revision in (target.b0, target.revision_id)]


def test_adopted_change_goes_on_top_of_what_was_kept_since(at):
    target = at("assessed")
    target.write("notes/adopted.txt", "adopted\n")
    opened(target, adopt="worktree")
    prepare(target)
    target.write("prompt.txt", FIX)
    target.seal()
    target.decide("reject", validation_missing_reason="only the slot is wanted")
    assert target.read("prompt.txt") == PROMPT

    prepare(target, adopt="worktree")

    assert target.read("notes/adopted.txt") == "adopted\n"
    assert target.git("status", "--short") == "?? notes/"


def test_adopted_change_never_undoes_a_kept_candidate(at):
    target = at("assessed")
    target.write("notes/adopted.txt", "adopted\n")
    opened(target, adopt="worktree")
    keep_with_override(target, {"prompt.txt": FIX})

    prepare(target, adopt="worktree")

    assert target.read("prompt.txt") == FIX
    assert target.read("notes/adopted.txt") == "adopted\n"


def test_adopted_change_of_a_file_that_was_kept_since_is_refused(at):
    target = at("assessed")
    target.write("prompt.txt", "adopted -> billing\n")
    opened(target, adopt="worktree")
    keep_with_override(target, {"prompt.txt": FIX})
    before = target.facts()

    error = target.refusal(
        "prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id, adopt="worktree"
    )

    assert (error.code, error.facts["paths"]) == ("adopted_change_overlaps", ["prompt.txt"])
    assert not target.changed_since(before)


def keep_with_override(target, files):
    """Prepares, seals, runs and keeps a candidate of these files."""
    prepare(target)
    for name, content in files.items():
        target.write(name, content)
    target.seal()
    target.ids["left_batch_id"], target.ids["left_assessment_id"] = target.run(target.b0)
    target.ids["right_batch_id"], target.ids["right_assessment_id"] = target.run(target.revision_id)
    assert target.compare().result == "pass"
    target.decide("keep")


def test_files_outside_the_scope_are_frozen_and_left_alone_to_the_end(at):
    target = at("assessed")
    target.write("agent.sh", target.read("agent.sh") + "# mine\n")
    target.write("README", "untracked\n")
    target.git("add", "README")
    target.write("todo.txt", "untracked\n")

    made = opened(target)

    assert sorted(made.left_alone) == ["README", "agent.sh", "todo.txt"]
    keep_with_override(target, {"prompt.txt": FIX})
    assert target.read("agent.sh").endswith("# mine\n")
    assert target.git("status", "--short") == "A  README\n M agent.sh\n?? todo.txt"
    assert target.git("show", "--name-only", "--format=", "HEAD") == "prompt.txt"


def test_frozen_file_that_changes_during_the_round_is_named(at):
    target = at("assessed")
    target.write("todo.txt", "before\n")
    opened(target)
    target.write("todo.txt", "after\n")
    before = target.facts()

    error = target.refusal("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)

    assert (error.code, error.facts["paths"]) == ("surroundings_changed", ["todo.txt"])
    assert not target.changed_since(before)


def test_refusal_of_dirty_files_lists_them_and_the_ways_out(at):
    target = at("assessed")
    target.write("prompt.txt", FIX)

    error = target.refusal("create_round")

    assert error.facts["paths"] == ["prompt.txt"]
    assert "adopt: worktree" in str(error)
    assert "narrow allowed_paths" in str(error)
    assert (error.next[0].tool, error.next[0].arguments) == ("create_round", {"adopt": "worktree"})


def test_ignored_file_that_the_configuration_names_cannot_carry_a_win(at):
    target = at("blank")
    target.write("rules.local", "refund other\n")
    target.write(".git/info/exclude", "rules.local\n")
    named = {"component_id": "r", "role": "config", "change_role": "fixed", "source_path": "rules.local"}
    target.initialize(command=["sh", "agent.sh", "{input_file}"], components=[named], protected_paths=["agent.sh"])
    target.ids["dataset_id"] = target.store_cases()
    batch = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    target.ids["batch_id"] = batch.batch_id
    spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "as expected"}}
    found = target.call("store_assessment", batch_id=batch.batch_id, evaluation_spec=spec, judger={"method": "exact"})
    target.ids["assessment_id"] = found.assessment_id
    opened(target)
    target.write("rules.local", "refund billing\n")

    error = target.refusal("run_evaluation", round_id=target.round_id)

    assert (error.code, error.facts["paths"]) == ("surroundings_changed", ["rules.local"])
