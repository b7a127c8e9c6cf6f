"""A Round: one bounded tuning effort, its frozen plan, its candidates and what was decided."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from storage.schema.approvals import HowConfirmed
from storage.schema.base import Commit, Digest, ObjectId, Record, Value
from storage.schema.probes import ProbePermission
from storage.schema.projects import Preparation

RoundStatus = Literal[
    "analysis_only",
    "ready",
    "optimizing",
    "finalizing",
    "paused",
    "completed",
    "completed_with_override",
    "closed_without_adoption",
    "abandoned",
]
ACTIVE: frozenset[str] = frozenset({"ready", "optimizing", "finalizing"})
"""At most one Round of a project is in one of these."""
CLOSED: frozenset[str] = frozenset({"completed", "completed_with_override", "closed_without_adoption", "abandoned"})

NULL_COMMIT = "0" * 40
"""Git's null id: where a Round without a baseline would name a commit."""
NO_REVISION = "revision-0-none"
"""Where it would name a Revision."""

Repeatability = Literal["deterministic", "stochastic", "unknown"]
Rule = Literal["counts", "statistical"]
Objective = Literal["quality", "efficiency"]
"""What a candidate is to improve: how often its targets pass, or what the agent spends."""
Metric = Literal["cost", "tool_calls", "duration_seconds"]


class Budget(Value):
    """How much a Round may spend: Executions of all phases together, and candidates drafted."""

    executions: int
    candidates: int


class MetricLimit(Value):
    """The most that the right side of a comparison may spend of one metric, over all attempts at its slots."""

    total: float | None = None
    """In the metric's own unit: seconds, calls, or the currency of the cost."""
    ratio: float | None = None
    """How many times the left side's."""


Replay = Literal["in_place", "isolated"]
"""Where a Revision runs: in the user's own folder, or in one of its own outside it."""


class ReplayPreparation(Preparation):
    """What makes the runtime follow the Revision that is to run, as the plan froze it."""

    reason: str = "the command reads its files at every start"
    source: Literal["plan", "project"] | None = None
    """Who said so; None in plans that were frozen while the project's preparation always held."""


class Plan(Value):
    """What a Round is judged by. Frozen once; nothing in it changes afterwards."""

    dataset_id: ObjectId
    case_ids: tuple[str, ...]
    case_fingerprints: dict[str, Digest]
    source_groups: dict[str, str]
    """Case id → source group, where a Case has one."""
    input_digests: dict[str, Digest] = {}
    """Case id → digest of what is asked of the agent, whatever the Case is called: by it looks are counted over
    datasets. Holdout Cases, which are no targets, have none; nor has any Case of a plan of rule version 1."""
    protection_case_ids: tuple[str, ...]
    issue_ids: tuple[ObjectId, ...]
    target_case_ids_by_issue: dict[str, tuple[str, ...]]
    allowed_paths: tuple[str, ...]
    protected_paths: tuple[str, ...]
    spec_id: ObjectId
    spec_digest: Digest
    judger_id: ObjectId
    judger_digest: Digest
    run_config_digest: Digest
    runner_digest: Digest
    repeatability: Repeatability
    repeatability_basis: str
    decision_rule: Rule
    rule_version: int
    margin: float
    alpha: float
    min_fixed_cases: int
    min_primary_delta: float
    incremental_repeats: int
    final_repeats: int
    budget: Budget
    max_retries_per_slot: int
    concurrency: int
    timeout_seconds: float
    timeout_is_failure: bool
    primary_dimension: str
    required_dimensions: tuple[str, ...]
    replay: Replay
    replay_preparation: ReplayPreparation
    commit_authorized: bool
    defaults: tuple[str, ...]
    """Names of the fields that the caller left to ATK."""
    holdout_case_ids: tuple[str, ...] = ()
    """Those of `case_ids` that only the final validation runs, unseen until both of its sides are sealed."""
    objective: Objective = "quality"
    efficiency_metric: Metric | None = None
    """What has to fall where the objective is efficiency."""
    min_efficiency_delta: float = 0.0
    """By more than this the total has to fall, in the metric's own unit."""
    metric_limits: dict[Metric, MetricLimit] = {}
    metric_sources: dict[Metric, str] = {}
    """Metric that the plan relies on → who measures it: `supervisor`, or the collector that the project names."""
    required_loaded_component_ids: tuple[str, ...] = ()
    """Components that each counted Record has to prove to have loaded."""
    screening_case_ids_by_issue: dict[str, tuple[str, ...]] = {}
    """Issue → its targets that only screen; the others confirm. An Issue that is not named has no screening."""
    frozen_after_record: int
    """Runs recorded up to here were visible when the targets were named; none of them is a side of a comparison."""


class Transition(Value):
    """One step between states that somebody asked for by name."""

    action: Literal["pause", "resume", "start_finalizing"]
    from_status: RoundStatus
    to_status: RoundStatus
    reason: str
    at: str


class Pause(Value):
    """A Round that rests: where it goes on, and what was put away of its undecided candidate."""

    from_status: RoundStatus
    at: str
    reason: str
    held_as: str | None = None
    """The ref that holds what was put away, or None where nothing was."""
    held_commit: Commit | None = None
    """Of the exact bytes on disk; its parent has the same files as Git records them."""
    changes: tuple[dict[str, Any], ...] = ()
    """Each path that was put away with its entry before and after (storage.checkpoints.Change)."""


class ExternalFix(Value):
    """A repair made outside the project, which a Round without candidates validates."""

    component_identity: str
    """What was repaired, and in which version: the caller's words."""
    reason: str
    risk: str
    recorded_as: HowConfirmed


class Round(Record):
    """A Round as it stands."""

    kind: ClassVar[str] = "round"

    status: RoundStatus
    created_at: str
    baseline_commit: Commit
    baseline_tree: str
    baseline_revision_id: ObjectId
    branch: str | None
    surroundings: dict[str, Any]
    """The user's own uncommitted files around the baseline, by digest (storage.worktree.Surroundings)."""
    current_commit: Commit
    current_revision_id: ObjectId
    issue_ids: tuple[ObjectId, ...] = ()
    batch_ids: tuple[ObjectId, ...] = ()
    assessment_ids: tuple[ObjectId, ...] = ()
    candidate_ids: tuple[ObjectId, ...] = ()
    accepted_candidate_ids: tuple[ObjectId, ...] = ()
    pending_candidate_id: ObjectId | None = None
    previous_round_id: ObjectId | None = None
    adopt_commit: Commit | None = None
    """A change that existed already: kept under `refs/atk/adopt/<round id>` until it is prepared as a candidate."""
    plan: Plan | None = None
    plan_digest: Digest | None = None
    closed_at: str | None = None
    final_decision_id: ObjectId | None = None
    without_baseline: bool = False
    """Whether it only looks at evidence, without Git or an agent to run: it names NULL_COMMIT and NO_REVISION."""
    probe_permissions: tuple[ProbePermission, ...] = ()
    """Frozen when the Round is created; the plan changes nothing about them."""
    pause: Pause | None = None
    transitions: tuple[Transition, ...] = ()
    reused_baseline: bool = False
    """Whether its baseline is the Revision at which the Round before it ended, and not one of its own."""
    external_fix: ExternalFix | None = None


class Revision(Record):
    """A named content state: the Git tree that a run must find, and how it came to be."""

    kind: ClassVar[str] = "revision"

    origin: Literal["baseline", "candidate", "checkpoint", "rollback", "head"]
    commit: Commit
    tree: str
    surroundings_digest: Digest
    round_id: ObjectId | None = None
    candidate_id: ObjectId | None = None
    parent_revision_id: ObjectId | None = None
    created_at: str
