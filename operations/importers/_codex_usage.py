"""Counts the tokens of a Codex session once, from the best statement of them that its lines hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operations.importers._codex_lines import Line
from operations.importers._session_log import added, numbers_of


class Usage:
    """The tokens of a session and of its turns.

    A `token_usage_record` states those of one response of the model, a `token_count` those of the last response beside
    the running total, and repeats itself; a `turn.completed` of the stream states those of the whole thread or of the
    turn, by version. The first of the three that is there counts; several ends of a stream cannot be added.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.metrics: dict[str, float | int] = {}
        self.by_turn: dict[int | None, dict[str, float | int]] = {}
        self.sources: dict[str, Any] = {}
        """What goes into the metadata of the Record: who stated the tokens, and the last running total."""
        for read in (self._records, self._counts, self._stream):
            if read(lines):
                break
        if total := _last_total(lines):
            self.sources["reported_total_tokens"] = total

    def _count(self, line: Line, usage: dict[str, float | int], source: str) -> None:
        added(self.metrics, usage)
        added(self.by_turn.setdefault(line.turn, {}), usage)
        self.sources["metric_sources"] = dict.fromkeys(self.metrics, source)

    def _records(self, lines: Sequence[Line]) -> bool:
        seen: set[str] = set()
        for line in lines:
            if line.kind == "token_usage_record":
                response = line.payload.get("response_id")
                key = f"{line.payload.get('turn_id')}/{response}"
                if response is None or key not in seen:
                    seen.add(key)
                    self._count(line, numbers_of(line.payload.get("usage")), "token_usage_record")
        return bool(self.metrics)

    def _counts(self, lines: Sequence[Line]) -> bool:
        before: Any = None
        for line in lines:
            if line.kind == "event_msg" and line.type == "token_count":
                info = line.payload.get("info")
                if not isinstance(info, dict) or info == before:
                    continue
                before = info
                self._count(line, numbers_of(info.get("last_token_usage")), "token_count.last_token_usage")
        return bool(self.metrics)

    def _stream(self, lines: Sequence[Line]) -> bool:
        ends = [line for line in lines if line.kind == "exec" and line.type == "turn.completed"]
        if len(ends) == 1:
            self._count(ends[0], numbers_of(ends[0].payload.get("usage")), "turn.completed")
        return bool(self.metrics)


def _last_total(lines: Sequence[Line]) -> dict[str, float | int]:
    for line in reversed(lines):
        info = line.payload.get("info") if line.kind == "event_msg" and line.type == "token_count" else None
        if isinstance(info, dict) and (total := numbers_of(info.get("total_token_usage"))):
            return total
    return {}
