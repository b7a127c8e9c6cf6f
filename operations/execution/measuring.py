"""Around one batch: the runtime is prepared and identified before it, looked at again after it, and ended.

What is found is kept in one file of the batch's work folder, so that whoever seals the batch can say it, also when the
server that began it is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from operations.execution.adapters.process import AgentProcess
from operations.execution.attending import AttendantLost
from operations.execution.preparing import PreparationResult, Prepared, prepare
from operations.execution.versions import Observation, observe, version_notes
from storage.masking import Masker
from storage.schema.projects import Preparation, Project, RuntimeFindings

FINDINGS_FILE = "runtime.json"
"""Its name in the batch's work folder; a `storage.schema.projects.RuntimeFindings`."""


@dataclass
class Measured:
    """A runtime that was prepared and identified, until `end`."""

    ready: bool
    """Whether attempts may be started. If not, `findings` says why, and nothing is left running."""
    findings: RuntimeFindings
    _project: Project
    _process: AgentProcess
    _root: str
    _path: str
    _masker: Masker
    _prepared: Prepared
    _before: Observation | None = None

    def end(self) -> RuntimeFindings:
        """Looks at the runtime again, ends it, and keeps what was found. To be called once, when the run has ended.

        Raises:
            OSError: The findings cannot be written, or a component cannot be read.
        """
        try:
            checked = self._prepared.check()
            drift, problems = self.findings.drift, self.findings.problems
            if self._before is not None:
                notes = version_notes(self._before, _observed(self._project, self._process, self._root))
                drift, problems = notes.drift, notes.problems
        except AttendantLost as lost:
            checked, drift, problems = PreparationResult(outcome="lost", notes=(str(lost),)), (), ()
        finally:
            self._prepared.close()
        self.findings = self.findings.model_copy(
            update={
                "contaminated": self.findings.contaminated or not checked.ready,
                "drift": tuple(self._masker.value(list(drift))),
                "problems": tuple(self._masker.value(list(problems))),
                "notes": (*self.findings.notes, *checked.notes),
                "ended": True,
            }
        )
        _keep(self._path, self.findings)
        return self.findings


def begin(  # noqa: PLR0913 - a configuration, a Revision and a place
    project: Project,
    process: AgentProcess,
    *,
    root: str,
    work_folder: str,
    tree: str,
    commit: str,
    masker: Masker,
    preparation: Preparation | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measured:
    """Prepares the runtime for a batch and identifies it.

    Args:
        project: The configuration.
        process: How its attempts are started.
        root: Where the Revision's content is.
        work_folder: The batch's own, where the findings are kept.
        tree: The Revision's tree id.
        commit: Its commit.
        masker: Masks what is kept.
        preparation: The frozen plan's; the project's unless given.
        cancelled: Whether the caller has given up.

    Raises:
        OSError: No process can be started, or a component or the findings cannot be read or written.
    """
    prepared = prepare(
        preparation or project.replay_preparation or Preparation(),
        tree=tree,
        commit=commit,
        cwd=process.working_directory,
        environment=process.environment,
        masker=masker,
        cancelled=cancelled,
    )
    path = os.path.join(work_folder, FINDINGS_FILE)
    result, before = prepared.result, None
    with contextlib.ExitStack() as stack:
        stack.callback(prepared.close)
        if result.ready:
            try:
                before = _observed(project, process, root)
            except AttendantLost as lost:
                result = PreparationResult(outcome="lost", notes=(str(lost),))
        components = before.model_dump(mode="json")["components"] if before else ()
        findings = RuntimeFindings(
            contaminated=not result.ready,
            stale=result.outcome == "stale",
            notes=result.notes,
            components=tuple(masker.value(list(components))),
            environment=masker.value(before.environment) if before else {},
        )
        _keep(path, findings)
        if result.ready:
            stack.pop_all()
    return Measured(result.ready, findings, project, process, root, path, masker, prepared, before)


def not_begun(work_folder: str, reason: str, masker: Masker) -> None:
    """Keeps why a run ended before its first attempt.

    Raises:
        OSError: It cannot be written.
    """
    note = masker.text(f"The run could not begin: {reason}.")
    _keep(os.path.join(work_folder, FINDINGS_FILE), RuntimeFindings(notes=(note,), ended=True))


def _observed(project: Project, process: AgentProcess, root: str) -> Observation:
    return observe(project, cwd=process.working_directory, root=root, environment=process.environment)


def _keep(path: str, findings: RuntimeFindings) -> None:
    fresh = f"{path}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(findings.model_dump_json())
    os.replace(fresh, path)
