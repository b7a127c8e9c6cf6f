"""The labelled trajectories, read from their notation into logs, and what detectors find held against the labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operations.trajectories import EventLog
from operations.trajectories.detectors import DETECTORS, Budget, Episode, detect

DATA = Path(__file__).parents[1] / "data" / "trajectories"
LABELS = tuple(detector.name for detector in DETECTORS)


@dataclass(frozen=True)
class Labelled:
    """One line of a file of labelled trajectories."""

    id: str
    labels: frozenset[str]
    episode: Episode


def read(name: str) -> list[Labelled]:
    """Returns the trajectories of a file."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [_labelled(json.loads(line)) for line in lines if line.strip()]


def _labelled(line: Mapping[str, Any]) -> Labelled:
    log = EventLog()
    for one in line["events"]:
        log.append(event(one))
    log.end(line.get("state", "completed"))
    tools = {name: schema(fields) for name, fields in line["tools"].items()}
    budget = Budget(**line["budget"]) if "budget" in line else None
    return Labelled(line["id"], frozenset(line["labels"]), Episode(log, tools=tools, budget=budget))


def schema(fields: Mapping[str, str]) -> dict[str, Any]:
    """Returns the JSON Schema of the arguments of a tool that takes these fields and no others."""
    return {
        "type": "object",
        "properties": {name.rstrip("?"): {"type": kind} for name, kind in fields.items()},
        "required": [name for name in fields if not name.endswith("?")],
        "additionalProperties": False,
    }


def event(one: list[Any]) -> dict[str, Any]:
    """Returns the event that a line of the notation says."""
    match one:
        case ["user", text]:
            return {"kind": "text", "role": "user", "content": value(text)}
        case ["say", text]:
            return {"kind": "text", "role": "assistant", "content": value(text)}
        case ["think", text]:
            return {"kind": "reasoning", "content": value(text)}
        case ["call", call_id, name, str(arguments)]:
            broken = {"status": "unparsable", "value": arguments}
            return {"kind": "tool_call", "call_id": call_id, "name": name, "arguments": broken}
        case ["call", call_id, name, arguments]:
            return {"kind": "tool_call", "call_id": call_id, "name": name, "arguments": value(arguments)}
        case ["result", call_id, content]:
            return {"kind": "tool_result", "call_id": call_id, "content": value(content)}
        case ["fail", call_id, kind, message]:
            error = {"kind": kind, "message": message}
            return {"kind": "tool_result", "call_id": call_id, "content": {"status": "not_exported"}, "error": error}
        case ["stop", kind, message]:
            silent, error = {"status": "not_exported"}, {"kind": kind, "message": message}
            return {"kind": "observation", "input": silent, "output": silent, "error": error}
        case ["turn", used]:
            return {"kind": "turn_complete", "usage": {"total_tokens": used}}
        case _:
            raise ValueError(f"the notation has no {one!r}")


def value(given: Any) -> dict[str, Any]:
    """Returns a content that says something."""
    return {"status": "value", "value": given}


@dataclass
class Score:
    """What the detectors found of the labels of some trajectories."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def precision(self, *labels: str) -> float:
        right, wrong = (sum(count[label] for label in labels) for count in (self.right, self.wrong))
        return right / (right + wrong) if right + wrong else 1.0

    def recall(self, *labels: str) -> float:
        right, missed = (sum(count[label] for label in labels) for count in (self.right, self.missed))
        return right / (right + missed) if right + missed else 1.0

    def table(self) -> str:
        """Returns precision and recall of each label and of all, as a table in Markdown."""
        lines = [
            "| Label | Labelled | Found rightly | Found wrongly | Precision | Recall |",
            "|---|---|---|---|---|---|",
        ]
        for name, labels in (*((label, (label,)) for label in LABELS), ("all", LABELS)):
            right, wrong, missed = (sum(c[one] for one in labels) for c in (self.right, self.wrong, self.missed))
            precision = f"{self.precision(*labels):.2f}" if right + wrong else "none found"
            recall = f"{self.recall(*labels):.2f}" if right + missed else "none labelled"
            lines.append(f"| {name} | {right + missed} | {right} | {wrong} | {precision} | {recall} |")
        return "\n".join(lines)


def score(labelled: list[Labelled]) -> Score:
    """Returns how far what the detectors find is what the labels say; a label counts once for each trajectory."""
    found = Score()
    for one in labelled:
        results = detect(one.episode)
        names = {result.detector for result in results if result.findings}
        found.right.update(names & one.labels)
        found.wrong.update(names - one.labels)
        found.missed.update(one.labels - names)
        for name in sorted(names ^ one.labels):
            reasons = [f.reason for result in results if result.detector == name for f in result.findings]
            found.remarks.append(f"{one.id}: {name} {'found' if reasons else 'missed'} {'; '.join(reasons)}".strip())
    return found
