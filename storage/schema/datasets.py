"""A dataset: an immutable set of Cases, and what one Case holds."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storage.schema.base import CaseId, Digest, Record, Value

Usage = Literal["optimization", "protection", "holdout"]
"""What a Case may be used for: to find a change, to guard against harm, or to judge blindly at the end."""


class Attachment(Value):
    """A file that belongs to a Case's input."""

    path: str
    """Relative to the project's folder, in which it always lies."""
    sha256: Digest
    bytes: Annotated[int, Field(ge=0)]
    """Size in bytes."""


class CaseSource(Value):
    """Where a Case was read."""

    path: str
    """The source file's name, without its folders."""
    row: Annotated[int, Field(ge=1)]
    """The row of data, from 1: a CSV's header is not counted, nor is a blank line of JSONL."""


class Case(Value):
    """One task: an input, perhaps an expected answer, and what it may be used for.

    Inputs are kept as they are, because the agent needs them; they are masked in answers.
    """

    id: CaseId
    input: Any
    """Any JSON value, kept as it was given, even half a surrogate pair."""
    expected_present: bool
    """Whether there is an expected answer. An expected answer may itself be null."""
    expected: Any
    usage: Usage
    source_group_id: str | None
    """Cases of one group stem from one source and are never split between holdout and other usage."""
    initial_conditions: Any
    attachments: tuple[Attachment, ...]
    source: CaseSource
    fingerprint: Digest
    """Identity of the content: the digest of everything but `source`, with attachments by name and digest."""


class Dataset(Record):
    """An immutable set of Cases, read from one source file."""

    kind: ClassVar[str] = "dataset"

    source_name: str
    """The source file's name, without its folders."""
    source_sha256: Digest
    cases_sha256: Digest
    """Digest of `cases.jsonl`."""
    case_count: Annotated[int, Field(ge=1)]
    usage_counts: dict[Usage, int]
    mapping: dict[str, str]
    """Which column each field of a Case was read from."""
    created_at: str
    """UTC, ISO 8601."""
    attachment_bytes: Annotated[int, Field(ge=0)] = 0
    """Size of all attachments in bytes."""
    kept_attachments: Annotated[int, Field(ge=0)] = 0
    """How many different files its folder `attachments/` keeps, each named by its SHA-256. 0 also for a dataset whose
    attachments were only referred to: an attempt then reads them where the project has them."""
