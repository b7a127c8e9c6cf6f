"""What an answer says to do next can be done: each `next` succeeds or meets another guard, and is never malformed."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from operations.registry import all_operations
from storage.errors import AtkError, NextCall
from tests.operations.catalog import (
    test_guards_of_candidates,
    test_guards_of_evidence,
    test_guards_of_finding,
    test_guards_of_holdouts,
    test_guards_of_rounds,
)
from tests.operations.catalog.guards import Guard, filled, names, supplied
from tests.operations.catalog.stages import LADDER, Staged, Stages
from tests.support.projects import FIX

MODULES: tuple[ModuleType, ...] = (
    test_guards_of_rounds,
    test_guards_of_candidates,
    test_guards_of_evidence,
    test_guards_of_finding,
    test_guards_of_holdouts,
)
GUARDS = [guard for module in MODULES for guard in module.GUARDS]

ELSEWHERE = {
    "deal_judged",  # test_blind_judging
    "judge_engine_missing",  # test_judging_evidence
    "judged_together",  # test_blind_judging
    "not_applicable_without_rule",  # test_judging_evidence
    "nothing_to_deal",  # test_blind_judging
    "side_not_run",  # test_blind_judging
    "pattern_engine_missing",  # test_planted_secrets
    "redact_pattern_unusable",  # test_planted_secrets
    "second_look_missing",  # test_planted_secrets
    "adapter_script_changed",  # tests/operations/execution
    # tests/operations/execution
    "adopted_change_overlaps",  # test_adopting
    "already_followed",  # test_successors
    "attachments_too_large",  # tests/operations/execution
    "assessment_of_other_batch",  # test_find_records
    "attendant_lost",  # tests/operations/execution
    "bad_adapter_option",  # tests/operations/execution
    "batch_has_no_records",  # test_find_records
    "batch_not_readable",  # test_following_batches
    "batch_still_runs",  # test_successors
    "command_not_a_list",  # the schema refuses it first
    "configuration_moved",  # test_pausing
    "runtime_configured",  # test_linked_rounds
    "continue_or_retry",  # test_successors
    "differs_from_predecessor",  # test_successors
    "env_file_unusable",  # tests/operations/execution
    "blocked_by_issue",  # test_workarounds
    "blockers_unfounded",  # test_workarounds
    "candidate_lost",  # test_recovering
    "external_fix_not_shown",  # test_external_fixes
    "external_fix_refused",  # test_external_fixes
    "holdout_exposed",  # test_blind_holdout
    "holdout_key_missing",  # test_blind_holdout
    "holdout_key_unusable",  # tests/storage/test_sealing
    "holdout_stays_unseen",  # test_blind_holdout
    "holdout_was_run",  # test_blind_holdout
    "import_crashed",  # tests/operations/execution/test_importing
    "isolated_content_differs",  # tests/storage/test_isolated
    "mapping_field_unknown",  # the schema refuses it first
    "no_place_outside",  # tests/storage/test_isolated
    "not_confirmed",  # test_confirming
    "not_retryable",  # test_successors
    "not_stuck",  # tests/storage
    "nothing_to_continue",  # test_successors
    "nothing_to_try",  # tests/operations/execution
    "nothing_to_validate",  # test_runs_of_a_round
    "probe_input_refused",  # test_diagnostic_probe
    "probe_not_permitted",  # test_diagnostic_probe
    "probe_permission_invalid",  # test_diagnostic_probe
    "probe_script_changed",  # test_diagnostic_probe
    "probe_too_long",  # test_diagnostic_probe
    "probes_used_up",  # test_diagnostic_probe
    "record_input_unknown",  # test_store_dataset
    "records_disagree",  # test_store_dataset
    "round_without_baseline",  # test_analysis_only_rounds
    "result_forbids",  # test_comparing_sides
    "retries_used_up",  # test_successors
    "seal_broken",  # tests/storage/test_sealing
    "secret_in_configuration",  # tests/attack
    "source_changed",  # test_store_dataset
    "split_refused",  # test_dealing_holdout
    "source_group_split",  # tests/operations/importers
    "source_refused",  # a base class
    "store_damaged",  # tests/storage
    "table_unreadable",  # test_store_dataset
    "unknown_needs_the_user",  # test_successors
    "unknown_content",  # test_deciding_candidates
    "variables_missing",  # tests/operations/execution
    "verdicts_refused",  # a base class
}
"""Refusals that other tests meet, and where."""


def _put_back(target: Staged) -> None:
    """What the refusals of a seal ask a person to do in the worktree."""
    target.git("checkout", "-q", "agent.sh")
    with suppress(FileNotFoundError):
        os.remove(target.path("elsewhere.txt"))
    if target.read("prompt.txt") == "other\n":
        target.git("checkout", "-q", "prompt.txt")
        target.write("notes/why.txt", "it is declared\n")
    else:
        target.write("prompt.txt", FIX)


MENDED: dict[tuple[str, str], Callable[[Staged], None]] = {
    ("seal_candidate", "nothing_changed"): _put_back,
    ("seal_candidate", "out_of_scope"): _put_back,
    ("seal_candidate", "other_repository"): lambda target: shutil.rmtree(target.path("notes/inner")),
    ("run_evaluation", "uncommitted_files"): lambda target: target.git("commit", "-qam", "Edited"),
    ("decide_candidate", "staged"): lambda target: target.git("reset", "-q"),
    ("initialize_project", "legacy_store"): lambda target: os.rename(target.path(".atk"), target.path("old")),
    ("get_status", "legacy_store"): lambda target: os.rename(target.path(".atk"), target.path("old")),
}
"""What a person does first, because the message says so and no call can."""


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_next_of_a_refusal_succeeds_or_meets_another_guard(guard: Guard, stages: Stages, tmp_path):
    target, error, _ = guard.met(stages, str(tmp_path / "target"))

    MENDED.get((guard.operation, guard.code), lambda _: None)(target)
    for call in error.next:
        # Errors of the store and of Git know no Round: which one a call was about is the caller's to know.
        own = {k: v for k, v in filled(guard.arguments, target.ids).items() if _takes(call.tool, k)}
        arguments = supplied(target, call.tool, {**own, **call.arguments}, _asked(call))
        arguments.pop("project_path", None)
        met = _met(target, call.tool, arguments)
        assert met is None or met.code != "invalid_arguments", f"{call}: {met}"
        assert met is None or (met.code, met.facts) != (error.code, error.facts), f"{call} meets the same guard"


def test_next_of_every_answer_on_the_way_can_be_called(stages, tmp_path):
    """Follows the loop stage by stage; at each, the first thing that get_status names can be done."""
    for stage in LADDER:
        target = stages.copy(stage, str(tmp_path / stage))
        status = target.call("get_status")
        assert status.next, stage
        for step in status.next[:1]:
            met = _met(target, step.tool, supplied(target, step.tool, step.arguments, step.supply))
            assert met is None or met.code == "plan_cannot_pass", f"{stage}: {step}: {met}"


def test_every_refusal_that_an_operation_names_is_met_by_a_guard():
    met = {guard.code for guard in GUARDS} | ELSEWHERE
    known = (o for o in all_operations().values() if any(guard.operation == o.name for guard in GUARDS))
    named = {_code(error) for operation in known for error in operation.raises}

    assert named - met == set(), "write a guard, or name in ELSEWHERE the test that meets it"


def _asked(call: NextCall) -> dict[str, str]:
    """What a call asks for; one that says nothing of a reason it needs is given one."""
    needs = all_operations()[call.tool].request.model_fields
    return {**({"reason": "why"} if "reason" in needs else {}), **call.supply}


def _takes(tool: str, field: str) -> bool:
    """Whether a field of the refused call is one that the next one cannot do without."""
    known = all_operations()[tool].request.model_fields
    return field in ("round_id", "candidate_id", "action") and field in known and known[field].is_required()


def _met(target: Staged, tool: str, arguments: dict[str, Any]) -> AtkError | None:
    try:
        target.call(tool, **arguments)
    except AtkError as error:
        return error
    return None


def _code(error: type[AtkError]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()
