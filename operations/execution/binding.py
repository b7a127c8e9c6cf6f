"""One run being planned: which content it is bound to, which slots it has, and whether it may be paid."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import Any

from operations.context import Context
from operations.definition import repeated
from operations.execution import isolation, surrounding
from operations.execution.adapters.process import agent_process
from operations.execution.heading import UncommittedFiles, head_revision, require_head
from operations.execution.wanted import Wanted, predecessor
from operations.tuning import budget, continuing, holdout, lifecycle, retrying, running, sides
from operations.tuning.continuing import Attempted, Succession
from operations.tuning.identity import declared_inputs, runner_digest
from storage import contents, effects
from storage.checkpoints import Change, changes_between, draft_changes, inverse, revision_changes
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.schema.batches import Batch, Spending
from storage.schema.candidates import Candidate
from storage.schema.datasets import Case, Dataset
from storage.schema.evidence import Slot
from storage.schema.projects import Preparation
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Plan, Revision, Round
from storage.schema.validations import Validation
from storage.transaction import Transaction
from storage.worktree import Surroundings, ready, shown_path, steering


@dataclass(kw_only=True, eq=False)
class WorktreeNotTheRevision(AtkError):
    """The worktree holds something else than what was sealed or committed."""

    message = (
        "The worktree is not {revision_id} any more; what differs: {paths}. A run is bound to a Revision's real "
        "content. Put that back; edits to a sealed candidate belong in a new one."
    )
    next_calls = (NextCall("get_status"),)

    revision_id: str
    paths: list[str]


class BoundRun:
    """One run being planned: what it runs, over what, and what that costs."""

    def __init__(self, wanted: Wanted, context: Context, tx: Transaction) -> None:
        self.context, self.tx = context, tx
        self.old = predecessor(wanted, tx)
        self.wanted = wanted if self.old is None else wanted.following(self.old)
        wanted = self.wanted
        self.succession: Succession | None = None
        self.project = tx.state.all(ProjectRecord)[0]
        if not self.project.runnable:
            raise lifecycle.NotRunnable(step="run_evaluation")
        running.require_protected(self.project)
        self.round = tx.state.get(Round, wanted.round_id) if wanted.round_id else None
        self.plan: Plan | None = None
        self.batch_id = tx.new_id("batch")
        self.revision: Revision | None = None
        self.present: Revision | None = None
        self.switch: tuple[Change, ...] = ()
        self.apart: isolation.Apart | None = None
        self.slots: list[Slot] = []
        if self.round is not None:
            self.plan = lifecycle.plan_of(self.round, "run_evaluation")
            allowed = ("ready", "optimizing") if wanted.phase == "incremental" else ("optimizing", "finalizing")
            lifecycle.require_status(self.round, f"a run of phase {wanted.phase}", *allowed)
        elif wanted.phase == "final":
            raise running.FinalWithoutRound
        tx.require_free(*self.claims)
        self.dataset = tx.state.get(Dataset, self._dataset_id())
        self.cases = {c.id: c for c in contents.cases(context.project, tx.state, self.dataset.id)}
        self.process = agent_process(self.project, context.root, timeout_seconds=self.timeout)

    def _dataset_id(self) -> str:
        if self.plan is not None:
            self._as_planned("dataset_id", self.wanted.dataset_id, self.plan.dataset_id)
            return self.plan.dataset_id
        if self.wanted.dataset_id:
            return self.wanted.dataset_id
        known = self.tx.state.all(Dataset)
        if len(known) != 1:
            raise running.DatasetNotNamed.of([d.id for d in known], repeated(self.context.call.arguments))
        return known[0].id

    def _as_planned(self, field: str, given: object, planned: object) -> None:
        if given is not None and given != planned and self.round is not None:
            raise running.RunNotPlanned(round_id=self.round.id, field=field, given=str(given), planned=str(planned))

    # ---- which content ------------------------------------------------------------------------------------

    def bind(self, git: Git, scratch: str) -> dict[str, Any]:
        """Finds the Revision and what brings it to where it runs. Returns what sealing the run needs."""
        if self.round is not None and self.isolated:
            return self._bind_apart(git, self.round)
        head = ready(git)
        if self.round is None:
            require_head(git, head, self.wanted.revision_commit)
            present, around = head_revision(git, head, self.project, self.tx, self.context.timestamp)
        else:
            lifecycle.require_at(self.round, head=head.commit, branch=head.branch)
            around = Surroundings.model_validate(self.round.surroundings)
            present = self._present(self.round)
        if differing := draft_changes(git, present.commit, around, scratch, at_head=False):
            if present.origin == "candidate" and self.round and self.round.pending_candidate_id:
                raise WorktreeNotTheRevision(revision_id=present.id, paths=[shown_path(git, c.path) for c in differing])
            if self.round is None:
                raise UncommittedFiles(paths=[shown_path(git, c.path) for c in differing])
            surrounding.refuse_changes(git, self.round, self.project, differing)
        if self.round is not None:
            surrounding.require_inputs(git, self.round, self.project, self.tx.state.all(Candidate))
        self.present = present
        revision = self._revision(present)
        raw = isolation.exact_bytes(git, self.round, self.tx.state.all(Candidate)) if self.round else {}
        self.switch = switch = revision_changes(git, present.commit, revision.commit, raw)
        baseline = self.round.baseline_commit if self.round else head.commit
        own = {c.path for c in changes_between(git, baseline, revision.commit, {})}
        if self.round is not None:
            own |= surrounding.adopted_paths(git, self.round)
        back = effects.rewrite(inverse(switch), around.folders) if switch else None
        return {
            "commit": revision.commit,
            "head": head.model_dump(mode="json"),
            "steering": steering(git),
            "surroundings": around.model_dump(mode="json"),
            "inputs": declared_inputs(self.project),
            "own_changes": [{"path": path} for path in sorted(own)],
            "switch": bool(switch),
            "switch_back": back,
            **self._lasting,
        }

    def _bind_apart(self, git: Git, value: Round) -> dict[str, Any]:
        """Binds the run to a folder of its own; whatever the user does in theirs, HEAD included, is no matter."""
        state = self.tx.state
        pending = state.find(Candidate, value.pending_candidate_id)
        sealed = pending.revision_id if pending is not None and pending.status != "draft" else None
        revision = self._revision(state.get(Revision, sealed or value.current_revision_id))
        candidates = state.all(Candidate)
        ours = {change["path"] for c in candidates if c.round_id == value.id for change in c.changes}
        ours |= surrounding.adopted_paths(git, value)
        self.apart = isolation.apart(git, value, self.project, revision, candidates, batch_id=self.batch_id, ours=ours)
        self.process = agent_process(
            self.project, self.context.root, timeout_seconds=self.timeout, worktree=self.apart.isolated.project
        )
        return {
            "commit": revision.commit,
            "surroundings": {},
            "inputs": list(self.apart.isolated.inputs),
            "isolated": self.apart.isolated.model_dump(mode="json"),
            **self._lasting,
        }

    def put_in_place(self, git: Git, scratch: str) -> None:
        """Brings the Revision to where it runs: the run is recorded, and undone by its sealing.

        Raises:
            AtkError: The content is not what it has to be; nothing of the user's was changed.
            OSError: The folder of an isolated run cannot be written.
        """
        if self.apart is not None:
            self.apart.put(git, store=self.context.project.store.path, scratch=scratch)
        elif self.switch:
            effects.make_it_so(git, [effects.rewrite(self.switch)], since_ns=0, scratch=scratch)

    @property
    def isolated(self) -> bool:
        """Whether the frozen plan says that Revisions run in a folder of their own."""
        return self.plan is not None and self.plan.replay == "isolated"

    @property
    def root(self) -> str:
        """Where the project's folder is while the Revision runs."""
        return self.context.root if self.apart is None else self.apart.isolated.project

    @property
    def preparation(self) -> Preparation:
        """What prepares the runtime before the batch."""
        return running.preparation_of(self.plan, self.project)

    @property
    def claims(self) -> list[str]:
        """What the run relies on for as long as it goes on."""
        runtime = ["runtime"] if self.preparation.mode == "command" else []
        return runtime if self.isolated else ["worktree", *runtime]

    @property
    def _lasting(self) -> dict[str, Any]:
        return {"claims": self.claims, "preparation": self.preparation.mode}

    def _present(self, value: Round) -> Revision:
        """The Revision that the worktree holds now."""
        pending = self.tx.state.find(Candidate, value.pending_candidate_id)
        if pending is None:
            return self.tx.state.get(Revision, value.current_revision_id)
        if pending.status == "draft":
            lifecycle.require_nothing_pending(value, pending, "run_evaluation")
        return self.tx.state.get(Revision, str(pending.revision_id))

    def _revision(self, present: Revision) -> Revision:
        if self.round is None:
            self.revision = present
            return present
        state = self.tx.state
        accepted = [state.get(Candidate, c).revision_id for c in self.round.accepted_candidate_ids]
        possible = [self.round.baseline_revision_id, *(str(r) for r in accepted), present.id]
        wanted = self.wanted.revision_id or present.id
        if wanted not in possible:
            problem = "it is neither the baseline, nor an accepted, nor the sealed revision of this Round"
            raise running.RevisionMismatch(given=wanted, problem=problem, possible=list(dict.fromkeys(possible)))
        self.revision = state.get(Revision, wanted)
        if self.wanted.phase == "final":
            pending = state.find(Candidate, self.round.pending_candidate_id)
            lifecycle.require_nothing_pending(self.round, pending, "a final run")
            running.require_kept(self.round)
            follows = self.old.id if self.old else None
            running.require_final_open(self.round, self.revision, state.all(Batch), follows=follows)
        return self.revision

    def record_revision(self) -> None:
        """Records a Revision that the run issues, and that a first final run ends the optimizing."""
        if self.revision is not None and self.tx.state.find(Revision, self.revision.id) is None:
            self.tx.put(self.revision)
        if self.round is not None and self.wanted.phase == "final" and self.round.status != "finalizing":
            self.tx.put(lifecycle.changed(self.round, status="finalizing"))

    # ---- over what ----------------------------------------------------------------------------------------

    def plan_slots(self) -> None:
        """Plans each Case at each repeat as a slot, numbered from 1, if the budget can pay for those that are due."""
        chosen, repeats = self._chosen(), self._repeats()
        if self.old is not None:
            self.succession = self._follow(self.old)
            self.slots = list(self.succession.slots)
        else:
            planned = [(case, repeat) for repeat in range(1, repeats + 1) for case in chosen]
            self.slots = [
                Slot(
                    n=n,
                    record_id=f"{self.batch_id}.{n}",
                    case_id=case.id,
                    case_fingerprint=case.fingerprint,
                    repeat=repeat,
                )
                for n, (case, repeat) in enumerate(planned, start=1)
            ]
        if self.round is not None and self.plan is not None:
            batches = self.tx.state.all(Batch)
            budget.require_executions(
                self.round,
                self.plan,
                batches,
                budget.cost(self.round, self.plan, batches, self.batch()),
                final=self.wanted.phase == "final",
                step=f"a run of {len(chosen)} Cases at {repeats} repeats ({len(self.due)} attempts)",
            )
            known, phase = self.tx.state.all(Validation), self.wanted.phase
            due = running.compared_cases(self.plan, self.round, self.tx.state.all(Candidate), known, phase)
            compared, follows = sides.sides_of(known), self.old.id if self.old else None
            sides.require_open(self.round, self._bound().id, phase, due, batches, compared=compared, follows=follows)

    @property
    def due(self) -> list[Slot]:
        """The slots to be attempted."""
        return self.slots if self.succession is None else list(self.succession.due)

    def _follow(self, old: Batch) -> Succession:
        """Plans what follows `old`, which has to have run what runs now."""
        now = {
            "run_config_digest": self.project.run_config_digest,
            "runner_digest": runner_digest(self.project),
            "revision_id": self._bound().id,
        }
        continuing.require_same(old, now)
        project, state = self.context.project, self.tx.state
        slots = list(contents.slots(project, state, old.id))
        attempted = [Attempted.of(record) for record in contents.raw_records(project, state, old.id)]
        if self.wanted.retry_batch_id is None:
            word = self.wanted.unknown_execution_authorization
            return continuing.continued(old, slots, attempted, self.batch_id, word)
        return retrying.retried(
            old,
            slots,
            attempted,
            self.batch_id,
            self.wanted.retry_execution_ids,
            limit=self.plan.max_retries_per_slot if self.plan else retrying.WITHOUT_PLAN,
            timeout_is_failure=bool(self.plan and self.plan.timeout_is_failure),
        )

    def _chosen(self) -> list[Case]:
        possible = list(self.cases)
        final = self.plan is not None and self.wanted.phase == "final"
        whole = possible if self.plan is not None else holdout.others(self.cases, self.dataset.id)
        if self.plan is not None and self.round is not None:
            possible = list(self.plan.case_ids)
            whole = possible
            if self.wanted.phase == "incremental":
                # Every Issue's targets run, not only the candidate's: kept, its batch is the next one's parent side.
                state = self.tx.state
                whole = list(
                    running.incremental_cases(
                        self.plan, self.round, state.all(Candidate), state.all(Validation), issue_id=None
                    )
                )
            for case_id in possible:
                self._as_planned(
                    f"fingerprint of {case_id}", self.cases[case_id].fingerprint, self.plan.case_fingerprints[case_id]
                )
        wanted = whole if self.wanted.case_ids is None else self.wanted.case_ids
        named = set(wanted)
        running.require_cases(wanted, possible)
        holdout.require_final(wanted, self.cases, final=final)
        if self.wanted.phase == "final" and named != set(whole):
            self._as_planned("case_ids", f"{len(wanted)} Cases", f"all {len(whole)} Cases for a final side")
        ordered = [c for c in whole if c in named] if named <= set(whole) else wanted
        return [self.cases[c] for c in ordered]

    def _repeats(self) -> int:
        if self.plan is None:
            return self.wanted.repeats or 1
        planned = self.plan.final_repeats if self.wanted.phase == "final" else self.plan.incremental_repeats
        self._as_planned("repeats", self.wanted.repeats, planned)
        return planned

    @property
    def concurrency(self) -> int:
        """How many attempts run side by side."""
        if self.plan is None:
            return self.wanted.concurrency or 2
        self._as_planned("concurrency", self.wanted.concurrency, self.plan.concurrency)
        return self.plan.concurrency

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        if self.plan is None:
            return self.wanted.timeout_seconds or self.project.timeout_seconds
        self._as_planned("timeout_seconds", self.wanted.timeout_seconds, self.plan.timeout_seconds)
        return self.plan.timeout_seconds

    def batch(self) -> Batch:
        """Returns the batch as it begins."""
        revision = self._bound()
        return Batch(
            id=self.batch_id,
            status="running",
            phase=self.wanted.phase,
            dataset_id=self.dataset.id,
            round_id=self.round.id if self.round else None,
            revision_id=revision.id,
            commit=revision.commit,
            tree=revision.tree,
            case_ids=tuple(c.id for c in self._chosen()),
            holdout_case_ids=tuple(c.id for c in self._chosen() if c.usage == "holdout"),
            repeats=self._repeats(),
            slots=len(self.slots),
            concurrency=self.concurrency,
            timeout_seconds=self.timeout,
            run_config_digest=self.project.run_config_digest,
            runner_digest=runner_digest(self.project),
            started_at=self.context.timestamp,
            started_record=self.tx.number,
            supersedes_batch_id=self.old.id if self.old else None,
            continuation_kind=self.succession.kind if self.succession else None,
            carried=len(self.succession.carried) if self.succession else 0,
            unknown_execution_authorization=self.wanted.unknown_execution_authorization,
            stop_after_infra_failures=self.wanted.stop_after_infra_failures,
            spend_limit=self._spending(),
            environment={
                "python": platform.python_version(),
                "platform": platform.platform(),
                "target_python": self.project.python,
                "variables": sorted(self.process.environment),
                "executable": sys.executable,
                **({"folder": self.apart.isolated.folder} if self.apart else {}),
            },
        )

    def _spending(self) -> Spending | None:
        metric = self.wanted.spend_metric
        return None if metric is None else running.spending(self.project, metric, self.wanted.spend_limit)

    @property
    def revisions(self) -> tuple[Revision, Revision]:
        """What runs, and what the worktree holds before and after it."""
        return self._bound(), self.present or self._bound()

    def _bound(self) -> Revision:
        if self.revision is None:
            raise RuntimeError("BUG: a run is recorded before it is bound to a Revision")
        return self.revision
