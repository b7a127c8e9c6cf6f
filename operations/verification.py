"""Makes every count, Validation and Decision of a project again from its stored bytes; this is `atk verify`.

It reads nothing but the store: no Git, no network, no key but the one that lies there. It changes and heals nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from operations import external_fixes, validations
from operations.assessing import rechecking, storing
from operations.importers import stored
from operations.importers._assessment_csv import read_assessment_csv
from operations.round_history import RoundHistory, overspent
from operations.tuning import blocking, comparing, deciding, holdout
from storage import contents, verification
from storage.errors import AtkError
from storage.frames import Frame, canonical, digest
from storage.journal import SEGMENT, segment_path
from storage.project import Project
from storage.projection import State, dump, fold
from storage.schema.assessments import Assessment, Deal
from storage.schema.base import Record
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision, Issue
from storage.schema.datasets import Dataset
from storage.schema.exposures import Exposure
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Plan, Round
from storage.schema.rows import RowFile
from storage.schema.selections import Selection
from storage.schema.traces import ImportedBatch
from storage.schema.validations import ExternalValidation, Validation
from storage.verification import Finding
from storage.views import place

Progress = Callable[[str], object]


@dataclass
class Report:
    """What a verification found."""

    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    """How many of each thing were looked at."""
    open_work: list[str] = field(default_factory=list)
    """What is announced and not done: not wrong, but not verified either."""


def verify(project: Project, progress: Progress = lambda _: None) -> Report:
    """Returns what differs between a project's bytes and what they must be.

    A journal that is damaged is verified up to the damage.
    """
    report = Report()
    progress("the journal")
    wrong: list[Finding] = []
    key = verification.KeyCheck(project)
    state = _replayed(project, _looked_at(verification.journal(project, wrong), key, report), report, progress)
    report.findings[:0] = [*wrong, *key.findings()]
    progress(f"{len(state.files)} recorded files")
    report.checked["files"] = len(state.files)
    report.findings += verification.recorded_files(project, state)
    report.checked["views"] = sum(map(len, state.objects.values()))
    report.findings += verification.object_views(project, state)
    progress("counts and digests of objects")
    report.findings += _objects(project, state, report.checked)
    report.findings += overspent(state, report.checked)
    report.open_work += [f"{i.operation} (record {i.number})" for i in state.intents.values()]
    report.open_work += [f"the run of {run.batch_id} (record {run.number})" for run in state.runs.values()]
    return report


# ---- decisions, each in the state in which it was made ----------------------------------------------------------


def _looked_at(frames: Iterable[Frame], key: verification.KeyCheck, report: Report) -> Iterator[Frame]:
    report.checked["journal records"] = 0
    for frame in frames:
        report.checked["journal records"] += 1
        key.look(frame.body)
        yield frame


def _replayed(project: Project, frames: Iterable[Frame], report: Report, progress: Progress) -> State:
    """Returns the state after all frames; each comparison and Decision is made again in the state before it."""
    state, due, history = State(), list[Frame](), RoundHistory()
    for frame in frames:
        report.findings += history.follow(frame.body)
        if frame.body["kind"] == "checkpoint" and frame.body["n"]:
            state, due = _folded(state, due, report, project), []
            report.checked["checkpoints"] += 1
            if dump(state) != frame.body["state"]:
                report.findings.append(
                    Finding(
                        segment_path(frame.body["segment"]),
                        "begins with another state than the one that its records before lead to",
                    )
                )
        made = frame.body.get("objects", {}) if frame.body["kind"] in ("operation", "intent") else {}
        for raw in made.get("round", {}).values():
            report.findings += _planned(raw, report.checked)
        if made.keys() & {"validation", "external_validation", "decision"}:
            state = _folded(state, due, report, project)
            due = []
            progress(f"record {frame.body['n']}")
            report.findings += _decided(project, state, frame, report.checked)
        due.append(frame)
    return _folded(state, due, report, project)


def _folded(state: State, frames: list[Frame], report: Report, project: Project) -> State:
    after, damage = fold(state, frames, project.store.full(SEGMENT))
    if damage is not None:
        finding = Finding(SEGMENT, f"has damage{damage.place}: it {damage.reason}")
        if finding not in report.findings:
            report.findings.append(finding)
    return after


def _decided(project: Project, before: State, frame: Frame, checked: Counter[str]) -> Iterator[Finding]:
    for raw in frame.body["objects"].get("validation", {}).values():
        checked["Validations"] += 1
        yield from _compared_again(project, before, Validation.model_validate(raw))
    for raw in frame.body["objects"].get("external_validation", {}).values():
        checked["validations of repairs"] += 1
        yield from _repaired_again(project, before, ExternalValidation.model_validate(raw))
    for raw in frame.body["objects"].get("decision", {}).values():
        checked["Decisions"] += 1
        yield from _decided_again(before, Decision.model_validate(raw))


def _planned(raw: dict[str, Any], checked: Counter[str]) -> Iterator[Finding]:
    """Yields a plan whose digest is another. It is taken as it was written: a later ATK may know more fields."""
    if raw.get("plan") is None:
        return
    checked["plans as recorded"] += 1
    if digest(canonical(raw["plan"])) != raw.get("plan_digest"):
        yield Finding(place(Round.model_validate(raw)), "holds a plan that is not the one of its plan_digest")


def _compared_again(project: Project, before: State, known: Validation) -> Iterator[Finding]:
    path = place(known)
    try:
        value = before.get(Round, known.round_id)
        if value.plan is None:
            yield Finding(path, f"compares under {value.id}, which has no plan")
            return
        subject = _subject(value, value.plan, known, before)
        sides = validations.sides_of(subject, known.left_assessment_id, known.right_assessment_id, before)
        for side in sides:
            comparing.check_side(side, value, value.plan, known.mode)
        found = validations.compared(project, before, value.plan, subject, sides)
    except AtkError as error:
        yield Finding(path, f"cannot be made again: {error}")
        return
    again = {
        "result": found.result.result,
        "reasons": found.result.reasons,
        "statistics": found.result.statistics,
        "look": found.look,
        "alpha_spent": found.alpha_spent,
        "rule": value.plan.decision_rule,
        "plan_digest": value.plan_digest,
        **({} if known.charged_case_ids is None else {"charged_case_ids": found.charged}),
        "target_case_ids": subject.targets,
        "left_table_digest": comparing.table_digest(found.left),
        "right_table_digest": comparing.table_digest(found.right),
        "comparison_sha256": digest(comparing.comparison_csv(found.left, found.right)),
    }
    for name, right in again.items():
        if getattr(known, name) != right:
            yield Finding(path, f"says {name} {_short(getattr(known, name))}; made again it is {_short(right)}")


def _repaired_again(project: Project, before: State, known: ExternalValidation) -> Iterator[Finding]:
    try:
        for problem in external_fixes.made_again(project, before, known):
            yield Finding(place(known), problem)
    except AtkError as error:
        yield Finding(place(known), f"cannot be made again: {error}")


def _subject(value: Round, plan: Plan, known: Validation, before: State) -> validations.Subject:
    if known.mode == "final":
        return validations.of_round(value, plan, before)
    return validations.of_candidate(value, plan, before.get(Candidate, str(known.candidate_id)), before)


def _decided_again(before: State, known: Decision) -> Iterator[Finding]:
    path = place(known)
    if known.action == "complete_external_fix":
        if problem := external_fixes.unfounded(before, known):
            yield Finding(path, problem)
        return
    found = _grounds(before, known)
    newest = found[-1] if found else None
    if known.validation_id is not None and (newest is None or newest.id != known.validation_id):
        yield Finding(path, f"rests on {known.validation_id}; the newest Validation was {newest and newest.id}")
        return
    if known.validation_id is not None and newest is not None and newest.result != known.validation_result:
        yield Finding(path, f"says that {newest.id} is {known.validation_result}; it is {newest.result}")
    passed = known.validation_id is not None and newest is not None and newest.result == "pass"
    if known.action in ("keep", "complete") and not passed and not known.override:
        yield Finding(path, f"is {known.action} without a passing Validation and without an override")
    if known.action == "keep" and (candidate := before.find(Candidate, known.candidate_id)) is not None:
        try:
            blocking.require_unblocked(candidate, before.all(Issue), known.validation_result)
        except AtkError as error:
            yield Finding(path, f"keeps what could not be kept: {error}")
    if known.override and known.override_authorization is None:
        yield Finding(path, "overrides the result, and nobody authorized that")
    word = known.override_authorization
    demanded = any(configured.require_confirmation for configured in before.all(ProjectRecord))
    if word is not None and demanded and word.recorded_as == "reported_by_client":
        yield Finding(path, "rests on a client's report, and the project demands that the person was asked")


def _grounds(before: State, known: Decision) -> list[Validation]:
    everyone = before.all(Validation)
    candidate = before.find(Candidate, known.candidate_id)
    if candidate is not None:
        return deciding.of_candidate(candidate, everyone)
    value = before.find(Round, known.round_id)
    return deciding.of_round(value, everyone) if value is not None else []


# ---- counts and digests of what there is -----------------------------------------------------------------------


def _objects(project: Project, state: State, checked: Counter[str]) -> Iterator[Finding]:
    """Yields each object whose own figures are not those of the files that it describes."""
    for dataset in state.all(Dataset):
        yield from _counted("datasets", dataset, partial(_dataset, project, state, dataset), checked)
    yield from _holdouts(state, checked)
    for batch in state.all(Batch):
        if batch.records_sha256 is not None:
            yield from _counted("batches", batch, partial(_batch, project, state, batch), checked)
    for imported in state.all(ImportedBatch):
        yield from _counted("imports", imported, partial(_import, project, state, imported), checked)
    yield from _chosen(project, state, checked)
    for assessment in state.all(Assessment):
        yield from _counted("Assessments", assessment, partial(_assessment, project, state, assessment), checked)
    for deal in state.all(Deal):
        yield from _counted("deals", deal, partial(rechecking.of_deal, project, state, deal), checked)
    for candidate in state.all(Candidate):
        if candidate.changes_digest is not None:
            yield from _counted("candidates", candidate, partial(_candidate, candidate), checked)


def _chosen(project: Project, state: State, checked: Counter[str]) -> Iterator[Finding]:
    for selection in state.all(Selection):
        yield from _counted("selections", selection, partial(_selection, project, state, selection), checked)
    for rows in state.all(RowFile):
        yield from _counted("files of rows", rows, partial(_rows, project, state, rows), checked)


def _holdouts(state: State, checked: Counter[str]) -> Iterator[Finding]:
    """Yields each Round whose holdout was run as its plan does not say, or without a record that it is seen."""
    for value in state.all(Round):
        if value.plan is not None:
            checked["holdouts"] += bool(value.plan.holdout_case_ids)
            for problem in holdout.problems(value, state.all(Batch), state.all(Exposure)):
                yield Finding(place(value), problem)


Pairs = dict[str, tuple[object, object]]
"""Name of a figure → what the object says, and what it is when made again."""


def _counted(kind: str, record: Record, pairs: Callable[[], Pairs], checked: Counter[str]) -> Iterator[Finding]:
    checked[kind] += 1
    try:
        found = pairs()
    except (AtkError, ValueError, KeyError, TypeError) as error:
        yield Finding(place(record), f"cannot be counted again: {error}")
        return
    for name, (said, again) in found.items():
        if said != again:
            yield Finding(place(record), f"says {name} {_short(said)}; made again it is {_short(again)}")


def _dataset(project: Project, state: State, known: Dataset) -> Pairs:
    found = contents.cases(project, state, known.id)
    usage = Counter(case.usage for case in found)
    path = f"datasets/{known.id}/cases.jsonl"
    return {
        "case_count": (known.case_count, len(found)),
        "sealed Cases": (known.usage_counts.get("holdout", 0), sum(case.sealed is not None for case in found)),
        "usage_counts": ({k: n for k, n in known.usage_counts.items() if n}, dict(usage)),
        "cases_sha256": (known.cases_sha256, state.files[path].sha256),
    }


def _selection(project: Project, state: State, known: Selection) -> Pairs:
    path = f"selections/{known.id}/records.jsonl"
    return {
        "record_count": (known.record_count, len(contents.lines(project, state, path))),
        "ids_sha256": (known.ids_sha256, state.files[path].sha256),
    }


def _rows(project: Project, state: State, known: RowFile) -> Pairs:
    path = f"datasets/{known.id}/rows.jsonl"
    found = [json.loads(line) for line in contents.lines(project, state, path)]
    splits = Counter(row["metadata"]["split"] for row in found if row["metadata"]["split"])
    return {
        "row_count": (known.row_count, len(found)),
        "splits": (known.splits, dict(splits)),
        "rows_sha256": (known.rows_sha256, state.files[path].sha256),
        "rows_bytes": (known.rows_bytes, state.files[path].size),
    }


def _batch(project: Project, state: State, known: Batch) -> Pairs:
    path = f"evidence/{known.id}/records.jsonl"
    statuses: Counter[str] = Counter()
    ids, sealed, blind, unseen = [], 0, 0, set(known.holdout_case_ids)
    for record in contents.raw_records(project, state, known.id):
        blind += record["case_id"] in unseen
        sealed += bool(record.get("sealed"))
        statuses[record["execution"]["status"]] += 1
        ids.append(record["id"])
    missing = {f"{known.id}.{n}" for n in range(1, known.slots + 1)} - set(ids)
    return {
        "counts": ({k: n for k, n in known.counts.items() if n}, dict(statuses)),
        "records_sha256": (known.records_sha256, state.files[path].sha256),
        "records_bytes": (known.records_bytes, state.files[path].size),
        "missing_record_ids": (set(known.missing_record_ids), missing),
        "distinct ids": (len(set(ids)), len(ids)),
        "sealed Records": (blind, sealed),
    }


def _import(project: Project, state: State, known: ImportedBatch) -> Pairs:
    path = f"evidence/{known.id}/{stored.RECORDS}"
    numbers = [int(record["n"]) for record in stored.records(project, state, known.id)]
    return {
        "counts.records": (known.counts.get("records", 0), len(numbers)),
        "numbers of Records": (numbers, list(range(1, len(numbers) + 1))),
        "records_sha256": (known.records_sha256, state.files[path].sha256),
        "records_bytes": (known.records_bytes, state.files[path].size),
    }


def _assessment(project: Project, state: State, known: Assessment) -> Pairs:
    path = f"assessments/{known.id}/assessment.csv"
    rows = read_assessment_csv(contents.checked(project, state, path))
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.dimension, Counter())[row.verdict] += 1
    said = {dimension: {k: n for k, n in own.items() if n} for dimension, own in known.counts.items()}
    return {
        "row_count": (known.row_count, len(rows)),
        "counts": (said, {dimension: dict(own) for dimension, own in counts.items()}),
        "defaulted": (known.defaulted, storing.defaulted(rows)),
        "csv_sha256": (known.csv_sha256, state.files[path].sha256),
        **rechecking.of_assessment(project, state, known),
    }


def _candidate(known: Candidate) -> Pairs:
    return {"changes_digest": (known.changes_digest, digest(canonical(list(known.changes))))}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - fits a line
