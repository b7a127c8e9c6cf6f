"""Runs a probe's Executions one after another, each durable before it starts and before it counts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from operations.execution import attachments, command, processes
from operations.execution.attempts import AttemptsLog
from operations.execution.attending import AttendantLost, Attending, Outcome
from operations.execution.smoke import outcome_of
from operations.tuning.identity import declared_inputs
from storage import probes
from storage.errors import AtkError
from storage.project import Project
from storage.schema.datasets import Attachment
from storage.schema.probes import (
    Probe,
    ProbeEnd,
    ProbeExecution,
    ProbeOutcome,
    ProbePermission,
    ProbeRecord,
    ProbeSlot,
)
from storage.schema.projects import Project as ProjectRecord
from storage.worktree import Head, Surroundings, read_head, shown_path, surroundings

_ARGUMENT_CHARACTERS = 300
_ARGUMENTS = 40


@dataclass(frozen=True)
class ProbeInput:
    """What one Execution is given: a Case's input, or a whole Record."""

    value: Any
    case_id: str | None = None
    record_id: str | None = None
    attachments: tuple[Attachment, ...] = ()
    kept: str | None = None
    """Where the dataset keeps the attachments; None where they are read in the project."""


@dataclass(frozen=True)
class Worktree:
    """A Git project's files as a probe found them."""

    head: Head
    around: Surroundings


@dataclass(frozen=True, kw_only=True)
class ProbeRun:
    """A probe that is recorded, and all that it takes to run it."""

    probe: Probe
    slots: Sequence[ProbeSlot]
    inputs: Sequence[ProbeInput]
    script: bytes | None
    environment: Mapping[str, str]
    configuration: ProjectRecord
    before: Worktree | None
    """None where there is no Git, so that nobody can say whether files changed."""


def look(project: Project, configuration: ProjectRecord) -> Worktree | None:
    """Returns the worktree as it is, or None where the project has no Git.

    Raises:
        AtkError: Git cannot say.
    """
    if configuration.analysis_only:
        return None
    with project.git() as git:
        return Worktree(read_head(git), surroundings(git, declared_inputs(configuration)))


def run(
    project: Project,
    probing: ProbeRun,
    *,
    cancelled: Callable[[], bool],
    progress: Callable[[float, float | None, str], None],
) -> None:
    """Makes the Executions and looks at the worktree again. All findings are in the probe's log; nothing is returned.

    Raises:
        OSError: The disk or the system refused; what is confirmed is in the log.
    """
    probe = probing.probe
    path = project.store.full(f"evidence/{probe.id}/{probes.LOG}")
    with project.scratch(probe.owner) as folder, contextlib.closing(AttemptsLog(path, keep_torn_in=folder)) as log:
        script = _copied(folder, probe.permission, probing.script)
        reason = "all_done"
        for slot, given in zip(probing.slots, probing.inputs, strict=True):
            progress(slot.n - 1, probe.slots, f"{slot.n - 1} of {probe.slots} Executions")
            if cancelled():
                reason = "stopped"
                break
            log.append([{"kind": "started", "record_id": slot.id, "n": slot.n, "at": _now().isoformat()}])
            record = _executed(project, probing, slot, given, script, folder, cancelled)
            log.append([{"kind": "finished", "record": record.model_dump(mode="json")}])
            if record.execution.status == "cancelled":
                reason = "stopped"
                break
        changed = changed_since(project, probing.configuration, probing.before)
        log.append([{"kind": "ended", "reason": reason, "changed": changed, "notes": _notes(probing)}])


def _executed(  # noqa: PLR0913, PLR0917 - a probe, one slot of it, and what it is run with
    project: Project,
    probing: ProbeRun,
    slot: ProbeSlot,
    given: ProbeInput,
    script: str | None,
    folder: str,
    cancelled: Callable[[], bool],
) -> ProbeRecord:
    permission = probing.probe.permission
    argv, started = list(permission.command), _now()
    try:
        expanded = command.expand(argv, _laid_out(os.path.join(folder, str(slot.n)), given, project.root))
    except attachments.KeptBytesDamaged as why:
        ended = Outcome("not_started", None, "", 0.0, str(why))
    else:
        pairs = zip(argv, expanded, strict=True)
        argv = [script if script and template == permission.script_path else part for template, part in pairs]
        ended = _ended(project, probing, argv, folder, cancelled)
    masker, codes = project.masker, probing.configuration.infrastructure_exit_codes
    shown = [masker.text(part.replace(folder, "<probe>")) for part in argv[:_ARGUMENTS]]
    output = masker.text(ended.output.replace(folder, "<probe>"))
    return ProbeRecord(
        **slot.model_dump(),
        command=tuple(
            part if len(part) <= _ARGUMENT_CHARACTERS else part[:_ARGUMENT_CHARACTERS] + "…" for part in shown
        ),
        output=output,
        output_bytes=ended.bytes,
        output_replaced=output.count("\ufffd"),
        execution=ProbeExecution(
            status=cast("ProbeOutcome", outcome_of(ended.end, ended.exit_code, codes)),
            end=cast("ProbeEnd", ended.end),
            exit_code=ended.exit_code,
            error=masker.text(ended.error) if ended.error else None,
            started_at=started,
            duration_seconds=round(ended.seconds, 3),
        ),
    )


def _ended(
    project: Project, probing: ProbeRun, argv: Sequence[str], folder: str, cancelled: Callable[[], bool]
) -> Outcome:
    """Runs one program under an attendant of its own, so that nothing that it left is there for the next one."""
    permission = probing.probe.permission
    environment = {**probing.environment, processes.MARKER: processes.mark(folder)}
    try:
        with Attending() as attending:
            return attending.run(
                argv,
                cwd=os.path.join(project.root, permission.working_directory),
                environment=environment,
                timeout_seconds=permission.timeout_seconds,
                cancelled=cancelled,
            )
    except AttendantLost as lost:
        processes.sweep_batch(folder)
        return Outcome("not_started", None, "", 0.0, str(lost))


def _copied(folder: str, permission: ProbePermission, script: bytes | None) -> str | None:
    """Writes the pinned bytes where the probe starts them, so that nobody can exchange them in between."""
    if script is None or permission.script_path is None:
        return None
    place = os.path.join(folder, "script")
    os.mkdir(place, 0o700)
    path = os.path.join(place, os.path.basename(permission.script_path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500), "wb") as file:
        file.write(script)
    return path


def _laid_out(folder: str, given: ProbeInput, root: str) -> dict[str, str]:
    """Makes what an Execution finds in its folder, and returns the values of the placeholders."""
    output = os.path.join(folder, "output")
    os.makedirs(output, 0o700)
    located = [{**each.model_dump(), "path": os.path.join(root, each.path)} for each in given.attachments]
    if given.kept and given.attachments:
        files = [each.model_dump() for each in given.attachments]
        located = attachments.copies(files, given.kept, os.path.join(folder, attachments.FOLDER))
    paths = {}
    for placeholder, name, value in (
        ("input_file", "input.json", given.value),
        ("attachments_file", "attachments.json", located),
    ):
        paths[placeholder] = os.path.join(folder, name)
        with open(paths[placeholder], "w", encoding="ascii") as file:
            json.dump(value, file)
    return {
        **paths,
        "input": command.as_argument(given.value),
        "output_dir": output,
        "events_file": os.path.join(folder, "events.jsonl"),
        "case_id": given.case_id or given.record_id or "",
        "repeat_index": "1",
    }


def changed_since(project: Project, configuration: ProjectRecord, before: Worktree | None) -> list[str]:
    """Returns the project paths that are not as `before`, `HEAD` among them when it moved."""
    if before is None:
        return []
    try:
        now = look(project, configuration)
    except AtkError as error:
        return [f"(Git cannot say any more: {error})"]
    if now is None:
        return []
    found = {"HEAD"} if (now.head.commit, now.head.branch) != (before.head.commit, before.head.branch) else set()
    with project.git() as git:
        for was, is_ in (
            (before.around.dirty, now.around.dirty),
            (before.around.untracked, now.around.untracked),
            (before.around.inputs, now.around.inputs),
            (dict.fromkeys(before.around.staged, "staged"), dict.fromkeys(now.around.staged, "staged")),
        ):
            found |= {shown_path(git, path) for path in {*was, *is_} if was.get(path) != is_.get(path)}
    return sorted(found)


def _notes(probing: ProbeRun) -> list[str]:
    if probing.before is None:
        return ["There is no Git here, so nothing says whether the probe changed files."]
    return []


def _now() -> datetime:
    return datetime.now(UTC)
