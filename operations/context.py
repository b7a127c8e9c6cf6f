"""What a handler is given besides its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from storage.project import Project
from storage.transaction import Call, Transaction


def _silent(done: float, total: float | None, note: str) -> None:
    """Reports progress to nobody."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """One call of one operation: where it works, when it began, and how it reports and is stopped."""

    root: str
    """The project's folder, absolute and without links."""

    now: datetime
    call: Call
    """What the journal will say about this call: operation, masked arguments, their digest, request id."""

    progress: Callable[[float, float | None, str], None] = _silent
    """Called with (done, total or None, a short note)."""

    cancelled: Callable[[], bool] = field(default=lambda: False)
    """Whether the caller has given up this call."""

    stays: bool = False
    """Whether the caller stays until a run ends (a terminal does, a server's client does not)."""

    handle: str | None = None
    """The id under which others follow and stop this call, where a process was started to carry it out."""

    confirmed: frozenset[str] = frozenset()
    """Digests of the questions that the person behind the call has said yes to, since it was made."""

    can_ask: bool = False
    """Whether the person behind the call can be asked now."""

    @property
    def project(self) -> Project:
        """The project. Raises `ProjectNotInitialized` where there is none."""
        return Project.open(self.root)

    def transaction(self) -> Transaction:
        """Returns the door to a change: lock, catch up, recover, then decide and commit."""
        return self.project.transaction(self.call)

    @property
    def timestamp(self) -> str:
        """The time of this call as UTC ISO-8601 with microseconds."""
        return self.now.isoformat(timespec="microseconds")

    def argument(self, name: str) -> Any:  # noqa: ANN401 - arguments are JSON
        """Returns one masked argument of this call."""
        return self.call.arguments.get(name)
