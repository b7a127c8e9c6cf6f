"""Sealing a run: its confirmed Executions become immutable evidence, and the worktree is as it was before.

The same code runs when a run ends and when its server has died, so a crash loses nothing that was confirmed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from storage import checkpoints, effects
from storage.attempts import FILE, Attempts, read_attempts
from storage.errors import AtkError
from storage.files import Stored, StoreDamaged
from storage.frames import canonical
from storage.git import GitFailed
from storage.projection import OpenRun, State
from storage.schema.batches import Batch, BatchStatus
from storage.schema.projects import Project as ProjectRecord
from storage.schema.projects import RuntimeFindings
from storage.worktree import Head, Surroundings, read_head, steered, surroundings

if TYPE_CHECKING:
    from storage.git import Git
    from storage.project import Project

RECORDS = "records.jsonl"
FINDINGS = "runtime.json"
"""In the run's work folder: what was found about the runtime around it (RuntimeFindings)."""
REMARKS = "remarks.json"
"""Beside it: sentences about what its Records say of one another."""
SEEN = "seen.json"
"""Beside it: what was not the Revision's when the run had ended, kept before the worktree is put back."""
NOT_THE_REVISIONS = "was not the Revision's when the run had ended"
"""How the note ends that names a path which was changed during a run."""
NOTE_LIMIT = 20


def sealed_body(project: Project, state: State, run: OpenRun, *, restore: bool = True) -> dict[str, Any]:
    """Restores the worktree, writes `records.jsonl`, and returns the journal record that seals the batch.

    An isolated run's folder is looked at and left to `clear_work`: it can hold nothing up.

    With `restore` false the worktree is left as it is, and the batch is contaminated.

    Raises:
        AtkError: The worktree holds content that is neither the run's nor the one before it; nothing was changed.
    """
    batch = state.get(Batch, run.batch_id)
    if batch.holdout_case_ids:
        _clear_slots(project, batch)
    attempts = read_attempts(project.store.full(f"evidence/{batch.id}/{FILE}"))
    if attempts.tail.state == "damaged":
        place = f" at byte {attempts.tail.offset}"
        raise StoreDamaged(path=attempts.path, place=place, reason=attempts.tail.reason)
    files = _log(project, batch, attempts)
    changed = [] if "isolated" in run.details else _restored(project, run, files, restore=restore)
    if "isolated" in run.details and _made(batch, attempts):
        changed = _apart_differs(project, run)
    if restore and attempts.ended is None and not _began(batch, attempts):
        changed = []  # it died before the worktree was the Revision's, and no agent has seen that
    stored = _write_records(project, batch.id, attempts)
    around = _around(project, state, run, attempts)
    sealed = _sealed(project, batch, attempts, stored, changed, around)
    files = {f"evidence/{batch.id}/{RECORDS}": stored, **files}
    return {
        "kind": "run_sealed",
        "op": "run_evaluation",
        "at": run.at,
        "batch_id": batch.id,
        "objects": {"batch": {batch.id: sealed.model_dump(mode="json")}},
        "files": {path: {"sha256": found.sha256, "size": found.size} for path, found in files.items()},
        "response": {},
    }


def _log(project: Project, batch: Batch, attempts: Attempts) -> dict[str, Stored]:
    """Returns the log of the run by its path, flushed."""
    log = f"evidence/{batch.id}/{FILE}"
    if not project.store.exists(log):  # there is none when nothing began
        return {}
    return {log: project.store.digest(log) if attempts.ended else project.store.flushed_anew(log)}


def worktree_differs(git: Git, details: Mapping[str, Any], scratch: str) -> list[str]:
    """Returns the paths in which the worktree is not what the run's Revision says, surroundings included."""
    before = Surroundings.model_validate(details["surroundings"])
    found = [c.path for c in checkpoints.draft_changes(git, details["commit"], before, scratch, at_head=False)]
    now = surroundings(git, list(details["inputs"])).inputs
    own = {change["path"] for change in details.get("own_changes", ())}
    found += [p for p in {*before.inputs, *now} if before.inputs.get(p) != now.get(p) and p not in own]
    return sorted(set(found))


def _restored(project: Project, run: OpenRun, log: Mapping[str, Stored], *, restore: bool) -> list[str]:
    """Puts back what lay in the worktree before the run, and returns what was not the Revision's."""
    with project.git() as git, project.scratch(f"seal-{run.owner}") as scratch:
        ended = {path: stored.sha256 for path, stored in log.items()}
        seen = changed = _seen(project, run, ended)
        if changed is None:
            changed = worktree_differs(git, run.details, scratch)
            if "steering" in run.details:
                changed += steered(git, run.details["steering"])
        if not restore:
            return changed or ["(the worktree was left as it was)"]
        if run.details.get("switch"):
            if seen is None:  # what is kept is never written again: killed in that, the next try saw what was put back
                _keep_seen(project, run, ended, changed)
            effects.make_it_so(git, [run.details["switch_back"]], since_ns=0, scratch=scratch)
    return changed


def _seen(project: Project, run: OpenRun, ended: Mapping[str, str]) -> list[str] | None:
    """Returns what an unfinished try to seal the run saw before it began to put the worktree back.

    What it saw counts for the log that it saw, so that nothing that was written while the run went on is taken for it.
    """
    try:
        kept = json.loads(project.store.read(f"{_work(run)}/{SEEN}"))
        return [str(path) for path in kept["changed"]] if kept["ended"] == ended else None
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _keep_seen(project: Project, run: OpenRun, ended: Mapping[str, str], changed: Sequence[str]) -> None:
    """Keeps what was seen: half put back, the worktree can't show it any more."""
    path = f"{_work(run)}/{SEEN}"
    project.store.make_folders(_work(run))  # an agent may have taken it away
    project.store.remove_tree(path)
    project.store.write_new(path, [canonical({"ended": dict(ended), "changed": list(changed)})])
    for folder in (_work(run), "work", ""):
        project.store.sync(folder)


def _work(run: OpenRun) -> str:
    return f"work/{run.batch_id}"


def _apart_differs(project: Project, run: OpenRun) -> list[str]:
    """Returns what is not the Revision's in the folder of an isolated run, or why that cannot be told."""
    isolated = checkpoints.Isolated.model_validate(run.details["isolated"])
    if not os.path.isdir(isolated.project):
        return [f"{isolated.folder} (which is gone)"]
    refused: AtkError | None = None
    for _ in range(2):  # a disk that failed once says nothing about the folder; one that goes on stops the sealing
        with project.git() as git, project.scratch(f"seal-{run.owner}") as scratch:
            try:
                return checkpoints.apart_differs(git, isolated, scratch)
            except AtkError as error:  # an agent may leave anything there, and nobody else has to put it right
                if isinstance(error, GitFailed) and error.status < 0:  # Git itself was killed: the folder is as it was
                    raise
                refused = error
    return [f"{isolated.folder} ({str(refused).rstrip('.')})"]


def _clear_slots(project: Project, batch: Batch) -> None:
    """Removes what lies in the clear of holdout Cases before the batch is sealed: nobody would remove it afterwards."""
    for name in project.store.names(f"work/{batch.id}"):
        if name.partition(".")[0].isdigit():  # an attempt's folder, or one that was set aside for it
            project.store.clear(f"work/{batch.id}/{name}")


def clear_work(project: Project, run: OpenRun) -> list[str]:
    """Removes the raw output of a run whose masked copy is sealed, and the folder of an isolated one.

    Returns the folders that the system does not let go of.
    """
    kept = [] if project.store.clear(_work(run)) else [project.store.full(_work(run))]
    isolated = run.details.get("isolated")
    if isolated and not checkpoints.remove_place(isolated["folder"], project.store.path):
        kept.append(isolated["folder"])
    return kept


def _write_records(project: Project, batch_id: str, attempts: Attempts) -> Stored:
    """Writes the confirmed Records in the order of their numbers. Done again it replaces an unfinished try."""
    store = project.store
    path = f"evidence/{batch_id}/{RECORDS}"
    store.remove_tree(path)
    # Numbers are fixed when a run is planned; the order of finishing is not the order of slots.
    stored = store.write_new(path, (canonical(record) + b"\n" for record in attempts.in_order()))
    store.sync(f"evidence/{batch_id}")
    return stored


@dataclass(frozen=True)
class _Around:
    """What is known of the runtime around a run."""

    findings: RuntimeFindings
    notes: tuple[str, ...]
    drifted: bool
    """Whether it changed while the run went on, or nobody can say that it did not."""

    @property
    def contaminated(self) -> bool:
        return self.findings.contaminated


def _around(project: Project, state: State, run: OpenRun, attempts: Attempts) -> _Around:
    batch = state.get(Batch, run.batch_id)
    findings = _findings(project, batch)
    made = _made(batch, attempts)
    notes = [*findings.drift, *findings.problems, *findings.notes, *_remarks(project, batch), *_moved(project, run)]
    drifted = bool(findings.drift)
    if made and not findings.ended and _followed_by_nobody(state.all(ProjectRecord)[0], run):
        notes.append("The runtime was not looked at again after the run, so it may have changed meanwhile.")
        drifted = True
    if not made:  # nothing was measured on the wrong content; a stale runtime is named all the same
        findings = findings.model_copy(update={"contaminated": findings.stale})
    return _Around(findings, tuple(notes), drifted)


def _moved(project: Project, run: OpenRun) -> list[str]:
    """Says that HEAD is elsewhere, as after a commit of the agent's: the content that ran is what the Revision has."""
    if "head" not in run.details:
        return []
    before = Head.model_validate(run.details["head"])
    try:
        with project.git() as git:
            now = read_head(git)
    except AtkError as error:
        return [f"HEAD was at {_place(before)} when the run began, and cannot be read now: {error}"]
    return [] if now == before else [f"HEAD was at {_place(before)} when the run began, and is at {_place(now)} now"]


def _place(head: Head) -> str:
    return f"{head.commit[:12]} ({head.branch or 'no branch'})"


def _began(batch: Batch, attempts: Attempts) -> bool:
    """Whether an agent was started."""
    return _made(batch, attempts) or bool(attempts.unfinished)


def _made(batch: Batch, attempts: Attempts) -> bool:
    """Whether the run itself made attempts, besides those that it carried over."""
    return sum(attempts.counts.values()) > batch.carried


def _followed_by_nobody(project: ProjectRecord, run: OpenRun) -> bool:
    """Whether something of the runtime can change that the worktree does not show."""
    preparation = project.replay_preparation
    mode = run.details.get("preparation", preparation.mode if preparation else "stateless")
    return mode == "command" or any(component.version_command for component in project.components)


def _findings(project: Project, batch: Batch) -> RuntimeFindings:
    try:
        return RuntimeFindings.model_validate_json(project.store.read(f"work/{batch.id}/{FINDINGS}"))
    except (FileNotFoundError, ValidationError):  # it ended before its runtime was looked at, or while that was written
        return RuntimeFindings()


def _remarks(project: Project, batch: Batch) -> list[str]:
    try:
        said = json.loads(project.store.read(f"work/{batch.id}/{REMARKS}"))
    except (FileNotFoundError, ValueError):
        return []
    return [str(remark) for remark in said]


def _sealed(  # noqa: PLR0913, PLR0917 - what is known of a run
    project: Project, batch: Batch, attempts: Attempts, stored: Stored, changed: Sequence[str], around: _Around
) -> Batch:
    planned = {n: f"{batch.id}.{n}" for n in range(1, batch.slots + 1)}
    missing = tuple(record_id for record_id in planned.values() if record_id not in attempts.finished)
    notes = [f"{path} {NOT_THE_REVISIONS}" for path in changed[:NOTE_LIMIT]]
    notes += [f"{len(changed) - NOTE_LIMIT} more paths differed"] if len(changed) > NOTE_LIMIT else []
    return batch.model_copy(
        update={
            "status": _status(attempts, missing, around, contaminated=bool(changed) or around.contaminated),
            "ended_at": project.clock(),
            "end_reason": attempts.ended or "server_gone",
            "counts": dict(attempts.counts),
            "missing_record_ids": missing,
            "unknown_record_ids": tuple(attempts.unfinished),
            "records_sha256": stored.sha256,
            "records_bytes": stored.size,
            "totals": dict(attempts.totals),
            "reported": dict(attempts.reported),
            "components": around.findings.components,
            "problems": around.findings.problems,
            "environment": {**batch.environment, **around.findings.environment},
            "notes": (*batch.notes, *project.masker.value([*notes, *around.notes])),
        }
    )


def _status(attempts: Attempts, missing: Sequence[str], around: _Around, *, contaminated: bool) -> BatchStatus:
    if contaminated:
        return "contaminated"
    if missing or "cancelled" in attempts.unsettled.values():
        return "partial" if attempts.ended == "all_done" else "interrupted"
    return "partial" if attempts.unsettled or around.drifted else "sealed"
