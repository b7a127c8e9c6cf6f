"""Prints what the failure detectors cost on long logs of several kinds, and how that grows.

    python benchmarks/detectors.py [--events 100000]

Time is that of the processor, over all detectors, without building the log. An exponent of 1 is growth in proportion,
from a tenth of the events.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operations.trajectories import EventLog
from operations.trajectories.detectors import DETECTORS, Episode

Made = tuple[dict[str, Any], Any]
_DRAW = random.Random(7)

KINDS: dict[str, Callable[[int], Made]] = {
    "one loop": lambda _: ({"q": "fax"}, "no hits"),
    "spellings": lambda _: ({"q": _DRAW.choice(["a b", "B a", "a, b", "A  B"])}, ""),
    "no progress": lambda number: ({"q": f"word{number} other{number}"}, "no hits"),
    "failures": lambda number: ({"q": f"word{number}"}, {"error": f"refused {number}"}),
    "work": lambda number: (
        {"q": f"word{number % 50}", "n": number % 7},
        {"rows": [_DRAW.randrange(10**6) for _ in range(5)], "text": f"part {number} of {_DRAW.random()}"},
    ),
}


def log_of(count: int, made: Callable[[int], Made]) -> EventLog:
    """Returns a log of about so many events: calls with their results, and an answer with 100 figures."""
    log = EventLog({"lookup": {"parameters": {"type": "object"}}})
    log.append({"kind": "text", "role": "user", "content": said("Look it up.")})
    for number in range(count // 2 - 1):
        arguments, result = made(number)
        call = {"call_id": f"c{number}", "name": "lookup", "arguments": said(arguments)}
        log.append({"kind": "tool_call", **call})
        log.append({"kind": "tool_result", "call_id": f"c{number}", "content": said(result)})
    figures = " ".join(str(37 * number + 5) for number in range(100))
    log.append({"kind": "text", "role": "assistant", "content": said(f"It is done: {figures}.")})
    log.end("completed")
    return log


def said(value: Any) -> dict[str, Any]:
    """Returns a content that says something."""
    return {"status": "value", "value": value}


def seconds(log: EventLog) -> tuple[float, str]:
    """Returns the time of all detectors, and the slowest."""
    episode, spent = Episode(log), {}
    began = time.process_time()
    _ = episode.calls
    spent["pairing"] = time.process_time() - began
    for detector in DETECTORS:
        began = time.process_time()
        detector(episode)
        spent[detector.name] = time.process_time() - began
    return sum(spent.values()), max(spent, key=lambda name: spent[name])


def main() -> None:
    """Prints a line for each kind of log."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    count = parser.parse_args().events
    print(f"{'log':<12} {'seconds':>8} {'exponent':>9}  slowest")
    for name, made in KINDS.items():
        small, _ = seconds(log_of(count // 10, made))
        large, slowest = seconds(log_of(count, made))
        print(f"{name:<12} {large:>8.2f} {math.log10(large / small):>9.2f}  {slowest}")


if __name__ == "__main__":
    main()
