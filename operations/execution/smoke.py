"""Tries one Case before anything depends on it, and shows what a person has to see; keeps nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from operations.execution import attachments, command, leftovers
from operations.execution.adapters.process import AgentProcess, agent_process, runner_template
from operations.execution.attending import Attending
from operations.execution.preparing import PreparationResult, prepare
from storage.files import Folder
from storage.masking import Masker
from storage.schema.base import Value
from storage.schema.projects import Preparation, Project

OUTPUT_CHARACTERS = 2_000
"""How much of the end of stdout and stderr together is shown."""
LOADING_EVENTS = 5
_ARGUMENT_CHARACTERS = 300


class Smoke(Value):
    """What one attempt showed."""

    command: list[str]
    """As it was started, masked; long arguments are cut."""
    working_directory: str
    end: str
    """exited, timeout, stopped or not_started."""
    exit_code: int | None
    outcome: str
    """What a run would make of it: completed, agent_error, infra_error, timeout or cancelled."""
    duration_seconds: float
    output: str
    """The end of stdout and stderr, masked."""
    loading_evidence: list[dict[str, Any]] | None
    """The first events of `loading.json`, masked; None when the agent wrote none."""
    notes: list[str]


def try_once(  # noqa: PLR0913 - the process, the Case, and what surrounds the attempt
    process: AgentProcess,
    case: Mapping[str, Any],
    *,
    timeout_seconds: float,
    masker: Masker,
    kept: str | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Smoke:
    """Makes one attempt at `case` in a folder of its own, which is gone afterwards.

    Args:
        process: How the agent is started.
        case: Its `input`; perhaps `id` and `attachments`.
        timeout_seconds: The limit of the attempt.
        masker: Masks what is shown.
        kept: The dataset's folder of kept attachments, of which the attempt gets copies.
        cancelled: Whether the caller has given up.

    Raises:
        AttendantLost: The process that runs the attempt has died.
        KeptBytesDamaged: A kept attachment is missing or has other bytes.
        OSError: The folder cannot be made or no process be started.
    """
    folder = os.path.realpath(tempfile.mkdtemp(prefix="atk-smoke-"))
    try:
        argv = command.expand(process.command, _laid_out(folder, case, kept))
        with Attending() as attending:
            ended = attending.run(
                argv,
                cwd=process.working_directory,
                environment=process.environment,
                timeout_seconds=timeout_seconds,
                cancelled=cancelled,
            )
        loading, notes = _loading(os.path.join(folder, "output"), masker)
    finally:
        # The agent may have left folders of any depth, closed them to be written, or written as another user.
        with Folder(os.path.dirname(folder)) as above:
            gone = above.clear(os.path.basename(folder))
    if not gone:
        notes.append(f"{folder} could not be taken away whole; remove it by hand.")
    shown = [masker.text(part.replace(folder, "<attempt>")) for part in argv]
    return Smoke(
        command=[part if len(part) <= _ARGUMENT_CHARACTERS else part[:_ARGUMENT_CHARACTERS] + "…" for part in shown],
        working_directory=process.working_directory,
        end=ended.end,
        exit_code=ended.exit_code,
        outcome=outcome_of(ended.end, ended.exit_code, process.infrastructure_exit_codes),
        duration_seconds=round(ended.seconds, 3),
        output=masker.text(ended.error or ended.output)[-OUTPUT_CHARACTERS:],
        loading_evidence=loading,
        notes=notes,
    )


def try_project(  # noqa: PLR0913 - the configuration, the Case, and what surrounds the attempt
    project: Project,
    root: str,
    case: Mapping[str, Any],
    *,
    masker: Masker,
    head: tuple[str, str],
    kept: str | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Smoke:
    """Makes one attempt as the project's configuration says, its preparation included.

    Args:
        project: The configuration; nothing of it needs to be stored yet.
        root: The project's folder.
        case: Its `input`; perhaps `id` and `attachments`.
        masker: Masks what is shown.
        head: The tree and the commit that the worktree has, for the preparation.
        kept: The dataset's folder of kept attachments, of which the attempt gets copies.
        cancelled: Whether the caller has given up.

    Raises:
        EnvFileUnusable: The file of variables cannot be used.
        VariablesMissing: A declared variable is set nowhere.
        AttendantLost: The process that runs the attempt has died.
        KeptBytesDamaged: A kept attachment is missing or has other bytes.
        OSError: A folder cannot be made or no process be started.
    """
    with contextlib.ExitStack() as stack:
        runner = None
        if project.adapter == "python":
            runner = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="atk-smoke-")), "runner.py")
            with open(runner, "wb") as file:
                file.write(runner_template())
        process = agent_process(project, root, timeout_seconds=project.timeout_seconds, runner=runner)
        prepared = stack.enter_context(
            prepare(
                project.replay_preparation or Preparation(),
                tree=head[0],
                commit=head[1],
                cwd=process.working_directory,
                environment=process.environment,
                masker=masker,
                cancelled=cancelled,
            )
        )
        if not prepared.result.ready:
            return _unprepared(prepared.result, process)
        tried = try_once(
            process, case, timeout_seconds=project.timeout_seconds, masker=masker, kept=kept, cancelled=cancelled
        )
        return tried.model_copy(update={"notes": [*tried.notes, *prepared.check().notes]})


def _unprepared(result: PreparationResult, process: AgentProcess) -> Smoke:
    last = result.steps[-1] if result.steps else None
    return Smoke(
        command=list(last.argv) if last else [],
        working_directory=process.working_directory,
        end=last.end if last else "not_started",
        exit_code=last.exit_code if last else None,
        outcome="infra_error",
        duration_seconds=round(sum(step.seconds for step in result.steps), 3),
        output=(last.output if last else "")[-OUTPUT_CHARACTERS:],
        loading_evidence=None,
        notes=[*result.notes, "The agent was not started, since its preparation did not succeed."],
    )


def outcome_of(end: str, exit_code: int | None, infrastructure_exit_codes: tuple[int, ...]) -> str:
    """Returns what a run would call this ending."""
    if end != "exited":
        return {"timeout": "timeout", "stopped": "cancelled"}.get(end, "infra_error")
    if exit_code == 0:
        return "completed"
    return "infra_error" if exit_code in infrastructure_exit_codes else "agent_error"


def _laid_out(folder: str, case: Mapping[str, Any], kept: str | None) -> dict[str, str]:
    """Makes what an attempt finds in its folder, and returns the values of the placeholders."""
    output = os.path.join(folder, "output")
    os.mkdir(output, 0o700)
    listed = list(case.get("attachments") or ())
    if kept is not None:
        listed = attachments.copies(listed, kept, os.path.join(folder, attachments.FOLDER))
    files = {"input_file": ("input.json", case["input"]), "attachments_file": ("attachments.json", listed)}
    paths = {}
    for placeholder, (name, value) in files.items():
        paths[placeholder] = os.path.join(folder, name)
        with open(paths[placeholder], "w", encoding="ascii") as file:
            json.dump(value, file)
    return {
        **paths,
        "input": command.as_argument(case["input"]),
        "output_dir": output,
        "events_file": os.path.join(folder, "events.jsonl"),
        "case_id": str(case.get("id", "smoke")),
        "repeat_index": "1",
    }


def _loading(output: str, masker: Masker) -> tuple[list[dict[str, Any]] | None, list[str]]:
    try:
        found = leftovers.loading(output)
    except leftovers.Unusable as why:
        return None, [f"loading.json is not used: {why}."]
    if found is None:
        return None, ["The agent wrote no loading.json, so nothing proves which components it loads."]
    cut = [f"Loading events that are not shown: {len(found) - LOADING_EVENTS}."] if len(found) > LOADING_EVENTS else []
    return [masker.value(event) for event in found[:LOADING_EVENTS]], cut
