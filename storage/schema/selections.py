"""A selection: Records of one batch that were found by a rule, kept so that other operations can take them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from storage.schema.base import Digest, ObjectId, Record, Value
from storage.schema.evidence import Count


class IdSource(Value):
    """The user's own list of ids that Records were joined with."""

    source_name: str | None
    """The file's name, without its folders; None for ids that were given in the call."""
    column: str | None
    sha256: Digest
    """Of the file's bytes, or of the ids, sorted, one to a line."""
    given: Count
    unmatched: Count


class Selection(Record):
    """Some Records of a batch. `records.jsonl` beside it holds their ids, one JSON text to a line, in order."""

    kind: ClassVar[str] = "selection"

    batch_id: ObjectId
    within_selection_id: ObjectId | None = None
    """The selection in which was looked, where it was not the whole batch."""
    rule: dict[str, Any]
    """The filters as they were given, masked. A list of ids is counted in `ids` instead."""
    ids: IdSource | None = None
    scanned: Count
    matched: Count
    """Records that passed every filter, before a sample was drawn."""
    unknown: dict[str, Count] = {}
    """Filter → Records of which it could not say anything; these did not match."""
    sample: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    """Of the sample: the Records with the smallest SHA-256 of `<seed>:<record id>`."""
    record_count: Annotated[int, Field(ge=1)]
    ids_sha256: Digest
    """Digest of `records.jsonl`."""
    created_at: str
    """UTC, ISO 8601."""
