"""Completes short rows of verdicts to whole ones, and refuses what is missing, unknown or said twice."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

from operations.importers._assessment_csv import COLUMNS, read_assessment_csv, unguard, write_assessment_csv
from operations.importers._rows import RowReader, shown, strict_json
from storage.errors import AtkError, NextCall
from storage.schema.assessments import DEFAULTED, EvidenceRef, Rest, Validity, Verdict, VerdictRow

__all__ = ["VerdictsRefused", "expand_rows", "read_assessment_csv", "read_rows_file", "write_assessment_csv"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
VALIDITIES: tuple[Validity, ...] = get_args(Validity)
LISTED = 20
"""Missing verdicts that a refusal's facts name."""

_SHOWN = 6
"""Missing verdicts that its sentence names."""


@dataclass(kw_only=True, eq=False)
class VerdictsRefused(AtkError):
    """Base of what is wrong with rows of verdicts."""

    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("store_assessment", supply={"rows": "the corrected rows"}),)


@dataclass(kw_only=True, eq=False)
class VerdictFieldUnknown(VerdictsRefused):
    """A row has a field that a verdict does not have."""

    message = "Row {row}: a verdict has no field {field!r}{suggestion}. Its fields are {allowed}."

    row: int
    field: str
    allowed: tuple[str, ...] = COLUMNS
    suggestion: str = ""


@dataclass(kw_only=True, eq=False)
class VerdictFieldMissing(VerdictsRefused):
    """A row lacks a field that has no default."""

    message = (
        "Row {row} has no {field}. Every row names its record_id and its verdict, and its dimension where the "
        "specification has several."
    )

    row: int
    field: str


@dataclass(kw_only=True, eq=False)
class VerdictFieldInvalid(VerdictsRefused):
    """A field's value is none that is allowed."""

    message = "Row {row}: {field} is {given}. Allowed: {allowed}."

    row: int
    field: str
    given: str
    allowed: str


@dataclass(kw_only=True, eq=False)
class RecordNotInBatch(VerdictsRefused):
    """A row is about a Record that the batch does not hold."""

    message = (
        "Row {row}: record_id {given} is no Record of {batch_id}{suggestion}. Name one of its Records ({count} in all)."
    )

    row: int
    given: str
    batch_id: str
    count: int
    suggestion: str = ""
    field: str = "record_id"


@dataclass(kw_only=True, eq=False)
class VerdictTwice(VerdictsRefused):
    """One Record is judged twice in one dimension."""

    message = "Row {row}: {record_id} was judged in {dimension!r} by row {first_row} already. Keep one of the two rows."

    row: int
    first_row: int
    record_id: str
    dimension: str
    field: str = "record_id"


@dataclass(kw_only=True, eq=False)
class VerdictWithoutValidity(VerdictsRefused):
    """A Record that cannot be judged has a verdict all the same."""

    message = (
        "Row {row}: the verdict is {verdict} and the validity is {validity}. A Record that is not valid says nothing "
        "about the agent: its verdict is unknown. Correct one of the two, or leave the verdict out."
    )

    row: int
    verdict: str
    validity: str
    field: str = "verdict"


@dataclass(kw_only=True, eq=False)
class EvidenceNotOfRecord(VerdictsRefused):
    """The evidence of a verdict is none of the batch's, or none of it is the Record's own."""

    message = (
        "Row {row}: evidence_refs {reason}. They are a list of {{batch_id, evidence_id}} in {batch_id}, at least one "
        "of them {record_id} itself. Leave evidence_refs out and the Record is its own evidence."
    )

    row: int
    reason: str
    batch_id: str
    record_id: str
    field: str = "evidence_refs"


@dataclass(kw_only=True, eq=False)
class NotApplicableWithoutRule(VerdictsRefused):
    """A verdict says that a dimension does not apply, and the specification does not say when that is so."""

    message = (
        "Row {row}: the verdict on {record_id} is not_applicable, and the specification has no rule by which "
        "{dimension!r} does not apply. Say unknown; or judge under a specification whose not_applicable_rules has one."
    )

    row: int
    record_id: str
    dimension: str
    field: str = "verdict"


@dataclass(kw_only=True, eq=False)
class AssessmentIncomplete(VerdictsRefused):
    """Some Records have no verdict in some dimension, so the assessment would not say what it leaves out."""

    message = (
        "Verdicts are missing, {count} of the {expected} that are needed: {shown}. Every Record has one "
        "verdict in every dimension; one that cannot be judged has the verdict unknown."
    )

    count: int
    missing: tuple[str, ...]
    """`<record_id> in <dimension>`, in order, from the one that was asked for."""
    expected: int
    shown: str
    """The first of them and how many there are besides, as words: together with those named it is `count`."""
    next_missing_from: int | None = None
    """What `missing_from` shows the following ones; None where these are the last."""


def expand_rows(  # noqa: PLR0913 - rows, what they are held to, and how a refusal is paged
    rows: Iterable[Mapping[str, Any]],
    records: Sequence[str],
    dimensions: Sequence[str],
    batch_id: str,
    judger_kind: str,
    *,
    exempt: Collection[str] | None = None,
    missing_from: int = 0,
    rest: Rest | None = None,
) -> list[VerdictRow]:
    """Returns one whole row for every Record and dimension, in the order of `records`, then of `dimensions`.

    A row needs its `record_id` and its `verdict`, and its `dimension` where there are several. Left out, validity is
    `valid`, the evidence is the Record itself, and the verdict of a Record that is not valid is `unknown`.

    Args:
        rows: What was judged; a missing field, None and an empty text are the same.
        records: The ids of the batch's Records.
        dimensions: What each Record is judged in.
        batch_id: The batch.
        judger_kind: Who judged, for rows that do not say it.
        exempt: The dimensions that need not apply to a Record; None where the caller does not ask.
        missing_from: Where the list of missing verdicts begins that a refusal shows.
        rest: The verdict on whatever has none; those rows have the judger_kind `default`.

    Raises:
        VerdictsRefused: A row is wrong or missing; the subclass says what, with row and field.
    """
    expansion = _Expansion(records, dimensions, batch_id, judger_kind)
    for number, row in enumerate(rows, 1):
        found = expansion.add(number, row)
        if found.verdict == "not_applicable" and exempt is not None and found.dimension not in exempt:
            raise NotApplicableWithoutRule(row=number, record_id=found.record_id, dimension=found.dimension)
    return expansion.rows(missing_from, rest)


def read_rows_file(path: str) -> list[dict[str, Any]]:
    """Returns the rows of a `.csv` or `.jsonl` file of verdicts, as `expand_rows` takes them.

    Empty cells of a CSV are left out, and an apostrophe that guards a formula is taken off.

    Raises:
        SourceRefused: The file cannot be read whole.
    """
    reader = RowReader(path)
    if not reader.is_csv:
        return [row.values for row in reader]
    return [{name: unguard(cell) for name, cell in row.values.items() if cell} for row in reader]


class _Expansion:
    """The rows so far, by Record and dimension."""

    def __init__(self, records: Sequence[str], dimensions: Sequence[str], batch_id: str, judger_kind: str) -> None:
        self._records = dict.fromkeys(records)
        self._dimensions = tuple(dimensions)
        self._batch_id = batch_id
        self._judger_kind = judger_kind
        self._found: dict[tuple[str, str], tuple[int, VerdictRow]] = {}

    def add(self, number: int, given: Mapping[str, Any]) -> VerdictRow:
        for name in given:
            if name not in COLUMNS:
                raise VerdictFieldUnknown(row=number, field=name, suggestion=_suggestion(name, COLUMNS))
        row = {name: value for name, value in given.items() if value is not None and value != ""}
        record_id = self._record(number, row)
        dimension = self._dimension(number, row)
        validity = cast("Validity", _one_of(number, "validity", row.get("validity", "valid"), VALIDITIES))
        whole = VerdictRow(
            record_id=record_id,
            dimension=dimension,
            validity=validity,
            validity_reason=_text(number, "validity_reason", row),
            verdict=_verdict(number, row, validity),
            score=_score(number, row),
            reason=_text(number, "reason", row),
            evidence_refs=self._evidence(number, row, record_id),
            judger_kind=_text(number, "judger_kind", row) or self._judger_kind,
        )
        first = self._found.setdefault((record_id, dimension), (number, whole))[0]
        if first != number:
            raise VerdictTwice(row=number, first_row=first, record_id=record_id, dimension=dimension)
        return whole

    def rows(self, missing_from: int, rest: Rest | None) -> list[VerdictRow]:
        slots = [(record, dimension) for record in self._records for dimension in self._dimensions]
        missing = [slot for slot in slots if slot not in self._found]
        if rest is not None:
            self._found |= {slot: (0, self._of_rest(*slot, rest)) for slot in missing}
        elif missing:
            start = min(missing_from, len(missing) - 1)
            listed = tuple(f"{record} in {dimension}" for record, dimension in missing[start : start + LISTED])
            more = len(missing) - _SHOWN
            first = (f"{record} in {dimension}" for record, dimension in missing[:_SHOWN])
            named = ", ".join(first) + (f" and {more} more" if more > 0 else "")
            raise AssessmentIncomplete(
                count=len(missing),
                missing=listed,
                expected=len(slots),
                shown=named,
                next_missing_from=start + LISTED if start + LISTED < len(missing) else None,
            )
        return [self._found[slot][1] for slot in slots]

    def _of_rest(self, record_id: str, dimension: str, rest: Rest) -> VerdictRow:
        return VerdictRow(
            record_id=record_id,
            dimension=dimension,
            validity="valid",
            validity_reason="",
            verdict=rest.verdict,
            score=None,
            reason=rest.reason,
            evidence_refs=(EvidenceRef(batch_id=self._batch_id, evidence_id=record_id),),
            judger_kind=DEFAULTED,
        )

    def _record(self, number: int, row: Mapping[str, Any]) -> str:
        given = _required(number, "record_id", row)
        if not isinstance(given, str) or given not in self._records:
            raise RecordNotInBatch(
                row=number,
                given=shown(given),
                batch_id=self._batch_id,
                count=len(self._records),
                suggestion=_suggestion(str(given), tuple(self._records)),
            )
        return given

    def _dimension(self, number: int, row: Mapping[str, Any]) -> str:
        if "dimension" not in row and len(self._dimensions) == 1:
            return self._dimensions[0]
        return _one_of(number, "dimension", _required(number, "dimension", row), self._dimensions)

    def _evidence(self, number: int, row: Mapping[str, Any], record_id: str) -> tuple[EvidenceRef, ...]:
        given = row.get("evidence_refs", [{"batch_id": self._batch_id, "evidence_id": record_id}])
        refs = _refs(given)
        foreign = [ref for ref in refs if ref.batch_id != self._batch_id or ref.evidence_id not in self._records]
        if not refs:
            reason = f"are {shown(given)}"
        elif foreign:
            reason = f"name {foreign[0].evidence_id!r} of {foreign[0].batch_id!r}, which is not in the batch"
        elif record_id not in {ref.evidence_id for ref in refs}:
            reason = "do not name the Record itself"
        else:
            return refs
        raise EvidenceNotOfRecord(row=number, reason=reason, batch_id=self._batch_id, record_id=record_id)


def _refs(given: Any) -> tuple[EvidenceRef, ...]:  # noqa: ANN401 - JSON
    """Returns the references that `given` lists; none when it is not a list of references."""
    try:
        values = strict_json(given) if isinstance(given, str) else given
        return tuple(EvidenceRef.model_validate(value) for value in values)
    except (ValueError, TypeError):
        return ()


def _required(number: int, field: str, row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if field not in row:
        raise VerdictFieldMissing(row=number, field=field)
    return row[field]


def _one_of(number: int, field: str, given: Any, allowed: Sequence[str]) -> str:  # noqa: ANN401 - JSON
    if not isinstance(given, str) or given not in allowed:
        raise VerdictFieldInvalid(row=number, field=field, given=shown(given), allowed=", ".join(allowed))
    return given


def _verdict(number: int, row: Mapping[str, Any], validity: Validity) -> Verdict:
    given = row.get("verdict", "unknown") if validity != "valid" else _required(number, "verdict", row)
    verdict = cast("Verdict", _one_of(number, "verdict", given, VERDICTS))
    if validity != "valid" and verdict != "unknown":
        raise VerdictWithoutValidity(row=number, verdict=verdict, validity=validity)
    return verdict


def _text(number: int, field: str, row: Mapping[str, Any]) -> str:
    given = row.get(field, "")
    if not isinstance(given, str) or any("\ud800" <= char <= "\udfff" for char in given):
        raise VerdictFieldInvalid(row=number, field=field, given=shown(given), allowed="text in Unicode")
    return given


def _score(number: int, row: Mapping[str, Any]) -> float | None:
    given = row.get("score")
    if given is None:
        return None
    try:
        score = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise VerdictFieldInvalid(row=number, field="score", given=shown(given), allowed="a finite number, or nothing")
    return score


def _suggestion(given: str, allowed: Sequence[str]) -> str:
    close = difflib.get_close_matches(given[:200], allowed[:2000], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
