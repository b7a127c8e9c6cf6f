"""Calls one server thousands of times and prints what the first and the last calls cost, side by side.

    python benchmarks/soak.py [--calls 10000] [--window 1000] [--folder DIR]

Mixed calls of a day, seeded: status, reading, searching, small datasets and imports, short runs, judgements. Every
figure is of the server's own process: resident memory, open files, living children, milliseconds a call; and how
long a new process takes to open the store. Opening may grow with what is stored, so it is also shown for each thousand
objects.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from storage.files import Folder  # noqa: E402 - the path above comes first
from storage.project import ATK, Project  # noqa: E402
from tests.support.projects import Target  # noqa: E402

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the queue is the expected one"}}


@dataclass
class Window:
    """What a number of calls cost."""

    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: int = 0
    """Resident, in KiB, at the end."""
    files: int = 0
    children: int = 0
    objects: int = 0
    opening: float = 0.0
    """Milliseconds in which a new process reads the store."""
    refused: int = 0


class Day:
    """A project, and what may be asked of it next."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.ids = {"dataset": [], "batch": [], "import": [], "assessment": []}
        self.judged: dict[str, str] = {}
        self.number = 0

    def next(self) -> tuple[str, dict[str, Any]]:
        """Returns a call."""
        self.number += 1
        rare = self.number % 100
        if rare == 1:
            return "run_evaluation", {"dataset_id": self.ids["dataset"][0], "revision_commit": self.target.head}
        if rare == 2 and self.ids["batch"]:
            how = self.judged or {"evaluation_spec": SPEC, "judger": {"method": "exact"}}
            batch_id = self.ids["batch"][-1]
            return "store_assessment", {"batch_id": batch_id, **how, "supersede_reason": "judged again"}
        choice = self.random.random()
        known = [i for kind in self.ids.values() for i in kind]
        if choice < 0.3 or not known:
            return "get_status", {}
        if choice < 0.7:
            return "read_record", {"record_id": self.random.choice(known)}
        if choice < 0.8 and self.ids["import"]:
            return "find_records", {"batch_id": self.random.choice(self.ids["import"]), "text": "refund"}
        if choice < 0.9:
            return "import_evidence", self._export()
        return "store_dataset", self._cases()

    def took(self, name: str, answer: dict[str, Any]) -> None:
        """Remembers what a call made."""
        kind = {"run_evaluation": "batch", "import_evidence": "import"}.get(name, name.removeprefix("store_"))
        found = answer.get("batch_id") if kind in ("batch", "import") else answer.get(f"{kind}_id")
        if found and kind in self.ids and found not in self.ids[kind]:
            self.ids[kind].append(found)
        if name == "store_assessment" and "spec_id" in answer:
            self.judged = {"spec_id": answer["spec_id"], "judger_id": answer["judger_id"]}

    def _export(self) -> dict[str, Any]:
        rows = [{"q": f"refund {n} of {self.number}", "a": self.random.choice(["billing", "other"])} for n in range(10)]
        self.target.write(".soak/results.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        mapping = {"input": "q", "output": "a"}
        return {"source": ".soak/results.jsonl", "source_kind": "batch_results", "mapping": mapping}

    def _cases(self) -> dict[str, Any]:
        rows = [{"id": f"c{n}", "input": f"ticket {n} of {self.number}", "expected": "other"} for n in range(5)]
        self.target.write(".soak/cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return {"source": ".soak/cases.jsonl"}


def server_of(folder: str) -> int:
    """Returns the process of the server that works in `folder`."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and os.path.exists(f"/proc/{name}/cwd"):
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            if b"atk_mcp" in command and os.path.realpath(f"/proc/{name}/cwd") == folder:
                return int(name)
    raise RuntimeError("the server is gone")


def measure(window: Window, process: int, target: Target) -> None:
    """Looks at the server and at the store."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    window.memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    window.files = len(os.listdir(f"/proc/{process}/fd"))
    children = [Path(f"/proc/{process}/task/{task}/children") for task in os.listdir(f"/proc/{process}/task")]
    window.children = sum(len(path.read_text(encoding="ascii").split()) for path in children)
    begun = time.perf_counter()
    state = Project(target.root, Folder(os.path.join(target.root, ATK))).state()
    window.opening = (time.perf_counter() - begun) * 1000
    window.objects = sum(map(len, state.objects.values()))


async def soak(target: Target, calls: int, size: int, show: Callable[[int], None]) -> list[Window]:
    """Makes the calls and returns the windows."""
    day, windows = Day(target, seed=7), []
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "atk_mcp"], cwd=target.root, env={**os.environ, "PYTHONPATH": str(HERE)}
    )
    async with Client(server) as client:
        first = await client.call_tool("store_dataset", day._cases())  # noqa: SLF001 - the first Cases
        day.took("store_dataset", first.structured_content)
        process = server_of(target.root)
        for begin in range(0, calls, size):
            window = Window()
            for _ in range(min(size, calls - begin)):
                name, arguments = day.next()
                began = time.perf_counter()
                result = await client.call_tool(name, arguments)
                window.milliseconds.setdefault(name, []).append((time.perf_counter() - began) * 1000)
                window.refused += bool(result.is_error)
                day.took(name, result.structured_content)
            measure(window, process, target)
            windows.append(window)
            show(begin + size)
    return windows


def table(first: Window, last: Window) -> str:
    """Returns both windows side by side."""
    rows = [
        ("resident memory, MiB", first.memory / 1024, last.memory / 1024),
        ("open files", first.files, last.files),
        ("living children", first.children, last.children),
        ("objects in the store", first.objects, last.objects),
        ("opening the store, ms", first.opening, last.opening),
        ("opening, ms a thousand objects", *(w.opening * 1000 / max(1, w.objects) for w in (first, last))),
        ("refused calls", first.refused, last.refused),
    ]
    for name in sorted(first.milliseconds.keys() | last.milliseconds.keys()):
        both = (statistics.median(w.milliseconds.get(name, [0.0])) for w in (first, last))
        rows.append((f"{name}, median ms", *both))
    lines = [f"{'':34}{'first':>12}{'last':>12}"]
    return "\n".join([*lines, *(f"{name:34}{before:12.1f}{after:12.1f}" for name, before, after in rows)])


def main() -> None:
    """Runs it and prints the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000, help="how many calls (default 10000)")
    parser.add_argument("--window", type=int, default=1000, help="calls that are shown together (default 1000)")
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        target = Target(os.path.realpath(os.path.join(folder, "target")))
        target.write(".git/info/exclude", ".soak/\n")

        def show(done: int) -> None:
            sys.stderr.write(f"{done} of {given.calls}\n")

        windows = anyio.run(soak, target, given.calls, given.window, show)
        sys.stdout.write(table(windows[0], windows[-1]) + "\n")


if __name__ == "__main__":
    main()
