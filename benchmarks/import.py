"""Prints what an import costs, beside a floor that is measured in the same run.

    python benchmarks/import.py [--observations 100000] [--shuffle] [--folder DIR]

The floor reads the same file, parses each line, hashes every byte and writes as many. The export has one trace for
every ten observations, of about a kilobyte each, and a secret in one row of a thousand, nested in JSON text; none of
them may be found in what was stored. Memory is the largest resident sizes of the process that imports and of the one
that helps it, together; what decides the time on two free cores is the busier one's processor time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orjson

from operations.execution import importing
from operations.execution.import_helper import ImportHelper
from operations.invocation import invoke
from operations.registry import all_operations
from tests.support.projects import bare

SECRET = "ghp_Planted0123456789abcdefghijkl"
WORDS = (
    "the",
    "order",
    "was",
    "late",
    "and",
    "our",
    "agent",
    "asked",
    "for",
    "its",
    "number",
    "then",
    "looked",
    "it",
    "up",
)


def observation(number: int, rng: random.Random) -> dict[str, Any]:
    """Returns one row as the blob export writes it."""
    trace, place = divmod(number, 10)
    text = " ".join(rng.choices(WORDS, k=25))
    metadata: dict[str, Any] = {"attempt": number % 3, "region": "eu"}
    if number % 1000 == 7:
        metadata["request"] = json.dumps({"headers": json.dumps({"api_key": SECRET, "host": "db"})})
    return {
        "id": f"{rng.getrandbits(64):016x}",
        "trace_id": f"{trace * 2654435761 % 2**64:016x}{trace:016x}",
        "project_id": "p1",
        "environment": "production",
        "type": ("AGENT", "GENERATION", "TOOL", "SPAN")[0 if place == 0 else 1 + place % 3],
        "parent_observation_id": "" if place == 0 else f"parent-{trace}",
        "start_time": f"2026-06-01 10:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000000:06d}",
        "end_time": f"2026-06-01 11:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000000:06d}",
        "name": f"step-{place}",
        "metadata": metadata,
        "level": "DEFAULT",
        "status_message": "",
        "version": "",
        "input": json.dumps({"messages": [{"role": "user", "content": text}]}),
        "output": text,
        "provided_model_name": "m-1",
        "model_parameters": '{"temperature":0}',
        "usage_details": {"input": 120, "output": 30, "total": 150},
        "cost_details": {"input": 0.001, "total": 0.003},
        "total_cost": 0.003,
        "latency": 2.5,
        "time_to_first_token": None,
        "created_at": "2026-06-01 12:00:00.000000",
        "updated_at": "2026-06-01 12:00:00.000000",
    }


def write_export(path: str, count: int, *, shuffled: bool) -> None:
    """Writes an export of `count` observations; shuffled, rows of one trace lie thousands of rows apart."""
    rng = random.Random(7)
    step = 7919 if shuffled and count % 7919 else 1
    with open(path, "wb") as file:
        file.writelines(orjson.dumps(observation(place * step % count, rng)) + b"\n" for place in range(count))


def floor(source: str, target: str) -> tuple[float, float]:
    """Returns the seconds, and those of the processor, that reading, parsing, hashing and writing take."""
    start, used = time.perf_counter(), time.process_time()
    found = hashlib.sha256()
    with open(source, "rb") as file, open(target, "wb") as out:
        for line in file:
            orjson.loads(line)
            found.update(line)
            out.write(line)
        out.flush()
        os.fsync(out.fileno())
    return time.perf_counter() - start, time.process_time() - used


def imported(root: str, source: str, answer: Any) -> None:
    """Imports `source` and sends back seconds, processor seconds of all and of the busier process, MiB, and counts."""
    bare(root)
    helpers = _helpers()
    importing.SHORT_BYTES = sys.maxsize  # carried out by this process, which is the one that is measured
    operation = all_operations()["import_evidence"]
    before, used, own = time.perf_counter(), _processor(), time.process_time()
    response = invoke(
        operation,
        {
            "project_path": root,
            "source": source,
            "source_kind": "langfuse",
            "adapter_profile": "langfuse_observation_rows",
        },
    )
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + sum(helpers)
    taken = _processor() - used
    own = time.process_time() - own
    answer.send((time.perf_counter() - before, taken, max(own, taken - own), size, dict(response.counts)))


def _helpers() -> list[float]:
    """Returns a list that takes the largest resident size, in MiB, of each helper before it ends."""
    found: list[float] = []
    end = ImportHelper.end

    def noted(helper: ImportHelper) -> None:
        with open(f"/proc/{helper.pid}/status", encoding="ascii") as status:
            found.extend(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
        end(helper)

    ImportHelper.end = noted
    return found


_WHOSE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _processor() -> float:
    """Returns the seconds of the processor that this process and those that it has ended have taken."""
    found = [resource.getrusage(whose) for whose in _WHOSE]
    return sum(one.ru_utime + one.ru_stime for one in found)


def holds(folder: str, secret: bytes) -> bool:
    """Returns whether any file under `folder` holds the secret."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                rest = b""
                while chunk := file.read(1 << 20):
                    if secret in rest + chunk:
                        return True
                    rest = chunk[-len(secret) :]
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--folder", help="where to work; default: the system's folder for temporary files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, root = os.path.join(folder, "export.jsonl"), os.path.join(folder, "project")
        write_export(source, options.observations, shuffled=options.shuffle)
        megabytes = os.path.getsize(source) / 1e6
        floors = [floor(source, os.path.join(folder, "floor"))]
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=imported, args=(root, source, sender))
        process.start()
        sender.close()
        seconds, used, busier, size, counts = receiver.recv()
        process.join()
        floors.append(floor(source, os.path.join(folder, "floor2")))
        least, busy = map(min, zip(*floors, strict=True))
        print(f"{options.observations} observations, {megabytes:.0f} MB, {counts}")
        print(f"floor  {least:8.2f} s  {megabytes / least:7.1f} MB/s  ({busy:.2f} s of processor)")
        print(f"import {seconds:8.2f} s  {megabytes / seconds:7.1f} MB/s  ({used:.2f} s of processor in all)")
        print(f"ratio  {least / seconds:8.3f} of the floor's throughput")
        print(f"       {busy / busier:8.3f} by processor time of the busier process, {busy / used:.3f} of both")
        print(f"largest resident size {size:.0f} MiB")
        print(f"planted secrets found in the store: {holds(root, SECRET.encode())}")


if __name__ == "__main__":
    main()
