"""Turns what an attempt left into its Record: decoded, cut to its bounds, masked."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from operations.execution import leftovers
from operations.execution.guardian import Ended
from operations.execution.plan import RunPlan
from operations.execution.preparation import asked
from operations.wording import counted
from storage.masking import Masker
from storage.schema.evidence import EvidenceRecord, Execution, ExecutionStatus, FieldStatus, Slot

STDERR_TAIL_BYTES = 16 * 1024
"""How much of stderr's end becomes part of the Record."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_WHITE = " \t\r\n"
_EDGE = 4096
"""Where a text was cut, its last word is dropped, up to so many characters: half a secret would not be masked."""

T = TypeVar("T")


@dataclass(frozen=True)
class Text:
    """Decoded bytes, and how many of them were not UTF-8 and are shown as U+FFFD."""

    text: str
    replaced_bytes: int = 0


AGENT_ITSELF = "agent_sidecar"
"""Who measured what the agent reports and no collector: diagnostic only."""


@dataclass
class _Left:
    """What one attempt left, as far as it could be used."""

    output: Text | None = None
    output_status: FieldStatus = "unparsable"
    stderr: Text = field(default_factory=lambda: Text(""))
    loading: list[dict[str, Any]] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    """Masked."""
    metrics: dict[str, float] = field(default_factory=dict)
    metric_sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Recorder:
    """Makes the Records of one run."""

    plan: RunPlan
    masker: Masker

    @cached_property
    def _asked(self) -> frozenset[str]:
        return asked(self.plan.command)

    def record(self, slot: Slot, ended: Ended, folder: str) -> EvidenceRecord:
        """Returns the Record of an attempt that a guardian made in `folder`; whatever lies there, it returns one."""
        status = status_of(ended, self.plan.infrastructure_exit_codes)
        if ended.end == "not_started":
            return self.failure(slot, ended, status)
        try:
            return self._record(slot, ended, status, self._left(ended, folder))
        except Exception as trouble:  # noqa: BLE001 - one attempt's evidence must not end the attempts of others
            error = f"What the attempt left could not be made into evidence: {type(trouble).__name__}."
            known = status if status in {"timeout", "cancelled"} else "infra_error"
            return _bare(slot, _execution(slot, ended, known, error), "unparsable")

    def failure(self, slot: Slot, ended: Ended, status: ExecutionStatus) -> EvidenceRecord:
        """Returns the Record of an attempt whose process never ran, or whose ending nobody saw."""
        return _bare(slot, _execution(slot, ended, status, self._masked(ended.error)), "not_exported")

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else self.masker.text(text)

    def _left(self, ended: Ended, folder: str) -> _Left:
        left = _Left(notes=_notes(ended, self.plan.max_output_bytes))
        limit = self.plan.stored_output_bytes
        data = _stream("stdout", ended.stdout, left.notes, lambda: leftovers.read(folder, "stdout", limit))
        if data is None:
            left.notes.append("The agent's stdout was removed or replaced while it ran; the Record has no output.")
        else:
            data = data[:limit]
            cut = ended.stdout_bytes > len(data)
            left.output = start_of(data, cut=cut or ended.stdout_full)
            left.output_status = "value" if data else "empty"
            if cut:
                left.notes.append(
                    f"The output has {ended.stdout_bytes} bytes; the Record has the first {limit} at most."
                )
        end = STDERR_TAIL_BYTES
        tail = _stream("stderr", ended.stderr, left.notes, lambda: leftovers.read(folder, "stderr", end, from_end=True))
        left.stderr = end_of((tail or b"")[-end:], cut=ended.stderr_bytes > end)
        self._side_files(left, folder)
        return left

    def _side_files(self, left: _Left, folder: str) -> None:
        """Reads what the agent may have written beside its output, where its command asked for a place to do so."""
        if "output_dir" in self._asked:
            output = os.path.join(folder, "output")
            left.loading = _usable("loading.json", left.notes, lambda: leftovers.loading(output))
            left.metrics = _usable("metrics.json", left.notes, lambda: leftovers.metrics(output)) or {}
            if left.metrics:
                named = _usable("metrics.json", left.notes, lambda: leftovers.metric_sources(output)) or {}
                left.metric_sources = {name: named.get(name, AGENT_ITSELF) for name in left.metrics}
        if "events_file" in self._asked:
            events, notes = _usable(leftovers.EVENTS, left.notes, lambda: leftovers.events(folder)) or ([], [])
            left.notes.extend(notes)
            left.events = self._masked_events(events, left.notes)

    def _masked_events(self, events: list[dict[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
        """Returns events masked; one in which something was loses its tokens, which are its text in other numbers."""
        masked: list[dict[str, Any]] = self.masker.value(events)
        telling = [after for before, after in zip(events, masked, strict=True) if "tokens" in after and before != after]
        for event in telling:
            del event["tokens"]
        if telling:
            some = counted(len(telling), "event")
            notes.append(f"The tokens of {some} in {leftovers.EVENTS} are not kept: they would say what is masked.")
        return masked

    def _record(self, slot: Slot, ended: Ended, status: ExecutionStatus, left: _Left) -> EvidenceRecord:
        execution = _execution(
            slot,
            ended,
            status,
            self._masked(ended.error),
            stdout_truncated=ended.stdout_bytes > self.plan.stored_output_bytes or ended.stdout_full,
            stderr_truncated=ended.stderr_bytes > STDERR_TAIL_BYTES or ended.stderr_full,
        )
        return EvidenceRecord(
            **_identity(slot),
            output=self._masked(None if left.output is None else left.output.text),
            output_status=left.output_status,
            output_replaced_bytes=0 if left.output is None else left.output.replaced_bytes,
            stderr_tail=self.masker.text(left.stderr.text),
            loading_evidence=None if left.loading is None else tuple(self.masker.value(left.loading)),
            metrics={"duration_seconds": ended.seconds, **left.metrics},
            metric_sources={"duration_seconds": "supervisor", **self.masker.value(left.metric_sources)},
            notes=tuple(self.masker.text(note) for note in left.notes),
            events=tuple(left.events),
            execution=execution,
        )


def status_of(ended: Ended, infrastructure_exit_codes: tuple[int, ...]) -> ExecutionStatus:
    """Returns what an ending says. Only a process that ended by itself can say something about the agent."""
    if ended.end in {"cancelled", "server_gone"}:
        return "cancelled"
    if ended.end == "not_started" or ended.error is not None:
        return "infra_error"
    if ended.end == "timeout":
        return "timeout"
    if ended.exit_code == 0:  # many programs take a closed pipe for a reader that has enough
        return "agent_error" if ended.stdout_full or ended.stderr_full else "completed"
    return "infra_error" if ended.exit_code in infrastructure_exit_codes else "agent_error"


def start_of(data: bytes, *, cut: bool) -> Text:
    """Returns the beginning of a text as UTF-8. When it was `cut`, its last character and word may be incomplete."""
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, final=not cut)
    if cut:
        edge = max(text.rfind(white, max(0, len(text) - _EDGE)) for white in _WHITE)
        text = text[: edge + 1] if edge >= 0 else text[: max(0, len(text) - _EDGE)]
    return _replaced(text)


def end_of(data: bytes, *, cut: bool) -> Text:
    """Returns the end of a text as UTF-8. When it was `cut`, its first word may be incomplete."""
    if cut:
        edge = re.search(rb"\s", data[:_EDGE])
        data = data[edge.end() if edge else _EDGE :]
    return _replaced(data.decode("utf-8", "surrogateescape"))


def _replaced(text: str) -> Text:
    return Text(*_NOT_UTF8.subn("\ufffd", text))


def _stream(name: str, text: str | None, notes: list[str], look: Callable[[], bytes | None]) -> bytes | None:
    """Returns a stream's bytes: those that the guardian handed on, or of its file."""
    return _usable(name, notes, look) if text is None else text.encode("utf-8", "surrogateescape")


def _usable(name: str, notes: list[str], look: Callable[[], T]) -> T | None:
    try:
        return look()
    except leftovers.Unusable as why:
        notes.append(f"{name} is not used: {why}.")
        return None


def _notes(ended: Ended, limit: int) -> list[str]:
    notes: list[str] = []
    if ended.leftovers_killed:
        notes.append(f"Of the processes that the agent had started, {ended.leftovers_killed} had to be killed.")
    if ended.survivors:
        notes.append(f"Processes of the agent that could not be killed: {ended.survivors}.")
    notes.extend(
        f"{name} reached its limit of {limit} bytes; the agent could write no more."
        for name, full in (("stdout", ended.stdout_full), ("stderr", ended.stderr_full))
        if full
    )
    return notes


def _identity(slot: Slot) -> dict[str, Any]:
    return {
        "id": slot.record_id,
        "n": slot.n,
        "case_id": slot.case_id,
        "case_fingerprint": slot.case_fingerprint,
        "repeat": slot.repeat,
    }


def _bare(slot: Slot, execution: Execution, status: FieldStatus) -> EvidenceRecord:
    return EvidenceRecord(**_identity(slot), output=None, output_status=status, execution=execution)


def _execution(  # noqa: PLR0913 - the slot, its ending and what is kept of it
    slot: Slot,
    ended: Ended,
    status: ExecutionStatus,
    error: str | None,
    *,
    stdout_truncated: bool = False,
    stderr_truncated: bool = False,
) -> Execution:
    return Execution(
        status=status,
        exit_code=ended.exit_code,
        signal=ended.signal,
        end=ended.end,
        error=error,
        started_at=datetime.fromisoformat(ended.started_at),
        ended_at=datetime.fromisoformat(ended.ended_at),
        duration_seconds=ended.seconds,
        leftovers_killed=ended.leftovers_killed,
        stdout_bytes=ended.stdout_bytes,
        stderr_bytes=ended.stderr_bytes,
        stdout_truncated=stdout_truncated,
        stderr_truncated=stderr_truncated,
        retry_of=slot.retry_of,
    )
