"""Rows: what Records of one batch were projected to, in one file, with what was left out and why."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storage.schema.base import Digest, ObjectId, Record, Value
from storage.schema.datasets import Usage
from storage.schema.evidence import Count

RowForm = Literal["messages", "tokens", "openai", "evaluator", "audit", "otlp"]
"""What a row is: one to train on (`messages`, `tokens`, `openai`), a judge's view, records of an audit, or spans."""


class RowLoss(Value):
    """One field of one kind of event that rows do not carry, for one reason."""

    kind: str
    field: str
    """`*` for whole events."""
    reason: str
    events: Count


class LeftOut(Value):
    """Records that gave no row, for one reason."""

    reason: str
    records: Count
    first: tuple[str, ...]
    """The ids of the first of them."""


class RowFile(Record):
    """The rows of one projection. `rows.jsonl` beside it holds them, one JSON object to a line, in Record order.

    Each row has `metadata.origin` (ids of batch, Record, dataset and Case), `metadata.case_fingerprint` and
    `metadata.split`; a row to train on also the Assessments by which it passes.
    """

    kind: ClassVar[str] = "rows"

    form: RowForm
    batch_id: ObjectId
    selection_id: ObjectId | None = None
    assessment_ids: tuple[ObjectId, ...] = ()
    """The Assessments that say which Records pass; empty for a form that is not to train on."""
    usages: tuple[Usage, ...] = ()
    """The usages that were asked for, of Cases; holdout never is."""
    options: dict[str, Any] = {}
    holdout_cases: Count = 0
    """How many holdout Cases of all datasets the rows were held against."""
    scanned: Count
    row_count: Annotated[int, Field(ge=1)]
    splits: dict[Usage, Count] = {}
    """Rows by the usage of their Case."""
    rows_sha256: Digest
    """Digest of `rows.jsonl`."""
    rows_bytes: Count
    losses: tuple[RowLoss, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    created_at: str
    """UTC, ISO 8601."""
