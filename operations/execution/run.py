"""What a supervisor does: gives slots to guardians, and confirms each attempt on the disk.

It has one thread and one guardian for each attempt that may run at the same time. It is told to stop by a line on the
server's pipe, by a file, or by a signal. The end of the pipe means that the server is gone, and everything is killed.
A write to `attempts.log` that fails ends the run, since an attempt that cannot be confirmed must not be made.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from operations.execution import processes
from operations.execution.attempts import AttemptsLog
from operations.execution.cases import CaseFile
from operations.execution.command import check_template
from operations.execution.evidence import Recorder
from operations.execution.guardian import Ended, Guardian, Settings, fork_guardian
from operations.execution.plan import STOP_FILE, RunPlan
from operations.execution.preparation import Prepared, Preparer
from operations.tuning.loading import in_the_clear
from storage.attempts import EndReason
from storage.holdout import sealed_record
from storage.masking import Masker, load_key
from storage.schema.evidence import EvidenceRecord, Slot
from storage.sealing import read_key

LOOK_SECONDS = 0.2
"""How often the supervisor looks for the file that asks it to stop."""
_OVERDUE_SECONDS = 2.0
"""How long a guardian is seen to be overdue before it is killed: one that slept as we did has to wake first."""
_DISMISSED_WITHIN_SECONDS = 5.0
_LOST_WITHIN_SECONDS = 1.0


@dataclass
class _Attempt:
    slot: Slot
    prepared: Prepared
    started_at: str
    started: float


@dataclass
class _Place:
    """Where one attempt at a time can be made."""

    guardian: Guardian
    attempt: _Attempt | None = None
    due: float = 0.0
    """When the guardian has to have answered."""
    overdue_since: float | None = None


class Run:
    """One run of a plan. `run` may be called once."""

    def __init__(self, plan: RunPlan, control: int, kept: Sequence[int], guardians: Sequence[Guardian]) -> None:
        """Opens the run's files and decides which slots are due.

        Args:
            plan: What to run.
            control: The read end of the server's pipe.
            kept: What guardians keep open: the pipe, and the server's owner lock until they are done.
            guardians: Those that were forked already. Others are forked when there are too few.

        Raises:
            AtkError: The command, the key or the log cannot be used.
            CasesUnreadable: The Cases cannot be used.
            OSError: A file cannot be opened.
        """
        check_template(plan.command)
        self._plan = plan
        self._control = control
        self._server_gone = False
        self._kept = kept
        self._recorder = Recorder(
            plan,
            Masker(load_key(plan.mask_key_path), plan.redact_keys, plan.redact_patterns, second_look=plan.second_look),
        )
        self._log = AttemptsLog(plan.attempts_path, keep_torn_in=plan.work_folder)
        known = self._log.found
        barred = known.finished | (set(known.unfinished) - set(plan.rerun_unknown_ids))
        self._pending = deque(slot for slot in plan.slots if slot.record_id not in barred)
        self._key = read_key(plan.seal_key_path) if plan.seal_key_path else None
        self._cases = CaseFile(plan.cases_path, {slot.case_id for slot in self._pending}, self._key)
        self._preparer = Preparer(plan, self._cases, self._key)
        self._settings = Settings(
            plan.working_directory,
            {**plan.environment, processes.MARKER: processes.mark(plan.work_folder)},
            plan.timeout_seconds,
            plan.grace_seconds,
            plan.max_output_bytes,
        )
        self._places: dict[int, _Place] = {}
        self._idle = [self._take(guardian) for guardian in guardians]
        self._frames: list[dict[str, Any]] = []
        self._orders: list[tuple[_Place, Mapping[str, Any]]] = []
        self._over: list[Prepared] = []
        self._infra_failures = 0
        self._spent = 0.0
        self._reason: EndReason | None = None
        self._stopping = False
        self._wakeup = -1
        self._deadline = None if plan.batch_timeout_seconds is None else time.monotonic() + plan.batch_timeout_seconds

    def run(self) -> EndReason:
        """Runs what is due and returns why it ended. Every process that was started is gone by then.

        Raises:
            OSError: The log could not be written or flushed.
        """
        processes.adopt_orphans()
        self._listen()
        gc.collect()
        gc.freeze()  # a guardian that has to be forked later shares what is here; collecting it would copy it
        try:
            while True:
                self._check_requests()
                self._check_guardians()
                self._fill()
                self._commit()
                if not any(place.attempt for place in self._places.values()):
                    break
                self._wait()
            reason = self._reason or "all_done"
            self._log.append([{"kind": "ended", "reason": reason}])
        finally:
            self._dismiss()
        return reason

    def _listen(self) -> None:
        self._wakeup, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def _check_requests(self) -> None:
        if os.path.lexists(os.path.join(self._plan.work_folder, STOP_FILE)):
            self._stop("stopped")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._stop("batch_timeout")

    def _check_guardians(self) -> None:
        """Kills a guardian that does not answer, such as one that its agent has stopped: nobody else would end it."""
        now = time.monotonic()
        for place in self._places.values():
            if place.attempt is None or now < place.due:
                place.overdue_since = None
            elif place.overdue_since is None:
                place.overdue_since = now
            elif now - place.overdue_since >= _OVERDUE_SECONDS:
                os.kill(place.guardian.pid, signal.SIGKILL)  # the end of its channel tells the rest

    def _due(self, seconds: float) -> float:
        return time.monotonic() + seconds + self._plan.grace_seconds + self._plan.answer_seconds

    def _fill(self) -> None:
        """Takes slots until everybody has one. What cannot be prepared has failed and takes no place."""
        while self._pending and self._reason is None and (place := self._place()):
            slot, at, started = self._pending.popleft(), _now(), time.monotonic()
            self._frames.append({"kind": "started", "record_id": slot.record_id, "n": slot.n, "at": at})
            try:
                prepared = self._preparer.prepare(slot)
            except (OSError, LookupError, ValueError) as trouble:
                ended = Ended("not_started", at, _now(), time.monotonic() - started, error=_words(trouble))
                self._finished(self._recorder.failure(slot, ended, "infra_error"))
                if slot.case_id in self._cases.unseen:
                    self._preparer.wipe(self._preparer.folder_of(slot))
                self._idle.append(place)
            else:
                place.attempt = _Attempt(slot, prepared, at, started)
                self._orders.append((place, prepared.order))

    def _commit(self) -> None:
        """Puts on the disk what has happened, with one flush, and only then lets the next attempts start."""
        if self._frames:
            self._log.append(self._frames)
            self._frames.clear()
        for prepared in self._over:
            self._preparer.take_back(prepared)
        self._over.clear()
        for place, order in self._orders:
            place.due = self._due(self._plan.timeout_seconds)
            place.guardian.channel.send(order)
        self._orders.clear()

    def _wait(self) -> None:
        handles = [self._wakeup, *self._places]
        if not self._server_gone:
            handles.append(self._control)
        for handle in processes.wait_readable(handles, LOOK_SECONDS):
            if handle == self._control:
                self._hear_server()
            elif handle == self._wakeup:
                os.read(handle, 64)
                self._stop("stopped")
            else:
                self._hear_guardian(self._places[handle])

    def _hear_server(self) -> None:
        if os.read(self._control, 64):
            self._stop("stopped")
        else:  # the guardians see it as well and do not wait to be told
            self._server_gone = True
            self._stop("server_gone")
            for place in self._places.values():
                place.due = min(place.due, time.monotonic() + _DISMISSED_WITHIN_SECONDS)

    def _hear_guardian(self, place: _Place) -> None:
        channel = place.guardian.channel
        for message in channel.receive():
            attempt, place.attempt = place.attempt, None
            if attempt is not None:
                ended = Ended(**message)
                self._finished(self._recorder.record(attempt.slot, ended, attempt.prepared.folder))
                if attempt.prepared.unseen or not ended.survivors:
                    self._over.append(attempt.prepared)
                self._idle.append(place)
        if channel.ended:
            self._lose(place)

    def _lose(self, place: _Place) -> None:
        """Cleans up after a guardian that was killed by somebody: nobody knows how its attempt would have ended."""
        self._forget(place)
        pid = place.guardian.pid
        status = _collect([pid], _LOST_WITHIN_SECONDS)[pid]
        swept = processes.sweep([other.guardian.pid for other in self._places.values()])
        if (attempt := place.attempt) is not None:
            ended = Ended(
                "server_gone" if self._server_gone else "cancelled",
                attempt.started_at,
                _now(),
                time.monotonic() - attempt.started,
                error=f"The guardian process of the attempt ended ({_ending(status)}), and the agent with it.",
                leftovers_killed=swept.killed,
            )
            self._finished(self._recorder.failure(attempt.slot, ended, "infra_error"))
            if attempt.prepared.unseen:
                self._over.append(attempt.prepared)

    def _finished(self, record: EvidenceRecord) -> None:
        if record.case_id in self._cases.unseen and self._key is not None:
            whole, collectors = self._cases.unseen[record.case_id], self._plan.metric_sources
            loaded = in_the_clear(record.loading_evidence or (), self._plan.component_ids)
            record = sealed_record(record, self._key, whole=whole, collectors=collectors, loaded=loaded)
        self._frames.append({"kind": "finished", "record": record.model_dump(mode="json")})
        limit = self._plan.stop_after_infra_failures
        self._infra_failures = self._infra_failures + 1 if record.execution.status == "infra_error" else 0
        if limit is not None and self._infra_failures >= limit and self._reason is None:
            self._reason = "infra_failures"
        metric = self._plan.spend_metric
        self._spent += record.metrics.get(metric, 0.0) if metric else 0.0
        if metric and self._spent >= self._plan.spend_limit and self._reason is None:
            self._reason = "spend_limit"

    def _stop(self, reason: EndReason) -> None:
        self._reason = self._reason or reason
        if not self._stopping:
            self._stopping = True
            for place in self._places.values():
                if place.attempt is not None:
                    place.due = self._due(0)
                    place.guardian.channel.send({"do": "stop"})

    def _place(self) -> _Place | None:
        """Returns a guardian with nothing to do, forking one where one may be forked."""
        if self._idle:
            return self._idle.pop()
        if len(self._places) < self._plan.concurrency:
            return self._take(fork_guardian(self._control, self._kept))
        return None

    def _take(self, guardian: Guardian) -> _Place:
        place = _Place(guardian)
        self._places[guardian.channel.handle] = place
        guardian.channel.send({"do": "know", **vars(self._settings)})
        return place

    def _forget(self, place: _Place) -> None:
        handle = place.guardian.channel.handle
        del self._places[handle]
        if place in self._idle:
            self._idle.remove(place)
        os.close(handle)

    def _dismiss(self) -> None:
        """Ends the guardians by ending their channels; whoever has not gone in time is killed, and all below."""
        pids = [place.guardian.pid for place in self._places.values()]
        for place in list(self._places.values()):
            self._forget(place)
        _collect(pids, _DISMISSED_WITHIN_SECONDS)
        processes.sweep()
        self._log.close()
        self._cases.close()


def _collect(pids: Sequence[int], seconds: float) -> dict[int, int]:
    """Waits for guardians that are about to end, kills those that do not, and returns how each ended."""
    ended: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    while len(ended) < len(pids):
        for pid in pids:
            if pid in ended:
                continue
            if time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                ended[pid] = os.waitstatus_to_exitcode(status)
        if len(ended) < len(pids):
            time.sleep(0.005)
    return ended


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _words(trouble: BaseException) -> str:
    if isinstance(trouble, LookupError):
        return str(trouble.args[0])
    return str(trouble) or type(trouble).__name__


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit code {status}"
