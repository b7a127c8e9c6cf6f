"""`atk trajectory`: what an agent did in one attempt, an event a line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from atk_mcp.people.attempts import cases_of, found_record, value_of
from atk_mcp.people.tables import as_json
from atk_mcp.terminal import indented, say
from operations.importers.batches import evidence_of
from operations.importers.event_logs import log_of
from operations.importers.failures import episode_of
from operations.trajectories.detectors import detect
from operations.trajectories.metrics.registry import measured
from storage.project import Project

_CUT = 300
_OWN = ("kind", "type", "name", "role", "seq", "at", "turn", "call_id", "id", "locator")
_CONTENTS = ("content", "arguments", "input", "output", "prompt")


def trajectory(given: argparse.Namespace, root: str) -> int:
    """Prints the events of a Record, the metrics that are known of it, and the failures that rules find in it.

    Raises:
        UnknownObject: There is no such Record.
        LogNotWhole: Another version of ATK stored its log.
    """
    project = Project.open(root)
    record = found_record(project, given.record_id)
    log = log_of(record)
    failed = _failures(project, record)
    found = measured(log, stated=record.get("metrics") or {})
    if given.json:
        known = {name: one.value for name, one in found.items() if one.value is not None}
        unknown = {name: one.unknown for name, one in found.items() if one.value is None}
        as_json({"record_id": record["id"], **log.as_stored(), "metrics": known, "metrics_unknown": unknown, **failed})
        return 0
    for name, value in _said(project, record).items():
        if value not in (None, ""):
            say(f"{name}: {_cut(value, whole=given.whole)}")
    if not len(log):
        say("No event is recorded: the agent wrote no events file, or the export has none.")
    for number, event in enumerate(log):
        say(f"{number:>4}  {_event(event, whole=given.whole)}")
    if len(log):
        say(", ".join(f"{name} {one.value:.6g}" for name, one in found.items() if one.value is not None))
    for one in failed["findings"]:
        say(f"found: {one['finding_id']}: {one['reason']}")
    return 0


def _said(project: Project, record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the attempt was asked, what is right, what it answered, and what it wrote besides.

    A Record of a run holds neither input nor expected answer: they are its Case's. Of a holdout Case that stays unseen
    nothing is said.
    """
    found = {name: value_of(record, name) for name in ("input", "expected", "output")}
    if "sealed" not in record:
        case = cases_of(project, project.state(), record["id"].rpartition(".")[0]).get(record.get("case_id", ""))
        if case is not None:
            found |= {"input": case.input, "expected": case.expected}
    text = found["output"]
    found["output"] = text.rstrip("\n") if isinstance(text, str) else text
    return {**found, "stderr": str(record.get("stderr_tail") or "").rstrip("\n")}


def _failures(project: Project, record: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Returns what the detectors find; of an attempt at a holdout Case that stays unseen, nothing."""
    if "sealed" in record:
        return {"findings": []}
    evidence = evidence_of(project, project.state(), record["id"].rpartition(".")[0])
    found = [finding for result in detect(episode_of(record, evidence.inputs)) for finding in result.findings]
    told = [{"seqs": one.seqs, "confidence": one.confidence, "reason": one.reason} for one in found]
    named = [f"{record['id']}/{one.name}" for one in found]
    return {"findings": [{"finding_id": name, **said} for name, said in zip(named, told, strict=True)]}


def _event(event: Mapping[str, Any], *, whole: bool) -> str:
    named = [str(event[name]) for name in ("kind", "type", "role", "name") if event.get(name)]
    head = " ".join(" ".join(named).split())  # a name with a line feed would begin what looks like another event
    shown = {name: event[name].get("value") for name in _CONTENTS if event.get(name)}
    rest = {k: v for k, v in {**event, **shown}.items() if k not in _OWN and v not in (None, {}, [], "")}
    said = _cut(rest, whole=whole) if rest else ""
    return f"{head or 'event':<28} {said}".rstrip()


def _cut(value: Any, *, whole: bool) -> str:  # noqa: ANN401 - any JSON
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = text if whole or len(text) <= _CUT else f"{text[:_CUT]}… ({len(text)} characters)"
    return indented(shown)
