"""Prints what a long EventLog costs, beside a floor that is measured in the same run.

    python benchmarks/trajectories.py [--events 100000]

The floor parses and writes every event with orjson and hashes its bytes, which no log of hash-chained JSON can do
without. Time is that of the processor, the least of three; an exponent of 1 is growth in proportion, from a tenth of
the events. Memory is the largest resident size of a process of its own that does the one thing, less that of one that
only imports it.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orjson

from operations.trajectories import EventLog, LogWriter, content
from operations.trajectories.log import verified
from operations.trajectories.metrics.registry import measured
from operations.trajectories.projections import audit_records, evaluator_view, openai_messages, otlp_spans, sft_messages

TIMES = 3
WORDS = "the order was late and our agent asked for its number then looked it up in the list of parcels " * 2


def events(count: int) -> Iterator[dict[str, Any]]:
    """Yields events of turns: a thought, two calls side by side, their results the other way round, an answer."""
    for number in range(count):
        turn, place = divmod(number, 6)
        at = f"2026-01-01T{turn // 3600 % 24:02}:{turn // 60 % 60:02}:{turn % 60:02}Z"
        event: dict[str, Any] = {"turn": turn, "at": at, "model": {"name": "m-1", "provider": "p"}}
        match place:
            case 0:
                event |= {"kind": "reasoning", "content": content(f"{turn} {WORDS}")}
            case 1 | 2:
                call = {"call_id": f"c{turn}.{place}", "name": "search", "group": f"g{turn}"}
                event |= {"kind": "tool_call", "arguments": content({"q": WORDS, "page": turn}), **call}
            case 3 | 4:
                event |= {"kind": "tool_result", "call_id": f"c{turn}.{5 - place}", "content": content([turn, WORDS])}
            case _:
                event |= {"kind": "text", "role": "assistant", "content": content(f"{WORDS} {turn}")}
        yield event


def made(count: int) -> EventLog:
    """Returns a log of so many events."""
    log = EventLog()
    for event in events(count):
        log.append(event)
    return log


def write(count: int) -> None:
    """Writes so many events as they come."""
    with Path(os.devnull).open("wb") as file:
        writer = LogWriter(file.write)
        for event in events(count):
            writer.append(event)
        writer.end("completed")


def spent(work: Callable[[], Any]) -> float:
    """Returns the least seconds of processor that some work takes."""
    found = []
    for _ in range(TIMES):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


def floor(rows: list[bytes]) -> None:
    """Does what cannot be done without."""
    for row in rows:
        hashlib.sha256(orjson.dumps(orjson.loads(row))).digest()


def read(path: Path) -> None:
    """Makes the log again from its file."""
    with path.open("rb") as file:
        EventLog.from_lines(file)


def verify(path: Path) -> None:
    """Verifies a file, a line at a time."""
    with path.open("rb") as file:
        for _ in verified(file):
            pass


def figures(count: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Returns for each thing the seconds, and how many times the floor they are."""
    path = folder / f"{count}.log"
    given = list(events(count))
    rows = [orjson.dumps(event) for event in given]
    log = made(count)
    path.write_bytes(b"".join(log.lines()))

    def append() -> None:
        fresh = EventLog()
        for event in given:
            fresh.append(event)

    def write_as_it_goes() -> None:
        with path.open("wb") as file:
            writer = LogWriter(file.write)
            for event in given:
                writer.append(event)
            writer.end("completed")

    works: dict[str, Callable[[], Any]] = {
        "append": append,
        "append and write at once": write_as_it_goes,
        "write lines": lambda: path.write_bytes(b"".join(log.lines())),
        "verify": lambda: verify(path),
        "verify and read back": lambda: read(path),
        "take over a stored log": lambda: EventLog.from_stored(log.as_stored()),
        "metrics": lambda: measured(log),
        "project to rows of messages": lambda: sft_messages(log),
        "project for judges": lambda: evaluator_view(log),
        "project for an audit": lambda: audit_records(log, "benchmark"),
        "project to OpenAI messages": lambda: openai_messages(log),
        "project to OTLP spans": lambda: otlp_spans(log, "0" * 31 + "1"),
    }
    found = {}
    for name, work in works.items():
        least = spent(lambda: floor(rows))  # beside each, since the machine is not equally free all the time
        seconds = spent(work)
        found[name] = seconds, seconds / least
    return found


def megabytes(step: str, argument: object) -> float:
    """Returns the largest resident size of a process that takes one step."""
    command = [sys.executable, __file__, "--step", step, str(argument)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def main() -> None:
    """Prints a line for each thing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        step, argument = asked.step
        if step != "import":
            steps = {"append": made, "write": write, "verify": verify}
            steps[step](Path(argument) if step == "verify" else int(argument))
        told = Path("/proc/self/status").read_text(encoding="ascii")  # getrusage also counts what the parent held
        sys.stdout.write(told.partition("VmHWM:")[2].split()[0])
        return
    few, many = asked.events // 10, asked.events
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        less, more = figures(few, folder), figures(many, folder)
        size = (folder / f"{many}.log").stat().st_size
        print(f"{many} events, {size / many:.0f} bytes a line")
        for thing, (seconds, times) in more.items():
            exponent = math.log10(seconds / less[thing][0])
            print(f"  {thing}: {seconds:.2f} s, {times:.1f} times the floor, exponent {exponent:.2f}")
        bare = megabytes("import", 0)
        for count in (few, many):
            held = megabytes("append", count) - bare
            written = megabytes("write", count) - bare
            streamed = megabytes("verify", folder / f"{count}.log") - bare
            print(
                f"  memory of {count}: {held:.1f} MB in a log, {written:.1f} to write it, {streamed:.1f} to verify it"
            )


if __name__ == "__main__":
    main()
