"""Whether two Assessments may be compared, and the outcome tables that a gate reads off them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operations.tuning.comparison import Outcome
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.schema.assessments import DEFAULTED, Assessment, Judger, VerdictRow
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import Plan, Round
from storage.schema.validations import Look, Validation

ONE_RUN = 2
"""The first rule version by which the last run of a side counts, and no other."""

Table = dict[str, dict[str, tuple[Outcome, ...]]]
"""Dimension → Case → outcome of each repeat."""


@dataclass(kw_only=True, eq=False)
class SidesNotComparable(AtkError):
    """The two sides cannot be compared under the frozen plan. No Validation was stored."""

    message = "{side} ({assessment_id}, {batch_id}): {problem}."
    next_calls = (
        NextCall(
            "run_evaluation", {"round_id": "{round_id}", "revision_id": "{needed_revision_id}", "phase": "{mode}"}
        ),
        NextCall("read_record", {"record_id": "{batch_id}"}),
    )

    round_id: str
    side: str
    assessment_id: str
    batch_id: str
    mode: str
    needed_revision_id: str
    problem: str


@dataclass(kw_only=True, eq=False)
class FrozenField(AtkError):
    """The plan fixed this field; a comparison cannot choose it."""

    message = "{field} is {given}, and what was frozen is {frozen}. Leave the field out."
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    field: str
    given: str
    frozen: str


@dataclass(frozen=True, kw_only=True)
class SideFound:
    """One side of a comparison, loaded."""

    name: str
    revision_id: str
    """The Revision that this side has to be."""
    batch: Batch
    assessment: Assessment
    current: bool
    """Whether the Assessment is the current one of its batch and judger."""
    successor_id: str | None = None
    """The batch that continued or retried this one."""
    newer_id: str | None = None
    """A later run of the same side, which counts in its place."""
    remarks: tuple[str, ...] = ()
    """What a reader should know of runs and judgements that do not count: sentences."""


def check_side(found: SideFound, value: Round, plan: Plan, mode: str) -> None:
    """Refuses a side that is not evidence for this comparison: another Round, Revision, phase, judge or time.

    Raises:
        SidesNotComparable: It names the first thing that does not fit.
    """
    batch, assessment = found.batch, found.assessment
    problems = (
        (batch.round_id != value.id, f"the batch belongs to {batch.round_id or 'no Round'}, not to {value.id}"),
        (batch.phase != mode, f"the batch was run with phase {batch.phase}, and mode {mode} compares phase {mode}"),
        (
            batch.revision_id != found.revision_id,
            f"the batch ran {batch.revision_id}; this side is {found.revision_id}",
        ),
        (
            batch.started_record <= plan.frozen_after_record,
            "the batch ran before the plan was frozen, when its outcomes could choose the targets; run this side anew",
        ),
        (
            assessment.spec_digest != plan.spec_digest,
            f"it was judged under {assessment.spec_id}, the plan froze {plan.spec_id}",
        ),
        (
            assessment.judger_digest != plan.judger_digest,
            f"it was judged by {assessment.judger_id}, and the plan froze {plan.judger_id}",
        ),
        (
            assessment.selection is not None,
            "it judges a selection of the batch, and what was left out could say something else; judge the whole batch",
        ),
        (not found.current, "a newer Assessment of this batch superseded it; compare that one"),
        (
            batch.run_config_digest != plan.run_config_digest,
            "the project's configuration is not the one that was frozen",
        ),
        (batch.runner_digest != plan.runner_digest, "the runner is not the one that was frozen"),
        (batch.status == "running", "the batch is still running"),
        (
            found.successor_id is not None,
            f"{found.successor_id} continued or retried the batch; its Records count, so assess and compare that one",
        ),
        (
            found.newer_id is not None and plan.rule_version >= ONE_RUN,
            f"{found.newer_id} is a later run of this side; the last one counts, so assess and compare that",
        ),
    )
    for wrong, problem in problems:
        if wrong:
            raise SidesNotComparable(
                round_id=value.id,
                side=found.name,
                assessment_id=assessment.id,
                batch_id=batch.id,
                mode=mode,
                needed_revision_id=found.revision_id,
                problem=problem,
            )


def reservations(sides: Sequence[SideFound], judger: Judger) -> tuple[str, ...]:
    """Returns why these sides could not decide anything, whatever their outcomes say: sentences, or none."""
    found = [
        f"{side.name}: {side.batch.id} is {side.batch.status}, so not every slot has an outcome of that Revision"
        for side in sides
        if side.batch.status != "sealed"
    ]
    found += [f"{side.name}: {problem}" for side in sides for problem in side.batch.problems]
    if judger.method == "client" and judger.readiness != "calibrated":
        found.append(f"The judger {judger.id} is not calibrated, so its verdicts decide nothing")
    return tuple(found)


def table(  # noqa: PLR0913 - one side, and how it is read
    rows: Iterable[VerdictRow],
    records: Sequence[EvidenceRecord],
    dimensions: Sequence[str],
    case_ids: Sequence[str],
    repeats: int,
    *,
    timeout_is_failure: bool,
) -> Table:
    """Returns the outcomes of one side. What is not known stays unknown, also a slot without a Record.

    Of a slot that was retried, the last attempt of the chain counts, whatever it says.
    """
    verdicts = {(row.record_id, row.dimension): row for row in rows}
    retried = {r.execution.retry_of for r in records}
    slots = {(r.case_id, r.repeat): r for r in records if r.id not in retried}
    return {
        dimension: {
            case_id: tuple(
                _outcome(slots.get((case_id, n)), dimension, verdicts, timeout_is_failure)
                for n in range(1, repeats + 1)
            )
            for case_id in case_ids
        }
        for dimension in dimensions
    }


def _outcome(
    record: EvidenceRecord | None,
    dimension: str,
    verdicts: Mapping[tuple[str, str], VerdictRow],
    timeout_is_failure: bool,  # noqa: FBT001 - frozen in the plan
) -> Outcome:
    if record is None:
        return "unknown"
    status = record.execution.status
    if status == "timeout":
        return "fail" if timeout_is_failure else "unknown"
    if status not in ("completed", "agent_error"):
        return "unknown"
    row = verdicts.get((record.id, dimension))
    if row is None or row.validity != "valid" or row.judger_kind == DEFAULTED:
        return "unknown"
    return row.verdict


def looks(validations: Iterable[Validation], plans: Mapping[str, Plan]) -> tuple[Look, ...]:
    """Returns how many looks were charged, over all candidates and Rounds, by each key under which a Case is known.

    The keys of a Case are its fingerprint and the digest of what it asks, so that a dataset that is stored again under
    other names does not begin anew.
    """
    counted: dict[str, int] = {}
    for validation in validations:
        plan = plans[validation.round_id]
        for key in {key for case_id in charged_case_ids(validation) for key in keys_of(plan, case_id)}:
            counted[key] = counted.get(key, 0) + 1
    return tuple(Look(case_id=key, count=count) for key, count in counted.items())


def keys_of(plan: Plan, case_id: str) -> tuple[str, ...]:
    """Returns the keys under which looks at a Case are counted; a plan of rule version 1 knows one."""
    asked = plan.input_digests.get(case_id)
    return (plan.case_fingerprints[case_id], *([asked] if asked else []))


def looks_of(validations: Iterable[Validation], plans: Mapping[str, Plan], plan: Plan) -> dict[str, int]:
    """Returns how many looks each Case of `plan` was charged with; one without any is left out."""
    counted = {look.case_id: look.count for look in looks(validations, plans)}
    found = {c: max(counted.get(key, 0) for key in keys_of(plan, c)) for c in plan.case_ids}
    return {case_id: count for case_id, count in found.items() if count}


def charged_case_ids(validation: Validation) -> tuple[str, ...]:
    """Returns the Cases that a Validation charged a look to: of an incremental one, those that it claimed better."""
    if validation.charged_case_ids is not None:
        return validation.charged_case_ids
    charged = validation.rule == "statistical" and validation.mode == "incremental"
    return validation.target_case_ids if charged else ()


def table_digest(found: Table) -> str:
    """Returns the digest of an outcome table."""
    return digest(canonical({d: {c: list(o) for c, o in cases.items()} for d, cases in found.items()}))


def comparison_csv(left: Table, right: Table) -> bytes:
    """Returns both sides as CSV: one line a dimension and Case, outcomes by repeat as letters p, f, u and n."""
    letters = {"pass": "p", "fail": "f", "unknown": "u", "not_applicable": "n"}
    lines = ["dimension,case_id,left,right"]
    for dimension, cases in left.items():
        for case_id, outcomes in cases.items():
            before = "".join(letters[o] for o in outcomes)
            after = "".join(letters[o] for o in right[dimension][case_id])
            lines.append(f"{_cell(dimension)},{_cell(case_id)},{before},{after}")
    return ("\n".join(lines) + "\n").encode()


def _cell(text: str) -> str:
    """A cell that a spreadsheet takes as text, and a CSV reader as one cell."""
    guarded = f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "'") else text
    return '"' + guarded.replace('"', '""') + '"' if any(c in guarded for c in ',"\n\r') else guarded
