"""Whether a repair made outside the project helped here: what is frozen to see that, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from operations.tuning.comparing import Table
from storage.errors import AtkError, NextCall
from storage.schema.candidates import Issue
from storage.schema.rounds import Budget, Plan, Round
from storage.schema.validations import Result

UNRESOLVED = "external_handoff"


@dataclass(kw_only=True, eq=False)
class ExternalFixRefused(AtkError):
    """A Round cannot be opened, or ended, as the validation of a repair made elsewhere."""

    message: ClassVar[str] = (
        "A Round for external_fix_identity {identity!r} cannot be opened: {problem}. It follows a Round that is over, "
        "that had a plan, and that left an Issue with disposition external_handoff unresolved; the person allows it "
        "in external_fix_authorization."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall(
            "create_round",
            {"external_fix_identity": "{identity}"},
            {"previous_round_id": "the Round with the handoff", "external_fix_authorization": "the person's word"},
        ),
        NextCall("get_status"),
    )

    identity: str
    problem: str


@dataclass(kw_only=True, eq=False)
class NoExternalFix(AtkError):
    """The Round was not opened to validate a repair made elsewhere."""

    message: ClassVar[str] = (
        "{round_id} was not opened with external_fix_identity, so there is no frozen permission to validate a repair "
        "made elsewhere. compare_and_gate compares what its candidates change."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str


@dataclass(kw_only=True, eq=False)
class ExternalFixNotShown(AtkError):
    """The repair was not validated, or its newest validation does not pass."""

    message: ClassVar[str] = (
        "{round_id} cannot end with complete_external_fix: {problem}. Validate the baseline's final run with "
        "validate_external_fix, or end the Round with close_without_adoption."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("validate_external_fix", {"round_id": "{round_id}"}, {"assessment_id": "of the baseline's final run"}),
        NextCall("finish_round", {"round_id": "{round_id}", "action": "close_without_adoption"}, {"reason": "why"}),
    )

    round_id: str
    problem: str


def handoffs(previous: Round, issues: Sequence[Issue], identity: str) -> list[Issue]:
    """Returns the Issues that the previous Round handed to somebody else and nobody resolved.

    Raises:
        ExternalFixRefused: There is none, or one of their Cases is not in that Round's plan.
    """
    found = [
        i for i in issues if i.round_id == previous.id and i.disposition == UNRESOLVED and i.resolution != "resolved"
    ]
    if previous.plan is None:
        raise ExternalFixRefused(identity=identity, problem=f"{previous.id} had no plan that says how it is judged")
    if not found:
        raise ExternalFixRefused(identity=identity, problem=f"{previous.id} handed no Issue over that is unresolved")
    open_cases = set(previous.plan.case_ids) - set(previous.plan.holdout_case_ids)
    strangers = sorted({c for issue in found for c in issue.case_ids} - open_cases)
    if strangers:
        problem = f"its plan does not hold the Cases {', '.join(strangers[:5])}"
        raise ExternalFixRefused(identity=identity, problem=problem)
    return found


def permission(before: Plan, issues: Sequence[Issue], *, run_config_digest: str, runner_digest: str, at: int) -> Plan:
    """Returns the plan of the validation: the previous one's Cases, repeats, dimensions and judge, and no candidates.

    `at` is the number of the last journal record: runs up to it prove nothing.
    """
    blind = set(before.holdout_case_ids)
    case_ids = tuple(c for c in before.case_ids if c not in blind)
    kept, named = set(case_ids), {i.id: set(i.case_ids) for i in issues}
    targets = {issue_id: tuple(c for c in case_ids if c in ids) for issue_id, ids in named.items()}
    aimed = {c for ids in targets.values() for c in ids}
    executions = len(case_ids) * before.final_repeats * (1 + before.max_retries_per_slot)
    return before.model_copy(
        update={
            "case_ids": case_ids,
            "holdout_case_ids": (),
            "case_fingerprints": {c: before.case_fingerprints[c] for c in case_ids},
            "input_digests": {c: d for c, d in before.input_digests.items() if c in kept},
            "source_groups": {c: g for c, g in before.source_groups.items() if c in kept},
            "protection_case_ids": tuple(c for c in case_ids if c not in aimed),
            "issue_ids": tuple(i.id for i in issues),
            "target_case_ids_by_issue": targets,
            "budget": Budget(executions=executions, candidates=0),
            "run_config_digest": run_config_digest,
            "runner_digest": runner_digest,
            "frozen_after_record": at,
        }
    )


def judged(table: Table, plan: Plan, reservations: Sequence[str]) -> tuple[Result, tuple[str, ...]]:
    """Returns whether every slot of every frozen Case passes, and why not.

    One failure is no repair; what is not known is never a pass, and in the primary dimension what does not apply is
    not known. A required dimension may say of a slot that it does not apply.
    """
    failed: list[str] = []
    unknown: list[str] = []
    for dimension, cases in table.items():
        for case_id, outcomes in cases.items():
            place = f"{case_id} in {dimension}"
            needed = {"unknown", "not_applicable"} if dimension == plan.primary_dimension else {"unknown"}
            if "fail" in outcomes:
                failed.append(place)
            elif not outcomes or needed & set(outcomes):
                unknown.append(place)
    if failed:
        return "no_effect", (f"{len(failed)} still fail: {', '.join(failed[:8])}.",)
    if reservations or unknown or not plan.case_ids:
        said = [f"{len(unknown)} are not known: {', '.join(unknown[:8])}."] if unknown else []
        return "insufficient", (*reservations, *said)
    return "pass", (f"All {len(plan.case_ids)} Cases pass at every repeat.",)
