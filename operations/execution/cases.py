"""The Cases of a run, found by id in their file and read one at a time, so that memory does not grow with them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from storage.holdout import opened_case
from storage.sealing import SealBroken, SealKey


class CasesUnreadable(ValueError):
    """A line of the file is not a Case. The file is ATK's own, so no attempt is made with it."""


@dataclass(frozen=True)
class AgentCase:
    """What an agent may know of a Case. What is expected of it is never read."""

    input: Any
    attachments: list[Any]
    unseen: bool = False
    """Whether it is a holdout Case: what it holds may lie in the clear only while its attempt runs."""


class CaseFile:
    """An open file of Cases, one JSON object to a line."""

    def __init__(self, path: str, wanted: Collection[str], key: SealKey | None = None) -> None:
        """Opens `path` and notes where the Cases `wanted` are. Sealed ones are opened with `key`, one at a time.

        Raises:
            OSError: The file cannot be read.
            CasesUnreadable: A line is not a JSON object with an `id`.
        """
        self._file = open(path, "rb")  # noqa: SIM115 - open as long as this object
        self._offsets: dict[str, int] = {}
        self._key = key
        self.unseen: dict[str, bool] = {}
        """Ids of the sealed Cases, each with whether it has attachments."""
        remaining, offset = set(wanted), 0
        for number, line in enumerate(self._file, 1):
            case = _case(line, number)
            case_id = case["id"]
            if case_id in remaining:
                self._offsets[case_id] = offset
                if case.get("sealed"):
                    self.unseen[case_id] = bool(case.get("sealed_attachments"))
            offset += len(line)

    def case(self, case_id: str) -> AgentCase:
        """Returns the Case.

        Raises:
            LookupError: The file has no Case of this id.
            ValueError: It is sealed, and does not open with the run's key.
        """
        self._file.seek(self._offsets[case_id])
        case = _case(self._file.readline(), 0)
        unseen = case_id in self.unseen
        if unseen:
            if self._key is None:
                raise ValueError("The Case is sealed, and the run has no key.")
            try:
                case = opened_case(case, self._key)
            except SealBroken as broken:
                raise ValueError(str(broken)) from broken
        return AgentCase(case.get("input"), case.get("attachments") or [], unseen)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _case(line: bytes, number: int) -> dict[str, Any]:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as broken:
        raise CasesUnreadable(f"Line {number} of the Cases is not JSON: {broken}.") from broken
    if not isinstance(case, dict) or not isinstance(case.get("id"), str):
        raise CasesUnreadable(f"Line {number} of the Cases is not an object with an id.")
    return case
