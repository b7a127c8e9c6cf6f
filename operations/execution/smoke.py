"""Tries one Case before anything depends on it, and shows what a person has to see; keeps nothing of it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from operations.execution import command, leftovers
from operations.execution.adapters.process import AgentProcess
from operations.execution.attending import Attending
from storage.masking import Masker
from storage.schema.base import Value

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


def try_once(
    process: AgentProcess,
    case: Mapping[str, Any],
    *,
    timeout_seconds: float,
    masker: Masker,
    cancelled: Callable[[], bool] = lambda: False,
) -> Smoke:
    """Makes one attempt at `case` in a folder of its own, which is gone afterwards.

    Args:
        process: How the agent is started.
        case: Its `input`; perhaps `id` and `attachments`.
        timeout_seconds: The limit of the attempt.
        masker: Masks what is shown.
        cancelled: Whether the caller has given up.

    Raises:
        AttendantLost: The process that runs the attempt has died.
        OSError: The folder cannot be made or no process be started.
    """
    folder = tempfile.mkdtemp(prefix="atk-smoke-")
    try:
        argv = command.expand(process.command, _laid_out(folder, case))
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
        shutil.rmtree(folder)
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


def outcome_of(end: str, exit_code: int | None, infrastructure_exit_codes: tuple[int, ...]) -> str:
    """Returns what a run would call this ending."""
    if end != "exited":
        return {"timeout": "timeout", "stopped": "cancelled"}.get(end, "infra_error")
    if exit_code == 0:
        return "completed"
    return "infra_error" if exit_code in infrastructure_exit_codes else "agent_error"


def _laid_out(folder: str, case: Mapping[str, Any]) -> dict[str, str]:
    """Makes what an attempt finds in its folder, and returns the values of the placeholders."""
    output = os.path.join(folder, "output")
    os.mkdir(output, 0o700)
    files = {"input_file": ("input.json", case["input"]), "attachments_file": ("attachments.json", [])}
    if case.get("attachments"):
        files["attachments_file"] = ("attachments.json", case["attachments"])
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
    cut = [f"{len(found) - LOADING_EVENTS} more loading events are not shown."] if len(found) > LOADING_EVENTS else []
    return [masker.value(event) for event in found[:LOADING_EVENTS]], cut
