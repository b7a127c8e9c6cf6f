"""Makes deals, and Assessments of deals and selections, again from stored bytes; for `atk verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operations.assessing import deals, rules
from operations.assessing.subjects import Subject, subject_of
from operations.importers._assessment_csv import read_assessment_csv
from operations.importers.batches import selected
from operations.importers.stored import number_in
from operations.judges._linear import JudgeEngineMissing
from storage import contents
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment, Deal, EvaluationSpec, Judger, VerdictRow
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord
from storage.schema.projects import Project as Configuration
from storage.schema.selections import Selection

Pairs = dict[str, tuple[object, object]]
"""Name of a figure → what the object says, and what it is when made again."""


def of_deal(project: Project, state: State, known: Deal) -> Pairs:
    """Returns the figures of a deal: its items are those of both batches in the order of its seed."""
    found = deals.read(project, state, known)
    records = _records(project, state, known)
    again = deals.dealt(records, found.seed, timeout_is_failure=deals.is_timeout_failure(state, known))
    dealt = sum(len(item.record_ids) for item in again.items)
    return {
        f"items of {known.id}": (found.items, again.items),
        "item_count": (known.item_count, len(again.items)),
        "record_count": (known.record_count, len(records)),
        "settled_count": (known.settled_count, len(records) - dealt),
        "items_sha256": (known.items_sha256, state.files[f"{deals.DEALS}/{known.id}/{deals.ITEMS}"].sha256),
    }


def of_assessment(project: Project, state: State, known: Assessment) -> Pairs:
    """Returns what an Assessment of a deal, of a selection or by a rule has to keep; nothing for any other."""
    pairs: Pairs = _ruled(project, state, known)
    if known.deal_id is not None:
        deal = state.get(Deal, known.deal_id)
        pairs[f"verdicts on items of {deal.id}"] = (_said(project, state, known), _again(project, state, known, deal))
    if known.selection is not None:
        selection = state.get(Selection, known.selection.selection_id)
        numbers = {number_in(row.record_id, known.batch_id) for row in _rows(project, state, known.id)}
        pairs["selection.ids_sha256"] = (known.selection.ids_sha256, selection.ids_sha256)
        pairs["Records of the selection"] = (numbers, set(selected(project, state, selection)))
    return pairs


def _ruled(project: Project, state: State, known: Assessment) -> Pairs:
    """Returns the verdicts that the judger's rule gives on the stored Records, beside those that are stored.

    Sealed Records are left out, since no key is asked for; so is a rule whose engine is not installed. A configuration
    that was revised since may mask otherwise, and a rule compares what is masked: then a difference says nothing.
    """
    judger, spec = state.get(Judger, known.judger_id), state.get(EvaluationSpec, known.spec_id)
    if judger.method in ("client", "command"):
        return {}
    dimension = judger.dimension or spec.dimensions[0]
    subject = _open_subject(project, state, known)
    try:
        found = {r["record_id"]: _verdict(r) for r in rules.rows_of(project, state, subject, judger, dimension)}
    except JudgeEngineMissing:
        return {}
    rows = _rows(project, state, known.id)
    said = {r.record_id: r.verdict for r in rows if r.dimension == dimension and r.record_id in found}
    since = max(state.written[Configuration.kind, each.id] for each in state.all(Configuration))
    if said != found and since > state.written[Assessment.kind, known.id]:
        return {}
    differing = sorted(record_id for record_id in found if said.get(record_id) != found[record_id])
    return {f"verdicts of the rule {judger.method}": (_of(said, differing), _of(found, differing))}


def _open_subject(project: Project, state: State, known: Assessment) -> Subject:
    """Returns what was judged, without the Records that are sealed."""
    selection = state.get(Selection, known.selection.selection_id) if known.selection else None
    batch = state.find(Batch, known.batch_id)
    if batch is None:
        return subject_of(project, state, known.batch_id, selection)
    wanted = set(selected(project, state, selection)) if selection else None
    kept = [r for r in contents.records(project, state, batch.id) if r.sealed is None and (not wanted or r.n in wanted)]
    return Subject(batch=batch, names={r.id: r.case_id for r in kept}, records=kept, selection=selection)


def _verdict(row: rules.Row) -> object:
    return row["verdict"] if row["validity"] == "valid" else "unknown"


def _of(verdicts: Mapping[str, object], record_ids: Sequence[str]) -> list[tuple[str, object]]:
    return [(record_id, verdicts.get(record_id)) for record_id in record_ids]


def _said(project: Project, state: State, known: Assessment) -> list[tuple[object, ...]]:
    return [_outcome(row) for row in _rows(project, state, known.id)]


def _again(project: Project, state: State, known: Assessment, deal: Deal) -> list[tuple[object, ...]]:
    """Returns the rows that follow from one row of each item, whichever of its Records comes first."""
    found = deals.read(project, state, deal)
    rows = {(r.record_id, r.dimension): r for each in deal.assessment_ids for r in _rows(project, state, each)}
    dimensions = state.get(EvaluationSpec, deal.spec_id).dimensions
    of_items = [
        rows[item.record_ids[0], dimension].model_copy(update={"record_id": item.token(deal.id)})
        for item in found.items
        for dimension in dimensions
    ]
    late = deals.is_timeout_failure(state, deal)
    verdicts = deals.Verdicts(deal, found, of_items, timeout_is_failure=late)
    own = contents.records(project, state, known.batch_id)
    return [
        (row["record_id"], row["dimension"], row["verdict"], row["validity"], row["reason"], row.get("score"))
        for row in verdicts.rows(own, dimensions)
    ]


def _outcome(row: VerdictRow) -> tuple[object, ...]:
    return row.record_id, row.dimension, row.verdict, row.validity, row.reason, row.score


def _records(project: Project, state: State, deal: Deal) -> list[EvidenceRecord]:
    both = deal.left_batch_id, deal.right_batch_id
    return [record for batch_id in both for record in contents.records(project, state, batch_id)]


def _rows(project: Project, state: State, assessment_id: str) -> Sequence[VerdictRow]:
    return read_assessment_csv(contents.checked(project, state, f"assessments/{assessment_id}/assessment.csv"))
