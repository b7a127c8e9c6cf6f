"""What a candidate may do about a problem that somebody else has to repair: go around it, and say so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from storage.errors import AtkError, NextCall
from storage.schema.candidates import Candidate, Issue

ChangeKind = Literal["fix", "workaround"]


@dataclass(kw_only=True, eq=False)
class BlockersUnfounded(AtkError):
    """What blocks a candidate, or what it goes around, is not stored as something that others have to repair."""

    message: ClassVar[str] = (
        "The candidate cannot begin so: {problem}. blocked_by_issue_ids names Issues of {round_id} with disposition "
        "external_handoff; change_kind workaround is for a change that goes around one of them, and fix for all others."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall(
            "prepare_candidate",
            {"round_id": "{round_id}"},
            {
                "primary_issue_id": "an Issue of the plan",
                "blocked_by_issue_ids": "what is handed over",
                "change_kind": "workaround, where it goes around that",
            },
        ),
        NextCall(
            "store_diagnosis", {"round_id": "{round_id}"}, {"issues": "what was handed over, as external_handoff"}
        ),
    )

    round_id: str
    problem: str


@dataclass(kw_only=True, eq=False)
class BlockedByIssue(AtkError):
    """A candidate cannot be kept while what blocks it is not repaired, unless it is a workaround that passes."""

    message: ClassVar[str] = (
        "{candidate_id} is a {change_kind} that waits for {blockers}, and {problem}. Reject or defer it; keep it once "
        "they are resolved, or prepare a workaround that passes."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall(
            "decide_candidate",
            {"round_id": "{round_id}", "candidate_id": "{candidate_id}", "action": "defer"},
            {"reason": "what it waits for"},
        ),
        NextCall("get_status", {"round_id": "{round_id}"}),
    )

    round_id: str
    candidate_id: str
    change_kind: str
    blockers: list[str]
    problem: str


def blockers(
    round_id: str, primary: Issue, given: Sequence[str], change_kind: ChangeKind, issues: Collection[Issue]
) -> tuple[str, ...]:
    """Returns the Issues that block a candidate for `primary`: those given, and itself where others have to repair it.

    Raises:
        BlockersUnfounded: One is no Issue that was handed over, or the kind of change does not fit them.
    """
    handed = {i.id for i in issues if i.round_id == round_id and i.disposition == "external_handoff"}
    if strangers := [name for name in given if name not in handed]:
        raise BlockersUnfounded(
            round_id=round_id, problem=f"{', '.join(strangers[:5])} is not handed over in this Round"
        )
    unresolved = primary.disposition == "external_handoff" and primary.resolution != "resolved"
    if unresolved and change_kind == "fix":
        raise BlockersUnfounded(
            round_id=round_id, problem=f"{primary.id} is handed over and unresolved, so a change here goes around it"
        )
    found = tuple(dict.fromkeys((*given, *([primary.id] if unresolved else []))))
    if change_kind == "workaround" and not found:
        raise BlockersUnfounded(round_id=round_id, problem="a workaround has to name what it goes around")
    return found


def require_unblocked(candidate: Candidate, issues: Collection[Issue], result: str | None) -> None:
    """Refuses to keep a candidate whose blockers stand; a workaround may be kept by a passing Validation alone.

    Raises:
        BlockedByIssue: It names them.
    """
    resolved = {i.id for i in issues if i.resolution == "resolved"}
    standing = [name for name in candidate.blocked_by_issue_ids if name not in resolved]
    if not standing or (candidate.change_kind == "workaround" and result == "pass"):
        return
    workaround = candidate.change_kind == "workaround"
    problem = f"its Validation says {result}, which no override replaces" if workaround else "they are not resolved"
    raise BlockedByIssue(
        round_id=candidate.round_id,
        candidate_id=candidate.id,
        change_kind=candidate.change_kind,
        blockers=standing,
        problem=problem,
    )
