"""The next call, read off what is stored: what a person who knows the loop would do now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from operations.tuning import budget, deciding, lifecycle, running
from operations.tuning.batches import finishing, has_records, is_followed
from operations.tuning.holdout import was_run
from storage.errors import NextCall
from storage.projection import State
from storage.schema.assessments import Assessment, Judger
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Issue
from storage.schema.datasets import Dataset
from storage.schema.projects import Project
from storage.schema.rounds import CLOSED, Round
from storage.schema.traces import ImportedBatch
from storage.schema.validations import Validation

VERDICTS = {"rows": "verdicts, or a judger that ATK runs"}
ROWS = {"rows": "verdicts; none where ATK runs the judger's rule"}


def of_state(state: State, value: Round | None, head: str | None = None) -> list[NextCall]:
    """Returns up to three calls that lead on from what a project holds. `head` is HEAD's commit."""
    return next_calls(
        value=value,
        datasets=state.all(Dataset),
        batches=state.all(Batch),
        assessments=[a for a in state.all(Assessment) if a.selection is None],
        issues=state.all(Issue),
        candidates=state.all(Candidate),
        validations=state.all(Validation),
        head=head,
        closed=[r for r in state.all(Round) if r.status in CLOSED],
        imports=state.all(ImportedBatch),
        analysis_only=state.all(Project)[0].analysis_only,
        dealt=is_dealt(value, state.all(Judger)),
    )


def is_dealt(value: Round | None, judgers: Sequence[Judger]) -> bool:
    """Whether the client judges the comparisons of a Round, so that both sides are dealt to it together."""
    if value is None or value.plan is None or value.status in CLOSED or value.external_fix is not None:
        return False
    plan = value.plan
    return any(judger.id == plan.judger_id and judger.method == "client" for judger in judgers)


def next_calls(  # noqa: PLR0913 - the stored kinds that decide it
    *,
    value: Round | None,
    datasets: Sequence[Dataset],
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    issues: Sequence[Issue],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
    head: str | None = None,
    closed: Collection[Round] = (),
    imports: Sequence[ImportedBatch] = (),
    analysis_only: bool = False,
    dealt: bool = False,
) -> list[NextCall]:
    """Returns up to three calls that lead on.

    Args:
        value: The Round that it is about, if there is one.
        datasets: Of the project, oldest first, as all that follow.
        batches: What was run.
        assessments: What was judged.
        issues: What was diagnosed.
        candidates: What was changed.
        validations: What was compared.
        head: HEAD's commit.
        closed: The Rounds that are over, whose batches lead nowhere.
        imports: What was imported.
        analysis_only: Whether the project has no way to run its agent.
        dealt: Whether the client judges what the Round compares.
    """
    if value is not None and value.status == "paused":
        named = {"round_id": value.id}
        return [
            NextCall("transition_round", {**named, "action": "resume"}, {"reason": "why it goes on"}),
            NextCall("create_round"),
        ]
    over = {r.id for r in closed}
    left = [b for b in batches if b.round_id not in over]
    seen = {batch_id for r in closed for batch_id in r.batch_ids}
    fresh = [b for b in _whole(imports) if b.id not in seen]
    if analysis_only or (value is not None and value.without_baseline and value.status not in CLOSED):
        return _of_evidence(value, fresh, assessments, issues)
    judged = {a.batch_id for a in assessments}
    if not datasets:
        found = NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"})
        return [*(judging(value, b.id) for b in fresh[-1:] if b.id not in judged), found]
    if not dealt and (waiting := _unjudged(value, left, assessments)):
        return [*_unfinished(value, left), judging(value, waiting)]
    if stopped := _unfinished(value, left):
        return stopped
    if value is None or value.status in CLOSED:
        if not batches:
            evaluate = {"dataset_id": datasets[-1].id, **({"revision_commit": head} if head else {})}
            run = NextCall("run_evaluation", evaluate, {} if head else {"revision_commit": "HEAD's commit"})
            return [run, *(_create([b], assessments) for b in fresh[-1:])]
        return [NextCall("create_round", {"batch_ids": [batches[-1].id]})]
    leads = _in_round(value, batches, assessments, issues, candidates, validations)
    return _together(value, leads) if dealt else leads


def _together(value: Round, found: list[NextCall]) -> list[NextCall]:
    """Puts the judging of both sides, dealt, in the place of judging a side by itself, of which one may be left."""
    alone = [call for call in found if call.tool == "store_assessment"]
    if not alone:
        return found
    return [NextCall("next_judgements", {"round_id": value.id}), *(alone if len(alone) == 1 else [])]


def _whole(imports: Sequence[ImportedBatch]) -> list[ImportedBatch]:
    """Returns the imports that hold Records and that no newer one supersedes."""
    replaced = {link.batch_id for b in imports for link in b.links if link.relation == "supersedes"}
    return [b for b in imports if has_records(b) and b.id not in replaced]


def _create(found: Sequence[ImportedBatch], assessments: Sequence[Assessment]) -> NextCall:
    """A Round that begins from evidence and what was judged of it."""
    batch_ids = [batch.id for batch in found]
    judged = [a.id for a in assessments if a.batch_id in batch_ids]
    return NextCall("create_round", {"batch_ids": batch_ids, **({"assessment_ids": judged[-1:]} if judged else {})})


def _of_evidence(
    value: Round | None, fresh: Sequence[ImportedBatch], assessments: Sequence[Assessment], issues: Sequence[Issue]
) -> list[NextCall]:
    """Import, assess, diagnose, close: what can be done where nothing can be run."""
    judged = {a.batch_id for a in assessments}
    opened = value if value is not None and value.status not in CLOSED else None
    of_round = [b for b in fresh if opened is None or b.id in opened.batch_ids] or list(fresh)
    another = NextCall("import_evidence", {"dry_run": True}, {"source": "an export", "source_kind": "what it is"})
    if waiting := [b for b in of_round[-1:] if b.id not in judged]:
        return [judging(None, waiting[0].id)]
    if opened is None:
        return [_create(fresh[-1:], assessments)] if fresh else [another]
    ending = NextCall(
        "finish_round", {"round_id": opened.id, "action": "close_without_adoption"}, {"reason": "why it ends"}
    )
    diagnose = NextCall("store_diagnosis", {"round_id": opened.id}, {"issues": "what fails and why"})
    return [ending, diagnose] if any(i.round_id == opened.id for i in issues) else [diagnose, ending]


def _unfinished(value: Round | None, batches: Sequence[Batch]) -> list[NextCall]:
    """Before any plan, what finishes the newest run where it ended without being whole."""
    frozen = value is not None and value.plan is not None and value.status not in CLOSED
    newest = batches[-1] if batches and not frozen else None
    call = finishing(newest) if newest is not None and not is_followed(newest, batches) else None
    return [call] if call is not None else []


def _unjudged(value: Round | None, batches: Sequence[Batch], assessments: Sequence[Assessment]) -> str | None:
    """Returns the newest batch that has Records, could still count, and was not judged."""
    judged = {a.batch_id for a in assessments}
    replaced = {b.supersedes_batch_id for b in batches} | _run_anew(batches)
    frozen = value.plan if value is not None and value.status not in CLOSED else None
    for batch in reversed(batches):
        # A side has to be whole; before any plan every Record tells something.
        useful = batch.status == "sealed" if frozen else batch.status in ("sealed", "partial", "interrupted")
        counts = value is not None and batch.round_id == value.id if frozen else True
        if useful and counts and any(batch.counts.values()) and batch.id not in {*judged, *replaced}:
            return batch.id
    return None


def _run_anew(batches: Sequence[Batch]) -> set[str]:
    """Returns the batches that did not complete and whose like did later."""
    whole: set[tuple[object, ...]] = set()
    found = set()
    for batch in reversed(batches):
        like = (batch.round_id, batch.revision_id, batch.phase, batch.dataset_id, batch.case_ids, batch.repeats)
        if batch.status == "sealed":
            whole.add(like)
        elif like in whole:
            found.add(batch.id)
    return found


def judging(value: Round | None, batch_id: str) -> NextCall:
    """The assessment of a batch: under the specification and by the judger of the plan, where one is frozen."""
    if value is None or value.plan is None or value.status in CLOSED:
        return NextCall("store_assessment", {"batch_id": batch_id}, VERDICTS)
    by_plan = {"batch_id": batch_id, "spec_id": value.plan.spec_id, "judger_id": value.plan.judger_id}
    return NextCall("store_assessment", by_plan, ROWS)


def _in_round(  # noqa: PLR0913, PLR0917 - the stored kinds that decide it
    value: Round,
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    issues: Sequence[Issue],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
) -> list[NextCall]:
    if value.status == "analysis_only":
        if not any(i.round_id == value.id for i in issues):
            return [NextCall("store_diagnosis", {"round_id": value.id}, {"issues": "what fails and why"})]
        return [NextCall("freeze_round", {"round_id": value.id, "preview": True})]
    pending = next((c for c in candidates if c.id == value.pending_candidate_id), None)
    if pending is not None:
        free, side = _means(value, pending.primary_issue_id, batches, candidates, validations)
        sides = (pending.parent_revision_id, pending.revision_id or "")
        missing = sum(_price(value, r, side, batches) for r in sides if not running.stands(value, r, batches))
        if pending.status == "sealed" and missing > free and not deciding.of_candidate(pending, validations):
            return [lifecycle.rejecting(value.id, pending.id)]
        return _for_candidate(value, pending, batches, assessments, validations)
    if value.status == "finalizing":
        return _for_ending(value, batches, assessments, validations)
    begin = another_candidate(value, batches, candidates, validations)
    if value.accepted_candidate_ids:
        return [*begin, *_for_final(value, batches, assessments, validations)]
    if not begin:
        ending = {"round_id": value.id, "action": "close_without_adoption"}
        return [NextCall("finish_round", ending, {"reason": "why it ends"})]
    if _batch(value, value.current_revision_id, "incremental", batches) is None:
        return [_run(value, value.current_revision_id, "incremental", batches)]
    return begin


def _means(
    value: Round,
    issue_id: str,
    batches: Sequence[Batch],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
) -> tuple[int, int]:
    """Returns the Executions that incremental runs may take, and what one side of a comparison for the Issue takes."""
    if value.plan is None:
        return 0, 0
    side = running.incremental_side(value.plan, value, candidates, validations, issue_id)
    return budget.account(value, value.plan, batches).free, side


def _price(value: Round, revision_id: str, side: int, batches: Sequence[Batch]) -> int:
    """Returns the Executions that a missing side takes: a whole one, or what is left of a run that can be continued."""
    newest = next(_side(value, revision_id, "incremental", batches), None)
    if value.plan is None or newest is None or is_followed(newest, batches):
        return side
    call = finishing(newest)
    continues = call is not None and "continue_batch_id" in call.arguments
    return budget.continuation(value, value.plan, batches, newest) if continues else side


def another_candidate(
    value: Round, batches: Sequence[Batch], candidates: Sequence[Candidate], validations: Sequence[Validation]
) -> list[NextCall]:
    """Returns the call that begins a candidate for an Issue that no kept one answers; nothing where none can be paid.

    A change that the Round adopted and that no draft has taken up yet is what the candidate begins with.
    """
    plan = value.plan
    own = [c for c in candidates if c.round_id == value.id]
    # What is changed after the holdout was run could be made to fit it.
    if plan is None or len(own) >= plan.budget.candidates or was_run(value, batches) is not None:
        return []
    answered = {c.primary_issue_id for c in own if c.id in value.accepted_candidate_ids}
    left = [issue_id for issue_id in plan.issue_ids if issue_id not in answered] or list(plan.issue_ids)
    means = {issue_id: _means(value, issue_id, batches, candidates, validations) for issue_id in left}
    payable = [issue_id for issue_id, (free, side) in means.items() if side <= free]
    if not payable:
        return []
    adopts = value.adopt_commit is not None and not answered and not any(c.adopted for c in own)
    begin = {"round_id": value.id, **({"adopt": "worktree"} if adopts else {})}
    if len(payable) == 1:
        return [NextCall("prepare_candidate", {**begin, "primary_issue_id": payable[0]})]
    return [NextCall("prepare_candidate", begin, {"primary_issue_id": f"one of {', '.join(payable[:4])}"})]


def _for_candidate(
    value: Round,
    pending: Candidate,
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    validations: Sequence[Validation],
) -> list[NextCall]:
    named = {"round_id": value.id, "candidate_id": pending.id}
    if pending.status == "draft":
        return [NextCall("seal_candidate", named), NextCall("cancel_draft", named, {"reason": "why"})]
    newest = deciding.of_candidate(pending, validations)
    if newest and deciding.replacement(newest[-1], assessments, batches) is None:
        action = "keep" if newest[-1].result == "pass" else "reject"
        return [NextCall("decide_candidate", {**named, "action": action}, {"reason": "why"})]
    return _compared(value, (pending.parent_revision_id, str(pending.revision_id)), "incremental", batches, assessments)


def _for_ending(
    value: Round, batches: Sequence[Batch], assessments: Sequence[Assessment], validations: Sequence[Validation]
) -> list[NextCall]:
    if value.external_fix is not None:
        return _for_repair(value, batches, assessments)
    if not value.accepted_candidate_ids:
        ending = {"round_id": value.id, "action": "close_without_adoption"}
        return [NextCall("finish_round", ending, {"reason": "nothing is kept"})]
    return _for_final(value, batches, assessments, validations)


def _for_repair(value: Round, batches: Sequence[Batch], assessments: Sequence[Assessment]) -> list[NextCall]:
    """Runs and judges the baseline, has the repair validated, and ends."""
    batch = _batch(value, value.baseline_revision_id, "final", batches)
    if batch is None:
        return [_run(value, value.baseline_revision_id, "final", batches)]
    judged = [a.id for a in assessments if a.batch_id == batch.id]
    if not judged:
        return [judging(value, batch.id)]
    named = {"round_id": value.id}
    return [
        NextCall("validate_external_fix", {**named, "assessment_id": judged[-1]}),
        NextCall("finish_round", {**named, "action": "complete_external_fix"}, {"reason": "it passed"}),
    ]


def _for_final(
    value: Round, batches: Sequence[Batch], assessments: Sequence[Assessment], validations: Sequence[Validation]
) -> list[NextCall]:
    newest = deciding.of_round(value, validations)
    if newest and deciding.replacement(newest[-1], assessments, batches) is None:
        action = "complete" if newest[-1].result == "pass" else "complete_with_override"
        return [NextCall("finish_round", {"round_id": value.id, "action": action}, {"reason": "why"})]
    return _compared(value, (value.baseline_revision_id, value.current_revision_id), "final", batches, assessments)


def _compared(
    value: Round, sides: tuple[str, str], phase: str, batches: Sequence[Batch], assessments: Sequence[Assessment]
) -> list[NextCall]:
    """Runs whichever side is missing, judges, then compares."""
    ran = []
    for revision_id in sides:
        batch = _batch(value, revision_id, phase, batches)
        if batch is None:
            return [_run(value, revision_id, phase, batches)]
        ran.append(batch.id)
    newest = {a.batch_id: a.id for a in assessments}
    if waiting := [batch_id for batch_id in ran if batch_id not in newest]:
        return [judging(value, batch_id) for batch_id in waiting]
    found = [newest[batch_id] for batch_id in ran]
    both = {"round_id": value.id, "mode": phase, "left_assessment_id": found[0], "right_assessment_id": found[1]}
    return [NextCall("compare_and_gate", both)]


def _run(value: Round, revision_id: str, phase: str, batches: Sequence[Batch]) -> NextCall:
    """Runs a side, or finishes the newest run of it where that ended without being whole."""
    newest = next(_side(value, revision_id, phase, batches), None)
    if newest is not None and not is_followed(newest, batches):
        retries = value.plan.max_retries_per_slot if value.plan else None
        if call := finishing(newest, retries=retries):
            return call
    return NextCall("run_evaluation", {"round_id": value.id, "revision_id": revision_id, "phase": phase})


def _batch(value: Round, revision_id: str, phase: str, batches: Sequence[Batch]) -> Batch | None:
    """The newest batch of a side that could count."""
    found = _side(value, revision_id, phase, batches)
    return next((batch for batch in found if batch.status in ("sealed", "running")), None)


def _side(value: Round, revision_id: str, phase: str, batches: Sequence[Batch]) -> Iterator[Batch]:
    """Yields the runs of a side for this Round after its plan was frozen, the newest first."""
    frozen = value.plan.frozen_after_record if value.plan else 0
    for batch in reversed(batches):
        same = (batch.round_id, batch.revision_id, batch.phase) == (value.id, revision_id, phase)
        if same and batch.started_record > frozen:
            yield batch
