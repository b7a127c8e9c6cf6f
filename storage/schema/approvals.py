"""Approvals: what a person was asked, and what they said."""

from __future__ import annotations

from typing import ClassVar, Literal

from storage.schema.base import Digest, Record

HowConfirmed = Literal["reported_by_client", "confirmed_in_client", "approved_in_terminal"]
"""How it is known that a person allowed something: the client says so, the person answered the client's question about
it, or the person approved it in a terminal."""


class Approval(Record):
    """One question to a person, and its answer. An approval serves for one call."""

    kind: ClassVar[str] = "approval"

    status: Literal["open", "approved", "declined", "used"]
    operation: str
    """What asked."""
    subject: str
    """The id of the object that it is about."""
    question: str
    """As the person reads it, masked."""
    question_digest: Digest
    """Of the operation and of everything that the answer depends on: when any of it changes, it is another question."""
    asked_at: str
    answered_at: str | None = None
