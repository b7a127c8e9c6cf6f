"""Keeps a run company: waits for its supervisor, seals the batch, and follows it for whoever asks.

Sealing is the recovery that every open does, so a run whose keeper dies is sealed by the next call of any process.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from operations.execution import measuring, processes
from operations.execution.adapters.process import AgentProcess
from operations.execution.attempts import AttemptsLog
from operations.execution.launch import launch
from operations.execution.plan import STOP_FILE
from operations.execution.preparing import prepare
from operations.execution.sweeping import clear_attempts, sweep_dead
from operations.tuning import advice, independence
from operations.tuning.batches import finishing, has_records
from storage.attempts import FILE, AttemptsFollower, EndReason, read_attempts
from storage.errors import AtkError, NextCall
from storage.frames import canonical
from storage.lock import ProjectBusy
from storage.owners import Owner, is_alive
from storage.project import Project
from storage.runs import NOT_THE_REVISIONS, REMARKS
from storage.schema.assessments import Judger
from storage.schema.batches import Batch
from storage.schema.projects import Preparation
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Round
from storage.transaction import Call

LOOK_SECONDS = 0.1
"""How often a run is looked at while somebody waits for it."""

_kept: dict[str, threading.Thread] = {}
_mishaps: dict[str, list[str]] = {}
"""What went wrong after a run had ended, by batch: whoever waits for the batch is told."""
_guard = threading.Lock()
_locks: dict[str, threading.Lock] = {}


@dataclass(frozen=True)
class Followed:
    """A batch as somebody who waited finds it."""

    batch: Batch
    counts: dict[str, int]
    """Confirmed Executions by status."""
    alive: bool
    """Whether it still runs."""
    spent: float | None = None
    """The sum of the metric that the run has a limit of, over all its Records, as far as they report it."""
    successor_id: str | None = None
    """The batch that continues or retries it."""
    round: Round | None = None
    """The Round whose plan says how it is judged."""
    dealt: NextCall | None = None
    """What is next for that Round, where the client judges both sides of it together."""


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A run that is recorded and whose content is in place: what its company needs."""

    batch_id: str
    plan_path: str
    owner: Owner
    configuration: ProjectRecord
    process: AgentProcess
    tree: str
    commit: str
    back: tuple[str, str] | None
    """The tree and commit that the worktree has after the run, where they are others."""
    root: str
    """Where the Revision's content is."""
    preparation: Preparation


def keep(project: Project, call: Call, begun: Begun) -> None:
    """Starts a thread that prepares the runtime, runs the supervisor, and seals the batch when it has ended.

    Raises:
        OSError: There is no room for a thread. The batch is sealed without an attempt.
    """
    thread = threading.Thread(target=_see_through, args=(project, call, begun), name=begun.batch_id, daemon=True)
    try:
        thread.start()
    except RuntimeError as trouble:
        _never_began(project, begun, "no thread could be started")
        _leave(project, call, begun)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from trouble
    _kept[begun.batch_id] = thread


def _see_through(project: Project, call: Call, begun: Begun) -> None:
    try:
        # Where the folder is gone or the disk refuses, whoever asks next finds a run that ended, and is told why.
        with suppress(AtkError, OSError):
            _run(project, begun)
    finally:
        _leave(project, call, begun)


def _leave(project: Project, call: Call, begun: Begun) -> None:
    """Seals the batch, and lets the runtime follow the worktree back where the run had put another Revision there."""
    if begun.back is None:
        begun.owner.release()
        _settled(project, call, begun.batch_id)
        return
    with _preparing(project):  # the next run may begin once this one is sealed, and has to prepare after it
        begun.owner.release()
        if _settled(project, call, begun.batch_id):
            _prepare_again(project, begun, begun.back)


def _preparing(project: Project) -> threading.Lock:
    with _guard:
        return _locks.setdefault(project.root, threading.Lock())


def _run(project: Project, begun: Begun) -> None:
    """Measures the runtime before and after the run. Whatever goes wrong is kept for whoever seals the batch."""
    work = os.path.dirname(begun.plan_path)
    stop = os.path.join(work, STOP_FILE)
    try:
        with _preparing(project):
            measured = measuring.begin(
                begun.configuration,
                begun.process,
                root=begun.root,
                work_folder=work,
                tree=begun.tree,
                commit=begun.commit,
                masker=project.masker,
                preparation=begun.preparation,
                cancelled=lambda: os.path.lexists(stop),
            )
    except (AtkError, OSError) as trouble:
        _never_began(project, begun, str(trouble))
        return
    if not measured.ready:
        _end_log(project, begun, "stopped" if os.path.lexists(stop) else "not_prepared")
        return
    why: str | None = None
    try:
        _supervise(begun)
    except OSError as trouble:
        why = str(trouble)
    finally:
        processes.sweep_batch(work)
        with suppress(OSError):  # findings that do not say that they ended are read as such
            measured.end()
        if why is not None:  # after the measurement's end, which would write over it
            _never_began(project, begun, why)
        _remark(project, begun.batch_id)
        clear_attempts(project, begun.batch_id)


def _supervise(begun: Begun) -> None:
    handle = launch(begun.plan_path, begun.owner.fd)
    try:
        handle.wait()
        if handle.returncode == processes.NOT_BEGUN:
            raise OSError(handle.last_words)
    finally:
        handle.close()


def _never_began(project: Project, begun: Begun, reason: str) -> None:
    with suppress(OSError):  # the disk refuses; the batch is sealed without a word on why
        measuring.not_begun(os.path.dirname(begun.plan_path), reason.rstrip("."), project.masker)
    _end_log(project, begun, "not_prepared")


def _end_log(project: Project, begun: Begun, reason: EndReason) -> None:
    """Says in the run's log why no supervisor was started."""
    with suppress(OSError, AtkError):  # without a reason the batch is sealed as one whose server is gone
        path = project.store.full(f"evidence/{begun.batch_id}/{FILE}")
        log = AttemptsLog(path, keep_torn_in=os.path.dirname(begun.plan_path))
        try:
            log.append([{"kind": "ended", "reason": reason}])
        finally:
            log.close()


def _settled(project: Project, call: Call, batch_id: str) -> bool:
    for _ in range(10):
        try:
            project.settle(call)
            trouble = _unsealed(project, batch_id)
            for mishap in project.mishaps:
                _happened(batch_id, mishap)
        except ProjectBusy:  # somebody holds the lock for long; their own recovery seals it as well
            continue
        except (AtkError, OSError) as error:
            trouble = error
        if trouble is not None:
            # What stands in the way for good is reported to whoever asks next, whose call recovers first. Where that
            # call can seal the batch, this is all that is said of a disk that failed once.
            _happened(batch_id, f"The Records could not be sealed at first, but by the next call: {trouble}")
        return trouble is None
    return False


def _unsealed(project: Project, batch_id: str) -> Exception | None:
    """Returns what the recovery just made says is in the way of sealing a batch."""
    run = project.state().runs.get(batch_id)
    return next((found.error for found in project.unresolved if run and found.number == run.number), None)


def _happened(batch_id: str, what: str) -> None:
    _mishaps.setdefault(batch_id, []).append(what)


def _prepare_again(project: Project, begun: Begun, back: tuple[str, str]) -> None:
    """Lets the runtime follow the worktree back to the content that it had before the run."""
    spec = begun.preparation
    if spec.mode == "stateless":
        return
    try:
        with prepare(
            spec,
            tree=back[0],
            commit=back[1],
            cwd=begun.process.working_directory,
            environment=begun.process.environment,
            masker=project.masker,
        ) as prepared:
            notes = prepared.result.notes
    except OSError as trouble:
        notes = (f"No process could be started: {trouble.strerror}.",)
    if notes:
        _happened(begun.batch_id, f"The runtime did not follow the worktree back after the run: {notes[0]}")


def _remark(project: Project, batch_id: str) -> None:
    """Keeps what the Records say about one another, for whoever seals the batch."""
    state = project.state()
    value = state.find(Round, state.get(Batch, batch_id).round_id)
    repeatability = value.plan.repeatability if value and value.plan else "unknown"
    attempts = read_attempts(project.store.full(f"evidence/{batch_id}/{FILE}"))
    said = independence.remarks(map(independence.Answer.of, attempts.in_order()), repeatability)
    if said:
        project.store.make_folders(f"work/{batch_id}", durable=False)
        project.store.replace(f"work/{batch_id}/{REMARKS}", canonical(list(said)))


def follow(  # noqa: PLR0913 - who waits, for what, and how it hears of it
    project: Project,
    call: Call,
    batch_id: str,
    *,
    seconds: float,
    progress: Callable[[float, float | None, str], None],
    stop_waiting: Callable[[], bool] = lambda: False,
    stop: bool = False,
) -> Followed:
    """Waits until a batch is sealed, at most `seconds`. A run whose processes are gone is sealed here.

    With `stop` the run is asked to end, again at every look: one that has just been recorded forgets what it was
    asked before its supervisor starts.

    Raises:
        UnknownObject: There is no such batch.
        AtkError: The run cannot be sealed; the error says what is in the way.
    """
    follower = AttemptsFollower(project.store.full(f"evidence/{batch_id}/{FILE}"))
    end = time.monotonic() + seconds
    shown = -1
    while True:
        state = project.state()
        batch = state.get(Batch, batch_id)
        run = state.runs.get(batch_id)
        if run is None:
            if (thread := _kept.get(batch_id)) is not None and thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
            followed = next((b.id for b in state.all(Batch) if b.supersedes_batch_id == batch_id), None)
            spent = _spent(batch, batch.totals)
            counts, of = dict(batch.counts), None if batch.round_id is None else state.get(Round, batch.round_id)
            dealt = advice.of_state(state, of)[0] if advice.is_dealt(of, state.all(Judger)) else None
            return Followed(batch, counts, alive=False, spent=spent, successor_id=followed, round=of, dealt=dealt)
        seen = follower.update()
        counts = dict(seen.counts)
        done = sum(counts.values())
        if done > shown:
            progress(done, batch.slots, f"{done} of {batch.slots} attempts")
            shown = done
        if not is_alive(project.store, run.owner):
            try:
                _seal(project, call, batch_id)
            except ProjectBusy:  # who holds the lock seals it as well
                if time.monotonic() >= end or stop_waiting():
                    return Followed(batch, counts, alive=True, spent=_spent(batch, seen.totals))
            continue
        if stop:
            _request_stop(project, batch_id)
        if time.monotonic() >= end or stop_waiting():
            return Followed(batch, counts, alive=True, spent=_spent(batch, seen.totals))
        time.sleep(LOOK_SECONDS)


def _seal(project: Project, call: Call, batch_id: str) -> None:
    sweep_dead(project)
    _remark(project, batch_id)
    project.settle(call)
    if (trouble := _unsealed(project, batch_id)) is not None:
        raise trouble


def _request_stop(project: Project, batch_id: str) -> None:
    """Asks the supervisor of a run to stop, whichever process started it."""
    path = os.path.join(project.store.full(f"work/{batch_id}"), STOP_FILE)
    with suppress(FileNotFoundError):  # the run has not come to its folder yet, or has left it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def summary(found: Followed) -> dict[str, Any]:
    """Returns the counts of a batch for a response."""
    return {"planned": found.batch.slots, "done": sum(found.counts.values()), **found.counts}


def _spent(batch: Batch, totals: Mapping[str, float]) -> float | None:
    return None if batch.spend_limit is None else totals.get(batch.spend_limit.metric)


def spending(found: Followed) -> dict[str, Any] | None:
    """Returns the limit of what a run may spend, whose figures that rests on, and what all its Records report."""
    limit = found.batch.spend_limit
    return None if limit is None else {**limit.model_dump(mode="json"), "spent": found.spent}


def warnings(found: Followed) -> list[str]:
    """Returns what somebody who reads the status of a batch has to be told besides."""
    batch = found.batch
    said = [] if found.alive else list(_mishaps.get(batch.id, ()))
    limit = batch.spend_limit
    if limit is not None and limit.trust == "self_reported":
        said.append(f"The limit of {limit.metric} rests on what the agent itself reports; no collector is declared.")
    if limit is not None and not found.alive and not batch.reported.get(limit.metric):
        said.append(f"No attempt reported {limit.metric}, so that limit could not stop anything.")
    stopped = {
        "infra_failures": f"The run stopped itself after {batch.stop_after_infra_failures} infrastructure "
        f"{'failure' if batch.stop_after_infra_failures == 1 else 'failures in a row'}. Mend what failed before it is "
        "continued.",
        "not_prepared": "The runtime could not be prepared, so no attempt was made.",
        "spend_limit": "The run stopped itself at its spend limit.",
        "batch_timeout": "The run was ended at its batch_timeout_seconds.",
    }
    if batch.end_reason in stopped:
        said.append(stopped[batch.end_reason])
    if batch.status == "contaminated" and any(note.endswith(NOT_THE_REVISIONS) for note in batch.notes):
        said.append(
            "Files were changed while the run went on. If the agent or its preparation does that, each further "
            "run will be contaminated as well: let it write to {output_dir}, or have Git ignore what it writes."
        )
    return said


def leads_on(found: Followed) -> list[NextCall]:
    """Returns what to do next about a batch: follow it, finish it, or judge it."""
    batch, named = found.batch, {"batch_id": found.batch.id}
    if found.alive:
        return [NextCall("wait_for_batch", named), NextCall("stop_batch", named)]
    if found.successor_id is not None:
        return [NextCall("wait_for_batch", {"batch_id": found.successor_id})]
    judge, read = advice.judging(found.round, batch.id), NextCall("read_record", {"record_id": batch.id})
    if batch.status == "sealed":
        return [found.dealt or judge, read]
    plan = found.round.plan if found.round else None
    finish = finishing(batch, retries=plan.max_retries_per_slot if plan else None)
    judging = [judge] if has_records(batch) else []
    if finish is None:
        return [*judging, read]
    return [*judging, finish, read] if "retry_batch_id" in finish.arguments else [finish, *judging, read]
