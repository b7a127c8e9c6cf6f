"""What a report shows of each Case and of the attempts at it on both sides of a comparison."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operations.importers._assessment_csv import read_assessment_csv
from operations.reports.model import AttemptShown, CaseOutcome, CaseShown, Comparison, VerdictShown
from storage import contents
from storage.holdout import Showing
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import VerdictRow
from storage.schema.rounds import Round

TEXT = 3_000
"""Characters of an input or an output that a report shows; `read_record` has the whole."""
EVENTS = 40
_EVENT = 240


@dataclass(frozen=True)
class Shown:
    """The Cases of a report, and the ids of those that may not be seen."""

    cases: tuple[CaseShown, ...]
    unseen: tuple[str, ...]


def cases_shown(project: Project, state: State, value: Round, about: Comparison | None) -> Shown:
    """Returns the Cases of a comparison in its order, worst first, each with its attempts.

    Raises:
        StoreDamaged: A file that it rests on is not what was recorded.
        SealBroken: A holdout Case that may be seen is not what was sealed.
    """
    if about is None or value.plan is None:
        return Shown((), ())
    showing = Showing(project, state)
    outcomes: dict[str, list[CaseOutcome]] = defaultdict(list)
    for outcome in about.outcomes:
        outcomes[outcome.case_id].append(outcome)
    left = _attempts(project, state, showing, about.left_batch_id, about.left_assessment_id)
    right = _attempts(project, state, showing, about.right_batch_id, about.right_assessment_id)
    known = {}
    for line in contents.lines(project, state, f"datasets/{value.plan.dataset_id}/cases.jsonl"):
        case = json.loads(line)
        if case["id"] in outcomes:
            known[case["id"]] = project.masker.value(showing.case(case))
    found, unseen = [], []
    for case_id, own in outcomes.items():
        case = known.get(case_id, {})
        if "sealed" in case:
            unseen.append(case_id)
        found.append(
            CaseShown(
                case_id=case_id,
                usage=str(case.get("usage", "")),
                source_group_id=case.get("source_group_id"),
                input=str(case["sealed"]) if "sealed" in case else cut(as_text(case.get("input")))[0],
                expected=cut(as_text(case["expected"]))[0] if case.get("expected_present") else None,
                fingerprint=str(case.get("fingerprint", "")),
                left=tuple(left.get(case_id, ())),
                right=tuple(right.get(case_id, ())),
                outcomes=tuple(own),
            )
        )
    return Shown(tuple(found), tuple(unseen))


def _attempts(
    project: Project, state: State, showing: Showing, batch_id: str, assessment_id: str
) -> dict[str, list[AttemptShown]]:
    """Returns Case → its attempts by repeat. Of a slot that was retried the last attempt counts, and is shown."""
    rows = read_assessment_csv(contents.checked(project, state, f"assessments/{assessment_id}/assessment.csv"))
    verdicts: dict[str, list[VerdictRow]] = defaultdict(list)
    for row in rows:
        verdicts[row.record_id].append(row)
    records = [showing.record(stored) for stored in contents.raw_records(project, state, batch_id)]
    retried = {record["execution"].get("retry_of") for record in records}
    found: dict[str, list[AttemptShown]] = defaultdict(list)
    for record in records:
        if record["id"] not in retried:
            found[record["case_id"]].append(attempt(record, verdicts[record["id"]]))
    for own in found.values():
        own.sort(key=lambda a: a.repeat)
    return found


def attempt(record: Mapping[str, Any], rows: Iterable[VerdictRow]) -> AttemptShown:
    """Returns one attempt as a report shows it, from a Record as it may be shown."""
    execution, output = record["execution"], record.get("output")
    shown, left_out = cut(output) if output is not None else (None, 0)
    events = record.get("events") or ()
    notes = [*record.get("notes", ()), *([execution["error"]] if execution.get("error") else [])]
    if "sealed" in record:
        notes = [str(record["sealed"])]
    elif not output:
        tail = str(record.get("stderr_tail", ""))[-400:]
        notes += ["It wrote nothing.", *([f"stderr ends: {tail}"] if tail else [])]
    return AttemptShown(
        record_id=record["id"],
        repeat=int(record.get("repeat", 1)),
        status=execution["status"],
        duration_seconds=float(execution.get("duration_seconds") or 0.0),
        output=shown,
        output_left_out=left_out,
        note=" ".join(notes) or None,
        verdicts=tuple(
            VerdictShown(
                dimension=row.dimension,
                verdict=row.verdict,
                reason=cut(row.reason or row.validity_reason)[0],
                score=row.score,
                evidence_ids=tuple(ref.evidence_id for ref in row.evidence_refs),
            )
            for row in rows
        ),
        events=tuple(_event(e) for e in events[:EVENTS]),
        events_left_out=max(0, len(events) - EVENTS),
    )


def _event(event: Mapping[str, Any]) -> str:
    """Returns an event of an agent in a line: its kind and name, then everything else as JSON, cut."""
    kind = str(event.get("kind") or event.get("type") or "event")
    name = event.get("name")
    rest = {k: v for k, v in event.items() if k not in ("kind", "type", "name")}
    text = f"{kind} {name or ''}".strip() + (f" {json.dumps(rest, ensure_ascii=False)}" if rest else "")
    return text if len(text) <= _EVENT else f"{text[:_EVENT]}…"


def as_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Returns a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def cut(text: str) -> tuple[str, int]:
    """Returns the beginning of a text that is shown, and how many characters are left out."""
    clean = text.encode(errors="surrogatepass").decode(errors="replace")  # half a surrogate pair fits no file
    return (clean, 0) if len(clean) <= TEXT else (clean[:TEXT], len(clean) - TEXT)
