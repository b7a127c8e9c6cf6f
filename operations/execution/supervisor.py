"""The process that runs one batch: forks its guardians while it is small, then loads the rest and runs the plan."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from operations.execution.guardian import fork_guardian
from operations.execution.processes import NOT_BEGUN
from storage.errors import AtkError
from storage.refusing import advice


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a plan to its end: 0 when the log says how it ended, 1 when it could not be run or written.

    `NOT_BEGUN` when the system has no room for its guardians; the last line on stderr then says why.
    """
    parser = argparse.ArgumentParser(description="Run one batch of attempts.")
    parser.add_argument("plan", help="the plan's file")
    parser.add_argument("--control", type=int, required=True, help="the read end of the server's pipe")
    parser.add_argument("--owner", type=int, help="the server's owner lock")
    given = parser.parse_args(arguments)
    kept = [handle for handle in (given.control, given.owner) if handle is not None]
    for handle in kept:
        os.set_inheritable(handle, False)  # noqa: FBT003 - that is its signature
    places = _places(given.plan)
    try:
        guardians = [fork_guardian(given.control, kept) for _ in range(places)]
    except OSError as trouble:  # those that were forked end with this process
        what = f"{trouble.strerror}, where {places} attempts are to run at once"
        sys.stderr.write(f"No process could be started: {what}. {advice(trouble.errno or 0)}\n")
        return NOT_BEGUN

    from operations.execution.cases import CasesUnreadable  # noqa: PLC0415 - guardians are forked without all this
    from operations.execution.plan import read_plan  # noqa: PLC0415
    from operations.execution.run import Run  # noqa: PLC0415

    try:
        Run(read_plan(given.plan), given.control, kept, guardians).run()
    except (AtkError, CasesUnreadable, OSError) as trouble:
        sys.stderr.write(f"{datetime.now(UTC).isoformat()} The run ended: {trouble}\n")
        return 1
    return 0


def _places(path: str) -> int:
    """Returns how many attempts may run at once. What is wrong with a plan is said by who reads all of it."""
    try:
        with open(path, "rb") as file:
            plan = json.load(file)
        return int(min(plan["concurrency"], len(plan["slots"])))
    except (OSError, ValueError, KeyError, TypeError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
