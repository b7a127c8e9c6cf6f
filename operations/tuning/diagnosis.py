"""When a diagnosis may be stored: what each claim about a cause has to rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch
from storage.schema.candidates import EvidenceRef, Issue
from storage.schema.probes import Probe
from storage.schema.traces import ImportedBatch
from storage.schema.validations import Validation

Batches = Mapping[str, Batch | ImportedBatch | Probe]
"""What evidence can be cited from, by id."""

_NAMED = 5
_DIGITS = 15
CLOSEST_AMONG = 5_000
"""How many Case ids a misspelt one is held against."""


@dataclass(kw_only=True, eq=False)
class DiagnosisRefused(AtkError):
    """An Issue claims more than it shows. None of the call's Issues was stored."""

    message = "Issue {issue!r}: {field} {problem}. Nothing was stored; correct it."
    next_calls = (NextCall("store_diagnosis", {"round_id": "{round_id}"}, {"issues": "with {field} corrected"}),)

    round_id: str
    issue: str
    field: str
    problem: str


def require_known_cases(issue: Issue, known: Collection[str]) -> None:
    """Refuses Case ids that nothing in the project has, with the closest that there are.

    Raises:
        DiagnosisRefused: It names them.
    """
    strangers = [case_id for case_id in issue.case_ids if case_id not in known]
    if not strangers:
        return
    closest = list(islice(known, CLOSEST_AMONG))
    named = [f"{c} (did you mean {near[0]}?)" if (near := get_close_matches(c, closest, 1)) else c for c in strangers]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    problem = f"names what is no Case of any dataset here: {', '.join(named[:_NAMED])}{more}"
    raise DiagnosisRefused(round_id=issue.round_id, issue=issue.name, field="case_ids", problem=problem)


def check(issue: Issue, batches: Batches, validations: Mapping[str, Validation]) -> None:
    """Refuses an Issue whose claims are not carried by what it names.

    Raises:
        DiagnosisRefused: It names the field and what is missing.
    """
    for field, problem in (
        *_evidence_problems(issue, batches),
        *_check_problems(issue),
        *_cause_problems(issue, validations),
        *_way_on_problems(issue),
    ):
        raise DiagnosisRefused(round_id=issue.round_id, issue=issue.name, field=field, problem=problem)


def require_findings(issue: Issue, problems: Mapping[str, str]) -> None:
    """Refuses citations of findings that the detectors do not find again.

    Args:
        issue: What cites them.
        problems: Record and finding, joined by a slash → what is wrong with it.

    Raises:
        DiagnosisRefused: It says what is wrong with the first, and what holds instead.
    """
    for reference in _references(issue):
        if problem := problems.get(f"{reference.evidence_id}/{reference.finding}"):
            raise DiagnosisRefused(round_id=issue.round_id, issue=issue.name, field="evidence_refs", problem=problem)


def _references(issue: Issue) -> list[EvidenceRef]:
    checks = (reference for made in issue.checks for reference in made.evidence_refs)
    return [*issue.evidence_refs, *issue.mechanism_evidence_refs, *checks]


def _evidence_problems(issue: Issue, batches: Batches) -> Iterator[tuple[str, str]]:
    references = _references(issue)
    for reference in references:
        if problem := _unknown(reference, batches):
            yield "evidence_refs", problem
    cited = [batches[r.batch_id] for r in references if r.batch_id in batches]
    # What an import calls its Cases is in its Records: that was looked up before.
    ran = [batch for batch in cited if not isinstance(batch, ImportedBatch)]
    seen = {case_id for batch in ran for case_id in batch.case_ids}
    if strangers := [c for c in issue.case_ids if seen and len(ran) == len(cited) and c not in seen]:
        yield "case_ids", f"names Cases that none of its evidence ran: {', '.join(strangers[:5])}"


def _check_problems(issue: Issue) -> Iterator[tuple[str, str]]:
    for made in issue.checks:
        if made.status == "not_run" and not made.reason.strip():
            yield "checks", "has a check that was not run and gives no reason"
        if made.status == "completed" and not (made.expected and made.actual):
            yield "checks", "has a completed check without what was expected and what was seen"


def _cause_problems(issue: Issue, validations: Mapping[str, Validation]) -> Iterator[tuple[str, str]]:
    status = issue.root_cause_status
    if status == "supported":
        if not issue.mechanism_evidence_refs:
            yield "root_cause_status", "is supported, which needs mechanism_evidence_refs"
        if not any(c.status == "completed" for c in issue.checks):
            yield "root_cause_status", "is supported, which needs a completed check"
        if not issue.competing_explanations_addressed:
            yield "root_cause_status", "is supported, which needs competing_explanations_addressed"
    if status == "intervention_supported":
        passed = [v for ref in issue.intervention_validation_refs if (v := validations.get(ref)) and v.result == "pass"]
        if not any(v.round_id == issue.round_id for v in passed):
            yield "root_cause_status", "is intervention_supported, which needs a passing Validation of this Round"


def _way_on_problems(issue: Issue) -> Iterator[tuple[str, str]]:
    if issue.root_cause_status in ("hypothesis", "inconclusive") and not issue.next_action:
        yield "next_action", f"is empty, and a cause that is {issue.root_cause_status} needs one"
    handed = {"trigger_input", "expected", "actual"} <= set(issue.handoff or {})
    if issue.disposition == "external_handoff" and not handed:
        yield "handoff", "needs trigger_input, expected and actual, so that others can see the failure"
    if issue.disposition == "external_handoff" and issue.resolution == "resolved":
        told = "a Round with external_fix_identity shows it, and finish_round with complete_external_fix records it"
        yield "resolution", f"cannot be claimed as resolved: {told}"


def _unknown(reference: EvidenceRef, batches: Batches) -> str | None:
    batch = batches.get(reference.batch_id)
    if batch is None:
        return f"names {reference.batch_id}, and there is no such batch"
    prefix, _, number = reference.evidence_id.rpartition(".")
    missing = () if isinstance(batch, ImportedBatch) else batch.missing_record_ids
    # The number is compared as text: "007" and digits of other scripts count to a Record, and name none.
    known = prefix == batch.id and number == str(_number(number)) and 1 <= _number(number) <= _count(batch)
    if not known or reference.evidence_id in missing:
        return f"names {reference.evidence_id}, and {batch.id} has no such Record"
    if isinstance(batch, Probe) and batch.status == "contaminated":
        return f"names {batch.id}, which is contaminated: files were not the same before and after it"
    return None


def _count(batch: Batch | ImportedBatch | Probe) -> int:
    return batch.counts.get("records", 0) if isinstance(batch, ImportedBatch) else batch.slots


def _number(digits: str) -> int:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else 0
