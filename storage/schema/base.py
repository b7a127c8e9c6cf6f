"""What every record shares, and the words that all of them use."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, StringConstraints

FORMAT = 1
"""The number that a store's layout carries. An older one is migrated by a command, a newer one refused."""

ID_GRAMMAR = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""The grammar of every id that ATK issues, checked before an id becomes part of a path."""

ObjectId = Annotated[str, StringConstraints(pattern=ID_GRAMMAR)]
CaseId = Annotated[str, StringConstraints(min_length=1, max_length=512)]
"""The user's own name for a Case: any printable text, never a path."""
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""A full Git object id, SHA-1 or SHA-256."""


class Value(BaseModel):
    """A frozen part of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(Value):
    """A stored object. It is never edited: a newer one of the same id supersedes it, and the journal keeps both."""

    kind: ClassVar[str]
    as_given: ClassVar[bool] = False
    """Whether it is kept as it was given: then its operation refuses credentials in it."""

    id: ObjectId
