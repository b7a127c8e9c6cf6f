"""When holdout Cases may be run, how they came to be seen, and what a Round may no longer do once it has run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storage.errors import AtkError, NextCall
from storage.holdout import is_opened
from storage.schema.batches import Batch
from storage.schema.datasets import Case
from storage.schema.exposures import Exposure
from storage.schema.rounds import Plan, Round

_NAMED = 20
"""How many groups or Cases an error names."""


@dataclass(kw_only=True, eq=False)
class HoldoutOnlyFinal(AtkError):
    """A run other than a final one would look at holdout Cases."""

    message = (
        "Holdout Cases run once, in phase final of a Round whose plan names them, and case_ids has {case_ids}. Leave "
        "holdout out of case_ids; without case_ids a run takes every other Case."
    )
    next_calls = (NextCall("run_evaluation", supply={"case_ids": "Cases that are no holdout, or leave it out"}),)

    case_ids: list[str]


@dataclass(kw_only=True, eq=False)
class NoCaseButHoldout(AtkError):
    """The dataset has nothing that may run before a final validation."""

    message = (
        "All Cases of {dataset_id} are holdout, which run only in phase final of a Round. Store a dataset that has "
        "optimization Cases as well."
    )
    next_calls = (NextCall("store_dataset", supply={"source": "a file that has optimization Cases too"}),)

    dataset_id: str


@dataclass(kw_only=True, eq=False)
class HoldoutExposed(AtkError):
    """Source groups of the plan's holdout were seen, so they prove nothing about what has not been seen."""

    message = (
        "These source groups cannot be a fresh holdout: {groups}. They were seen before: {how}. Give "
        "plan.holdout_case_ids with the others (fresh ones: {fresh}), or [] for a Round without holdout; "
        "new holdout Cases come with a new dataset."
    )
    next_calls = (
        NextCall(
            "freeze_round",
            {"round_id": "{round_id}", "preview": True},
            {"plan": "with holdout_case_ids, or [] of them"},
        ),
        NextCall("store_dataset", supply={"source": "a file with holdout Cases of other source groups"}),
    )

    round_id: str
    groups: list[str]
    case_ids: list[str]
    how: list[str]
    fresh: int


@dataclass(kw_only=True, eq=False)
class HoldoutWasRun(AtkError):
    """A change that is made after the holdout was run could be made to fit it."""

    message = (
        "{round_id} has run its holdout Cases ({batch_id}), and takes no further candidate, after a rollback neither: "
        "what is changed now could be made to fit them. Judge both final sides and finish the Round; another Round "
        "needs a fresh holdout, or none."
    )
    next_calls = (
        NextCall("get_status", {"round_id": "{round_id}"}),
        NextCall("finish_round", {"round_id": "{round_id}"}, {"action": "how it ends", "reason": "why"}),
    )

    round_id: str
    batch_id: str


def others(cases: Mapping[str, Case], dataset_id: str) -> list[str]:
    """Returns the ids of the Cases that may run at any time.

    Raises:
        NoCaseButHoldout: There are none.
    """
    found = [case.id for case in cases.values() if case.usage != "holdout"]
    if cases and not found:
        raise NoCaseButHoldout(dataset_id=dataset_id)
    return found


def require_final(wanted: Iterable[str], cases: Mapping[str, Case], *, final: bool) -> None:
    """Refuses holdout Cases in a run that is no side of a Round's final validation.

    Raises:
        HoldoutOnlyFinal: It names them.
    """
    if not final and (early := [c for c in wanted if c in cases and cases[c].usage == "holdout"]):
        raise HoldoutOnlyFinal(case_ids=early[:_NAMED])


def was_run(value: Round, batches: Iterable[Batch]) -> Batch | None:
    """Returns the first final batch of a Round that attempted holdout Cases, or attempts them now."""
    for batch in batches:
        if (
            batch.round_id == value.id
            and batch.holdout_case_ids
            and (batch.status == "running" or any(batch.counts.values()))
        ):
            return batch
    return None


def require_not_run(value: Round, batches: Iterable[Batch]) -> None:
    """Refuses a further change in a Round that has run its holdout Cases.

    Raises:
        HoldoutWasRun: It names the batch that did.
    """
    if (batch := was_run(value, batches)) is not None:
        raise HoldoutWasRun(round_id=value.id, batch_id=batch.id)


def standing(value: Round, batches: Sequence[Batch], exposures: Iterable[Exposure]) -> dict[str, object]:
    """Returns how a Round stands with its holdout, for a person; nothing where its plan has none."""
    if value.plan is None or not value.plan.holdout_case_ids:
        return {}
    ran = was_run(value, batches)
    stands = "opened" if is_opened(value, batches) else "unseen" if ran is None else "run on one side, unseen"
    own = [e.id for e in exposures if e.round_id == value.id and e.how == "final_run"]
    return {
        "cases": len(value.plan.holdout_case_ids),
        "source_groups": len(groups_of(value.plan)),
        "stands": stands,
        "exposure_id": own[0] if own else None,
        "takes_candidates": ran is None,
    }


def seen_groups(exposures: Iterable[Exposure], elsewhere: Iterable[Case]) -> dict[str, str]:
    """Returns each source group that is no fresh holdout, with how it was seen.

    Args:
        exposures: All of the project.
        elsewhere: The Cases of all its datasets: a group with a Case that is no holdout is known.
    """
    found: dict[str, str] = {}
    for case in elsewhere:
        if case.usage != "holdout" and case.source_group_id is not None:
            found.setdefault(case.source_group_id, f"a Case that is no holdout is of it ({case.id})")
    for exposure in exposures:
        how = {
            "final_run": f"{exposure.round_id} ran it at its end",
            "known_input": f"its input is known from {', '.join(exposure.seen_in[:2])}",
            "knowledge": f"{', '.join(exposure.seen_in[:2])} was drawn from it",
        }[exposure.how]
        for group in exposure.source_groups:
            found.setdefault(group, f"{how} ({exposure.id})")
    return found


def require_fresh(value: Round, plan: Plan, seen: Mapping[str, str]) -> None:
    """Refuses a plan whose holdout Cases are of groups that were seen.

    Raises:
        HoldoutExposed: It names the groups, their Cases and how they were seen.
    """
    known = {c: plan.source_groups[c] for c in plan.holdout_case_ids if plan.source_groups.get(c) in seen}
    if not known:
        return
    groups = list(dict.fromkeys(known.values()))
    raise HoldoutExposed(
        round_id=value.id,
        groups=groups[:_NAMED],
        case_ids=list(known)[:_NAMED],
        how=[f"{group}: {seen[group]}" for group in groups[:_NAMED]],
        fresh=len(plan.holdout_case_ids) - len(known),
    )


def groups_of(plan: Plan) -> tuple[str, ...]:
    """Returns the source groups of a plan's holdout Cases."""
    return tuple(dict.fromkeys(plan.source_groups[c] for c in plan.holdout_case_ids if c in plan.source_groups))


def problems(value: Round, batches: Sequence[Batch], exposures: Sequence[Exposure]) -> list[str]:
    """Returns what does not fit together: holdout runs without their exposure, and runs that must not be."""
    found: list[str] = []
    plan = value.plan
    own = [b for b in batches if b.round_id == value.id and b.holdout_case_ids]
    if plan is None or not plan.holdout_case_ids:
        return [f"has no holdout, and {b.id} ran holdout Cases" for b in own]
    known = [e for e in exposures if e.round_id == value.id and e.how == "final_run"]
    found += [
        f"ran holdout Cases in {batch.id}, which is no final side of its plan"
        for batch in own
        if batch.phase != "final" or set(batch.holdout_case_ids) - set(plan.holdout_case_ids)
    ]
    if own and [set(e.source_groups) for e in known] != [set(groups_of(plan))]:
        found.append("ran its holdout, and no exposure, or another one, says so")
    if known and not own:
        found.append(f"has the exposure {known[0].id}, and no batch ran its holdout")
    targets = {c for ids in plan.target_case_ids_by_issue.values() for c in ids}
    if used := sorted((targets | set(plan.protection_case_ids)) & set(plan.holdout_case_ids)):
        found.append(f"uses holdout Cases as targets or protection: {', '.join(used[:5])}")
    return found
