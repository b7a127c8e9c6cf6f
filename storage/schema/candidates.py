"""Issues, the candidates that answer them, and the decisions about both."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from storage.schema.approvals import HowConfirmed
from storage.schema.base import Commit, Digest, ObjectId, Record, Value

RootCauseStatus = Literal["hypothesis", "supported", "intervention_supported", "inconclusive"]
Disposition = Literal["local_candidate", "external_handoff", "judge_revision", "needs_evidence", "no_action"]
Layer = Literal["skill", "prompt", "agent_code", "tool", "retrieval", "runtime", "dataset_or_judge", "unknown"]


class EvidenceRef(Value):
    """A stored Record that something rests on."""

    batch_id: ObjectId
    evidence_id: str
    finding: str | None = None
    """What a failure detector found in it: `<detector>.<version>/<first>-<last event>`, which held when stored."""


class Check(Value):
    """Something that was looked at to tell one explanation from another."""

    description: str
    status: Literal["not_run", "completed", "failed", "inconclusive"]
    expected: str = ""
    actual: str = ""
    reason: str = ""
    evidence_refs: tuple[EvidenceRef, ...] = ()


class Issue(Record):
    """A diagnosed problem: one revision of it. The journal keeps the earlier ones."""

    kind: ClassVar[str] = "issue"

    name: str
    """The caller's own name for the Issue, unique in its Round."""
    round_id: ObjectId
    revision: int
    created_at: str
    symptom: str
    hypothesis: str
    competing_explanations: tuple[str, ...] = ()
    competing_explanations_addressed: str = ""
    checks: tuple[Check, ...] = ()
    evidence_refs: tuple[EvidenceRef, ...] = ()
    mechanism_evidence_refs: tuple[EvidenceRef, ...] = ()
    intervention_validation_refs: tuple[ObjectId, ...] = ()
    root_cause_status: RootCauseStatus
    intervention_layer: Layer = "unknown"
    responsible_component: str | None = None
    case_ids: tuple[str, ...]
    priority: str = "normal"
    disposition: Disposition
    handoff: dict[str, Any] | None = None
    resolution: str = "open"
    next_action: str = ""


class Candidate(Record):
    """One scoped change for one Issue. A draft is being edited; sealed content never changes again."""

    kind: ClassVar[str] = "candidate"

    round_id: ObjectId
    status: Literal["draft", "sealed", "accepted", "rejected", "deferred", "cancelled", "withdrawn"]
    primary_issue_id: ObjectId
    issue_revision: int
    target_case_ids: tuple[str, ...]
    related_issue_ids: tuple[ObjectId, ...] = ()
    supersedes: ObjectId | None = None
    change_kind: Literal["fix", "workaround"] = "fix"
    blocked_by_issue_ids: tuple[ObjectId, ...] = ()
    """Issues that others have to repair: a fix waits for them, a workaround goes around them."""
    declared_paths: tuple[str, ...]
    parent_commit: Commit
    parent_revision_id: ObjectId
    created_at: str
    adopted: bool = False
    revision_id: ObjectId | None = None
    sealed_commit: Commit | None = None
    tree: str | None = None
    changes: tuple[dict[str, Any], ...] = ()
    """Each changed path with its entry before and after (storage.checkpoints.Change)."""
    changes_digest: Digest | None = None
    accepted_commit: Commit | None = None
    decision_id: ObjectId | None = None


class Authorization(Value):
    """Who allowed something out of the ordinary, and what they were told it risks."""

    source: Literal["user"]
    action: Literal["trial_commit", "retain_without_final_pass"]
    reason: str
    risk: str
    recorded_as: HowConfirmed = "reported_by_client"


class Decision(Record):
    """What was decided about a candidate or a Round, by whom, on what grounds."""

    kind: ClassVar[str] = "decision"

    round_id: ObjectId
    candidate_id: ObjectId | None = None
    action: Literal[
        "keep",
        "reject",
        "defer",
        "cancel_draft",
        "rollback",
        "complete",
        "complete_with_override",
        "complete_external_fix",
        "close_without_adoption",
        "abandon",
    ]
    reason: str
    created_at: str
    validation_id: ObjectId | None = None
    validation_result: str | None = None
    validation_missing_reason: str | None = None
    override: bool = False
    override_authorization: Authorization | None = None
    before_commit: Commit
    after_commit: Commit
    withdrawn_candidate_ids: tuple[ObjectId, ...] = ()
