"""An exposure: how source groups of holdout Cases came to be seen, after which they are no fresh holdout any more."""

from __future__ import annotations

from typing import ClassVar, Literal

from storage.schema.base import Digest, ObjectId, Record

HowExposed = Literal["final_run", "known_input", "knowledge"]
"""`final_run`: a Round ran them at its end. `known_input`: stored evidence or a Case that is no holdout has the same
input. `knowledge`: a lesson was drawn from them."""


class Exposure(Record):
    """Source groups that were seen, by what, and from when on."""

    kind: ClassVar[str] = "exposure"

    how: HowExposed
    source_groups: tuple[str, ...]
    dataset_id: ObjectId | None
    """The dataset whose holdout Cases they are of, where it is one dataset's."""
    case_fingerprints: tuple[Digest, ...] = ()
    round_id: ObjectId | None = None
    batch_id: ObjectId | None = None
    """The final run that began it. Contents open once both final sides of its Round are sealed."""
    seen_in: tuple[str, ...] = ()
    """Ids of the Records, Cases or Knowledge by which they were known; the first few."""
    created_at: str
