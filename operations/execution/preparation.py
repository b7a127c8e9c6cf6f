"""Lays out the folder of one attempt and fills in its command."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.execution import attachments, command, leftovers
from operations.execution.cases import AgentCase, CaseFile
from operations.execution.plan import RunPlan
from storage.files import Folder, StoreDamaged, write_all
from storage.schema.evidence import Slot
from storage.sealing import SealKey

_FILES = {"input_file": "input.json", "attachments_file": "attachments.json"}
_OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_SPARE = 256
"""As many folders as there can be attempts at once."""


@dataclass(frozen=True)
class Prepared:
    """An attempt that can be started."""

    folder: str
    argv: list[str]
    inode: int
    """Which folder it is, whatever lies under its name later."""
    pins: list[dict[str, str]] = field(default_factory=list)
    """The attachments that must stay as they are."""
    unseen: bool = False
    """Whether it is of a holdout Case: its folder is removed as soon as the attempt is stored."""

    @property
    def order(self) -> dict[str, Any]:
        """What a guardian is told."""
        return {
            "do": "run",
            "argv": self.argv,
            "stdout": os.path.join(self.folder, "stdout"),
            "stderr": os.path.join(self.folder, "stderr"),
            **({"attachments": self.pins} if self.pins else {}),
        }


class Preparer:
    """Prepares the attempts of one run. What the command does not ask for is not made."""

    def __init__(self, plan: RunPlan, cases: CaseFile, key: SealKey | None = None) -> None:
        self._plan = plan
        self._key = key
        self._cases = cases
        self._beside = plan.attachments_folder or plan.working_directory
        self._asked = asked(plan.command)
        self._files = {name: file for name, file in _FILES.items() if name in self._asked}
        self._kept = plan.kept_attachments if "attachments_file" in self._asked else None
        self._spare: list[tuple[str, int]] = []

    def prepare(self, slot: Slot) -> Prepared:
        """Makes `<work folder>/<n>/` with `input.json`, `attachments.json` and an empty `output/`, as asked for.

        A folder that an earlier, unknown attempt left under this number is kept beside it.

        Raises:
            OSError: The folder cannot be made.
            KeptBytesDamaged: The dataset does not have an attachment any more as it kept it.
            LookupError: The Case is not among the run's Cases.
            ValueError: An argument cannot be given to a program.
        """
        try:
            case = self._cases.case(slot.case_id)
        except LookupError as missing:
            raise LookupError(f"The Case {slot.case_id!r} is not among the Cases of the run.") from missing
        folder, inode = self._folder(self.folder_of(slot))
        argv = command.expand(self._plan.command, self._values(slot, case, folder))
        if any("\0" in argument for argument in argv):
            raise ValueError(
                "The Case's input contains a NUL, which no argument can have; give it to the agent with {input_file}."
            )
        pins = [] if self._kept else attachments.pinned(case.attachments, self._beside)
        return Prepared(folder, argv, inode, pins, case.unseen)

    def take_back(self, prepared: Prepared) -> None:
        """Takes a confirmed attempt's folder for a later one, when it holds nothing but what was made for it.

        Making a folder and a file costs milliseconds on some disks, renaming and overwriting them next to nothing.
        Its copies of attachments are taken away: each attempt gets its own, and a run would fill the disk with them.
        """
        if prepared.unseen:
            self.wipe(prepared.folder)
            return
        if self._kept:
            _take_copies(prepared)
        if len(self._spare) < _SPARE and self._untouched(prepared):
            self._spare.append((prepared.folder, prepared.inode))

    def folder_of(self, slot: Slot) -> str:
        """Returns the folder that a slot's attempt is made in."""
        return os.path.join(self._plan.work_folder, str(slot.n))

    def wipe(self, path: str) -> None:
        """Removes an attempt's folder with all that lies in it. What an agent made irremovable goes with the run's."""
        with contextlib.suppress(OSError, StoreDamaged), Folder(self._plan.work_folder) as work:
            work.remove_tree(os.path.basename(path))

    def _values(self, slot: Slot, case: AgentCase, folder: str) -> dict[str, str]:
        located = self._located(case, folder)
        for name, content in (("input_file", case.input), ("attachments_file", located)):
            if name in self._files:
                _write(os.path.join(folder, self._files[name]), json.dumps(content).encode("ascii"))
        return {
            **{name: os.path.join(folder, file) for name, file in _FILES.items()},
            "input": command.as_argument(case.input) if "input" in self._asked else "",
            "output_dir": os.path.join(folder, "output"),
            "events_file": os.path.join(folder, leftovers.EVENTS),
            "case_id": slot.case_id,
            "repeat_index": str(slot.repeat),
        }

    def _located(self, case: AgentCase, folder: str) -> list[Any]:
        """The attachments as the agent is told of them: each with a path that it can open from anywhere."""
        if self._kept and case.attachments:
            key = self._key if case.unseen else None
            return attachments.copies(case.attachments, self._kept, os.path.join(folder, attachments.FOLDER), key)
        return [
            {**each, "path": os.path.join(self._beside, each["path"])}
            if isinstance(each, Mapping) and isinstance(each.get("path"), str)
            else each
            for each in case.attachments
        ]

    def _folder(self, path: str) -> tuple[str, int]:
        """Makes the attempt's folder, out of a spare one where there is one."""
        _set_aside(path)
        if self._spare:
            spare, inode = self._spare.pop()
            os.rename(spare, path)
            return path, inode
        os.mkdir(path, _FOLDER_MODE)
        if "output_dir" in self._asked:
            os.mkdir(os.path.join(path, "output"), _FOLDER_MODE)
        return path, os.lstat(path).st_ino

    def _untouched(self, prepared: Prepared) -> bool:
        try:
            about = os.lstat(prepared.folder)
            if not stat.S_ISDIR(about.st_mode) or (about.st_ino, stat.S_IMODE(about.st_mode)) != (
                prepared.inode,
                _FOLDER_MODE,
            ):
                return False
            if set(os.listdir(prepared.folder)) != {*self._files.values(), *self._folders()}:
                return False
            return all(
                stat.S_ISDIR(os.lstat(path).st_mode) and not os.listdir(path)
                for path in (os.path.join(prepared.folder, name) for name in self._folders())
            ) and all(_ours(os.path.join(prepared.folder, name)) for name in self._files.values())
        except OSError:  # what cannot be looked at is left alone
            return False

    def _folders(self) -> tuple[str, ...]:
        return ("output",) if "output_dir" in self._asked else ()


def asked(template: tuple[str, ...]) -> frozenset[str]:
    """Returns the placeholders that a command has."""
    return command.placeholders(template)


def _take_copies(prepared: Prepared) -> None:
    # What an agent made irremovable goes, or stays, with the run's folder.
    with contextlib.suppress(OSError, StoreDamaged), Folder(prepared.folder) as folder:
        if os.fstat(folder.fd).st_ino == prepared.inode:
            folder.remove_tree(attachments.FOLDER)


def _set_aside(path: str) -> None:
    """Renames what an earlier attempt left under this name."""
    earlier = 0
    while os.path.lexists(path):
        earlier += 1
        kept = f"{path}.earlier-{earlier}"
        if not os.path.lexists(kept):
            os.rename(path, kept)


def _ours(path: str) -> bool:
    about = os.lstat(path)
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and stat.S_IMODE(about.st_mode) == _FILE_MODE


def _write(path: str, data: bytes) -> None:
    """Writes a file anew, over that of the attempt before where there is one.

    Not cut to nothing first: a file that is rewritten from empty is flushed by some file systems when it is closed.
    """
    handle = os.open(path, _OPEN | os.O_CREAT, _FILE_MODE)
    try:
        write_all(handle, data)
        os.ftruncate(handle, len(data))
    finally:
        os.close(handle)
