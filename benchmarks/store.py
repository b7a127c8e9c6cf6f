"""Prints what opening, committing to and recovering a store cost, beside a floor that is measured in the same run.

    python benchmarks/store.py [--commits 200] [--records 2000] [--recoveries 10] [--folder DIR]

The floors: a commit is compared with one append and one flush of as many bytes, an open with reading and parsing the
journal's lines, a recovery of an open effect with the one git command that makes it so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from storage import effects
from storage.files import Folder
from storage.journal import SEGMENT
from storage.project import ATK, Project
from storage.schema.assessments import Judger
from tests.support.projects import Target, call_of
from tests.support.rounds import DIGEST, Answered


def milliseconds(work: Callable[[], object]) -> float:
    """Returns how long `work` takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def line(name: str, ours: list[float], floor: list[float], unit: str) -> None:
    """Prints a figure: medians, the slowest of ours, and how many floors ours is."""
    mine, least = statistics.median(ours), statistics.median(floor)
    slowest = f"slowest {max(ours):8.2f}"
    print(f"{name:30} {mine:8.2f} ms  {slowest}  floor {least:8.2f} ms  {mine / least:6.1f} floors  {unit}")


def commit(project: Project, number: int) -> None:
    """Makes one small object, as an operation would."""
    with project.transaction(call_of("store", note="x" * 200)) as tx:
        tx.put(Judger(id=tx.new_id("judger"), version=str(number), digest=DIGEST))
        tx.commit(Answered())


def commits(target: Target, count: int, folder: str) -> None:
    """Commits `count` records, and appends as many bytes to a plain file for the floor."""
    project, path = target.project, target.project.store.full(SEGMENT)
    before = os.path.getsize(path)
    ours = [milliseconds(lambda n=n: commit(project, n)) for n in range(count)]
    chunk = b"x" * ((os.path.getsize(path) - before) // count)
    fd = os.open(os.path.join(folder, "floor"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append() -> None:
        os.write(fd, chunk)
        os.fdatasync(fd)

    line("commit", ours, [milliseconds(append) for _ in range(count)], f"{len(chunk)} bytes a record")
    os.close(fd)


def opens(target: Target, records: int) -> None:
    """Opens a store of at least `records` records as a new process would, and reads its journal for the floor."""
    project = target.project
    for number in range(records - project.state().position.number):
        commit(project, number)
    path = project.store.full(SEGMENT)

    def floor() -> None:
        with open(path, "rb") as file:
            for text in file:
                json.loads(text[text.index(b"{") :])

    def ours() -> None:
        fresh(target).state()

    unit = f"{project.state().position.number} records, {os.path.getsize(path) // 1024} KiB"
    line("open", [milliseconds(ours) for _ in range(5)], [milliseconds(floor) for _ in range(5)], unit)


def fresh(target: Target) -> Project:
    """Returns the project as a process sees it that has not opened it yet."""
    return Project(target.root, Folder(target.path(ATK)))


def recoveries(target: Target, count: int) -> None:
    """Leaves an announced effect behind, as a crash would, and lets a new process finish it."""
    ours, floor = [], []
    head = target.head
    for number in range(count):
        with fresh(target).transaction(call_of("store")) as tx:
            pending = tx.intend([effects.hold(f"refs/atk/test/{number}", head)], Answered(), claims=[])
        pending.owner.release()
        project = fresh(target)
        ours.append(milliseconds(lambda project=project: project.recover(call_of("recover"))))
        if project.state().intents:
            raise RuntimeError("BUG: the open effect was not finished")
        update = ["git", "-C", target.root, "update-ref", f"refs/atk/floor/{number}", head]
        floor.append(milliseconds(lambda update=update: subprocess.run(update, check=True)))
    line("recovery of an open effect", ours, floor, f"opening {target.state.position.number} records included")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="Cost of opening, committing and recovering, beside a floor.")
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--recoveries", type=int, default=10)
    parser.add_argument("--folder", help="where the store is made; default: the temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        target = Target(os.path.join(folder, "target"))
        commits(target, given.commits, folder)
        recoveries(target, given.recoveries)
        opens(target, given.records)


if __name__ == "__main__":
    main()
