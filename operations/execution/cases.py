"""The Cases of a run, found by id in their file and read one at a time, so that memory does not grow with them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


class CasesUnreadable(ValueError):
    """A line of the file is not a Case. The file is ATK's own, so no attempt is made with it."""


@dataclass(frozen=True)
class AgentCase:
    """What an agent may know of a Case. What is expected of it is never read."""

    input: Any
    attachments: list[Any]


class CaseFile:
    """An open file of Cases, one JSON object to a line."""

    def __init__(self, path: str, wanted: Collection[str]) -> None:
        """Opens `path` and notes where the Cases `wanted` are.

        Raises:
            OSError: The file cannot be read.
            CasesUnreadable: A line is not a JSON object with an `id`.
        """
        self._file = open(path, "rb")  # noqa: SIM115 - open as long as this object
        self._offsets: dict[str, int] = {}
        remaining, offset = set(wanted), 0
        for number, line in enumerate(self._file, 1):
            case_id = _case(line, number)["id"]
            if case_id in remaining:
                self._offsets[case_id] = offset
            offset += len(line)

    def case(self, case_id: str) -> AgentCase:
        """Returns the Case.

        Raises:
            LookupError: The file has no Case of this id.
        """
        self._file.seek(self._offsets[case_id])
        case = _case(self._file.readline(), 0)
        return AgentCase(case.get("input"), case.get("attachments") or [])

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
