"""Lays out the folder of one attempt and fills in its command."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from operations.execution import command
from operations.execution.cases import CaseFile
from operations.execution.plan import RunPlan
from storage.schema.evidence import Slot


@dataclass(frozen=True)
class Prepared:
    """An attempt that can be started."""

    folder: str
    argv: list[str]

    @property
    def order(self) -> dict[str, Any]:
        """What a guardian is told."""
        return {
            "do": "run",
            "argv": self.argv,
            "stdout": os.path.join(self.folder, "stdout"),
            "stderr": os.path.join(self.folder, "stderr"),
        }


def prepare(slot: Slot, plan: RunPlan, cases: CaseFile) -> Prepared:
    """Makes `<work folder>/<n>/` with `input.json`, `attachments.json` and an empty `output/`.

    A folder that an earlier, unknown attempt left under this number is kept beside it.

    Raises:
        OSError: The folder cannot be made.
        LookupError: The Case is not among the run's Cases.
        ValueError: An argument cannot be given to a program.
    """
    try:
        case = cases.case(slot.case_id)
    except LookupError as missing:
        raise LookupError(f"The Case {slot.case_id!r} is not among the Cases of the run.") from missing
    folder = _new_folder(plan.work_folder, str(slot.n))
    files = {
        "input_file": os.path.join(folder, "input.json"),
        "attachments_file": os.path.join(folder, "attachments.json"),
    }
    _write(files["input_file"], case.input)
    _write(files["attachments_file"], case.attachments)
    output = os.path.join(folder, "output")
    os.mkdir(output, 0o700)
    argv = command.expand(
        plan.command,
        {
            **files,
            "input": command.as_argument(case.input),
            "output_dir": output,
            "case_id": slot.case_id,
            "repeat_index": str(slot.repeat),
        },
    )
    if any("\0" in argument for argument in argv):
        raise ValueError(
            "The Case's input contains a NUL, which no argument can have; give it to the agent with {input_file}."
        )
    return Prepared(folder, argv)


def _new_folder(parent: str, name: str) -> str:
    folder = os.path.join(parent, name)
    earlier = 0
    while True:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            earlier += 1
            kept = f"{folder}.earlier-{earlier}"
            if not os.path.lexists(kept):
                os.rename(folder, kept)
        else:
            return folder


def _write(path: str, value: object) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="ascii") as file:
        json.dump(value, file)
