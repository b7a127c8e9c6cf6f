"""A source contract: what the fields of a source mean, as a person agreed, and the lines of code that say so."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from storage.schema.approvals import HowConfirmed
from storage.schema.base import Digest, ObjectId, Record, Value
from storage.schema.evidence import Count, Number

ContractType = Literal["text", "number", "boolean", "object", "list", "time"]


class ContractField(Value):
    """What one field of a Record means, and what every import is held to."""

    field: str
    """`input`, `output`, `expected`, `case_id`, `name`, `at`, `tags`, `trace_id`, `session_id`, `user_id`,
    `scores.<name>`, `metrics.<name>` or `metadata.<path>`."""
    meaning: str
    source_field: str | None = None
    """What the export calls it."""
    type: ContractType | None = None
    unit: str | None = None
    required: bool = False
    """Whether every Record says it."""
    values: tuple[str, ...] = ()
    """The values that there are, as text; empty: any."""
    min: Number | None = None
    max: Number | None = None


class Excerpt(Value):
    """Lines of a file of the project that say what a source means, such as a tool's contract."""

    path: str
    """Relative to the project's folder."""
    start_line: Annotated[int, Field(ge=1)]
    end_line: Annotated[int, Field(ge=1)]
    text: str
    """The lines, masked."""
    masked: bool
    """Whether masking changed them."""
    sha256: Digest
    """Of the whole file as it was."""
    bytes: Count
    component_id: str | None = None
    source_revision: str | None = None
    """Of the component, as the person names it."""
    artifact_identity: str | None = None


class SourceContract(Record):
    """One version of what a source means. It is never changed; another version supersedes it."""

    kind: ClassVar[str] = "contract"

    source_namespace: str
    version: str | None
    """The `mapping_version` that imports refer to it by; None for an excerpt alone."""
    source_kind: str | None = None
    fields: tuple[ContractField, ...] = ()
    excerpt: Excerpt | None = None
    agreed_by: str | None = None
    """Who agreed, in the person's words."""
    agreed: HowConfirmed | None = None
    """How that is known; None for an excerpt alone, which means nothing by itself."""
    round_id: ObjectId | None = None
    supersedes: ObjectId | None = None
    """The newest contract of the same namespace before."""
    digest: Digest
    """Of everything that was agreed."""
    created_at: str
    """UTC, ISO 8601."""
