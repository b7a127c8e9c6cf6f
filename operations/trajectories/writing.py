"""Writes a log line by line while the agent works, so that a crash leaves all that was written before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from operations.trajectories.form import problem_of_tools
from operations.trajectories.log import Chain, LogProblem, ending, heading, taken
from storage.schema.event_order import EventOrder


class LogWriter:
    """Holds events to the rules of a log and hands each on as a line; only their names stay in memory.

    A file that was never ended lacks its last line: `EventLog.from_lines` refuses it, `verified` reads what is there.
    """

    def __init__(self, write: Callable[[bytes], object], tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Writes the heading.

        Args:
            write: Takes each line, such as the `write` of a file that was opened in binary mode without a buffer.
            tools: As `EventLog` takes them.

        Raises:
            LogProblem: `tools` is something else.
        """
        if problem := problem_of_tools(tools):
            raise LogProblem(problem)
        self._write = write
        self._chain = Chain()
        self._order = EventOrder()
        self._stopped: str | None = None
        self._hand_on(heading(tools))

    def append(self, event: Mapping[str, Any]) -> int:
        """Writes an event and returns its `seq`.

        Raises:
            LogProblem: As `EventLog.append`. Nothing was written.
        """
        self._go_on()
        self._hand_on({"event": taken(event, self._order, parents_first=True)})
        return self._order.count - 1

    def end(self, state: str, reason: str | None = None) -> None:
        """Writes how the run ended; nothing can follow.

        Raises:
            LogProblem: As `EventLog.end`. Nothing was written.
        """
        self._go_on()
        if state == "running":
            raise LogProblem("running is no end of a run")
        self._hand_on(ending(state, reason, self._order.count))
        self._stopped = "the run has ended"

    def _go_on(self) -> None:
        if self._stopped:
            raise LogProblem(f"{self._stopped}; nothing can follow")

    def _hand_on(self, body: Mapping[str, Any]) -> None:
        line = self._chain.line(body)
        try:
            self._write(line)
        except BaseException:
            self._stopped = "a line could not be written whole"  # what came after it would not fit to it
            raise
