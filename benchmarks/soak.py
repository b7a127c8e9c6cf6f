"""Calls one server thousands of times and prints what the first and the last calls cost, side by side.

    python benchmarks/soak.py [--calls 10000] [--window 1000] [--folder DIR] [--json FILE]

Mixed calls of a day, seeded: status, reading, searching, small datasets and imports, runs and judgements, and the
calls of a Round from opening to closing, with candidates that are sealed, put back and cancelled. Every figure is of
the server's own process: resident memory, open files, threads, living processes, milliseconds of processor time a call
(with that of the git processes it waited for, so that other work on the machine does not count); and what a new process
replays to open the store. What is stored grows, and the state of it in memory with it, so both are shown for
each thousand objects too; what is replayed and the files that are open may not grow.
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from storage.files import Folder  # noqa: E402 - the path above comes first
from storage.journal import segment_path  # noqa: E402
from storage.project import ATK, Project  # noqa: E402
from tests.support.projects import FIX, PROMPT, Target  # noqa: E402

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the queue is the expected one"}}
AGENT = """\
text=$(cat "$1")
while read -r word arrow queue; do
  case "$text" in *"$word"*) echo "$queue"; exit 0;; esac
done < prompt.txt
echo other
"""
"""An agent that starts at once: what is measured is the server."""

ROUND_EVERY = 100
"""Calls from one Round to the next."""
RUN_EVERY = 100


@dataclass
class Window:
    """What a number of calls cost."""

    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: int = 0
    """Resident, in KiB, at the end."""
    files: int = 0
    threads: int = 0
    processes: int = 0
    """Living ones that work in the project's folder, but for the server."""
    objects: int = 0
    records: int = 0
    """In the journal, all segments together."""
    segment: int = 0
    replayed: int = 0
    """Bytes of the journal that a new process reads to know the state."""
    opening: float = 0.0
    """Milliseconds of processor time in which a new process reads the store."""
    refusals: list[str] = field(default_factory=list)


class Day:
    """A project, and what may be asked of it next."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.ids: dict[str, list[str]] = {"dataset": [], "batch": [], "import": [], "assessment": [], "knowledge": []}
        self.named: dict[str, Any] = {}
        self.number = 0
        self.round = self._round()

    def morning(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the calls that all others rely on."""
        yield "store_dataset", {"source": "cases.csv"}
        yield "run_evaluation", {"revision_commit": self.target.head, "wait_seconds": 200}
        batch = {"batch_id": self.named["batch_id"]}
        yield "store_assessment", {**batch, "evaluation_spec": SPEC, "judger": {"method": "exact"}}
        self.named["judged"] = {key: self.named[key] for key in ("spec_id", "judger_id")}
        self.named["baseline"] = {
            "batch_ids": [self.named["batch_id"]],
            "assessment_ids": [self.named["assessment_id"]],
        }

    def next(self) -> tuple[str, dict[str, Any]]:
        """Returns a call."""
        self.number += 1
        place = self.number % ROUND_EVERY
        if place == 1:
            self.round = self._round()
        if place % 5 == 1 and (step := next(self.round, None)) is not None:
            return step
        if self.number % RUN_EVERY == 2:
            dataset_id = self.ids["dataset"][0]
            return "run_evaluation", {"dataset_id": dataset_id, "revision_commit": self.target.head}
        if self.number % RUN_EVERY == 4:
            batch_id = self.ids["batch"][-1]
            return "store_assessment", {"batch_id": batch_id, **self.named["judged"], "supersede_reason": "once more"}
        choice = self.random.random()
        if choice < 0.3:
            return "get_status", {}
        if choice < 0.7:
            return "read_record", {"record_id": self.random.choice([i for kind in self.ids.values() for i in kind])}
        if choice < 0.8 and self.ids["import"]:
            return "find_records", {"batch_id": self.random.choice(self.ids["import"]), "text": "refund"}
        if choice < 0.9:
            return "import_evidence", self._export()
        return "store_dataset", self._cases()

    def _round(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the calls of a Round; what one made, the next ones name."""
        named, judged, why = self.named, self.named.get("judged", {}), {"reason": "as the day goes"}
        yield "create_round", named["baseline"]
        of_round = {"round_id": named["round_id"]}
        issue = {"id": "refunds", "symptom": "filed wrongly", "hypothesis": "no rule", "case_ids": ["refund-1"]}
        yield "store_diagnosis", {**of_round, "issues": [issue]}
        plan = {"dataset_id": self.ids["dataset"][0], "repeatability": "deterministic", "budget": {"candidates": 2}}
        yield "freeze_round", {**of_round, "plan": {**plan, **judged}}
        asked = {**of_round, "primary_issue_id": named["issue_ids"]["refunds"]}
        yield "prepare_candidate", asked
        self.target.write("prompt.txt", FIX)
        candidate = {**of_round, "candidate_id": named["candidate_id"]}
        yield "seal_candidate", candidate
        decision = {"action": "reject", "validation_missing_reason": "nobody ran it"}
        yield "decide_candidate", {**candidate, **why, **decision}
        yield "prepare_candidate", asked
        self.target.write("prompt.txt", PROMPT + "\n")
        yield "cancel_draft", {**of_round, "candidate_id": named["candidate_id"], **why}
        yield "transition_round", {**of_round, **why, "action": "pause"}
        yield "transition_round", {**of_round, **why, "action": "resume"}
        yield "store_knowledge", {"knowledge": {"body": f"lesson {self.number}", "applicability": "tickets"}}
        yield "knowledge_applicability", {"knowledge_id": self.ids["knowledge"][-1]}
        yield "finish_round", {**of_round, **why, "action": "abandon"}

    def took(self, name: str, answer: dict[str, Any]) -> None:
        """Remembers what a call made."""
        made = ("round_id", "candidate_id", "issue_ids", "spec_id", "judger_id", "batch_id", "assessment_id")
        self.named |= {key: answer[key] for key in made if answer.get(key)}
        kind = {"run_evaluation": "batch", "import_evidence": "import"}.get(name, name.removeprefix("store_"))
        found = answer.get("batch_id") if kind in ("batch", "import") else answer.get(f"{kind}_id")
        if found and kind in self.ids and found not in self.ids[kind]:
            self.ids[kind].append(found)

    def _export(self) -> dict[str, Any]:
        rows = [{"q": f"refund {n} of {self.number}", "a": self.random.choice(["billing", "other"])} for n in range(10)]
        self.target.write(".soak/results.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        mapping = {"input": "q", "output": "a"}
        return {"source": ".soak/results.jsonl", "source_kind": "batch_results", "mapping": mapping}

    def _cases(self) -> dict[str, Any]:
        rows = [{"id": f"c{n}", "input": f"ticket {n} of {self.number}", "expected": "other"} for n in range(5)]
        self.target.write(".soak/cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return {"source": ".soak/cases.jsonl"}


def prepared(folder: str) -> Target:
    """Makes the project in `folder`."""
    target = Target(folder, initialize=False)
    target.write("agent.sh", AGENT)
    target.write(".git/info/exclude", ".soak/\n")
    target.git("rm", "-q", "agent.py")
    target.git("add", ".")
    target.git("commit", "-q", "--amend", "-m", "The agent")
    prompt = {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
    command = ["sh", "agent.sh", "{input_file}"]
    target.initialize(command=command, components=[prompt], protected_paths=["agent.sh"])
    return target


def working_in(folder: str) -> list[int]:
    """Returns the living processes whose working folder is `folder` or below, but for this one."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            where = os.readlink(f"/proc/{name}/cwd")
            dead = ") Z " in Path(f"/proc/{name}/stat").read_text(encoding="latin-1")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if not dead and int(name) != os.getpid() and f"{where}/".startswith(f"{folder}/"):
            found.append(int(name))
    return found


def spent(process: int) -> float:
    """Returns the milliseconds of processor time of a process and of the children it waited for (proc(5), 14 to 17)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1000 / os.sysconf("SC_CLK_TCK")


def server_of(folder: str) -> int:
    """Returns the process of the server that works in `folder`."""
    for process in working_in(folder):
        if b"\0atk_mcp" in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
    raise RuntimeError("the server is gone")


def measure(window: Window, process: int, target: Target) -> None:
    """Looks at the server and at the store."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    )
    window.memory, window.threads = int(status["VmRSS"].split()[0]), int(status["Threads"])
    window.files = len(os.listdir(f"/proc/{process}/fd"))
    window.processes = len([other for other in working_in(target.root) if other != process])
    store = os.path.join(target.root, ATK)
    begun = time.process_time()
    with Folder(store) as folder:
        state = Project(target.root, folder).state()
    window.opening = (time.process_time() - begun) * 1000
    window.objects = sum(map(len, state.objects.values()))
    window.records, window.segment = state.position.number + 1, state.position.segment
    window.replayed = os.path.getsize(os.path.join(store, segment_path(state.position.segment)))


async def soak(target: Target, calls: int, size: int, show: Callable[[list[Window]], None]) -> list[Window]:
    """Makes the calls and returns the windows."""
    day, windows = Day(target, seed=7), []
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "atk_mcp"], cwd=target.root, env={**os.environ, "PYTHONPATH": str(HERE)}
    )
    async with Client(server) as client:

        async def made(window: Window, name: str, arguments: dict[str, Any]) -> None:
            began = spent(process) if process else 0.0
            result = await client.call_tool(name, arguments)
            window.milliseconds.setdefault(name, []).append(spent(process) - began if process else 0.0)
            if result.is_error:
                window.refusals.append(f"{name}: {result.content[0].text[:200]}")
            day.took(name, result.structured_content or {})

        process = 0
        for name, arguments in day.morning():
            early = Window()
            await made(early, name, arguments)
            if early.refusals:
                raise RuntimeError(early.refusals[0])
        process = server_of(target.root)
        for begin in range(0, calls, size):
            window = Window()
            for _ in range(min(size, calls - begin)):
                await made(window, *day.next())
            measure(window, process, target)
            windows.append(window)
            show(windows)
    return windows


def table(first: Window, last: Window) -> str:
    """Returns both windows side by side, as Markdown."""
    a_thousand = [1000 / max(1, w.objects) for w in (first, last)]
    rows = [
        ("resident memory, MiB", first.memory / 1024, last.memory / 1024),
        ("open files", first.files, last.files),
        ("threads", first.threads, last.threads),
        ("other living processes", first.processes, last.processes),
        ("objects in the store", first.objects, last.objects),
        ("records in the journal", first.records, last.records),
        ("segment of the journal", first.segment, last.segment),
        ("replayed to open the store, KiB", first.replayed / 1024, last.replayed / 1024),
        (
            "replayed, KiB a thousand objects",
            *(w.replayed * k / 1024 for w, k in zip((first, last), a_thousand, strict=True)),
        ),
        ("opening the store, ms", first.opening, last.opening),
        ("opening, ms a thousand objects", *(w.opening * k for w, k in zip((first, last), a_thousand, strict=True))),
        ("refused calls", len(first.refusals), len(last.refusals)),
    ]
    for name in sorted(first.milliseconds.keys() | last.milliseconds.keys()):
        both = (statistics.mean(w.milliseconds.get(name, [0.0])) for w in (first, last))
        rows.append((f"{name}, mean ms of processor time", *both))
    return "\n".join(
        [
            "| | first | last |",
            "|---|--:|--:|",
            *(f"| {name} | {before:.1f} | {after:.1f} |" for name, before, after in rows),
        ]
    )


def main() -> None:
    """Runs it and prints the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000, help="how many calls (default 10000)")
    parser.add_argument("--window", type=int, default=1000, help="calls that are shown together (default 1000)")
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    parser.add_argument("--json", help="a file for the figures of every window")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        target = prepared(os.path.realpath(os.path.join(folder, "target")))

        def show(windows: list[Window]) -> None:
            sys.stderr.write(f"{min(given.calls, len(windows) * given.window)} of {given.calls}\n")
            if given.json:
                Path(given.json).write_text(json.dumps([asdict(window) for window in windows]), encoding="utf-8")

        windows = anyio.run(soak, target, given.calls, given.window, show)
        sys.stdout.write(table(windows[0], windows[-1]) + "\n")
        for refusal in sorted({text for window in windows for text in window.refusals})[:10]:
            sys.stderr.write(f"refused: {refusal}\n")


if __name__ == "__main__":
    main()
