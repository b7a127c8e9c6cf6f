"""Prints what attempts of a minimal agent cost beyond a bare loop of the same subprocess, how that grows, and memory.

    python benchmarks/runner.py [--attempts 3000] [--concurrency 8] [--growth 1000,3000,10000] [--rounds 3]
                                [--peer-python PATH] [--quick]

The agent is a shell script that reads its input, appends a line to a side log of its own and writes 2 kB. The bare loop
starts the same script from as many threads, and appends each output to one file with one fsync per attempt. Every
Record of a timed run is read back and compared with the side log. Peer: inspect_ai's no-op solver on as many
samples, when it can be imported (`pip install inspect_ai`, in an environment of its own, named by `--peer-python`).
Each round measures all of them one after the other, so that what else the machine does weighs on them alike.
Memory is that of the supervisor and its guardians together; of what they share, each counts its part.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operations.execution.launch import launch
from operations.execution.plan import RunPlan, agent_environment, write_plan
from storage.attempts import read_attempts
from storage.frames import canonical
from storage.masking import create_key
from storage.schema.evidence import Slot

AGENT = """\
while IFS= read -r line || [ -n "$line" ]; do input=$line; done < "$1"
echo "$2 $3 $$" >> side.log
printf '%s %s %s\\n%02048d\\n' "$2" "$3" "$$" 0
"""
RATIO, EXPONENT, FLAT = 5.0, 1.1, 1.1
"""The bounds: times the bare loop, the growth exponent, and memory at the end over memory early on."""
_LOOK_SECONDS = 0.25
_SAMPLES = 40
"""Fewer say nothing: at first, guardians come to own what they shared with the supervisor."""
INPUT = "a question of some length, as a Case has it"

PEER = """
import sys, time
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.scorer import match

@solver
def nothing():
    async def solve(state, generate):
        state.output.completion = "x" * 2048
        return state
    return solve

count = int(sys.argv[1])
task = Task(dataset=[Sample(input="q", target="x") for _ in range(count)], solver=nothing(), scorer=match())
begun = time.perf_counter()
settings = dict(display="none", log_realtime=False, max_samples=int(sys.argv[2]))
[log] = eval(task, model="mockllm/model", log_dir=sys.argv[3], **settings)
assert log.status == "success" and len(log.samples or ()) in (0, count)
print(time.perf_counter() - begun)
"""


@dataclass
class Cost:
    """What some attempts cost: seconds on the clock, and seconds of processor time of every process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory: list[int] = field(default_factory=list)
    """Bytes that the supervisor and its guardians occupied together, sampled while they ran."""

    @property
    def growth(self) -> tuple[int, int] | None:
        """Memory after a fifth of the time and at the end; None for a run that was too short to tell."""
        steady = self.memory[1:-2]  # not while it starts or ends
        return (steady[len(steady) // 5], steady[-1]) if len(steady) >= _SAMPLES else None

    @property
    def flat(self) -> bool:
        """Whether memory stayed within a tenth of what it was early on, where that can be told."""
        return self.growth is None or self.growth[1] <= self.growth[0] * FLAT


@contextmanager
def measured() -> Iterator[Cost]:
    """Measures what happens inside, with all the children that have ended by its end."""
    cost, begun, cpu = Cost(), time.perf_counter(), _cpu()
    yield cost
    cost.seconds, cost.cpu_seconds = time.perf_counter() - begun, _cpu() - cpu


def _cpu() -> float:
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def bare(attempts: int, concurrency: int) -> Cost:
    """Runs the agent from threads; each output goes to one file, flushed each time."""
    with tempfile.TemporaryDirectory() as folder:
        agent, given, log = (os.path.join(folder, name) for name in ("agent.sh", "input", "outputs"))
        Path(agent).write_text(AGENT)
        Path(given).write_text(INPUT)
        environment = agent_environment()
        lock = threading.Lock()
        with open(log, "ab", buffering=0) as file:

            def attempt(number: int) -> None:
                argv = ["/bin/sh", agent, given, f"c{number}", "1"]
                done = subprocess.run(
                    argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
                )
                with lock:
                    file.write(done.stdout)
                    os.fsync(file.fileno())

            with measured() as cost, ThreadPoolExecutor(concurrency) as pool:
                for _ in pool.map(attempt, range(attempts)):
                    pass
    return cost


def ours(attempts: int, concurrency: int) -> Cost:
    """Runs a plan of so many attempts and checks every Record against the agent's side log.

    Raises:
        AssertionError: A Record is missing, doubled or not what the agent says it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write_plan(_plan(folder, attempts, concurrency))
        with measured() as cost:
            handle = launch(path)
            while not handle.wait(_LOOK_SECONDS):
                cost.memory.append(_occupied(handle.pid))
            handle.close()
        log = Path(folder, "work", "supervisor.log").read_text()
        assert handle.returncode == 0, log
        _compare(folder, attempts)
    return cost


def _plan(folder: str, attempts: int, concurrency: int) -> RunPlan:
    for name in ("work", "evidence", "target"):
        os.mkdir(os.path.join(folder, name), 0o700)
    create_key(os.path.join(folder, "mask.key"))
    agent, cases = os.path.join(folder, "agent.sh"), os.path.join(folder, "cases.jsonl")
    Path(agent).write_text(AGENT)
    with open(cases, "wb") as file:
        file.writelines(canonical({"id": f"c{number}", "input": INPUT}) + b"\n" for number in range(attempts))
    slots = tuple(
        Slot(n=n, record_id=f"b.{n}", case_id=f"c{n}", case_fingerprint="0" * 64, repeat=1) for n in range(attempts)
    )
    return RunPlan(
        batch_id="b",
        evidence_folder=os.path.join(folder, "evidence"),
        work_folder=os.path.join(folder, "work"),
        working_directory=os.path.join(folder, "target"),
        command=("/bin/sh", agent, "{input_file}", "{case_id}", "{repeat_index}"),
        environment=agent_environment(),
        timeout_seconds=60,
        concurrency=concurrency,
        slots=slots,
        cases_path=cases,
        mask_key_path=os.path.join(folder, "mask.key"),
    )


def _compare(folder: str, attempts: int) -> None:
    side = Path(folder, "target", "side.log").read_text().splitlines()
    assert len(side) == attempts, f"the agent ran {len(side)} times, not {attempts}"
    records = list(read_attempts(os.path.join(folder, "evidence", "attempts.log")).records())
    assert len(records) == attempts, f"there are {len(records)} Records, not {attempts}"
    assert {record.n for record in records} == set(range(attempts))
    said = {record.output for record in records}
    assert said == {f"{line}\n{0:02048d}\n" for line in side}, "a Record is not what the agent printed"
    for record in records:
        assert (record.output or "").startswith(f"{record.case_id} {record.repeat} ")
        assert record.execution.status == "completed"


def _occupied(supervisor: int) -> int:
    """Returns the proportional bytes of a supervisor and its guardians; what has just ended counts nothing."""
    total = 0
    try:
        below = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    except OSError:
        return 0
    for pid in (str(supervisor), *below):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))
    return total


def exponent(costs: Sequence[tuple[int, float]]) -> float:
    """Returns b of seconds = a * attempts ** b, by least squares over the logarithms."""
    xs, ys = [math.log(n) for n, _ in costs], [math.log(seconds) for _, seconds in costs]
    return statistics.linear_regression(xs, ys).slope


def peer(python: str, samples: int, concurrency: int) -> float | None:
    """Returns the seconds of inspect_ai's no-op solver, or None where it cannot be imported."""
    if subprocess.run([python, "-c", "import inspect_ai"], capture_output=True, check=False).returncode:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", PEER, str(samples), str(concurrency), folder]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def main() -> int:
    """Prints the figures: 0 when each is within its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attempts", type=int, default=3000)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--growth", default="1000,3000,10000", help="sizes for the fit; empty to leave it out")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each figure; the median counts")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that can import inspect_ai")
    parser.add_argument("--quick", action="store_true", help="300 attempts, one round, no growth")
    given = parser.parse_args()
    if given.quick:
        given.attempts, given.rounds, given.growth = 300, 1, ""
    within = [_ratio(given.attempts, given.concurrency, given.rounds, given.peer_python)]
    if given.growth:
        within.append(_growth([int(n) for n in given.growth.split(",")], given.concurrency, given.rounds))
    return 0 if all(within) else 1


def _ratio(attempts: int, concurrency: int, rounds: int, python: str) -> bool:
    floors, runs, peers = [], [], []
    for _ in range(rounds):
        floors.append(bare(attempts, concurrency))
        runs.append(ours(attempts, concurrency))
        peers.append(peer(python, attempts, concurrency))
    floor, run = (_median(costs, lambda cost: cost.seconds) for costs in (floors, runs))
    floor_cpu, run_cpu = (_median(costs, lambda cost: cost.cpu_seconds) for costs in (floors, runs))
    print(f"{attempts} attempts at concurrency {concurrency}, median of {rounds}:")
    print(f"  bare loop     {floor:7.2f} s   processor {floor_cpu:7.2f} s")
    print(f"  run           {run:7.2f} s   processor {run_cpu:7.2f} s   memory {_mib(runs)}")
    print(f"  ratio         {run / floor:7.2f}     processor {run_cpu / floor_cpu:7.2f}     (bound {RATIO:g}, aim 3)")
    measured = [seconds for seconds in peers if seconds is not None]
    theirs = statistics.median(measured) if measured else None
    print(
        f"  inspect_ai    {theirs:7.2f} s   (bound: ours)" if theirs else f"  inspect_ai    not installed in {python}"
    )
    print(f"  read back     {rounds * attempts} Records, each as the agent's own side log says")
    return run / floor <= RATIO and (theirs is None or run < theirs) and all(cost.flat for cost in runs)


def _growth(sizes: Sequence[int], concurrency: int, rounds: int) -> bool:
    fits, flat = [], True
    for _ in range(rounds):
        costs = [(n, ours(n, concurrency)) for n in sizes]
        fits.append(exponent([(n, cost.seconds) for n, cost in costs]))
        times = ", ".join(f"{n}: {cost.seconds:.2f} s" for n, cost in costs)
        print(f"  {times}; exponent {fits[-1]:.3f}; memory {_mib([costs[-1][1]])}")
        flat = flat and costs[-1][1].flat
    print(f"growth exponent {statistics.median(fits):.3f} (bound {EXPONENT:g})")
    return statistics.median(fits) <= EXPONENT and flat


def _median(costs: Sequence[Cost], of: Callable[[Cost], float]) -> float:
    return statistics.median(of(cost) for cost in costs)


def _mib(costs: Sequence[Cost]) -> str:
    found = [cost.growth for cost in costs if cost.growth is not None]
    if not found:
        return "not told by so short a run"
    early, late = max(found, key=lambda pair: pair[1] / pair[0])
    return f"{early / 2**20:.1f} MiB after a fifth of the time, {late / 2**20:.1f} MiB at the end (bound x {FLAT:g})"


if __name__ == "__main__":
    sys.exit(main())
